"""The pairs of a part in numbered blocks, and where in the files of a user each of them stands."""

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
    """How often something was seen, and where first: the numbers of pairs, or places."""

    count: int = 0
    examples: list[Any] = field(default_factory=list)

    def add(self, example: Any) -> None:
        """Seen once more."""
        self.count += 1
        if self.count <= NUM_EXAMPLES:
            self.examples.append(example)


class Place(NamedTuple):
    """Where an entry of a corpus is."""

    files: tuple[str, ...]
    """One, or two of which it is the same line."""
    unit: str
    """What the number counts: lines, rows or pairs."""
    number: int

    @property
    def name(self) -> str:
        """Without the files."""
        return f"{self.unit} {self.number:,}"


@dataclass(frozen=True)
class Block:
    """Some pairs of a corpus, one after the other, as training sees them: NFC, stripped."""

    start: int
    """Number of the first pair, from 1 and through all corpora of a part."""
    sources: list[str]
    targets: list[str]
    corpus: int = 0
    """The how-manieth it is, from 0."""

    def numbered(self) -> Iterator[tuple[int, str, str]]:
        """Number, source and target of each pair."""
        return zip(range(self.start, self.start + len(self.sources)), self.sources, self.targets, strict=True)


class Places:
    """Where the pairs are; remembers only where lines go on in another way than one by one."""

    def __init__(self) -> None:
        self.skipped: dict[str, Tally] = {}
        """Entries that are no pairs, by reason."""
        self._corpora: list[Bitext] = []
        self._starts: list[int] = []
        """Number of the first pair of each corpus."""
        # From which pair on lines are by how much ahead of numbers.
        self._changes, self._ahead = array("q", [0]), array("q", [0])

    def __getitem__(self, number: int) -> Place:
        line = number + self._ahead[bisect_right(self._changes, number) - 1]
        return self._place(bisect_right(self._starts, number) - 1, line)

    def blocks(self, corpora: Iterable[Bitext]) -> Iterator[Block]:
        """All pairs of one pass, and no block with pairs of two corpora."""
        start = 1
        for index, corpus in enumerate(corpora):
            self._corpora.append(corpus)
            self._starts.append(start)
            sources, targets = [], []
            for line, entry in corpus.entries():
                if isinstance(entry, Skipped):
                    self.skipped.setdefault(entry.reason, Tally()).add(self._place(index, line))
                    continue
                self._remember(start + len(sources), line)
                sources.append(normalised(entry[0]))
                targets.append(normalised(entry[1]))
                if len(sources) == PAIRS_PER_BLOCK:
                    yield Block(start, sources, targets, index)
                    start += len(sources)
                    sources, targets = [], []
            if sources:
                yield Block(start, sources, targets, index)
                start += len(sources)

    def _place(self, corpus: int, line: int) -> Place:
        return Place(self._corpora[corpus].files, self._corpora[corpus].unit, line)

    def _remember(self, number: int, line: int) -> None:
        if line - number != self._ahead[-1]:
            self._changes.append(number)
            self._ahead.append(line - number)
