"""Sentence pairs: opened, cleaned, weighted and split, one pair at a time.

A corpus is never held in memory; every pass reads its files again.
"""

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import groupby, starmap
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from dragoman.config.data import CleaningConfig, CorpusConfig, DataConfig
from dragoman.data.filtering import HELD_OUT, REPEATED, CleaningReport, Seen, reason_to_drop
from dragoman.data.readers.registry import find
from dragoman.data.readers.types import Entry, Languages, Numbered, Pair, PairReader, ReaderOptions, Skipped
from dragoman.data.text import normalised, sentence_hash, share
from dragoman.errors import DataError
from dragoman.urls import is_url, stamp

CHARACTERS_AT_ONCE = 500_000
"""What is worked on at a time: so many characters, and their tokens, fit into memory, as often as there are cores."""
Piece = TypeVar("Piece", bound=Entry)
Describe = Callable[[Pair, int], Any]


class Bitext:
    """Sentence pairs `(source, target)`; each loop over it is a fresh pass over the data.

    `name` is short, for messages; `files` are what the user calls it, and `unit` what it is counted by; the languages
    are those in the data or guesses from file names, or None.
    """

    def __init__(self, read: Callable[[], Iterable[Pair]], *, name: str, languages: Languages = (None, None)) -> None:
        self._read = read
        self.name = name
        self.files, self.unit = (name,), "pair"
        self.source_language, self.target_language = languages

    def __iter__(self) -> Iterator[Pair]:
        return iter(self._read())

    @property
    def languages(self) -> tuple[str, str] | None:
        """Source and target language, if both are known."""
        known = self.source_language and self.target_language
        return (self.source_language, self.target_language) if known else None

    def entries(self) -> Iterator[Numbered]:
        """(number, entry) for each pair and each entry that is no pair; numbers are those of lines, rows or pairs."""
        return enumerate(self, start=1)

    @staticmethod
    def open(
        source_path: str | Path,
        target_path: str | Path | None = None,
        *,
        languages: tuple[str, str] | None = None,
        columns: tuple[int | str, int | str] | None = None,
        replace_bad_bytes: bool = False,
    ) -> "OpenedBitext":
        """Opens one file with pairs, two files of aligned lines, `builtin:grammar[:COUNT][:PART]` or `hf:NAME`.

        The end of its name tells the format of one file: .csv, .json, .jsonl, .tmx, .xliff or .xlf, .po; any other is
        tab-separated. Packed files are unpacked, and those at URLs downloaded. `languages` chooses the sides in formats
        that name them, `columns` in tables and JSON, by numbers from 1 or names; `replace_bad_bytes` reads what is not
        UTF-8 as U+FFFD. The first pair is read at once, to show most mistakes early; the others raise `DataError`
        during a pass.
        """
        target = None if target_path is None else str(target_path)
        bitext = OpenedBitext(*find(str(source_path), target, ReaderOptions(languages, columns, replace_bad_bytes)))
        if next(iter(bitext), None) is None:
            raise DataError(f"{source_path} holds no sentence pairs; check that it is translated and in its format.")
        return bitext

    def cleaned(self, rules: CleaningConfig | None = None, *, held_out: Iterable["Bitext"] = ()) -> "CleanedBitext":
        """The pairs in NFC without surrounding whitespace, less those that cannot or, by `rules`, should not be learnt.

        Dropped and counted are pairs with an empty side, those that break the rules, and pairs whose source sentence
        is also in one of `held_out`, which are read once, now.
        """
        return CleanedBitext([Corpus(self)], rules, held_out=held_out)


class OpenedBitext(Bitext):
    """Sentence pairs in files, in a data set, or built in."""

    def __init__(self, name: str, reader: PairReader, files: tuple[str | Path, ...]) -> None:
        super().__init__(self._pairs, name=name, languages=reader.languages)
        self.files, self.unit, self._reader = tuple(map(str, files)), reader.unit, reader
        self._states = {file: file_stamp(file) for file in files}

    def entries(self) -> Iterator[Numbered]:
        yield from self._reader.read()
        for file, state in self._states.items():
            if file_stamp(file) != state:
                raise DataError(f"{file} changed while it was read; type the command again when the file is complete.")

    def _pairs(self) -> Iterator[Pair]:
        return (entry for _, entry in self.entries() if not isinstance(entry, Skipped))


def file_stamp(file: str | Path) -> tuple[int, int | str]:
    """Size and time of the last change of a file, of one at a URL its version; zeros for what is no file."""
    if isinstance(file, str) and is_url(file):
        return stamp(file)
    with suppress(OSError):
        status = os.stat(file)
        return status.st_size, status.st_mtime_ns
    return 0, 0


class Corpus(NamedTuple):
    """A bitext, and how often each of its pairs occurs in an epoch."""

    bitext: Bitext
    weight: float = 1.0


class CleanedBitext(Bitext):
    """One corpus or several, cleaned, one after the other; `report` tells of the last pass that reached the end."""

    def __init__(
        self, corpora: Sequence[Corpus], rules: CleaningConfig | None = None, *, held_out: Iterable[Bitext] = ()
    ) -> None:
        first = corpora[0].bitext
        name = "+".join(corpus.bitext.name for corpus in corpora)
        languages = first.source_language, first.target_language
        super().__init__(lambda: self.described(lambda pair, _: pair), name=name, languages=languages)
        self.corpora, self.rules = corpora, rules
        self._held_out = frozenset(sentence_hash(source) for other in held_out for source, _ in other)
        self.report = CleaningReport(0, Counter(), 0)

    def cleaned(self, rules: CleaningConfig | None = None, *, held_out: Iterable[Bitext] = ()) -> "CleanedBitext":
        """The same corpora cleaned anew; one report for all reasons to drop."""
        return CleanedBitext(self.corpora, rules or self.rules, held_out=held_out)

    def weighted(self) -> Iterator[Pair]:
        """The pairs of an epoch: each as often as the weight of its corpus says, copies side by side."""
        return (pair for pair, count in self.described(lambda *counted: counted) for _ in range(count))

    def described(self, describe: Describe, map_jobs: Callable[..., Any] = starmap) -> Iterator[Any]:
        """What `describe(pair, copies)` says of each pair that is kept, in order.

        `map_jobs` may have other processes judge and describe them; what repeats others is found here.
        """
        read, weighted_pairs, dropped = 0, 0, Counter[str]()
        current, seen = -1, None
        for number, judged in map_jobs(partial(_judged, describe, self.rules, self._held_out), self._jobs()):
            if number != current:
                current, seen = number, Seen() if self.rules and self.rules.drop_repeated else None
            read += len(judged)
            for each in judged:
                reason = each if isinstance(each, str) else REPEATED if seen and not seen.add(each[0]) else None
                if reason:
                    dropped[reason] += 1
                else:
                    weighted_pairs += each[1]
                    yield each[2]
        self.report = CleaningReport(read, dropped, weighted_pairs)

    def _jobs(self) -> Iterator[tuple[int, float, list[Entry]]]:
        """Blocks of entries, with the number and the weight of their corpus."""
        for number, (bitext, weight) in enumerate(self.corpora):
            yield from ((number, weight, block) for block in blocks(entry for _, entry in bitext.entries()))


Judged = str | tuple[int, int, Any]
"""Why an entry is dropped; or the hash of a pair, how often it occurs in an epoch, and what describes it."""


def _judged(
    describe: Describe, rules: CleaningConfig | None, held_out: frozenset[bytes], *job: Any
) -> tuple[int, list[Judged]]:
    number, weight, block = job

    def judged(entry: Entry) -> Judged:
        if isinstance(entry, Skipped):
            return entry.reason
        pair = normalised(entry[0]), normalised(entry[1])
        reason = reason_to_drop(*pair, rules)
        if reason is None and held_out and sentence_hash(pair[0]) in held_out:
            reason = HELD_OUT
        count = copies(pair, weight)
        return reason or (hash(pair), count, describe(pair, count))

    return number, list(map(judged, block))


def blocks(entries: Iterable[Piece]) -> Iterator[list[Piece]]:
    """Consecutive entries or pairs, with about CHARACTERS_AT_ONCE characters."""
    size = 0

    def block_of(entry: Piece) -> int:
        nonlocal size
        size += 1 if isinstance(entry, Skipped) else len(entry[0]) + len(entry[1])
        return size // CHARACTERS_AT_ONCE

    return (list(block) for _, block in groupby(entries, block_of))


def open_corpora(data: DataConfig) -> CleanedBitext:
    """All pairs that a config names, to be cleaned by its rules; the first corpus tells the languages of the others."""
    languages, corpora = data.languages, []
    for corpus in data.corpora or [CorpusConfig(source=data.source, target=data.target, columns=data.columns)]:
        options = {"languages": languages, "columns": corpus.columns, "replace_bad_bytes": data.replace_bad_bytes}
        bitext = Bitext.open(corpus.source, corpus.target, **options)
        languages = languages or bitext.languages
        corpora.append(Corpus(bitext, corpus.weight))
    return CleanedBitext(corpora, data.cleaning)


def open_held_out(data: DataConfig, languages: tuple[str, str] | None) -> dict[str, Bitext]:
    """The files to validate and test on, as far as a config names them; `languages` are those of the training pairs."""

    def opened(files: list[str]) -> Bitext:
        options = {"languages": languages, "replace_bad_bytes": data.replace_bad_bytes}
        if data.columns and len(files) == 1:
            with suppress(DataError):  # the file may have other columns than that of the training pairs
                return Bitext.open(*files, columns=data.columns, **options)
        return Bitext.open(*files, **options)

    return {part: opened(files) for part, files in (("valid", data.valid), ("test", data.test)) if files}


def copies(pair: Pair, weight: float) -> int:
    """How often a pair occurs in an epoch: of weight 2.25, one pair in four three times and the others twice.

    Which ones follows from the pair alone.
    """
    whole = int(weight)
    return whole + (share(pair, "copies") < weight - whole) if whole != weight else whole
