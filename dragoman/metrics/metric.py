"""Defines a metric: its name, how its values are written and compared, and the function that computes it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple


@dataclass(frozen=True)
class Translations:
    """Translations of some sentences, and the references and sources that they are compared with."""

    hypotheses: Sequence[str]
    references: Sequence[str]
    """One for each hypothesis."""
    sources: Sequence[str] = ()
    language: str | None = None
    """Two-letter code of a target language that does not separate words by spaces (`text.scripts`); None: any other."""


class Score(NamedTuple):
    """The value of a metric for a whole set of translations."""

    value: float
    signature: str
    """Settings of the metric on which the value depends, to be quoted beside it."""


@dataclass(frozen=True, kw_only=True)
class Metric:
    """A named measure of translations, or of how well a model predicts references."""

    name: str
    """Its key in JSON, and in `training.monitor`."""
    label: str
    higher_is_better: bool = True
    compute: Callable[[Translations], Score] | None = None
    """Computes the score from translations and references; None: the metric is a token statistic of the model."""
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

    def write(self, value: float, *, more_digits: int = 0) -> str:
        """The value as text, for people."""
        digits = self.digits + more_digits
        return f"{100 * value:.{digits}f} %" if self.unit == "%" else f"{value:.{digits}f}"


def sacrebleu_score(metric: Any, translations: Translations) -> Score:
    """The score and the signature of a metric of sacrebleu."""
    value = metric.corpus_score(translations.hypotheses, [translations.references]).score
    return Score(value, str(metric.get_signature()))
