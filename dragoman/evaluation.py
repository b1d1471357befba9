"""How good translations are: BLEU, chrF++ and TER of texts; perplexity and accuracy of the model.

Scores come from sacrebleu with its signatures, so that other people's numbers can be compared.
"""

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from sacrebleu.metrics import BLEU, CHRF, TER
from torch import nn

from dragoman.data.batching import Batch, cut, padded
from dragoman.data.bitext import normalised
from dragoman.data.placeholders import MaskedPairs
from dragoman.data.tokenizer import BOS_ID, EOS_ID, PAD_ID, Tokenizer
from dragoman.decoding.ensemble import predictions
from dragoman.errors import DataError
from dragoman.model import Transformer


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


@dataclass(frozen=True)
class TokenStatistics:
    """How well a model predicts the reference, token by token, given its true beginning."""

    perplexity: float
    """exp of the mean cross-entropy per token, without label smoothing."""
    token_accuracy: float
    """Share, from 0 to 1, of tokens that the model held for the likeliest."""
    num_tokens: int
    """Target tokens and ends of sentence; padding does not count."""


@dataclass(frozen=True)
class Evaluation:
    """Everything measured on one set of sentence pairs."""

    scores: Scores
    tokens: TokenStatistics
    translations: list[str]
    """In the order of the pairs."""
    seconds: float
    """Time to translate all sentences."""
    by_source: dict[str, dict[str, float]] = field(default_factory=dict)
    """Of a split that leaks, `sentences` and `bleu` of the pairs whose source sentence was `trained_on` and of `new`
    ones."""

    @property
    def sentences_per_second(self) -> float:
        return len(self.translations) / max(self.seconds, 1e-9)

    def to_dict(self) -> dict[str, Any]:
        """All numbers side by side, for JSON; without the translations."""
        return {
            **asdict(self.scores),
            **asdict(self.tokens),
            "sentences": len(self.translations),
            "seconds": self.seconds,
            "sentences_per_second": self.sentences_per_second,
            **({"by_source": self.by_source} if self.by_source else {}),
        }


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


@torch.inference_mode()
def token_statistics(models: Sequence[Transformer], batches: Iterable[Batch]) -> TokenStatistics:
    """Perplexity and accuracy of the next token, by the mean of the models' probabilities, on their device.

    Of a reference that is longer than the positions that a model has learned, what fits counts. Raises `DataError` if
    there is no token to predict.
    """
    device = next(models[0].parameters()).device
    learned = [model.config.max_positions for model in models if model.config.positions == "learned"]
    longest = min(learned, default=None)
    total = torch.zeros((), dtype=torch.float64, device=device)
    correct = torch.zeros((), dtype=torch.int64, device=device)
    num_tokens = 0
    with ExitStack() as switched:
        for model in models:
            switched.enter_context(evaluating(model))
        for batch in batches:
            batch = batch.to(device)
            found = predictions(models, batch.source_ids, batch.target_ids[:, :longest], batch.labels[:, :longest])
            num_tokens += len(found.log_probs)
            total += found.log_probs.double().sum()
            correct += found.likeliest.sum()
    if not num_tokens:
        raise DataError("There is no token to predict; give at least one sentence pair.")
    perplexity = (-total / num_tokens).exp()  # of a tensor: too large a mean gives inf, no error
    return TokenStatistics(float(perplexity), int(correct) / num_tokens, num_tokens)


def evaluate(
    pairs: Sequence[tuple[str, str]],
    translate: Callable[[list[str]], list[str]],
    *,
    models: Sequence[Transformer],
    batches: Iterable[Batch],
) -> Evaluation:
    """Translate the sources, score the result, and let `models` together predict the references.

    `batches` are the same pairs as token ids, in any order (`reference_batches`).
    """
    sources, references = [source for source, _ in pairs], [target for _, target in pairs]
    started = time.perf_counter()
    translations = translate(sources)
    seconds = time.perf_counter() - started
    scores = score(translations, references)
    return Evaluation(scores, token_statistics(models, batches), translations, seconds)


def reference_batches(
    pairs: Sequence[tuple[str, str]],
    source_tokenizer: Tokenizer,
    target_tokenizer: Tokenizer,
    *,
    max_tokens: int = 4096,
) -> Iterator[Batch]:
    """Sentence pairs as batches of similar lengths.

    A batch has at most `max_tokens` tokens with padding on either side, or is a single pair.
    """
    if source_tokenizer.placeholders:
        pairs = list(MaskedPairs(pairs, source_tokenizer.symbols))
    sources = source_tokenizer.encode_batch(normalised(source) for source, _ in pairs)
    targets = target_tokenizer.encode_batch(normalised(target) for _, target in pairs)
    for rows in cut([max(map(len, sides)) + 1 for sides in zip(sources, targets, strict=True)], max_tokens):
        source = padded([sources[i] for i in rows], PAD_ID, end=EOS_ID)
        target = padded([targets[i] for i in rows], PAD_ID, begin=BOS_ID, end=EOS_ID)
        # A short row is given its end of sentence too; what follows it is padding, not counted.
        yield Batch(source, target[:, :-1], target[:, 1:])


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Switches dropout off inside the `with` block, and back to how it was after it."""
    was_training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(was_training)
