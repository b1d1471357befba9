"""Cleaned pairs in a file, written in one pass over the corpora, on all cores; all that comes after reads this file.

A line has a hash by which pairs are held out, one by which tokenizers choose their sample, and as JSON both sides and
the number of the corpus. How often its pairs occur in an epoch may follow from the sizes of all corpora.
"""

import json
import os
import weakref
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from operator import mul
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, NamedTuple

from dragoman.config.data import DataConfig
from dragoman.config.run import RunConfig
from dragoman.data.bitext import Bitext, CleanedBitext, copies, open_held_out
from dragoman.data.filtering import CleaningReport, Seen
from dragoman.data.journal import CleaningProgress, Journal
from dragoman.data.readers.types import Pair
from dragoman.system.processes import map_on_cores
from dragoman.text.characters import cut_label, expected_tokens, split_key, text_hash, without_label

HASH = 16
"""Digits of a hash."""
BLOCK = 1 << 20
"""Bytes that are read at a time, and handed to a process as one piece of work."""
JOURNAL_EVERY = 16
"""Blocks of entries, about half a million characters each, after which the journal is written."""


class Counts(NamedTuple):
    """What was counted while the pairs were written."""

    pairs: int
    tokens: float
    """About how many both sides have."""
    distinct: int
    """Source sentences, or pairs if those are held out, where the config holds out a share of them; else 0."""
    weights: list[float]
    """How often pairs of each corpus occur in an epoch."""
    labels: Sequence[str] = ()
    """Labels of the sources, in the order of the corpora."""

    def occurrences(self, data: DataConfig) -> dict[str, float]:
        """The same by the file of the corpus, if `data.temperature` says how often; else none."""
        names = [corpus.source for corpus in data.corpora] if data.temperature else []
        return dict(zip(names, self.weights, strict=False))


class PairFile(Bitext):
    """Cleaned pairs of a file, each as often as it occurs in an epoch; `report` tells how they were cleaned."""

    def __init__(self, file: IO[bytes], origin: Bitext, report: CleaningReport, counts: Counts) -> None:
        languages = origin.source_language, origin.target_language
        super().__init__(lambda: self.repeated(self.lines()), name=origin.name, languages=languages)
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
        return blocks_of(self._file)

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
        return Bitext(lambda: pairs(self.repeated(lines)), name=self.name)

    def repeated(self, lines: Iterable[str]) -> Iterator[Pair]:
        """The pairs of lines, each as often as it occurs in an epoch, copies side by side."""
        return (pair for pair, count in counted(lines, self.counts.weights) for _ in range(count))

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


def write_pairs(bitext: CleanedBitext, config: RunConfig, *, near: Path, journal: Journal | None = None) -> PairFile:
    """Clean the corpora, less what the config holds out of them, into a file without a name on the disk of `near`.

    With a `journal` it is the file of that one, and what it has already is not cleaned again.
    """
    progress = journal.read() if journal else CleaningProgress()
    with ExitStack() as opened:
        folder = next(each for each in (near, *near.absolute().parents) if each.is_dir())
        file = opened.enter_context(journal.open() if journal else TemporaryFile(dir=folder))  # noqa: SIM115
        file.truncate(progress.size)  # what was written after the journal
        if not progress.whole:
            _clean(bitext, config, file, progress, journal)
        weights, report = [corpus.weight for corpus in bitext.corpora], progress.report
        if config.data.temperature:
            weights = mixed(report.sizes, weights, config.data.temperature)
            report = replace(report, weighted=round(sum(map(mul, report.sizes, weights))))
        counts = Counts(sum(report.sizes), progress.tokens, progress.distinct, weights, progress.labels)
        written = PairFile(file, bitext, report, counts)
        weakref.finalize(written, opened.pop_all().close)
    return written


def _clean(
    bitext: CleanedBitext, config: RunConfig, file: IO[bytes], progress: CleaningProgress, journal: Journal | None
) -> None:
    """Write the lines of all pairs that are kept behind those that `progress` counts."""
    given = open_held_out(config.data, bitext.languages, labelled=bitext.labelled)
    if given:
        bitext = bitext.cleaned(held_out=[part.cleaned() for part in given.values()])
    seen, distinct, shares = Seen(), Seen(), min(config.data.held_out or [1]) < 1
    for block in blocks_of(file):
        lines, last = lines_of(block), len(progress.report.sizes) - 1
        seen.add(hash(pair) for pair, corpus in map(parsed, lines) if corpus == last)
        distinct.add(hash(line[:HASH]) for line in lines if shares)
    file.seek(0, os.SEEK_END)
    describe = partial(_described, by=config.data.split, seed=config.seed)
    done = {"blocks": progress.blocks, "seen": seen}
    for kept in bitext.kept_blocks(describe, progress.report, map_on_cores, **done):
        file.writelines(line for line, *_ in kept)
        progress.blocks += 1
        progress.tokens += sum(tokens for _, tokens, _ in kept)
        progress.distinct += sum(distinct.add(hash(line[:HASH].decode()) for line, *_ in kept if shares))
        found = dict.fromkeys(label for *_, label in kept if label)
        progress.labels += [label for label in found if label not in progress.labels]
        if journal and progress.blocks % JOURNAL_EVERY == 0:
            journal.write(file, progress)
    progress.whole = True
    if journal:
        journal.write(file, progress)


def mixed(sizes: list[int], weights: list[float], temperature: float) -> list[float]:
    """How often pairs of each corpus occur in an epoch in which shares are (weight * size)^(1/temperature).

    It is 1 for those that are repeated least, so that no pair is left out.
    """
    rates = [(weight * size) ** (1 / temperature) / max(1, size) for weight, size in zip(weights, sizes, strict=True)]
    least = min(filter(None, rates), default=1)
    return [rate / least for rate in rates]


def _described(pair: Pair, corpus: int, *, by: str, seed: int) -> tuple[bytes, float, str]:
    """The line of a pair, about how many tokens it has, and its label."""
    hashes = text_hash(split_key(pair, by), str(seed).encode()).hex() + text_hash("\t".join(pair), b"tokenizer").hex()
    line = f"{hashes}{json.dumps([*pair, corpus])}\n".encode("ascii")
    found, source = cut_label(pair[0])
    return line, expected_tokens(source) + expected_tokens(pair[1]), found


def blocks_of(file: IO[bytes]) -> Iterator[str]:
    """The lines of a file from its beginning, many at a time."""
    position = 0
    while True:
        file.seek(position)  # as others may have read meanwhile
        block = file.read(BLOCK) + file.readline()
        if not block:
            return
        position += len(block)
        yield block.decode("ascii")


def lines_of(block: str, held_out: frozenset[str] = frozenset()) -> list[str]:
    """The lines of a block that are not held out."""
    lines = block.split("\n")
    lines.pop()  # what follows the last one
    return [line for line in lines if line[:HASH] not in held_out] if held_out else lines


def parsed(line: str) -> tuple[Pair, int]:
    """The pair of a line, and the number of its corpus."""
    source, target, corpus = json.loads(line[2 * HASH :])
    return (source, target), corpus


def counted(lines: Iterable[str], weights: list[float]) -> Iterator[tuple[Pair, int]]:
    """The pairs of lines, and how often each occurs in an epoch by the weight of its corpus."""
    return ((pair, copies(pair, weights[corpus])) for pair, corpus in map(parsed, lines))
