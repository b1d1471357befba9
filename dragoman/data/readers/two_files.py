"""Reads sentence pairs from two files: line N of both is the same sentence."""

import re
from collections.abc import Iterator
from itertools import takewhile, zip_longest
from pathlib import Path

from dragoman.data.readers.types import Numbered, PairReader, ReaderOptions
from dragoman.errors import DataError
from dragoman.formats.text_files import read_file
from dragoman.text.language_codes import Languages, are_exchanged, language_of, languages_named


class UnequalFiles(DataError):
    """One of two files has more lines than the other; `dragoman.data_check.unequal` finds where to look."""

    def __init__(self, source: Path, source_lines: int, target: Path, target_lines: int):
        super().__init__(source, source_lines, target, target_lines)  # all arguments, so that it can be pickled
        self.source = source
        self.target = target
        self.source_lines = source_lines
        self.target_lines = target_lines

    @property
    def message(self) -> str:
        """The numbers of lines and a remedy, without the line to look at."""
        return (
            f"{self.source} has {self.source_lines} lines but {self.target} has {self.target_lines}; line N of both "
            "must be the same sentence: find the lines that only one has."
        )


def open_two_files(source: Path, target: Path, options: ReaderOptions) -> tuple[str, PairReader]:
    """The common name and a reader of two files, whose names may tell the languages: train.en, train_fr.txt."""
    if source.samefile(target):
        raise DataError(f"Source and target are the same file {source}; give one per language.")
    parts = _parts(source.name, target.name, ".")
    common = takewhile(lambda sides: sides[0] == sides[1], parts)
    name = ".".join(part for part, _ in common) or parts[0][0]
    named = languages_of_names(source, target)
    if are_exchanged(named, options.languages):
        raise DataError(
            f"The source language is {named[1]}, but by its name {source} is {named[0]}; give {target} first."
        )
    return name, PairReader(lambda: _read(source, target, options.replace_bad_bytes), options.languages or named)


def languages_of_names(source: Path, target: Path) -> Languages:
    """The languages that the names of two files tell by the only part in which they differ, such as .en and .fr."""
    for source_part, target_part in differing_parts(source.name, target.name):
        codes = languages_named(source_part, target_part)
        if any(codes):
            return codes
        languages = language_of(source_part), language_of(target_part)  # english and french
        if all(languages):
            return languages
    return None, None


def differing_parts(source: str, target: str) -> Iterator[tuple[str, str]]:
    """The parts in which two names differ, if the same two parts differ everywhere.

    First, parts are what is between full stops, then what is between any marks.
    """
    for marks in (".", "._-"):
        different = {sides for sides in _parts(source, target, marks) if sides[0] != sides[1]}
        if len(different) == 1:
            yield different.pop()


def _parts(source: str, target: str, marks: str) -> list[tuple[str, str]]:
    """The parts of both names between any of these marks, side by side."""
    return list(zip(re.split(f"[{marks}]", source), re.split(f"[{marks}]", target), strict=False))


def _read(source: Path, target: Path, replace: bool) -> Iterator[Numbered]:
    """Pairs of lines. Raises `UnequalFiles` if one file has more lines than the other."""
    sources, targets = read_file(source, replace=replace), read_file(target, replace=replace)
    for number, (left, right) in enumerate(zip_longest(sources, targets), start=1):
        if left is None or right is None:
            source_lines = number - 1 if left is None else number + sum(1 for _ in sources)
            target_lines = number - 1 if right is None else number + sum(1 for _ in targets)
            raise UnequalFiles(source, source_lines, target, target_lines)
        yield number, (left, right)
