"""Whether line N of one side translates line N of the other: by lengths, numbers, names and punctuation.

No words are understood, so single pairs cannot be judged. But where the sides are out of step by some lines, hundreds
of pairs in a row fit better at that distance: a cumulative sum of how much better tells where that begins and ends.
"""

import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
from jaxtyping import Float, Int64, UInt64

from dragoman.data.check.places import Block, Tally
from dragoman.data.check.report import Finding, PartReport

FARTHEST = 5
"""Lines out of step that are looked for, in both directions."""
VARIANCE = 6.8
"""Of the target length for each source character: Gale and Church (1993), "A Program for Aligning Sentences"."""
WORST_LENGTHS = 4.0
"""No pair of lengths counts for more: translations can be free."""
SHARED_NAME, OTHER_PUNCTUATION = 1.5, 0.7
"""What a shared number or name, and punctuation that only one side has, are worth, as logarithms of odds."""
ALLOWANCE = 0.02
"""Taken off each gain, so that nothing adds up where two distances fit equally well."""
CERTAIN = 30.0
"""A sum of gains that chance does not reach: in 817 corpora that are aligned, the highest was 13."""
STANDARD_ERRORS = 6.0
"""By which the sum must also exceed what a random walk of as many steps would, where no distance fits."""
BLURRED = 20
"""Lines by which the ends of a stretch may be off: single pairs are uncertain, and the first and last not compared."""
FEWEST = 500
"""Pairs below which nothing is said on whether the sides belong together at all."""

_MARKS = {mark: bit for bit, marks in enumerate(("?？؟", "!！", '"“”„«»「」', "(（", ":：")) for mark in marks}
_MARK_BITS = 8
ANCHOR = re.compile(rf"\d+|\b[A-ZÀ-ÖØ-ÞΑ-ΩА-Я][^\W\d_]{{2,}}|[{re.escape(''.join(_MARKS))}]")


def signature(text: str) -> int:
    """64 bits: which punctuation a text has, and hashes of its numbers and capitalised words."""
    bits = 0
    for anchor in ANCHOR.findall(text):
        place = _MARKS.get(anchor)
        if place is None:
            # Names are inflected and spelled after the language: Moskau, Moscou.
            name = str(int(anchor[:18])) if anchor.isdecimal() else anchor.casefold()[:4]
            place = _MARK_BITS + zlib.crc32(name.encode()) % (64 - _MARK_BITS)
        bits |= 1 << place
    return bits


class Features(NamedTuple):
    """What is compared of consecutive pairs."""

    source_lengths: Float[np.ndarray, " lines"]
    target_lengths: Float[np.ndarray, " lines"]
    source_signatures: UInt64[np.ndarray, " lines"]
    target_signatures: UInt64[np.ndarray, " lines"]

    @classmethod
    def of(cls, block: Block) -> Self:
        """The features of a block."""
        sides = (block.sources, block.targets)
        lengths = [np.array([len(text) for text in side], np.float64) for side in sides]
        return cls(*lengths, *(np.array([signature(text) for text in side], np.uint64) for side in sides))

    def followed_by(self, other: Self) -> Self:
        """Both, one after the other."""
        return type(self)(*map(np.concatenate, zip(self, other, strict=True)))

    def fit(
        self, sources: Int64[np.ndarray, " n"], targets: Int64[np.ndarray, " n"], *, ratio: float
    ) -> Float[np.ndarray, " n"]:
        """How well those sources and targets go together; `ratio` is of target to source lengths."""
        own, others = self.source_lengths[sources], self.target_lengths[targets] / ratio
        lengths = (own - others) ** 2 / (VARIANCE * (own + others + 1))  # half of delta squared, with the mean length
        own_bits, other_bits = self.source_signatures[sources], self.target_signatures[targets]
        marks = np.uint64((1 << _MARK_BITS) - 1)
        shared = np.bitwise_count(own_bits & other_bits & ~marks)
        different = np.bitwise_count((own_bits ^ other_bits) & marks)
        return SHARED_NAME * shared - OTHER_PUNCTUATION * different - np.minimum(lengths, WORST_LENGTHS)


@dataclass
class Stretch:
    """Where targets fit better at a distance, the cumulative sum of gains, and its highest point so far."""

    distance: int
    gain: float = 0.0
    start: int = 1
    best_gain: float = 0.0
    first: int = 0
    last: int = 0
    steps: int = 0
    squares: float = 0.0

    def add(self, gains: Float[np.ndarray, " n"], number: int) -> None:
        """Go on with consecutive pairs, of which `number` is the first. The sum never falls below 0 (CUSUM)."""
        self.steps += len(gains)
        self.squares += float(gains @ gains)
        sums = np.cumsum(gains)
        lowest = np.minimum.accumulate(np.minimum(sums, 0.0))
        heights = sums + np.maximum(self.gain, -lowest)

        def start_of(place: int) -> int:
            low = int(np.argmin(sums[: place + 1]))
            return number + low + 1 if -sums[low] > self.gain else self.start

        top = int(np.argmax(heights))
        if heights[top] > self.best_gain:
            self.best_gain, self.first, self.last = float(heights[top]), start_of(top), number + top
        self.gain, self.start = float(heights[-1]), start_of(len(gains) - 1)

    @property
    def certain(self) -> bool:
        """Whether it is out of step beyond doubt."""
        walk = (self.squares / max(1, self.steps) * (self.last - self.first + 1)) ** 0.5
        return self.best_gain > max(CERTAIN, STANDARD_ERRORS * walk)

    def overlaps(self, other: Self) -> bool:
        """Whether both have pairs in common."""
        return self.first <= other.last and other.first <= self.last


class Alignment:
    """Compares each source with the targets of the lines around it."""

    def __init__(self, report: PartReport):
        self.report = report
        self.stretches = [Stretch(distance) for distance in range(-FARTHEST, FARTHEST + 1) if distance]
        self._carried: Features | None = None
        self._carried_start = 1
        self._sums = [1.0, 1.0]
        # Gains of a pair over a pair of lines at random: their number, sum and sum of squares.
        self._count, self._sum, self._squares = 0, 0.0, 0.0

    def add(self, block: Block) -> None:
        """Compare the lines of a block."""
        new = Features.of(block)
        features = new if self._carried is None else self._carried.followed_by(new)
        start = block.start if self._carried is None else self._carried_start
        self._sums[0] += float(new.source_lengths.sum())
        self._sums[1] += float(new.target_lengths.sum())
        self._compare(features, start, self._sums[1] / self._sums[0])
        self._carried = type(features)(*(each[-2 * FARTHEST :] for each in features))
        self._carried_start = start + len(features.source_lengths) - len(self._carried.source_lengths)

    def _compare(self, features: Features, start: int, ratio: float) -> None:
        lines = np.arange(FARTHEST, len(features.source_lengths) - FARTHEST)
        if not len(lines):
            return
        aligned = features.fit(lines, lines, ratio=ratio)
        for stretch in self.stretches:
            gains = features.fit(lines, lines + stretch.distance, ratio=ratio) - aligned
            stretch.add(gains - ALLOWANCE, start + FARTHEST)
        elsewhere = np.random.default_rng(start).permutation(lines)
        gains = aligned - features.fit(lines, elsewhere, ratio=ratio)
        self._count += len(gains)
        self._sum += float(gains.sum())
        self._squares += float((gains**2).sum())

    def findings(self) -> Iterator[Finding]:
        """Stretches that are out of step; or sides that do not belong together."""
        found: list[Stretch] = []
        for stretch in sorted(self.stretches, key=lambda each: -each.best_gain):
            if stretch.certain and not any(map(stretch.overlaps, found)):
                found.append(stretch)
        for stretch in sorted(found, key=lambda each: each.first):
            yield self._out_of_step(stretch)
        if not found and self._count >= FEWEST and self.certainty < 3:
            tally, advice = Tally(self.report.pairs, [1]), "see whether both sides are of one text, in the same order"
            what = "pairs whose sides fit no better than lines taken at random"
            yield self.report.finding("unrelated", "problem", what, tally, self.report.pairs, advice)

    @property
    def certainty(self) -> float:
        """Standard errors by which pairs fit better than lines at random."""
        mean = self._sum / max(1, self._count)
        variance = self._squares / max(1, self._count) - mean**2
        return mean / max(1e-9, (variance / max(1, self._count)) ** 0.5)

    def _out_of_step(self, stretch: Stretch) -> Finding:
        first = 1 if stretch.first <= BLURRED else stretch.first
        last = self.report.pairs if stretch.last > self.report.pairs - BLURRED else stretch.last
        distance = abs(stretch.distance)
        where = f"{distance} pair{'s' * (distance > 1)} {'later' if stretch.distance > 0 else 'earlier'}"
        begin, end = (self.report.places[number] for number in (first, last))
        until = (
            "the end"
            if last == self.report.pairs
            else end.name + (f" of {' and '.join(end.files)}" if end.files != begin.files else "")
        )
        what = f"pairs out of step, from about {begin.name} to {until}, their targets {where}"
        # A target that comes later than its source: there is a target too many, or a source is missing.
        more, less = ("target", "source") if stretch.distance > 0 else ("source", "target")
        advice = f"look around {begin.name} for a {more} too many or a {less} missing"
        tally = Tally(last - first + 1, [first])
        return self.report.finding("misaligned", "problem", what, tally, self.report.pairs, advice)
