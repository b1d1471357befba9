"""Scores of translations against references: BLEU, chrF++ and TER through sacrebleu, with its signatures."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from sacrebleu.metrics import BLEU, CHRF, TER

from dragoman.errors import DataError


@dataclass(frozen=True)
class Scores:
    """Scores of a whole set of translations: BLEU and chrF++ from 0 to 100, TER from 0 up."""

    bleu: float
    """BLEU with sacrebleu's default tokenizer 13a, case counts; higher is better."""
    chrf: float
    """chrF++: F-score of character 6-grams and word bigrams; higher is better."""
    ter: float | None
    """Edits per 100 reference words, a moved phrase counts once; lower is better. None: skipped."""
    signatures: dict[str, str]
    """For each score what sacrebleu writes beside it in a paper."""


def score(hypotheses: Sequence[str], references: Sequence[str], *, with_ter: bool = True) -> Scores:
    """Scores of translations against one reference each.

    TER tries out where each phrase could be moved, which takes minutes for a thousand translations
    that share only the words of their references, as those of a half-trained model do.
    Raises `ValueError` for lists of different lengths and `DataError` for empty ones.
    """
    if len(hypotheses) != len(references):
        raise ValueError(
            f"There are {len(hypotheses)} translations, but {len(references)} references; "
            "give one reference for each translation."
        )
    if not hypotheses:
        raise DataError("There is no sentence to score; give at least one pair.")
    # Without `force`, 100 sentences that end in " ." print a warning, again and again in training.
    metrics = {"bleu": BLEU(force=True), "chrf": CHRF(word_order=2)}
    if with_ter:
        metrics["ter"] = TER()
    values = {name: metric.corpus_score(hypotheses, [references]).score for name, metric in metrics.items()}
    signatures = {name: str(metric.get_signature()) for name, metric in metrics.items()}
    return Scores(values["bleu"], values["chrf"], values.get("ter"), signatures)


def scores_by_source(
    hypotheses: Sequence[str], references: Sequence[str], leaked: Collection[int]
) -> dict[str, dict[str, float]]:
    """What `Evaluation.by_source` is, the pairs in the places `leaked` being those whose source was trained on.

    A part without pairs is left out.
    """
    known = frozenset(leaked)
    parts = {"trained_on": sorted(known), "new": [i for i in range(len(references)) if i not in known]}
    return {
        name: {
            "sentences": len(places),
            "bleu": score([hypotheses[i] for i in places], [references[i] for i in places], with_ter=False).bleu,
        }
        for name, places in parts.items()
        if places
    }
