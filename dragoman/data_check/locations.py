"""Reads the pairs of a part in numbered blocks, and remembers the file and line of each pair."""

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Any, NamedTuple, Self

from dragoman.data.bitext import Bitext
from dragoman.data.readers.types import Skipped
from dragoman.text.characters import normalised

PAIRS_PER_BLOCK = 8_192
NUM_EXAMPLES = 3


@dataclass
class Tally:
    """Number of occurrences, and the first ones as examples: numbers of pairs, or locations."""

    count: int = 0
    examples: list[Any] = field(default_factory=list)

    @classmethod
    def of(cls, examples: list[Any]) -> Self:
        """A tally of all occurrences."""
        return cls(len(examples), examples[:NUM_EXAMPLES])

    def add(self, example: Any) -> None:
        """Count one more."""
        self.count += 1
        if self.count <= NUM_EXAMPLES:
            self.examples.append(example)


class Location(NamedTuple):
    """File and line of an entry of a corpus."""

    files: tuple[str, ...]
    """One file, or two that have the entry on the same line."""
    unit: str
    """The thing that is numbered: line, row or pair."""
    number: int

    @property
    def name(self) -> str:
        """Unit and number, without the files."""
        return f"{self.unit} {self.number:,}"


class NumberedPair(NamedTuple):
    """A pair, normalised as in training: NFC, stripped."""

    number: int
    """Counts from 1 through all corpora of a part."""
    source: str
    target: str


Block = list[NumberedPair]
"""Consecutive pairs of one corpus."""


class Locations:
    """Maps pair numbers to locations, in 8 bytes a pair."""

    def __init__(self) -> None:
        self.skipped: dict[str, Tally] = {}
        """Entries that are no pairs, by reason."""
        self.starts: list[int] = []
        """Number of the first pair of each corpus."""
        self._corpora: list[Bitext] = []
        self._lines = array("q")

    def __getitem__(self, number: int) -> Location:
        corpus = self._corpora[bisect_right(self.starts, number) - 1]
        return Location(corpus.files, corpus.unit, self._lines[number - 1])

    def between(self, numbers: range) -> list[NumberedPair]:
        """The pairs with these consecutive numbers, read again."""
        pairs = islice(chain.from_iterable(self._corpora), numbers.start - 1, numbers.stop - 1)
        return [NumberedPair(number, *map(normalised, pair)) for number, pair in zip(numbers, pairs, strict=True)]

    def blocks(self, corpora: Iterable[Bitext]) -> Iterator[Block]:
        """All pairs in one pass."""
        for corpus in corpora:
            self._corpora.append(corpus)
            self.starts.append(len(self._lines) + 1)
            pairs = self._pairs(corpus)
            while block := list(islice(pairs, PAIRS_PER_BLOCK)):
                yield block

    def _pairs(self, corpus: Bitext) -> Iterator[NumberedPair]:
        for line, entry in corpus.entries():
            if isinstance(entry, Skipped):
                self.skipped.setdefault(entry.reason, Tally()).add(Location(corpus.files, corpus.unit, line))
            else:
                self._lines.append(line)
                yield NumberedPair(len(self._lines), normalised(entry[0]), normalised(entry[1]))
