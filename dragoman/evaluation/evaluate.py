"""One evaluation: sentence pairs are translated and scored, and the model predicts their references."""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from dragoman.data.batching import Batch
from dragoman.evaluation.likelihood import TokenStatistics, token_statistics
from dragoman.evaluation.scores import Scores, score
from dragoman.model import Transformer


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
    """For a split that leaks: `sentences` and `bleu` of the pairs whose source sentence was `trained_on`, and of `new`
    ones."""

    @property
    def sentences_per_second(self) -> float:
        return len(self.translations) / max(self.seconds, 1e-9)

    def to_dict(self) -> dict[str, Any]:
        """All numbers side by side, for JSON; without the translations."""
        return {
            **self.scores.to_dict(),
            **asdict(self.tokens),
            "sentences": len(self.translations),
            "seconds": self.seconds,
            "sentences_per_second": self.sentences_per_second,
            **({"by_source": self.by_source} if self.by_source else {}),
        }


def evaluate(
    pairs: Sequence[tuple[str, str]],
    translate: Callable[[list[str]], list[str]],
    *,
    models: Sequence[Transformer],
    batches: Iterable[Batch],
    target_language: str | None = None,
) -> Evaluation:
    """Translate the sources, score the translations, and let `models` together predict the references.

    `batches` are the same pairs as token ids, in any order (`reference_batches`).
    """
    sources, references = [source for source, _ in pairs], [target for _, target in pairs]
    started = time.perf_counter()
    translations = translate(sources)
    seconds = time.perf_counter() - started
    scores = score(translations, references, sources=sources, target_language=target_language)
    return Evaluation(scores, token_statistics(models, batches), translations, seconds)
