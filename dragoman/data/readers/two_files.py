"""Sentence pairs in two files: line N of both is the same sentence."""

import re
from collections.abc import Iterator
from itertools import takewhile, zip_longest
from pathlib import Path

from dragoman.config.data import CleaningConfig
from dragoman.data.filtering import reason_to_drop
from dragoman.data.language_codes import are_exchanged, language_of, languages_named
from dragoman.data.readers.text_io import read_file
from dragoman.data.readers.types import Languages, Numbered, PairReader, ReaderOptions
from dragoman.errors import DataError


def open_two_files(source: Path, target: Path, options: ReaderOptions) -> tuple[str, PairReader]:
    """The common name and a reader of two files, whose names may tell the languages: train.en, train_fr.txt."""
    if source.samefile(target):
        raise DataError(f"Source and target are the same file {source}; give one per language.")
    parts = _parts(source.name, target.name, ".")
    common = list(takewhile(lambda pair: pair[0] == pair[1], parts))
    name = ".".join(part for part, _ in common) or parts[0][0]
    named = languages_of_names(source, target)
    if are_exchanged(named, options.languages):
        raise DataError(
            f"The source language is {named[1]}, but by its name {source} is {named[0]}; give {target} first."
        )
    return name, PairReader(lambda: _read(source, target, options.replace_bad_bytes), options.languages or named)


def languages_of_names(source: Path, target: Path) -> Languages:
    """The languages that the names of two files tell by the only part in which they differ, such as .en and .fr."""
    for parts in differing_parts(source.name, target.name):
        if any(languages := languages_named(*parts)):
            return languages
        if all(languages := (language_of(parts[0]), language_of(parts[1]))):  # english and french
            return languages
    return None, None


def differing_parts(source: str, target: str) -> Iterator[tuple[str, str]]:
    """The parts of two names that differ, if all that do are the same: first parts between full stops, then smaller."""
    for marks in (".", "._-"):
        different = {pair for pair in _parts(source, target, marks) if pair[0] != pair[1]}
        if len(different) == 1:
            yield different.pop()


def _parts(source: str, target: str, marks: str) -> list[tuple[str, str]]:
    """The parts of both names between any of these marks, side by side."""
    return list(zip(*(re.split(f"[{marks}]", name) for name in (source, target)), strict=False))


def _read(source: Path, target: Path, replace: bool) -> Iterator[Numbered]:
    """Reads pairs of lines; the files must have equally many."""
    sources, targets = read_file(source, replace=replace), read_file(target, replace=replace)
    for number, (left, right) in enumerate(zip_longest(sources, targets), start=1):
        if left is None or right is None:
            num_left = number - 1 if left is None else number + sum(1 for _ in sources)
            num_right = number - 1 if right is None else number + sum(1 for _ in targets)
            raise DataError(
                f"{source} has {num_left} lines but {target} has {num_right}; line N of both must "
                f"be the same sentence: find the lines that only one has{_hint(source, target, replace)}."
            )
        yield number, (left, right)


def _hint(source: Path, target: Path, replace: bool) -> str:
    """The end of a sentence that says where to look: where the check of alignment finds the sides out of step.

    It needs some hundreds of lines. Of fewer, the first line counts on which the sides do not look like one sentence.
    """
    # The checks open bitexts, and so import the readers.
    from dragoman.data.bitext import Bitext
    from dragoman.data.check.alignment import FEWEST, AlignmentCheck
    from dragoman.data.check.result import PartResult, Side

    both = Bitext(lambda: zip(*(read_file(path, replace=replace) for path in (source, target)), strict=False), name="")
    both.unit = "line"
    result = PartResult("train", both.name, Side(None), Side(None))
    check, rules, odd = AlignmentCheck(result), CleaningConfig(max_copied=None, drop_repeated=False), None
    for block in result.locations.blocks([both]):
        check.add(block)
        result.pairs += len(block)
        odd = odd or next((number for number, *pair in block if reason_to_drop(*pair, rules)), None)
    if found := next(check.findings(), None):
        return f"; {found.advice}"
    if result.pairs > FEWEST:
        return "; no line was found from which on they are out of step, so look at the end of the longer file first"
    return f"; look at line {odd} first, where the sides do not look like one sentence" if odd else ""
