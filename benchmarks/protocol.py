"""How translations are scored: sacrebleu's BLEU, and the tokenised BLEU of papers on Multi30k.

The latter is that of "Good for Misconceived Reasons" (Wu et al., ACL 2021), whose fairseq Transformer of the size tiny
has 41.02 on test 2016, en-de: text in small letters, cut by the Moses tokenizer, BLEU over these tokens, without
smoothing, beam 5. That the letters are small is seen in the data it was made with; its log counts 12,103 tokens in the
reference, which is what `reference_tokens` gives for the raw file, and 12,102 if the case is kept.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from sacrebleu.metrics import BLEU
from sacremoses import MosesDetokenizer, MosesTokenizer

PUBLISHED_TOKENS = 12_103
"""Tokens of the German reference of test 2016, as the published log counts them."""


@dataclass(frozen=True)
class Scores:
    """Two BLEU scores of the same translations."""

    sacrebleu: float
    """Tokenizer 13a on text as people read it; in small letters if the translations are."""
    tokenised: float
    """BLEU of papers on Multi30k, as described above."""
    signature: str
    """Signature of `sacrebleu`."""


@dataclass(frozen=True)
class Protocol:
    """Form of the text that a model reads and writes: raw, or with `papers` tokens in small letters."""

    source_language: str
    target_language: str
    papers: bool

    def write(self, files: Iterable[Path], folder: Path) -> list[Path]:
        """Copies of source and target files, in turn, as the model wants them."""
        folder.mkdir(parents=True, exist_ok=True)
        copies = []
        for index, path in enumerate(files):
            language = self.target_language if index % 2 else self.source_language
            lines = read(path)
            if self.papers:
                lines = tokenised(lines, language)
            copies.append(folder / f"{index}-{path.name}")
            copies[-1].write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        return copies

    def scores(self, translations: list[str], references: list[str]) -> Scores:
        """`translations` as the model writes them, `references` raw."""
        cut, readable = translations, translations
        if self.papers:
            detokenize = MosesDetokenizer(self.target_language).detokenize
            readable = [detokenize(text.split()) for text in translations]
        else:
            cut = tokenised(translations, self.target_language)
        metric = BLEU(lowercase=self.papers)
        score = metric.corpus_score(readable, [references]).score
        # "none": the tokens are the words between the spaces, as in multi-bleu and in fairseq.
        plain = BLEU(tokenize="none", smooth_method="none", force=True)
        cut_references = tokenised(references, self.target_language)
        return Scores(score, plain.corpus_score(cut, [cut_references]).score, str(metric.get_signature()))


def tokenised(lines: Iterable[str], language: str) -> list[str]:
    """Small letters, and a space between tokens."""
    tokenize = MosesTokenizer(language).tokenize
    return [tokenize(line.lower(), return_str=True, escape=False) for line in lines]


def reference_tokens(references: Iterable[str], language: str) -> int:
    """Number of tokens that the papers' BLEU counts."""
    return sum(len(line.split()) for line in tokenised(references, language))


def read(path: Path) -> list[str]:
    """The lines of a file, which end with a newline and with nothing else."""
    return path.read_text(encoding="utf-8").removesuffix("\n").split("\n")
