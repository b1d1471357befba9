"""How far a score would move if the sentences were others like these: the bootstrap, and a paired test of two systems.

All of it draws sentences again and again and adds up their sufficient statistics, so that no text is read twice. Draws
and intervals are those of sacrebleu (`sacrebleu --confidence`, `--paired-ar`), which follows Koehn (2004), "Statistical
Significance Tests for Machine Translation Evaluation", and Riezler and Maxwell (2005). So are p-values, but that a
difference by chance counts if it is as large as the measured one: systems that differ in a single sentence would else
be found to differ.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from dragoman.errors import UsageError

RESAMPLES, SHUFFLES = 1_000, 10_000
"""Draws of a bootstrap, and trials of a randomization."""
DRAWN_AT_ONCE = 2_000_000
"""Most indices of sentences that are in memory."""
ROUNDING = 1e-9
"""Two differences that are closer than this are the same."""
BITS = 32
"""Random bits that are drawn together. Rows that are drawn one after the other are the same if they waste none."""
FEWEST = 2
"""Fewest sentences that can be drawn differently."""
SIGNIFICANT = 0.05
"""A p-value below which a difference is said to be one."""
ONE_SIDED = 1.645
"""Standard errors that a difference exceeds by chance once in twenty times."""
POWER = 1.96 + 0.84
"""A difference of so many standard errors is found at this level four times in five."""


@dataclass(frozen=True)
class Statistics:
    """What a metric counts in each translation: the score of any of them follows from the sum of their rows."""

    rows: np.ndarray
    """(sentences, numbers)"""
    score_of: Callable[[np.ndarray], float]
    """The score that follows from a sum of rows."""
    signature: str

    def value(self) -> float:
        """The score of all translations."""
        return self.score_of(self.rows.sum(0))

    def interval(self) -> "Interval | None":
        """The 95 % interval of the score, or None for a single sentence."""
        if len(self.rows) < FEWEST:
            return None
        return Interval.of(self._scores(_drawn(len(self.rows))))

    @classmethod
    def of_mean(cls, values: Sequence[float], signature: str) -> "Statistics":
        """What a metric counts whose score is the mean of the values of all sentences."""
        rows = np.stack([np.asarray(values, np.float64), np.ones(len(values))], axis=1)
        return cls(rows, lambda total: float(total[0] / total[1]), signature)

    def _scores(self, weights: Iterator[np.ndarray]) -> np.ndarray:
        """The score of each draw, in which sentences count as often as its weights say."""
        sums = np.concatenate([drawn @ self.rows for drawn in weights])
        return np.array([self.score_of(total) for total in sums])


class Interval(NamedTuple):
    """The middle 95 % of the scores of a bootstrap."""

    low: float
    high: float

    @classmethod
    def of(cls, scores: np.ndarray) -> "Interval":
        """The interval of the scores of all draws, which leaves out a fortieth at either end."""
        ordered = np.sort(scores)
        outside = len(ordered) // 40
        return cls(float(ordered[outside]), float(ordered[-1 - outside]))

    @property
    def half(self) -> float:
        """Half of its width: what stands behind ±."""
        return (self.high - self.low) / 2


@dataclass(frozen=True)
class PairedTest:
    """Whether two systems differ on the same sentences, by one metric."""

    difference: float
    """The score of the system, less that of the baseline."""
    interval: Interval
    """The 95 % interval of the difference."""
    p_value: float
    """How often chance alone would make a difference as large as this."""
    sentences: int
    needed: int | None
    """About how many sentences would show such a difference four times in five; None if nothing tells."""

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "difference": self.difference,
            "interval": list(self.interval),
            "p_value": self.p_value,
            "sentences": self.sentences,
            "sentences_needed": self.needed,
        }

    @property
    def is_significant(self) -> bool:
        """Whether chance does not explain the difference."""
        return self.difference != 0 and self.p_value < SIGNIFICANT


def approximate_randomization(baseline: Statistics, system: Statistics) -> PairedTest:
    """Tests by exchanging translations of the systems at random, which assumes less than the bootstrap."""
    count = len(baseline.rows)
    measured = abs(system.value() - baseline.value()) - ROUNDING
    exceeding = 0
    for kept in _kept(count):
        exchanged = 1.0 - kept
        first = kept @ baseline.rows + exchanged @ system.rows
        second = exchanged @ baseline.rows + kept @ system.rows
        for one, other in zip(first, second, strict=True):
            exceeding += abs(baseline.score_of(one) - baseline.score_of(other)) >= measured
    differences = system._scores(_drawn(count)) - baseline._scores(_drawn(count))
    return _tested(baseline, system, differences, exceeding, SHUFFLES)


def is_clearly_better(baseline: Statistics, system: Statistics) -> bool:
    """Whether a system is better than a baseline on the same sentences by more than chance explains.

    A paired bootstrap that looks at one side only: by chance alone it says so once in twenty times.
    """
    differences = system._scores(_drawn(len(system.rows))) - baseline._scores(_drawn(len(baseline.rows)))
    return float(system.value() - baseline.value()) > ONE_SIDED * float(differences.std()) + ROUNDING


def _tested(baseline: Statistics, system: Statistics, drawn: np.ndarray, exceeding: int, trials: int) -> PairedTest:
    """The test that follows from the differences of all draws, and from how often chance makes a larger one."""
    difference, count = system.value() - baseline.value(), len(system.rows)
    p_value = (int(exceeding) + 1) / (trials + 1)
    needed = None
    if difference and drawn.std():
        needed = int(np.ceil(count * (POWER * drawn.std() / difference) ** 2))
        if p_value >= SIGNIFICANT:  # what was not shown with so many sentences needs more of them
            needed = max(needed, count + 1)
    return PairedTest(difference, Interval.of(drawn), p_value, count, needed)


def _generator() -> np.random.Generator:
    """Random numbers from the seed of sacrebleu."""
    seed = os.environ.get("SACREBLEU_SEED", "12345")
    if not seed.isdecimal() and seed.lower() != "none":
        raise UsageError(f"SACREBLEU_SEED is {seed}; set it to a whole number or to none, or leave it out.")
    return np.random.default_rng(None if seed.lower() == "none" else int(seed))


def _drawn(count: int) -> Iterator[np.ndarray]:
    """For each draw how often each of `count` sentences is drawn, (draws, count), some draws at a time."""
    generator = _generator()
    at_once = max(1, DRAWN_AT_ONCE // count)
    for first in range(0, RESAMPLES, at_once):
        draws = min(at_once, RESAMPLES - first)
        indices = generator.choice(count, size=(draws, count), replace=True)
        flat = (indices + count * np.arange(draws)[:, None]).ravel()
        yield np.bincount(flat, minlength=draws * count).reshape(draws, count).astype(np.float64)


def _kept(count: int) -> Iterator[np.ndarray]:
    """For each trial 1 where a translation keeps its system and 0 where it changes it, (trials, count)."""
    generator = _generator()
    at_once = max(1, DRAWN_AT_ONCE // count // BITS) * BITS
    for first in range(0, SHUFFLES, at_once):
        trials = min(at_once, SHUFFLES - first)
        yield generator.integers(2, size=(trials, count), dtype=bool).astype(np.float64)
