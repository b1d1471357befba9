"""Finds held-out pairs that are nearly the same as a pair to train on."""

from collections.abc import Iterable, Iterator, Sequence

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

    @staticmethod
    def twins(checks: "Sequence[TwinCheck]", train: Iterable[Pair]) -> Iterator[Finding]:
        """The held-out pairs of all parts that have a twin among the pairs `train`, which are read once."""
        held_out = [pair for check in checks for pair in check._pairs]
        if not held_out:
            return
        twins, first = set(find_twins(held_out, train).indices()), 0
        for check in checks:
            numbers = [number for index, number in enumerate(check._numbers, start=first) if index in twins]
            first += len(check._numbers)
            if numbers:
                yield check.result.finding("twins", Tally.of(numbers), len(check._pairs))
