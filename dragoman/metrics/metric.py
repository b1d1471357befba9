"""What a metric is: its name, how its values are written and compared, and what computes it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple


@dataclass(frozen=True)
class Translations:
    """Translations of some sentences, and what they are compared with."""

    hypotheses: Sequence[str]
    references: Sequence[str]
    """One for each hypothesis."""
    sources: Sequence[str] = ()
    language: str | None = None
    """Two-letter code of a target language whose words spaces do not show (`data.scripts`); None: any other."""


class Score(NamedTuple):
    """The value of a metric for a whole set of translations."""

    value: float
    signature: str
    """All choices that the value depends on, to be quoted beside it."""


@dataclass(frozen=True, kw_only=True)
class Metric:
    """A named measure of translations, or of how well a model predicts references."""

    name: str
    """Its key in JSON, and in `training.monitor`."""
    label: str
    higher_is_better: bool = True
    compute: Callable[[Translations], Score] | None = None
    """From translations and references; None: the metric is one of the model's token statistics."""
    validation_key: str = ""
    """Its key in the validations of `run/metrics.jsonl`; empty: validations do without it."""
    tested: bool = True
    """Whether it is a part of every evaluation."""
    digits: int = 1
    """Decimals on pages; tables have one more."""
    unit: str = ""
    """Label of its axis in pictures; values in "%" are shares from 0 to 1."""
    remark: str = ""
    """Stands beside the value in a table, where there is no signature."""

    @property
    def heading(self) -> str:
        """The label where others begin with capitals."""
        return self.label.capitalize() if self.label.islower() else self.label

    @property
    def improvement(self) -> str:
        """What a better value is called: "better BLEU", "lower loss"."""
        return f"{'better' if self.higher_is_better else 'lower'} {self.label}"

    def sort_key(self, value: float) -> float:
        """The value with a sign that makes better ones larger."""
        return value if self.higher_is_better else -value

    def best(self, events: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """The first of the validations with the best value; there must be one."""
        return max(events, key=lambda event: self.sort_key(event[self.validation_key]))

    def write(self, value: float, *, more_digits: int = 0) -> str:
        """The value as people read it."""
        digits = self.digits + more_digits
        return f"{100 * value:.{digits}f} %" if self.unit == "%" else f"{value:.{digits}f}"


def sacrebleu_score(metric: Any, given: Translations) -> Score:
    """Score of a metric of sacrebleu, with its signature."""
    value = metric.corpus_score(given.hypotheses, [given.references]).score
    return Score(value, str(metric.get_signature()))
