"""Lines of text as pairs: a tab-separated file, or two files of which line N is the same sentence."""

from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path

from dragoman.config.data import CleaningConfig
from dragoman.data.filtering import reason_to_drop
from dragoman.data.readers.text_io import read_file
from dragoman.data.readers.types import Numbered
from dragoman.errors import DataError


def read_tsv(path: Path, replace: bool) -> Iterator[Numbered]:
    """Source, tab, target on each line; further columns are ignored and nothing is quoted."""
    for number, line in enumerate(read_file(path, replace=replace), start=1):
        source, tab, rest = line.partition("\t")
        if not tab and line.strip():
            raise DataError(
                f"{path}, line {number} has no tab between source and target; write "
                "source<TAB>target on every line, or give two files, one for each language."
            )
        yield number, (source, rest.partition("\t")[0])


def read_two_files(source: Path, target: Path, replace: bool) -> Iterator[Numbered]:
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
