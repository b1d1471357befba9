"""The pairs of a part in numbered blocks, and the file and line of each pair."""

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from dragoman.data.bitext import Bitext
from dragoman.data.readers.types import Skipped
from dragoman.data.text import normalised

PAIRS_PER_BLOCK = 8_192
NUM_EXAMPLES = 3


@dataclass
class Tally:
    """How often something occurs, and its first examples: numbers of pairs, or locations."""

    count: int = 0
    examples: list[Any] = field(default_factory=list)

    def add(self, example: Any) -> None:
        """Count one more."""
        self.count += 1
        if self.count <= NUM_EXAMPLES:
            self.examples.append(example)


class Location(NamedTuple):
    """Where an entry of a corpus is."""

    files: tuple[str, ...]
    """One, or two of which it is the same line."""
    unit: str
    """What the number counts: lines, rows or pairs."""
    number: int

    @property
    def name(self) -> str:
        """Unit and number, without the files."""
        return f"{self.unit} {self.number:,}"


@dataclass(frozen=True)
class Block:
    """Consecutive pairs of one corpus, normalised as in training: NFC, stripped."""

    start: int
    """Number of the first pair, counted from 1 through all corpora of a part."""
    sources: list[str]
    targets: list[str]
    corpus: int = 0
    """Index of the corpus."""

    def numbered(self) -> Iterator[tuple[int, str, str]]:
        """(pair number, source, target) triples."""
        return zip(range(self.start, self.start + len(self.sources)), self.sources, self.targets, strict=True)


class Locations:
    """Maps pair numbers to locations. Stores only where line numbers do not rise one by one."""

    def __init__(self) -> None:
        self.skipped: dict[str, Tally] = {}
        """Entries that are no pairs, by reason."""
        self._corpora: list[Bitext] = []
        self._starts: list[int] = []
        """Number of the first pair of each corpus."""
        # From pair number _changes[i] on, lines are _offsets[i] ahead of pair numbers.
        self._changes, self._offsets = array("q", [0]), array("q", [0])

    def __getitem__(self, number: int) -> Location:
        line = number + self._offsets[bisect_right(self._changes, number) - 1]
        return self._location(bisect_right(self._starts, number) - 1, line)

    def blocks(self, corpora: Iterable[Bitext]) -> Iterator[Block]:
        """All pairs in one pass; no block has pairs of two corpora."""
        number = 1
        for index, corpus in enumerate(corpora):
            self._corpora.append(corpus)
            self._starts.append(number)
            block = Block(number, [], [], index)
            for line, entry in corpus.entries():
                if isinstance(entry, Skipped):
                    self.skipped.setdefault(entry.reason, Tally()).add(self._location(index, line))
                    continue
                if line - number != self._offsets[-1]:
                    self._changes.append(number)
                    self._offsets.append(line - number)
                block.sources.append(normalised(entry[0]))
                block.targets.append(normalised(entry[1]))
                number += 1
                if len(block.sources) == PAIRS_PER_BLOCK:
                    yield block
                    block = Block(number, [], [], index)
            if block.sources:
                yield block

    def _location(self, corpus: int, line: int) -> Location:
        return Location(self._corpora[corpus].files, self._corpora[corpus].unit, line)
