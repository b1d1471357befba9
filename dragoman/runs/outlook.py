"""What would help a model: what twice the minutes, and twice the pairs, would bring, with how far to believe it.

Both are extrapolations by one doubling: of the run's own validations, and of runs on a half and a quarter of the pairs.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from dragoman.evaluation.evaluate import Evaluation
from dragoman.metrics import MAIN
from dragoman.metrics.resampling import Interval

SHARES = 0.25, 0.5
"""Shares of the pairs that a learning curve trains on besides all of them."""
FEWEST_VALIDATIONS = 3
"""Fewest validations at a constant learning rate from which a slope is taken."""
CONSIDERED = 0.25
"""Share of the time before the decay whose validations do not count: the first steps are steeper than all others."""
LEAST_SPREAD = 0.1
"""Least standard deviation of the times from which a slope is taken, in doublings."""
LITTLE = 0.5
"""Points that are next to nothing."""
FURTHER = 1.5
"""The last validation has to be so many times later than the first one."""
MEASURED = (
    (1_000, 5.4), (2_500, 7.5), (5_000, 4.8), (20_000, 3.2),
)  # fmt: skip
"""BLEU that twice the pairs brought from so many pairs on, in Multi30k en-de (docs/trials.md)."""
HIGHEST, HIGHEST_MEASURED = 100.0, 42.0
"""The highest possible score, and the highest one that these corpora had."""
BEYOND = 60_000
"""Pairs beyond which nothing comparable was measured."""


@dataclass(frozen=True)
class Gain:
    """Points of the main score that a doubling is expected to bring."""

    expected: float
    low: float
    high: float

    def within(self, room: float) -> "Gain":
        """The gain of a score that can only rise so far."""
        return Gain(*(min(points, room) for points in (self.expected, self.low, self.high)))

    def __str__(self) -> str:
        return f"{self.low:.1f} to {self.high:.1f} {MAIN.label}"


class Multiples(NamedTuple):
    """The gain of the next doubling as a multiple of that of the last one: expected, at least, and at most."""

    expected: float
    least: float
    most: float

    def times(self, gain: float, *, noise: float = 0.0) -> Gain:
        """The gain of the next doubling, from that of the last one and its uncertainty."""
        return Gain(self.expected * gain, max(0.0, self.least * gain - noise), self.most * gain + noise)


USUAL = Multiples(0.6, 0.2, 1.3)
"""The multiples where the last gain is measured at a constant learning rate."""
LIFTED = Multiples(0.4, 0.05, 1.0)
"""The same where it is measured across the decay, which lifts it."""
EARLY = (10.0, Multiples(2.0, 0.8, 4.5)), (20.0, Multiples(1.2, 0.4, 2.2))
"""The same for models whose score is still below so many points: these learn ever faster."""


@dataclass(frozen=True)
class CurvePoint:
    """The score of a model that was trained on a share of the pairs."""

    share: float
    pairs: int
    score: float
    interval: Interval | None

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "share": self.share,
            "pairs": self.pairs,
            MAIN.name: self.score,
            "interval": self.interval and list(self.interval),
        }

    @property
    def noise(self) -> float:
        """Half of the interval of the score."""
        return self.interval.half if self.interval else 0.0


def gain_of_minutes(events: Sequence[dict[str, Any]]) -> Gain | None:
    """What twice the minutes would bring, from the events of a run; None if it has too few validations to tell.

    Scores rise slowly at first, then fast, then ever more slowly. In the last phase, at a constant learning rate, a
    score rises by about as much with each doubling of the time, and a little less with the next one. The decay at the
    end lifts a short run and a long one alike. In the first two phases, the gain of the last doubling is what the next
    one is compared with.
    """
    begin_of_decay = min((event["step"] for event in events if event["event"] == "decay"), default=math.inf)
    seconds: dict[int, float] = {event["step"]: event["seconds"] for event in events if event["event"] == "step"}
    points, before_decay = [], []
    for event in events:
        if event["event"] == "validation" and MAIN.validation_key in event:
            time = seconds.get(event["step"]) or _interpolated(event["step"], seconds)
            if time:
                points.append((time, event[MAIN.validation_key]))
                before_decay += points[-1:] if event["step"] <= begin_of_decay else []
    if not points:
        return None
    lifted = _gain_of_last_doubling(points)
    if early := _early_multiples(points[-1][1]):
        return early.times(lifted) if lifted else None
    considered = [point for point in before_decay if point[0] >= CONSIDERED * before_decay[-1][0]]
    times = np.log2([time for time, _ in considered])
    # Validations may also follow each other at once.
    if len(considered) < FEWEST_VALIDATIONS or times.std() < LEAST_SPREAD:
        return None if lifted is None else LIFTED.times(lifted)
    scores = np.array([score for _, score in considered])
    spread = float(times.std())
    slope = float(np.mean((times - times.mean()) * (scores - scores.mean()))) / spread**2
    residuals = scores - scores.mean() - slope * (times - times.mean())
    uncertainty = float(residuals.std()) / spread / math.sqrt(len(considered))
    return USUAL.times(max(0.0, slope), noise=2 * uncertainty)


def _gain_of_last_doubling(points: Sequence[tuple[float, float]]) -> float | None:
    """Points that the last doubling of the time brought, the decay included; None if there is no validation before."""
    end, score = points[-1]
    earlier = [point for point in points if end >= FURTHER * point[0]]
    if not earlier:
        return None
    if end >= 2 * points[0][0]:
        times, scores = zip(*points, strict=True)
        return max(0.0, score - float(np.interp(end / 2, times, scores)))
    time, before = earlier[-1]
    return max(0.0, score - before) / math.log2(end / time)


def gain_of_pairs(points: Sequence[CurvePoint]) -> Gain:
    """What twice the pairs would bring, from models of a quarter, a half and all of them.

    As with minutes, models with low scores still learn ever faster.
    """
    quarter, half, whole = points
    last = max(0.0, whole.score - half.score)
    noise = math.hypot(whole.noise, half.noise)
    if last and (early := _early_multiples(whole.score)):
        return early.times(last, noise=noise)
    before = max(0.0, half.score - quarter.score)
    # Where gains shrink from one doubling to the next, they go on to do so.
    ratio = min(1.0, last / before) if before else 1.0
    gain = USUAL.times(last, noise=noise)
    return Gain(gain.expected * max(0.5, ratio), gain.low * max(0.5, ratio), gain.high)


def usual_gain_of_pairs(pairs: int) -> float | None:
    """What twice the pairs brought in a corpus that was measured; None where nothing comparable was."""
    if pairs > BEYOND or pairs < MEASURED[0][0]:
        return None
    return [gain for fewest, gain in MEASURED if pairs >= fewest][-1]


def curve_sentence(points: Sequence[CurvePoint]) -> str:
    """What a learning curve shows, in words."""
    scores = ", ".join(f"{MAIN.write(point.score)} with {point.pairs:,} pairs" for point in points)
    return (
        f"{MAIN.label} is {scores}; twice the pairs, of the same kind, and twice the minutes would bring some "
        f"{gain_of_pairs(points)}."
    )


def outlook(events: Sequence[dict[str, Any]], pairs: int, score: float, *, is_new: bool = True) -> list[str]:
    """Sentences on what would help a run with a main score: more minutes, and more pairs. Empty if nothing tells.

    Of a model that `is_new`, and goes on from no other, a learning curve can be made.
    """
    sentences = []
    gain = gain_of_minutes(events)
    if gain:
        gain = gain.within(HIGHEST - score)
        minutes = max(event["seconds"] for event in events if event["event"] == "step") / 60
        how_long = f"{2 * minutes:.2g} minutes of training instead of {minutes:.2g}"
        if gain.high < LITTLE:
            sentences.append(f"{how_long} would bring next to nothing, as this run's own curve goes on.")
        else:
            sentences.append(f"{how_long} would bring some {gain}, as this run's own curve goes on.")
    usual = usual_gain_of_pairs(pairs)
    if usual and score <= HIGHEST_MEASURED:
        sentences.append(
            f"Twice the pairs, of the same kind, would bring some {usual:.0f} {MAIN.label} if it is as with the "
            f"captions of Multi30k{'; --learning-curve measures it with yours' if is_new else ''}."
        )
    return sentences


def point_of(share: float, pairs: int, evaluation: Evaluation) -> CurvePoint:
    """The point of a learning curve that an evaluation gives."""
    score = evaluation.scores[MAIN.name]
    return CurvePoint(share, pairs, score.value, score.interval)


def _early_multiples(score: float) -> Multiples | None:
    """The multiples for a model that still learns ever faster; None if its score is too high for that."""
    return next((multiples for highest, multiples in EARLY if score < highest), None)


def _interpolated(step: int, seconds: dict[int, float]) -> float | None:
    """The time of a step that has no event, between those that have one."""
    if not seconds:
        return None
    steps = sorted(seconds)
    return float(np.interp(step, steps, [seconds[known] for known in steps]))
