"""Finds held-out pairs that are nearly the same as a pair to train on."""

from collections.abc import Iterable, Iterator

from dragoman.data.readers.types import Pair
from dragoman.data.twins import MOST_HELD_OUT, find_twins
from dragoman.data_check.locations import Block, Tally
from dragoman.data_check.result import Check, Finding, PartResult


class TwinCheck(Check):
    """Keeps the first pairs of a held-out part, to be compared with those to train on."""

    def __init__(self, result: PartResult):
        super().__init__(result)
        self._numbers: list[int] = []
        self._pairs: list[Pair] = []

    def add(self, block: Block) -> None:
        for number, source, target in block:
            if len(self._pairs) < MOST_HELD_OUT:
                self._numbers.append(number)
                self._pairs.append((source, target))

    def findings(self) -> Iterator[Finding]:
        yield from ()

    def twins(self, train: Iterable[Pair]) -> Iterator[Finding]:
        """The held-out pairs that have a twin among the pairs `train`, which are read once."""
        if self._pairs and (indices := find_twins(self._pairs, train).indices()):
            tally = Tally.of([self._numbers[index] for index in indices])
            yield self.result.finding("twins", tally, len(self._pairs))
