"""Sentence pairs: opened, cleaned and weighted, one pair at a time.

A corpus is never held in memory; every pass reads its files again.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import compress, islice, starmap
from pathlib import Path
from typing import Any, NamedTuple

from dragoman.config.data import CleaningConfig
from dragoman.data.blocks import CorpusFacts, Describe, blocks, copies, judge_block
from dragoman.data.filtering import REPEATED, CleaningReport, Seen
from dragoman.data.readers.registry import ResolvedCorpus, find
from dragoman.data.readers.types import Entry, Numbered, Pair, ReaderOptions, Skipped
from dragoman.errors import DataError
from dragoman.system.urls import file_stamp
from dragoman.text.characters import sentence_hash
from dragoman.text.labels import label, languages_in, only
from dragoman.text.language_codes import Languages


class Bitext:
    """Sentence pairs `(source, target)`; each loop over it is a fresh pass over the data.

    `name` is short, for messages. `files` are the names that the user gave, and `unit` is what numbers of entries
    count: lines, rows or pairs. The languages are those in the data or guesses from file names, or None.
    """

    def __init__(self, read: Callable[[], Iterable[Pair]], *, name: str, languages: Languages = (None, None)) -> None:
        self._read = read
        self.name = name
        self.files: tuple[str, ...] = (name,)
        self.unit = "pair"
        self.source_language, self.target_language = languages

    def __iter__(self) -> Iterator[Pair]:
        return iter(self._read())

    @property
    def languages(self) -> tuple[str, str] | None:
        """Source and target language, if both are known."""
        if self.source_language and self.target_language:
            return self.source_language, self.target_language
        return None

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
        language_column: int | str | None = None,
    ) -> "OpenedBitext":
        """Opens one file with pairs, two files of aligned lines, `builtin:grammar[:COUNT][:PART]` or `hf:NAME`.

        The end of its name tells the format of one file: .csv, .json, .jsonl, .tmx, .xliff or .xlf, .po; any other is
        tab-separated. Packed files are unpacked, and those at URLs downloaded. `languages` chooses the sides in formats
        that name them, `columns` in tables and JSON, by numbers from 1 or names; `replace_bad_bytes` reads what is not
        UTF-8 as U+FFFD. If there is a `language_column`, sources are labelled (see `dragoman.text.labels`). The first
        pair is read at once, to show most mistakes early; the others raise `DataError` during a pass.
        """
        target = None if target_path is None else str(target_path)
        options = ReaderOptions(languages, columns, language_column, replace_bad_bytes)
        bitext = OpenedBitext(find(str(source_path), target, options))
        if next(iter(bitext), None) is None:
            raise DataError(f"{source_path} holds no sentence pairs; check that it is translated and in its format.")
        return bitext

    def where(self, keeps: Callable[[Pair], bool]) -> "Bitext":
        """The pairs that `keeps` is true of."""
        languages = self.source_language, self.target_language
        return Bitext(lambda: filter(keeps, self), name=self.name, languages=languages)

    def changed(self, change: Callable[[Pair], Pair]) -> "Bitext":
        """The pairs as `change` makes them."""
        languages = self.source_language, self.target_language
        return Bitext(lambda: map(change, self), name=self.name, languages=languages)

    def labelled(self, source: str | None, target: str) -> "Bitext":
        """The same pairs, whose sources begin with the label of these languages."""
        prefix = label(source, target)
        return Bitext(
            lambda: ((prefix + pair[0], pair[1]) for pair in self), name=self.name, languages=(source, target)
        )

    def cleaned(self, rules: CleaningConfig | None = None, *, held_out: Iterable["Bitext"] = ()) -> "CleanedBitext":
        """The pairs in NFC without surrounding whitespace, less those that cannot be used or that `rules` exclude.

        Dropped and counted are pairs with an empty side, those that break the rules, and pairs whose source sentence
        is also in one of `held_out`, which are read once, now.
        """
        return CleanedBitext([Corpus(self)], rules, held_out=held_out)


class OpenedBitext(Bitext):
    """Sentence pairs in files, in a data set, or built in."""

    def __init__(self, corpus: ResolvedCorpus) -> None:
        super().__init__(self._pairs, name=corpus.name, languages=corpus.reader.languages)
        self.files = tuple(map(str, corpus.files))
        self.unit = corpus.reader.unit
        self.remark = corpus.reader.remark
        self._reader = corpus.reader
        self._stamps = {file: file_stamp(file) for file in corpus.files}

    def entries(self) -> Iterator[Numbered]:
        yield from self._reader.read()
        for file, stamp in self._stamps.items():
            if file_stamp(file) != stamp:
                raise DataError(f"{file} changed while it was read; type the command again when the file is complete.")

    def _pairs(self) -> Iterator[Pair]:
        return (entry for _, entry in self.entries() if not isinstance(entry, Skipped))


class Corpus(NamedTuple):
    """A bitext, and how often each of its pairs occurs in an epoch."""

    bitext: Bitext
    weight: float = 1.0
    label: str | None = ""
    """Label that is put before its sources, or ""; None if its reader has labelled them."""

    @property
    def languages(self) -> Languages:
        """Source and target language; None for one that is not known, or differs from pair to pair."""
        if self.label:
            return languages_in(self.label)
        return self.bitext.source_language, self.bitext.target_language


class CleanedBitext(Bitext):
    """One corpus or several, cleaned, one after the other; `report` counts the last pass that reached the end."""

    def __init__(
        self, corpora: Sequence[Corpus], rules: CleaningConfig | None = None, *, held_out: Iterable[Bitext] = ()
    ) -> None:
        languages = corpora[0].languages
        if any(corpus.label for corpus in corpora):
            sources, targets = zip(*(corpus.languages for corpus in corpora), strict=True)
            languages = only(sources), only(targets)
        name = "+".join(corpus.bitext.name for corpus in corpora)
        super().__init__(lambda: self.described(lambda pair, _: pair), name=name, languages=languages)
        self.files = tuple(file for corpus in corpora for file in corpus.bitext.files)
        self.corpora = corpora
        self.rules = rules
        self._held_out = frozenset(sentence_hash(source) for bitext in held_out for source, _ in bitext)
        self.report = CleaningReport()

    @property
    def has_labels(self) -> bool:
        """Whether sources begin with labels."""
        return any(corpus.label != "" for corpus in self.corpora)

    def cleaned(self, rules: CleaningConfig | None = None, *, held_out: Iterable[Bitext] = ()) -> "CleanedBitext":
        """The same corpora cleaned anew; one report for all reasons to drop."""
        return CleanedBitext(self.corpora, rules or self.rules, held_out=held_out)

    def weighted(self) -> Iterator[Pair]:
        """The pairs of an epoch: each as often as the weight of its corpus says, copies side by side."""
        for pair, number in self.described(lambda pair, number: (pair, number)):
            for _ in range(copies(pair, self.corpora[number].weight)):
                yield pair

    def described(self, describe: Describe) -> Iterator[Any]:
        """`describe(pair, number of its corpus)` of each pair that is kept, in order."""
        report = CleaningReport()
        for block in self.kept_blocks(describe, report):
            yield from block
        self.report = report

    def kept_blocks(
        self,
        describe: Describe,
        report: CleaningReport,
        map_jobs: Callable[..., Any] = starmap,
        *,
        finished_blocks: int = 0,
        seen: Seen | None = None,
    ) -> Iterator[list[Any]]:
        """`describe(pair, number of its corpus)` of each pair that is kept, as one list for each block of entries.

        `report` is added to with each block. `map_jobs` may clean blocks in other processes; pairs that repeat others
        are always found in this one. To go on with a pass that broke off, give its report, the number of its
        `finished_blocks`, which are read but not cleaned again, and the pairs `seen` in its last corpus.
        """
        drops_repeated = self.rules is not None and self.rules.drop_repeated
        jobs = islice(self._jobs(), finished_blocks, None)
        for block in map_jobs(partial(judge_block, describe, self.rules, self._held_out), jobs):
            while len(report.sizes) <= block.corpus:  # the first block of a corpus: pairs repeat within one only
                report.sizes.append(0)
                seen = Seen()
            is_new = [True] * len(block.hashes)
            if drops_repeated and seen is not None:
                is_new = seen.add(block.hashes)
            kept = list(compress(block.descriptions, is_new))
            num_repeated = len(is_new) - len(kept)
            report.read += len(is_new) + block.dropped.total()
            report.dropped.update(block.dropped)
            if num_repeated:
                report.dropped[REPEATED] += num_repeated
            report.weighted += sum(compress(block.counts, is_new))
            report.sizes[-1] += len(kept)
            yield kept

    def _jobs(self) -> Iterator[tuple[CorpusFacts, list[Entry]]]:
        """The entries of each corpus, block by block."""
        for number, corpus in enumerate(self.corpora):
            facts = CorpusFacts(number, corpus.languages, corpus.weight, corpus.label)
            for block in blocks(entry for _, entry in corpus.bitext.entries()):
                yield facts, block
