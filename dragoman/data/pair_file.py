"""Cleaned pairs in a file, written in one pass over the corpora, on all cores. All later steps read this file.

A line has a hash by which pairs are held out, one by which tokenizers choose their sample, and as JSON both sides and
the number of the corpus. It does not say how often the pair occurs in an epoch: with `data.temperature` that follows
from the sizes of all corpora, which are known at the end.
"""

import json
import os
import weakref
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from operator import mul
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any, NamedTuple

from dragoman.config.data import DataConfig
from dragoman.config.run import RunConfig
from dragoman.data.bitext import Bitext, CleanedBitext
from dragoman.data.blocks import copies
from dragoman.data.corpora import open_held_out
from dragoman.data.filtering import REPEATED, CleaningReport, Seen
from dragoman.data.journal import CleaningProgress, Journal
from dragoman.data.readers.types import Pair
from dragoman.errors import redacted
from dragoman.system.processes import map_on_cores
from dragoman.text.characters import cut_label, expected_tokens, split_key, text_hash, without_label
from dragoman.text.labels import languages_in
from dragoman.text.respelling import Respelling

HASH = 16
"""Hexadecimal digits of a hash."""
BLOCK = 1 << 20
"""Bytes that are read at a time, and handed to a process as one piece of work."""
JOURNAL_EVERY = 16
"""Blocks of entries, about half a million characters each, after which the journal is written."""

WrittenPair = tuple[bytes, float, str]
"""The line of a pair, an estimate of its tokens, and its label. A plain tuple, since millions of them are pickled."""


class Respelled(NamedTuple):
    """How the targets of a language were written in one spelling."""

    language: str
    """The target language, where sources have labels; else ""."""
    respelling: Respelling
    targets: int
    """Number of targets that changed."""
    tests_others: float
    """Share of the test pairs that the config names with targets in a spelling that was replaced."""

    def to_dict(self) -> dict[str, Any]:
        """The record as it is written in JSON."""
        return self._asdict() | {"respelling": str(self.respelling)}


class Counts(NamedTuple):
    """Numbers that were counted while the pairs were written."""

    pairs: int
    tokens: float
    """Estimate of the tokens of both sides."""
    distinct: int
    """Number of different source sentences, or of different pairs if these are held out instead.

    Counted only if the config holds out a share of them; else 0.
    """
    weights: list[float]
    """How often pairs of each corpus occur in an epoch."""
    labels: Sequence[str] = ()
    """Labels of the sources, in the order of the corpora."""
    respelled: Sequence["Respelled"] = ()
    """How targets were written in one spelling."""

    def occurrences(self, data: DataConfig) -> dict[str, float]:
        """The weights by the file of the corpus, if `data.temperature` decides on them; else an empty dict."""
        names = [redacted(corpus.source) for corpus in data.corpora] if data.temperature else []
        seen: Counter[str] = Counter()
        weights: dict[str, float] = {}
        for name, weight in zip(names, self.weights, strict=False):
            seen[name] += 1
            weights[f"{name} ({seen[name]})" if seen[name] > 1 else name] = weight
        return weights


class PairFile(Bitext):
    """Cleaned pairs of a file, each as often as it occurs in an epoch; `report` tells how they were cleaned."""

    def __init__(self, file: IO[bytes], origin: Bitext, report: CleaningReport, counts: Counts) -> None:
        languages = origin.source_language, origin.target_language
        super().__init__(lambda: self.repeated(self.lines()), name=origin.name, languages=languages)
        self.report = report
        self.counts = counts
        self.held_out: frozenset[str] = frozenset()
        """Hashes by which pairs in the file are held out."""
        self.left_out: frozenset[str] = frozenset()
        """Further pairs that are left out, as `pair_hash` gives them: they are near-duplicates of held-out ones."""
        self._file = file
        self._owner: PairFile | None = None
        """Pairs with the same file, which is closed when they are deleted."""

    @property
    def share(self) -> float:
        """Share of the pairs in the file that occur in an epoch at all, by weights below 1."""
        shares = (min(1, weight) for weight in self.counts.weights)
        return sum(map(mul, self.report.sizes, shares)) / max(1, self.counts.pairs)

    def in_same_spelling(self, pairs: Bitext) -> Bitext:
        """Other pairs, with targets in the spelling of those in the file."""
        respellings = {record.language: record.respelling for record in self.counts.respelled}
        return pairs.changed(partial(respell, respellings)) if respellings else pairs

    def without(self, held_out: frozenset[str], left_out: frozenset[str] = frozenset()) -> "PairFile":
        """The same without the pairs held out by these hashes, and without those whose `pair_hash` is in `left_out`."""
        rest = PairFile(self._file, self, self.report, self.counts)
        rest.held_out = held_out
        rest.left_out = left_out
        rest._owner = self
        return rest

    def blocks(self) -> Iterator[str]:
        """The lines of the file that are not left out, held out or not, many at a time."""
        for block in blocks_of(self._file):
            if self.left_out:
                kept = (line for line in lines_of(block) if line[HASH : 2 * HASH] not in self.left_out)
                yield "".join(f"{line}\n" for line in kept)
            else:
                yield block

    def lines(self) -> Iterator[str]:
        """The lines that are neither held out nor left out."""
        return (line for block in self.blocks() for line in lines_of(block, self.held_out))

    def hashed(self) -> Iterator[tuple[str, str]]:
        """The hash by which a pair is held out, and its line."""
        return ((line[:HASH], line) for line in self.lines())

    def sample(self, most: int) -> Bitext:
        """A sample of about `most` pairs, in memory and without labels; all of them if there are fewer.

        Which pairs it has follows from their text, not from their order.
        """
        share = most / max(1, self.report.weighted)
        lines = (line for line in self.lines() if _share(line) < share)
        kept = [(pair, count) for pair, count in with_counts(lines, self.counts.weights) if count]

        def pairs() -> Iterator[Pair]:
            for (source, target), count in kept:
                for _ in range(count):
                    yield without_label(source), target

        return Bitext(pairs, name=self.name)

    def drawn(self, most: int) -> Iterator[Pair]:
        """About `most` of the pairs of each corpus, or all, with labels and each once, whatever its weight."""
        shares = [most / max(1, size) for size in self.report.sizes]
        for line in self.lines():
            if _share(line) < max(shares):
                pair, corpus = parsed(line)
                if _share(line) < shares[corpus]:
                    yield pair

    def rewritten(self, change: Callable[[Pair], Pair], config: RunConfig, *, near: Path) -> "PairFile":
        """The pairs as `change` makes them, in another file on the disk of `near`.

        Pairs that repeat others then are left out, if the config leaves them out.
        """
        sizes = [0] * len(self.report.sizes)
        report = replace(self.report, dropped=Counter(self.report.dropped), sizes=sizes, weighted=0)
        seen: defaultdict[int, Seen] = defaultdict(Seen)

        def lines() -> Iterator[str]:
            for pair, corpus in map(parsed, self.lines()):
                new = change(pair)
                if config.data.cleaning.drop_repeated and not seen[corpus].add([hash(new)])[0]:
                    report.dropped[REPEATED] += 1
                    continue
                sizes[corpus] += 1
                report.weighted += copies(new, self.counts.weights[corpus])
                yield _written_pair(new, corpus, by=config.data.split, seed=config.seed)[0].decode("ascii").rstrip("\n")

        rest = self.only(lines(), _existing_folder(near))
        num_repeats = self.counts.pairs - sum(sizes)
        distinct = self.counts.distinct
        if config.data.split == "line":
            distinct = max(0, distinct - num_repeats)
        rest.report = report
        rest.counts = self.counts._replace(pairs=sum(sizes), distinct=distinct)
        return rest

    def repeated(self, lines: Iterable[str]) -> Iterator[Pair]:
        """The pairs of lines, each as often as it occurs in an epoch, copies side by side."""
        return (pair for pair, count in with_counts(lines, self.counts.weights) for _ in range(count))

    def only(self, lines: Iterable[str], near: Path) -> "PairFile":
        """The pairs of these lines alone, in another file on the disk of the folder `near`."""
        with ExitStack() as opened:
            file = opened.enter_context(TemporaryFile(dir=near))
            file.writelines(f"{line}\n".encode("ascii") for line in lines)
            rest = PairFile(file, self, self.report, self.counts)
            weakref.finalize(rest, opened.pop_all().close)
        return rest

    def close(self) -> None:
        """Close the file, which deletes it if it has no name."""
        self._file.close()


def write_pairs(bitext: CleanedBitext, config: RunConfig, *, near: Path, journal: Journal | None = None) -> PairFile:
    """Clean the corpora, less what the config holds out of them, into a file without a name on the disk of `near`.

    With a `journal`, the file is that of the journal, and blocks that are in it already are not cleaned again.
    """
    progress = journal.read() if journal else CleaningProgress()
    with ExitStack() as opened:
        file = opened.enter_context(journal.open() if journal else TemporaryFile(dir=_existing_folder(near)))  # noqa: SIM115
        file.truncate(progress.size)  # what was written after the journal
        if not progress.whole:
            _clean(bitext, config, file, progress, journal)
        report = progress.report
        weights = [corpus.weight for corpus in bitext.corpora]
        if config.data.temperature:
            weights = weights_at_temperature(config.data.temperature, report.sizes, weights)
            report = replace(report, weighted=round(sum(map(mul, report.sizes, weights))))
        counts = Counts(sum(report.sizes), progress.tokens, progress.distinct, weights, progress.labels)
        written = PairFile(file, bitext, report, counts)
        weakref.finalize(written, opened.pop_all().close)
    return written


def _existing_folder(path: Path) -> Path:
    """The folder itself, or the nearest one around it that exists already."""
    for folder in (path, *path.absolute().parents):
        if folder.is_dir():
            return folder
    raise FileNotFoundError(path)


def _clean(
    bitext: CleanedBitext, config: RunConfig, file: IO[bytes], progress: CleaningProgress, journal: Journal | None
) -> None:
    """Write the lines of all pairs that are kept, behind those that `progress` counts."""
    held_out = open_held_out(config.data, bitext.languages, labelled=bitext.has_labels)
    if held_out:
        bitext = bitext.cleaned(held_out=[part.cleaned() for part in held_out.values()])
    counts_distinct = min(config.data.held_out or [1]) < 1  # a share of the sentences is held out, not a number
    seen, distinct = Seen(), Seen()
    last_corpus = len(progress.report.sizes) - 1
    for block in blocks_of(file):
        lines = lines_of(block)
        seen.add(hash(pair) for pair, corpus in map(parsed, lines) if corpus == last_corpus)
        if counts_distinct:
            distinct.add(hash(line[:HASH]) for line in lines)
    file.seek(0, os.SEEK_END)
    describe = partial(_written_pair, by=config.data.split, seed=config.seed)
    for kept in bitext.kept_blocks(describe, progress.report, map_on_cores, finished_blocks=progress.blocks, seen=seen):
        file.writelines(line for line, _, _ in kept)
        progress.blocks += 1
        progress.tokens += sum(tokens for _, tokens, _ in kept)
        if counts_distinct:
            progress.distinct += sum(distinct.add(hash(line[:HASH].decode()) for line, _, _ in kept))
        for label in dict.fromkeys(label for _, _, label in kept):
            if label and label not in progress.labels:
                progress.labels.append(label)
        if journal and progress.blocks % JOURNAL_EVERY == 0:
            journal.write(file, progress)
    progress.whole = True
    if journal:
        journal.write(file, progress)


def _share(line: str) -> float:
    """The second hash of a line as a number from 0 to 1, as `text.characters.share` gives it."""
    return int(line[HASH : 2 * HASH], 16) / 2**64


def respell(respellings: Mapping[str, Respelling], pair: Pair) -> Pair:
    """A pair with its target in the spelling of its language, if that has one."""
    respelling = respellings.get(target_language(pair))
    return (pair[0], respelling(pair[1])) if respelling else pair


def target_language(pair: Pair) -> str:
    """The target language by the label of the source; "" without one."""
    label, _ = cut_label(pair[0])
    return languages_in(label)[1] if label else ""


def weights_at_temperature(temperature: float, sizes: list[int], weights: list[float]) -> list[float]:
    """How often pairs of each corpus occur in an epoch whose shares are (weight * size)^(1/temperature).

    It is 1 for those that are repeated least, so that no pair is left out.
    """
    rates = [(weight * size) ** (1 / temperature) / max(1, size) for weight, size in zip(weights, sizes, strict=True)]
    least = min(filter(None, rates), default=1)
    return [rate / least for rate in rates]


def _written_pair(pair: Pair, corpus: int, *, by: str, seed: int) -> WrittenPair:
    """A pair as it is written; `by` and `seed` decide on the hash by which it is held out."""
    line = f"{split_hash(pair, by, seed)}{pair_hash(pair)}{json.dumps([*pair, corpus])}\n".encode("ascii")
    label, source = cut_label(pair[0])
    return line, expected_tokens(source) + expected_tokens(pair[1]), label


def split_hash(pair: Pair, by: str, seed: int) -> str:
    """Hash by which a pair is held out: of its source sentence, or by "line" of both sides."""
    unit = "line" if by == "line" else "sentence"
    return text_hash(split_key(pair, unit), str(seed).encode()).hex()


def pair_hash(pair: Pair) -> str:
    """Hash of both sides, by which tokenizers choose their sample. It does not depend on the seed."""
    return text_hash("\t".join(pair), b"tokenizer").hex()


def blocks_of(file: IO[bytes]) -> Iterator[str]:
    """The lines of a file from its beginning, many at a time."""
    position = 0
    while True:
        file.seek(position)  # others may have read meanwhile
        block = file.read(BLOCK) + file.readline()
        if not block:
            return
        position += len(block)
        yield block.decode("ascii")


def lines_of(block: str, held_out: frozenset[str] = frozenset()) -> list[str]:
    """The lines of a block that are not held out."""
    lines = block.split("\n")
    lines.pop()  # the empty text after the last line end
    if not held_out:
        return lines
    return [line for line in lines if line[:HASH] not in held_out]


def parsed(line: str) -> tuple[Pair, int]:
    """The pair of a line, and the number of its corpus."""
    source, target, corpus = json.loads(line[2 * HASH :])
    return (source, target), corpus


def with_counts(lines: Iterable[str], weights: list[float]) -> Iterator[tuple[Pair, int]]:
    """The pairs of lines, and how often each occurs in an epoch by the weight of its corpus."""
    return ((pair, copies(pair, weights[corpus])) for pair, corpus in map(parsed, lines))
