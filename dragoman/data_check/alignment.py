"""Checks whether line N of one side translates line N of the other, by lengths, numbers, names and punctuation.

No words are understood, so single pairs cannot be judged. But where the sides are out of step by some lines, hundreds
of pairs in a row fit better at that distance. A cumulative sum of these gains shows where that begins and ends.
"""

import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

import numpy as np

from dragoman.data_check.locations import Block, Tally
from dragoman.data_check.result import Check, Finding, PartResult
from dragoman.engine.shapes import Float, Int64, UInt64

MAX_DISTANCE = 5
"""Largest distance, in lines, at which the sides are compared, in both directions."""
VARIANCE = 6.8
"""Variance of the target length per source character: Gale and Church (1993), "A Program for Aligning Sentences"."""
MAX_LENGTH_COST = 4.0
"""Largest cost of a difference in length: translations can be free."""
SHARED_NAME, OTHER_PUNCTUATION = 1.5, 0.7
"""Gain of a shared number or name, and cost of punctuation that only one side has, as logarithms of odds."""
ALLOWANCE = 0.02
"""Subtracted from each gain, so that nothing adds up where two distances fit equally well."""
CERTAIN = 30.0
"""A sum of gains that chance does not reach: in 817 corpora that are aligned, the highest was 13."""
STANDARD_ERRORS = 6.0
"""The sum must also exceed this many standard errors of a random walk with as many steps, for text where no distance
fits."""
BLURRED = 20
"""Lines by which the ends of a stretch may be wrong: single pairs are uncertain, the first and last not compared."""
FEWEST = 500
"""Pairs below which the sides are never called unrelated."""

_MARKS = {mark: bit for bit, marks in enumerate(("?？؟", "!！", '"“”„«»「」', "(（", ":：")) for mark in marks}
_MARK_BITS = 8
ANCHOR = re.compile(rf"\d+|\b[A-ZÀ-ÖØ-ÞΑ-ΩА-Я][^\W\d_]{{2,}}|[{re.escape(''.join(_MARKS))}]")


def signature(text: str) -> int:
    """64 bits that say which punctuation a text has, and which hashes its numbers and capitalised words have."""
    bits = 0
    for anchor in ANCHOR.findall(text):
        bit = _MARKS.get(anchor)
        if bit is None:
            # Names are inflected and spelled differently: Moskau, Moscou.
            name = str(int(anchor[:18])) if anchor.isdecimal() else anchor.casefold()[:4]
            bit = _MARK_BITS + zlib.crc32(name.encode()) % (64 - _MARK_BITS)
        bits |= 1 << bit
    return bits


class Features:
    """Lengths and signatures of consecutive pairs: row 0 for the sources, row 1 for the targets."""

    def __init__(self, pairs: Block) -> None:
        _, sources, targets = zip(*pairs, strict=True)
        sides = sources, targets
        self.lengths: Float[np.ndarray, "2 lines"] = np.array([list(map(len, side)) for side in sides], np.float64)
        self.signatures: UInt64[np.ndarray, "2 lines"] = np.array(
            [list(map(signature, side)) for side in sides], np.uint64
        )

    def fit(
        self, sources: Int64[np.ndarray, " n"], targets: Int64[np.ndarray, " n"], *, ratio: float
    ) -> Float[np.ndarray, " n"]:
        """Scores of how well the sources and targets with these indices fit each other.

        `ratio` is the ratio of target to source lengths.
        """
        source_lengths, target_lengths = self.lengths[0, sources], self.lengths[1, targets] / ratio
        # Half of delta squared, with the mean length.
        costs = (source_lengths - target_lengths) ** 2 / (VARIANCE * (source_lengths + target_lengths + 1))
        source_bits, target_bits = self.signatures[0, sources], self.signatures[1, targets]
        marks = np.uint64((1 << _MARK_BITS) - 1)
        shared = np.bitwise_count(source_bits & target_bits & ~marks)
        different = np.bitwise_count((source_bits ^ target_bits) & marks)
        return SHARED_NAME * shared - OTHER_PUNCTUATION * different - np.minimum(costs, MAX_LENGTH_COST)


@dataclass
class Stretch:
    """Lines whose targets fit better at a distance, found by the cumulative sum of gains (CUSUM)."""

    distance: int
    gain: float = 0.0
    """The sum so far."""
    start: int = 1
    """Number of the pair from which on it is summed up."""
    best_gain: float = 0.0
    """The highest sum so far, which is that from `first` to `last`."""
    first: int = 0
    last: int = 0
    steps: int = 0
    """Number of all gains."""
    squares: float = 0.0
    """Sum of the squares of all gains."""

    def add(self, gains: Float[np.ndarray, " n"], number: int) -> None:
        """Add the gains of consecutive pairs, the first of which is `number`. The sum never falls below 0."""
        self.steps += len(gains)
        self.squares += float(gains @ gains)
        for last, gain in enumerate(gains.tolist(), number):
            self.gain += gain
            if self.gain < 0:
                self.gain = 0.0
                self.start = last + 1
            elif self.gain > self.best_gain:
                self.best_gain = self.gain
                self.first, self.last = self.start, last

    @property
    def certain(self) -> bool:
        """Whether these lines are out of step beyond doubt."""
        standard_error = (self.squares / max(1, self.steps) * (self.last - self.first + 1)) ** 0.5
        return self.best_gain > max(CERTAIN, STANDARD_ERRORS * standard_error)

    def overlaps(self, other: Self) -> bool:
        """Whether both have pairs in common."""
        return self.first <= other.last and other.first <= self.last


class AlignmentCheck(Check):
    """Compares each source with the targets of the lines around it."""

    def __init__(self, result: PartResult):
        super().__init__(result)
        self.stretches = [Stretch(distance) for distance in range(-MAX_DISTANCE, MAX_DISTANCE + 1) if distance]
        self._carried: Block = []
        # Characters of all sources and of all targets.
        self._lengths = np.ones(2)
        # Gains of pairs over pairs of lines at random: their number, sum and sum of squares.
        self._gains = np.zeros(3)

    def add(self, block: Block) -> None:
        pairs = self._carried + block
        self._carried = pairs[-2 * MAX_DISTANCE :]
        features, start = Features(pairs), pairs[0].number
        self._lengths += features.lengths[:, -len(block) :].sum(axis=1)
        lines = np.arange(MAX_DISTANCE, len(pairs) - MAX_DISTANCE)
        if not len(lines):
            return
        ratio = float(self._lengths[1] / self._lengths[0])
        aligned = features.fit(lines, lines, ratio=ratio)
        for stretch in self.stretches:
            gains = features.fit(lines, lines + stretch.distance, ratio=ratio) - aligned
            stretch.add(gains - ALLOWANCE, start + MAX_DISTANCE)
        gains = aligned - features.fit(lines, np.random.default_rng(start).permutation(lines), ratio=ratio)
        self._gains += (len(gains), gains.sum(), (gains**2).sum())

    def findings(self) -> Iterator[Finding]:
        """Stretches that are out of step, or sides that do not belong together."""
        stretches: list[Stretch] = []
        for stretch in sorted(self.stretches, key=lambda stretch: -stretch.best_gain):
            if stretch.certain and not any(map(stretch.overlaps, stretches)):
                stretches.append(stretch)
        for stretch in sorted(stretches, key=lambda stretch: stretch.first):
            yield self._out_of_step(stretch)
        if not stretches and self._gains[0] >= FEWEST and self.certainty < 3:
            yield self.result.finding("unrelated", Tally(self.result.pairs, [1]), self.result.pairs)

    @property
    def certainty(self) -> float:
        """Standard errors by which pairs fit better than lines at random."""
        count, total, squares = self._gains.tolist()
        return total / max(1e-9, squares - total**2 / count) ** 0.5

    def _out_of_step(self, stretch: Stretch) -> Finding:
        pairs, locations = self.result.pairs, self.result.locations
        first = 1 if stretch.first <= BLURRED else stretch.first
        last = pairs if stretch.last > pairs - BLURRED else stretch.last
        begin, end = locations[first], locations[last]
        if last == pairs:
            end_name = "the end"
        elif end.files == begin.files:
            end_name = end.name
        else:
            end_name = f"{end.name} of {' and '.join(end.files)}"
        count, is_later = abs(stretch.distance), stretch.distance > 0
        distance = f"{count} pair{'s' * (count > 1)} {'later' if is_later else 'earlier'}"
        # If a target comes later than its source, there is a target too many, or a source is missing.
        extra, missing = ("target", "source") if is_later else ("source", "target")
        words = {"begin": begin.name, "end": end_name, "distance": distance, "extra": extra, "missing": missing}
        return self.result.finding("misaligned", Tally(last - first + 1, [first]), pairs, words)
