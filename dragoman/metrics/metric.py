"""Defines a metric: its name, how its values are written and compared, and the function that computes it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dragoman.metrics.resampling import Interval, Statistics


@dataclass(frozen=True)
class Translations:
    """Translations of some sentences, and the references and sources that they are compared with."""

    hypotheses: Sequence[str]
    references: Sequence[str]
    """One for each hypothesis."""
    sources: Sequence[str] = ()
    language: str | None = None
    """Two-letter code of a target language that does not separate words by spaces (`text.scripts`); None: any other."""


@dataclass(frozen=True)
class Score:
    """The value of a metric for a whole set of translations."""

    value: float
    signature: str
    """Settings of the metric on which the value depends, to be quoted beside it."""
    interval: "Interval | None" = None
    """The 95 % interval of the value over draws of the sentences; None for a single sentence."""
    statistics: "Statistics | None" = field(default=None, repr=False, compare=False)
    """What was counted in each sentence, for tests beside other systems."""


@dataclass(frozen=True, kw_only=True)
class Metric:
    """A named measure of translations, or of how well a model predicts references."""

    name: str
    """Its key in JSON, and in `training.monitor`."""
    label: str
    higher_is_better: bool = True
    count: Callable[[Translations], "Statistics"] | None = None
    """Counts what the score follows from, in each translation; None: the metric is a token statistic of the model."""
    validation_key: str = ""
    """Its key in the validations of `run/metrics.jsonl`; empty: validations do not compute it."""
    tested: bool = True
    """Whether every evaluation has it."""
    digits: int = 1
    """Decimals on pages; tables have one more."""
    unit: str = ""
    """Label of its axis in pictures; values in "%" are shares from 0 to 1."""
    remark: str = ""
    """Text beside the value in a table, where there is no signature."""

    def statistics(self, translations: Translations) -> "Statistics":
        """What the metric counts in each of the translations."""
        if self.count is None:
            raise TypeError(f"{self.label} is no metric of texts.")
        return self.count(translations)

    def score(self, translations: Translations) -> Score:
        """The score of all translations, with its interval."""
        statistics = self.statistics(translations)
        return Score(statistics.value(), statistics.signature, statistics.interval(), statistics)

    @property
    def heading(self) -> str:
        """The label for places where all begin with a capital."""
        return self.label.capitalize() if self.label.islower() else self.label

    @property
    def improvement(self) -> str:
        """Name of a better value: "better BLEU", "lower loss"."""
        return f"{'better' if self.higher_is_better else 'lower'} {self.label}"

    def sort_key(self, value: float) -> float:
        """The value with a sign that makes better ones larger."""
        return value if self.higher_is_better else -value

    def best(self, events: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """The first of the validations `events` with the best value; there must be one."""
        return max(events, key=lambda event: self.sort_key(event[self.validation_key]))

    def write_with_interval(self, scores: Mapping[str, Any], *, more_digits: int = 0) -> str:
        """The value in `scores`, by names of metrics, with half of its interval behind ±, if `intervals` has it.

        A dash if there is no value.
        """
        if self.name not in scores:
            return "-"
        value = self.write(scores[self.name], more_digits=more_digits)
        interval = scores.get("intervals", {}).get(self.name)
        if interval is None:
            return value
        from dragoman.metrics.resampling import Interval

        return f"{value} ± {self.write(Interval(*interval).half, more_digits=more_digits)}"

    def write(self, value: float, *, more_digits: int = 0) -> str:
        """The value as text, for people."""
        digits = self.digits + more_digits
        return f"{100 * value:.{digits}f} %" if self.unit == "%" else f"{value:.{digits}f}"


def counted_by_sacrebleu(metric: Any, translations: Translations) -> "Statistics":
    """What a metric of sacrebleu counts in each translation."""
    import numpy as np

    from dragoman.metrics.resampling import Statistics

    rows = metric._extract_corpus_statistics(translations.hypotheses, [translations.references])
    return Statistics(
        np.array(rows, np.float64),
        lambda total: metric._compute_score_from_stats(total.tolist()).score,
        str(metric.get_signature()),
    )
