"""Lines of text as pairs: a tab-separated file, or two files of which line N is the same sentence."""

import re
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path

from dragoman.config.data import CleaningConfig
from dragoman.data.filtering import reason_to_drop
from dragoman.data.readers.text_io import read_file
from dragoman.data.readers.types import Numbered, PairReader, ReaderOptions
from dragoman.errors import DataError

_PAIR = re.compile("(?<![A-Za-z0-9])([a-z]{2,3})-([a-z]{2,3})(?![A-Za-z0-9])")
_CODE = re.compile("(?!src|tgt|trg|ref)[a-z]{2,3}([-_][A-Za-z]{2,4})?")


def open_tsv(path: Path, options: ReaderOptions) -> PairReader:
    """A reader of a tab-separated file, whose name may tell the languages: pairs.en-fr.tsv."""
    pair = _PAIR.search(path.name)
    guessed = (pair[1], pair[2]) if pair is not None and len(pair[1]) == len(pair[2]) else (None, None)
    return PairReader(lambda: _read_tsv(path, options.replace_bad_bytes), options.languages or guessed)


def open_two_files(source: Path, target: Path, options: ReaderOptions) -> tuple[str, PairReader]:
    """The common name and a reader of two files, whose names may tell the languages: train.en, train.fr."""
    if source.samefile(target):
        raise DataError(f"Source and target are the same file {source}; give one per language.")
    parts = list(zip(source.name.split("."), target.name.split("."), strict=False))
    different = [pair for pair in parts if pair[0] != pair[1]]
    common = parts[: parts.index(different[0])] if different else parts
    name = ".".join(part for part, _ in common) or parts[0][0]
    guessed = different[0] if len(different) == 1 and all(map(_CODE.fullmatch, different[0])) else (None, None)
    languages = options.languages or guessed
    return name, PairReader(lambda: _read_two_files(source, target, options.replace_bad_bytes), languages)


def _read_tsv(path: Path, replace: bool) -> Iterator[Numbered]:
    """Source, tab, target on each line; further columns are ignored and nothing is quoted."""
    for number, line in enumerate(read_file(path, replace=replace), start=1):
        source, tab, rest = line.partition("\t")
        if not tab and line.strip():
            raise DataError(
                f"{path}, line {number} has no tab between source and target; write "
                "source<TAB>target on every line, or give two files, one for each language."
            )
        yield number, (source, rest.partition("\t")[0])


def _read_two_files(source: Path, target: Path, replace: bool) -> Iterator[Numbered]:
    """Line N of both files; their numbers of lines must be equal."""
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
    """Where the sides may have fallen out of step: one of the first pairs that cleaning would drop."""
    rules = CleaningConfig(max_copied=None, drop_repeated=False)
    sides = read_file(source, replace=replace), read_file(target, replace=replace)
    for number, (left, right) in enumerate(zip(*sides, strict=False), start=1):
        if reason_to_drop(left.strip(), right.strip(), rules):
            return f"; look at line {number} first, where the sides do not look like one sentence"
    return ""
