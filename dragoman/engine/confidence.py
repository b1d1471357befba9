"""Weighs what a search says about a translation: how far it can be trusted.

A logistic regression that was fitted to pairs with references (`dragoman.evaluation.calibration`). Its weights have the
sign that experience gives them: more probable, more familiar and less repeated is never worse. So it does not go astray
on text of another kind, whose features have values that no pair had.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple, Self

import numpy as np

from dragoman.engine.shapes import Float

SIGNS = {
    "mean_log_prob": 1,
    "mean_probability": 1,
    "lowest_log_prob": 1,
    "familiarity": 1,
    "agreement": 1,
    "piece_length": 1,
    "repeated": -1,
    "copied": -1,
}
"""The features, and whether more of each makes a translation better (1) or worse (-1)."""
FORMAT = 1
LARGEST = 1e9
"""Largest number in a stored model."""


class Confidence(NamedTuple):
    """What is expected of a translation."""

    confidence: float
    """Its expected chrF++ against a translation by a person, from 0 to 1."""
    edit_probability: float
    """The probability that the person's translation has other words."""


@dataclass(frozen=True)
class Regression:
    """A logistic regression: the logistic function of the sum of a constant and of weighted features."""

    constant: float
    weights: dict[str, float]
    """Weights of standardised features; a feature without one says nothing."""

    def __call__(self, standardised: Float[np.ndarray, "rows features"]) -> Float[np.ndarray, " rows"]:
        weights = np.array([self.weights.get(name, 0.0) for name in SIGNS])
        return 1 / (1 + np.exp(-np.clip(self.constant + standardised @ weights, -30, 30)))


@dataclass(frozen=True)
class ConfidenceModel:
    """Weighs the features of translations."""

    means: dict[str, float]
    """The mean of each feature in the pairs that it was fitted to; one that is not known counts as this."""
    deviations: dict[str, float]
    similarity: Regression
    """Gives the expected chrF++."""
    edited: Regression
    """Gives the probability of an edit."""
    pairs: int
    """Number of pairs that it was fitted to."""
    format: int = field(default=FORMAT)

    def standardised(self, rows: Float[np.ndarray, "rows features"]) -> Float[np.ndarray, "rows features"]:
        """Features with the mean 0 and the deviation 1 in the pairs of the fit."""
        means = np.array([self.means[name] for name in SIGNS])
        deviations = np.array([self.deviations[name] for name in SIGNS])
        return (np.where(np.isnan(rows), means, rows) - means) / deviations

    def __call__(self, rows: Float[np.ndarray, "rows features"]) -> list[Confidence]:
        """What is expected of the translations with these features."""
        standardised = self.standardised(rows)
        expected = zip(self.similarity(standardised).tolist(), self.edited(standardised).tolist(), strict=True)
        return [Confidence(*both) for both in expected]

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, content: Any) -> Self:
        """What `to_dict` gave. Raises `ValueError` for anything else."""
        if not isinstance(content, Mapping) or content.get("format") != FORMAT:
            raise ValueError("it is of another format")
        try:
            means, deviations = (_numbers(content[name], whole=True) for name in ("means", "deviations"))
            if min(deviations.values()) <= 0:
                raise ValueError("a deviation is not above 0")
            similarity, edited = (
                Regression(**_numbers({"constant": part["constant"]}), weights=_numbers(part["weights"]))
                for part in (content["similarity"], content["edited"])
            )
            return cls(means, deviations, similarity, edited, pairs=int(_numbers({"pairs": content["pairs"]})["pairs"]))
        except (LookupError, TypeError, AttributeError, OverflowError) as error:
            raise ValueError(f"it lacks {error}") from None


def _numbers(values: Any, *, whole: bool = False) -> dict[str, float]:
    """Numbers by their names; with `whole`, one for each feature."""
    numbers = dict(values)
    if not all(type(number) in (int, float) and abs(number) < LARGEST for number in numbers.values()):
        raise ValueError("a value is no number")
    if whole and numbers.keys() != SIGNS.keys():
        raise ValueError("it has other features")
    return numbers
