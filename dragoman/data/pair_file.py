"""Cleaned pairs in a file, written in one pass over the corpora, on all cores; all that comes after reads this file.

A line has a hash by which pairs are held out, one by which tokenizers choose their sample, and as JSON both sides and
how often the pair occurs in an epoch.
"""

import json
import weakref
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, NamedTuple

from dragoman.config.run import RunConfig
from dragoman.data.bitext import Bitext, CleanedBitext, open_held_out
from dragoman.data.filtering import CleaningReport, Seen
from dragoman.data.readers.types import Pair
from dragoman.data.text import cut_label, expected_tokens, split_key, text_hash, without_label
from dragoman.system.processes import map_on_cores

HASH = 16
"""Digits of a hash."""
BLOCK = 1 << 20
"""Bytes that are read at a time, and handed to a process as one piece of work."""


class Counts(NamedTuple):
    """What was counted while the pairs were written."""

    pairs: int
    tokens: float
    """About how many both sides have."""
    distinct: int
    """Source sentences, or pairs if those are held out, where the config holds out a share of them; else 0."""
    labels: tuple[str, ...] = ()
    """Those of sources, in the order of the corpora."""


class PairFile(Bitext):
    """Cleaned pairs of a file, each as often as it occurs in an epoch; `report` tells how they were cleaned."""

    def __init__(self, file: IO[bytes], origin: Bitext, report: CleaningReport, counts: Counts) -> None:
        languages = origin.source_language, origin.target_language
        super().__init__(lambda: repeated(map(parsed, self.lines())), name=origin.name, languages=languages)
        self.report, self.counts, self._file = report, counts, file
        self.held_out: frozenset[str] = frozenset()
        self._whole: PairFile | None = None

    def without(self, held_out: frozenset[str]) -> "PairFile":
        """The same without the pairs that have one of these hashes."""
        rest = PairFile(self._file, self, self.report, self.counts)
        rest.held_out, rest._whole = held_out, self  # whose end is that of the file
        return rest

    def blocks(self) -> Iterator[str]:
        """The lines of the file, held out or not, many at a time."""
        position = 0
        while True:
            self._file.seek(position)  # as others may have read meanwhile
            block = self._file.read(BLOCK) + self._file.readline()
            if not block:
                return
            position += len(block)
            yield block.decode("ascii")

    def lines(self) -> Iterator[str]:
        """The lines that are not held out."""
        return (line for block in self.blocks() for line in lines_of(block, self.held_out))

    def hashed(self) -> Iterator[tuple[str, str]]:
        """The hash by which a pair is held out, and its line."""
        return ((line[:HASH], line) for line in self.lines())

    def sample(self, most: int) -> Bitext:
        """About so many of the pairs at most, in memory, without labels; which ones follows from their text, not from
        their order."""
        part = most / max(1, self.report.weighted)
        # The same number from 0 to 1 as `text.share` gives.
        lines = [line for line in self.lines() if int(line[HASH : 2 * HASH], 16) / 2**64 < part]
        pairs = partial(map, lambda pair: (without_label(pair[0]), pair[1]))
        return Bitext(lambda: pairs(repeated(map(parsed, lines))), name=self.name)

    def only(self, lines: Iterable[str], near: Path) -> "PairFile":
        """The same with these of its lines alone, in another file on the disk of the folder `near`."""
        with ExitStack() as opened:
            file = opened.enter_context(TemporaryFile(dir=near))
            file.writelines(f"{line}\n".encode("ascii") for line in lines)
            rest = PairFile(file, self, self.report, self.counts)
            weakref.finalize(rest, opened.pop_all().close)
        return rest

    def close(self) -> None:
        """Give up the file."""
        self._file.close()


def write_pairs(bitext: CleanedBitext, config: RunConfig, *, near: Path) -> PairFile:
    """Clean the corpora, less what the config holds out of them, into a file without a name on the disk of `near`."""
    given = open_held_out(config.data, bitext.languages, labelled=bitext.labelled)
    if given:
        bitext = bitext.cleaned(held_out=[part.cleaned() for part in given.values()])
    seen, shares = Seen(), min(config.data.held_out or [1]) < 1
    pairs, distinct, tokens = 0, 0, 0.0
    labels: dict[str, None] = {}
    describe = partial(_described, by=config.data.split, seed=config.seed)
    with ExitStack() as opened:
        folder = next(each for each in (near, *near.absolute().parents) if each.is_dir())
        file = opened.enter_context(TemporaryFile(dir=folder))
        for line, expected, found in bitext.described(describe, map_on_cores):
            file.write(line)
            labels.setdefault(found)
            pairs, tokens = pairs + 1, tokens + expected
            distinct += shares and seen.add(hash(line[:HASH]))
        written = PairFile(file, bitext, bitext.report, Counts(pairs, tokens, distinct, (*filter(None, labels),)))
        weakref.finalize(written, opened.pop_all().close)
    return written


def _described(pair: Pair, copies: int, *, by: str, seed: int) -> tuple[bytes, float, str]:
    """The line of a pair, about how many tokens it has, and its label."""
    hashes = text_hash(split_key(pair, by), str(seed).encode()).hex() + text_hash("\t".join(pair), b"tokenizer").hex()
    line = f"{hashes}{json.dumps([*pair, copies])}\n".encode("ascii")
    found, source = cut_label(pair[0])
    return line, expected_tokens(source) + expected_tokens(pair[1]), found


def lines_of(block: str, held_out: frozenset[str]) -> list[str]:
    """The lines of a block that are not held out."""
    lines = block.split("\n")
    lines.pop()  # what follows the last one
    return [line for line in lines if line[:HASH] not in held_out] if held_out else lines


def parsed(line: str) -> tuple[Pair, int]:
    """The pair of a line, and how often it occurs in an epoch."""
    source, target, copies = json.loads(line[2 * HASH :])
    return (source, target), copies


def repeated(counted: Iterable[tuple[Pair, int]]) -> Iterator[Pair]:
    """Each pair as often as it occurs in an epoch, copies side by side."""
    return (pair for pair, copies in counted for _ in range(copies))
