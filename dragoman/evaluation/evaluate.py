"""The result of an evaluation: sentence pairs were translated and scored, and the model predicted their references."""

from dataclasses import asdict, dataclass, field
from typing import Any

from dragoman.evaluation.likelihood import TokenStatistics
from dragoman.metrics.metric import Score


@dataclass(frozen=True)
class Evaluation:
    """Everything measured on one set of sentence pairs."""

    scores: dict[str, Score]
    """By the names of the metrics."""
    tokens: TokenStatistics
    translations: list[str]
    """In the order of the pairs."""
    seconds: float
    """Time to translate all sentences."""
    by_source: dict[str, dict[str, float]] = field(default_factory=dict)
    """For a split that leaks: `sentences` and `bleu` of the pairs whose source sentence was `trained_on`, and of `new`
    ones."""

    def to_dict(self) -> dict[str, Any]:
        """All numbers side by side, for JSON; without the translations."""
        return {
            **{name: score.value for name, score in self.scores.items()},
            "signatures": {name: score.signature for name, score in self.scores.items()},
            **asdict(self.tokens),
            "sentences": len(self.translations),
            "seconds": self.seconds,
            "sentences_per_second": len(self.translations) / max(self.seconds, 1e-9),
            **({"by_source": self.by_source} if self.by_source else {}),
        }
