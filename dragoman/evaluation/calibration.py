"""Fits the confidence of translations to pairs with references, and measures how well it holds."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from dragoman.decoding.confidence import words_of
from dragoman.decoding.translator import Translator
from dragoman.engine.confidence import SIGNS, ConfidenceModel, Regression
from dragoman.engine.shapes import Float
from dragoman.errors import DataError
from dragoman.metrics import chrf
from dragoman.metrics.metric import Translations
from dragoman.text.sketch import Sketch

SENTENCE_METRIC = chrf.METRIC
"""The metric of single sentences that a confidence expects."""
FEWEST = 50
"""Fewest pairs from which anything can be fitted."""
MOST = 2_000
"""Pairs beyond these change little."""
PENALTY = 3.0
"""How strongly weights are pulled towards 0 (L2)."""
ITERATIONS = 30
"""Newton steps of a fit, which converges in some ten."""
FOLDS = 5
BINS = 10


@dataclass(frozen=True)
class Scored:
    """Translations with their features, and how good they are."""

    features: Float[np.ndarray, "rows features"]
    similarity: Float[np.ndarray, " rows"]
    """chrF++ of each against its reference, from 0 to 1."""
    edited: Float[np.ndarray, " rows"]
    """1 where the reference has other words, else 0."""

    def __len__(self) -> int:
        return len(self.similarity)

    def rows(self, chosen: np.ndarray) -> "Scored":
        """Some of the translations."""
        return Scored(self.features[chosen], self.similarity[chosen], self.edited[chosen])


def fit(scored: Scored) -> ConfidenceModel:
    """The confidence model that fits best. Raises `DataError` for too few pairs."""
    if len(scored) < FEWEST:
        raise DataError(f"{len(scored)} pairs are too few to calibrate a confidence; give {FEWEST} and, better, 1,000.")
    known = ~np.isnan(scored.features)
    counts = np.maximum(1, known.sum(0))
    means = np.where(known, scored.features, 0).sum(0) / counts
    centred = np.where(known, scored.features - means, 0)
    deviations = np.sqrt((centred**2).sum(0) / counts)
    deviations[deviations < 1e-9] = 1.0
    standardised = centred / deviations
    return ConfidenceModel(
        dict(zip(SIGNS, means.tolist(), strict=True)),
        dict(zip(SIGNS, deviations.tolist(), strict=True)),
        _regression(standardised, scored.similarity, good=1),
        _regression(standardised, scored.edited, good=-1),
        len(scored),
    )


def _regression(standardised: np.ndarray, wanted: np.ndarray, *, good: int) -> Regression:
    """The logistic regression of numbers from 0 to 1; -1 for `good` means that 1 is bad.

    A feature whose weight has the wrong sign is left out, the worst one first, and the others are fitted again.
    """
    kept = list(SIGNS)
    while True:
        columns = [list(SIGNS).index(name) for name in kept]
        constant, *weights = _fitted(standardised[:, columns], wanted)
        wrong = [(weight * SIGNS[name] * good, name) for weight, name in zip(weights, kept, strict=True)]
        if not wrong or min(wrong)[0] >= 0:
            return Regression(constant, dict(zip(kept, weights, strict=True)))
        kept.remove(min(wrong)[1])


def _fitted(columns: np.ndarray, wanted: np.ndarray) -> list[float]:
    """Constant and weights of a logistic regression, by Newton's method."""
    design = np.column_stack([np.ones(len(columns)), columns])
    penalty = np.diag([1e-3, *[PENALTY] * columns.shape[1]])  # a constant has to be finite, too
    weights = np.zeros(design.shape[1])
    for _ in range(ITERATIONS):
        expected = 1 / (1 + np.exp(-np.clip(design @ weights, -30, 30)))
        curvature = design.T @ (design * (expected * (1 - expected) + 1e-9)[:, None]) + penalty
        step = np.linalg.solve(curvature, design.T @ (wanted - expected) - penalty @ weights)
        weights += step
        if np.abs(step).max() < 1e-9:
            break
    return weights.tolist()


@dataclass(frozen=True)
class Bin:
    """Translations of a similar confidence."""

    count: int
    expected: float
    """Mean confidence."""
    measured: float
    """Mean chrF++ against the references, from 0 to 1."""


@dataclass(frozen=True)
class Calibration:
    """A confidence model, and how well such a model holds on pairs that it was not fitted to."""

    model: ConfidenceModel
    bins: list[Bin]
    """Tenths of the translations, those least trusted first."""
    risk: float
    """Area under risk against coverage by the confidence (`risk_area`)."""
    risk_by_log_prob: float
    """The same by the mean log-probability of the tokens."""

    @property
    def error(self) -> float:
        """Mean distance of what is expected from what is measured."""
        return float(np.mean([abs(part.expected - part.measured) for part in self.bins]))

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "pairs": self.model.pairs,
            "bins": [asdict(part) for part in self.bins],
            "error": self.error,
            "risk": self.risk,
            "risk_by_log_prob": self.risk_by_log_prob,
        }


def calibrate(translator: Translator, pairs: Sequence[tuple[str, str]], sketch: Sketch | None) -> Calibration:
    """Translate pairs as the model does by default, and fit its confidence to what comes out.

    How well it holds is measured by models that are each fitted to four fifths of the pairs and tried on the others.
    Raises `DataError` for too few pairs.
    """
    scored = score_translations(translator, pairs, sketch)
    model = fit(scored)
    expected = np.empty(len(scored))
    for fold in range(FOLDS):
        is_left_out = np.arange(len(scored)) % FOLDS == fold
        fitted = fit(scored.rows(~is_left_out)) if (~is_left_out).sum() >= FEWEST else model
        expected[is_left_out] = [row.confidence for row in fitted(scored.features[is_left_out])]
    log_probs = np.nan_to_num(scored.features[:, list(SIGNS).index("mean_log_prob")])
    return Calibration(
        model,
        reliability(expected, scored.similarity),
        risk_area(expected, scored.similarity),
        risk_area(log_probs, scored.similarity),
    )


def score_translations(translator: Translator, pairs: Sequence[tuple[str, str]], sketch: Sketch | None) -> Scored:
    """The translations of pairs with their features, and how near they come to the references."""
    sources, references = [source for source, _ in pairs], [target for _, target in pairs]
    texts, rows = translator.features(sources, translator.decoding.alone(), sketch)
    statistics = SENTENCE_METRIC.count(Translations(texts, references))
    similarity = np.array([statistics.score_of(row) for row in statistics.rows]) / 100
    edited = [words_of(text) != words_of(reference) for text, reference in zip(texts, references, strict=True)]
    return Scored(rows, np.clip(similarity, 0, 1), np.array(edited, np.float64))


def reliability(expected: np.ndarray, measured: np.ndarray) -> list[Bin]:
    """Tenths of the translations by their confidence: what is expected of them, and what is measured."""
    parts = np.array_split(np.argsort(expected, kind="stable"), BINS)
    return [Bin(len(part), float(expected[part].mean()), float(measured[part].mean())) for part in parts if len(part)]


def risk_area(confidence: np.ndarray, similarity: np.ndarray) -> float:
    """The area under risk against coverage (Geifman and El-Yaniv 2017); lower is better.

    The mean loss of chrF++ among those that are trusted most, over all shares of them.
    """
    losses = 1 - similarity[np.argsort(-confidence, kind="stable")]
    return float((np.cumsum(losses) / np.arange(1, len(losses) + 1)).mean())
