"""Sentence pairs: opened, cleaned, weighted and split, one pair at a time.

A corpus is never held in memory; every pass reads its files again.
"""

from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain, compress, groupby, islice, starmap
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from dragoman.config.data import CleaningConfig, CorpusConfig, DataConfig
from dragoman.data.filtering import HELD_OUT, REPEATED, CleaningReport, Seen, reason_to_drop
from dragoman.data.readers.registry import find
from dragoman.data.readers.types import Entry, Numbered, Pair, PairReader, ReaderOptions, Skipped
from dragoman.errors import DataError
from dragoman.system.urls import file_stamp
from dragoman.text.characters import cut_label, normalised, sentence_hash, share
from dragoman.text.identification import check_identifiable
from dragoman.text.labels import label, languages_in, only
from dragoman.text.language_codes import Languages

CHARACTERS_AT_ONCE = 500_000
"""What is worked on at a time: so many characters, and their tokens, fit into memory, as often as there are cores."""
Piece = TypeVar("Piece", bound=Entry)
Describe = Callable[[Pair, int], Any]
"""What is made of a pair and the number of its corpus."""


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
        bitext = OpenedBitext(*find(str(source_path), target, options))
        if next(iter(bitext), None) is None:
            raise DataError(f"{source_path} holds no sentence pairs; check that it is translated and in its format.")
        return bitext

    def labelled(self, source: str | None, target: str) -> "Bitext":
        """The same pairs, whose sources begin with the label of these languages."""
        found = label(source, target)
        return Bitext(lambda: ((found + each[0], each[1]) for each in self), name=self.name, languages=(source, target))

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
        self.remark = reader.remark
        self._states = {file: file_stamp(file) for file in files}

    def entries(self) -> Iterator[Numbered]:
        yield from self._reader.read()
        for file, state in self._states.items():
            if file_stamp(file) != state:
                raise DataError(f"{file} changed while it was read; type the command again when the file is complete.")

    def _pairs(self) -> Iterator[Pair]:
        return (entry for _, entry in self.entries() if not isinstance(entry, Skipped))


class Corpus(NamedTuple):
    """A bitext, and how often each of its pairs occurs in an epoch."""

    bitext: Bitext
    weight: float = 1.0
    label: str | None = ""
    """What its sources are labelled with; None if their reader did that."""

    @property
    def languages(self) -> Languages:
        """Source and target language; None for what is not known, or differs from pair to pair."""
        return languages_in(self.label) if self.label else (self.bitext.source_language, self.bitext.target_language)


class CleanedBitext(Bitext):
    """One corpus or several, cleaned, one after the other; `report` tells of the last pass that reached the end."""

    def __init__(
        self, corpora: Sequence[Corpus], rules: CleaningConfig | None = None, *, held_out: Iterable[Bitext] = ()
    ) -> None:
        name = "+".join(corpus.bitext.name for corpus in corpora)
        source, target = zip(*(each.languages for each in corpora), strict=True)
        languages = (only(source), only(target)) if any(each.label for each in corpora) else corpora[0].languages
        super().__init__(lambda: self.described(lambda pair, _: pair), name=name, languages=languages)
        self.corpora, self.rules = corpora, rules
        self._held_out = frozenset(sentence_hash(source) for other in held_out for source, _ in other)
        self.report = CleaningReport()

    @property
    def labelled(self) -> bool:
        """Whether sources begin with labels."""
        return any(each.label != "" for each in self.corpora)

    def cleaned(self, rules: CleaningConfig | None = None, *, held_out: Iterable[Bitext] = ()) -> "CleanedBitext":
        """The same corpora cleaned anew; one report for all reasons to drop."""
        return CleanedBitext(self.corpora, rules or self.rules, held_out=held_out)

    def weighted(self) -> Iterator[Pair]:
        """The pairs of an epoch: each as often as the weight of its corpus says, copies side by side."""
        numbered = self.described(lambda *numbered: numbered)
        return (pair for pair, number in numbered for _ in range(copies(pair, self.corpora[number].weight)))

    def described(self, describe: Describe) -> Iterator[Any]:
        """What `describe(pair, number of its corpus)` says of each pair that is kept, in order."""
        report = CleaningReport()
        yield from chain.from_iterable(self.kept_blocks(describe, report))
        self.report = report

    def kept_blocks(
        self, describe: Describe, report: CleaningReport, map_jobs: Callable[..., Any] = starmap, **done: Any
    ) -> Iterator[list[Any]]:
        """The same block by block; `report` counts up to each, and goes on from what it has.

        `map_jobs` may have other processes judge and describe; what repeats others is found here. Of a pass that broke
        off, `done` has the number of `blocks`, which are read but not judged, and what was `seen` of its last corpus.
        """
        seen, removes = done.get("seen"), self.rules is not None and self.rules.drop_repeated
        jobs = islice(self._jobs(), done.get("blocks", 0), None)
        for block in map_jobs(partial(_judged, describe, self.rules, self._held_out), jobs):
            while len(report.sizes) <= block.corpus:
                report.sizes.append(0)
                seen = Seen()
            new = seen.add(block.hashes) if seen and removes else [True] * len(block.hashes)
            kept = list(compress(block.described, new))
            report.read += len(new) + block.dropped.total()
            report.dropped.update(block.dropped + Counter({REPEATED: new.count(False)}))
            report.weighted += sum(compress(block.counts, new))
            report.sizes[-1] += len(kept)
            yield kept

    def _jobs(self) -> Iterator[tuple[int, Languages, float, str | None, list[Entry]]]:
        """Blocks of entries, with the number, the languages, the weight and the label of their corpus."""
        for number, corpus in enumerate(self.corpora):
            bitext, *how = corpus
            entries = (entry for _, entry in bitext.entries())
            yield from ((number, corpus.languages, *how, block) for block in blocks(entries))


class Judged(NamedTuple):
    """A block of entries: why some are dropped; of the others a hash, how often each occurs, and what describes it."""

    corpus: int
    dropped: Counter[str]
    hashes: array
    counts: list[int]
    described: list[Any]


def _judged(describe: Describe, rules: CleaningConfig | None, held_out: frozenset[bytes], *job: Any) -> Judged:
    number, spoken, weight, named, block = job
    judged = Judged(number, Counter(), array("q"), [], [])
    for entry in block:
        if isinstance(entry, Skipped):
            judged.dropped[entry.reason] += 1
            continue
        found, source = cut_label(entry[0]) if named is None else (named, entry[0])
        pair = normalised(source), normalised(entry[1])
        reason = reason_to_drop(*pair, rules, languages_in(found) if found else spoken)
        if reason is None and held_out and sentence_hash(pair[0]) in held_out:
            reason = HELD_OUT
        if reason:
            judged.dropped[reason] += 1
            continue
        pair = found + pair[0], pair[1]
        judged.hashes.append(hash(pair))
        judged.counts.append(copies(pair, weight))
        judged.described.append(describe(pair, number))
    return judged


def blocks(entries: Iterable[Piece]) -> Iterator[list[Piece]]:
    """Consecutive entries or pairs, with about CHARACTERS_AT_ONCE characters."""
    size = 0

    def block_of(entry: Piece) -> int:
        nonlocal size
        size += 1 if isinstance(entry, Skipped) else len(entry[0]) + len(entry[1])
        return size // CHARACTERS_AT_ONCE

    return (list(block) for _, block in groupby(entries, block_of))


def open_corpora(data: DataConfig, *, labelled: bool = False) -> CleanedBitext:
    """All pairs that a config names, to be cleaned by its rules; the first corpus tells the languages of the others.

    If there are several pairs of languages, or if that is wanted, sources are labelled with them.
    """
    languages, opened = data.languages, []
    for corpus in data.sources:
        bitext = _opened(data, corpus, [corpus.source, corpus.target], corpus.languages or languages)
        languages = languages or bitext.languages
        opened.append((bitext, corpus, corpus.languages or languages))
    labelled |= len({spoken for *_, spoken in opened}) > 1 or any(each.language_column for _, each, _ in opened)
    corpora = [Corpus(bitext, of.weight, _label(bitext, of, spoken, labelled)) for bitext, of, spoken in opened]
    if data.cleaning.check_languages:
        for corpus in corpora:
            check_identifiable(corpus.languages if corpus.label is not None else (), corpus.bitext.name)
    return CleanedBitext(corpora, data.cleaning)


def open_held_out(data: DataConfig, languages: Languages | None, *, labelled: bool = False) -> dict[str, Bitext]:
    """The files to validate and test on, as far as a config names them; `languages` are those of the training pairs,
    and `labelled` tells whether these have labels."""
    found: dict[str, Bitext] = {}
    for part in ("valid", "test"):
        corpora = []
        for files, of in data.held_out_files(part):
            spoken = of.languages or data.languages or languages
            bitext = _opened_held_out(data, of, files, spoken)
            corpora.append(Corpus(bitext, label=_label(bitext, of, spoken, labelled)))
        if corpora:
            found[part] = CleanedBitext(corpora) if labelled or len(corpora) > 1 else corpora[0].bitext
    return found


def _opened_held_out(data: DataConfig, of: CorpusConfig, files: list[str], spoken: Languages | None) -> OpenedBitext:
    if of.columns and len(files) == 1:
        with suppress(DataError):  # the file may have other columns than that of the training pairs
            return _opened(data, of, files, spoken)
    return _opened(data, of.model_copy(update={"columns": None}), files, spoken)


def _opened(data: DataConfig, of: CorpusConfig, files: Sequence[str | None], spoken: Languages | None) -> OpenedBitext:
    options = {"columns": of.columns, "language_column": of.language_column, "languages": spoken}
    return Bitext.open(*files, **options, replace_bad_bytes=data.replace_bad_bytes)


def _label(bitext: Bitext, of: CorpusConfig, spoken: Languages | None, labelled: bool) -> str | None:
    """The `label` of a corpus. Raises `DataError` if it needs one, but its languages are not known."""
    if of.language_column is not None:
        return None
    if labelled and not spoken:
        raise DataError(f"{bitext.name} does not say its languages; set `languages` of its corpus, or data.languages.")
    return label(*spoken) if labelled and spoken else ""


def copies(pair: Pair, weight: float) -> int:
    """How often a pair occurs in an epoch: of weight 2.25, one pair in four three times and the others twice.

    Which ones follows from the pair alone.
    """
    whole = int(weight)
    return whole + (share(pair, "copies") < weight - whole) if whole != weight else whole
