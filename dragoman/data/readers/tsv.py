"""Reads tab-separated text: a row on each line, two of whose columns are the sides of a pair."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from dragoman.data.readers.types import Entry, Numbered, Skipped
from dragoman.errors import DataError
from dragoman.formats.text_files import read_file
from dragoman.text.labels import label_of_target

NAMES, OTHER_COLUMNS = Skipped("row that names the columns"), Skipped("other columns than most rows")
NO_LANGUAGE = Skipped("no language in its column")


class Columns(NamedTuple):
    """The columns of a file, which are the same in every row, counted from 0."""

    source: int
    target: int
    width: int
    """How many columns most rows have."""
    more: bool
    """Whether rows with more columns are accepted; else they are skipped, as a tab too many may have shifted them."""
    named: bool
    """Whether the first row holds the names of the columns."""
    language: int | None = None
    """The column with the target language of each pair."""
    source_language: str | None = None
    """The source language of the pairs whose target language a column tells."""

    def pair(self, row: list[str]) -> Entry:
        """The pair of a row, labelled with its languages if a column tells them."""
        if self.language is None:
            return row[self.source], row[self.target]
        label = label_of_target(self.source_language, row[self.language])
        return (label + row[self.source], row[self.target]) if label else NO_LANGUAGE


def read_tsv(path: Path, columns: Columns, replace: bool) -> Iterator[Numbered]:
    """The pairs of a file with a tab between columns, in which nothing is quoted."""
    lines = enumerate(read_file(path, replace=replace), start=1)
    return pairs_of_rows(((number, line.split("\t")) for number, line in lines), columns, f"{path}, line")


def pairs_of_rows(rows: Iterable[tuple[int, list[str]]], columns: Columns, where: str) -> Iterator[Numbered]:
    """The pairs of numbered rows. Rows with other columns are skipped, or refused if most rows have one column only."""
    width = columns.width
    names_come_first = columns.named
    for number, row in rows:
        if names_come_first and any(row):
            names_come_first = False
            yield number, NAMES
        elif len(row) == width > 1 or (len(row) > width and columns.more):
            yield number, columns.pair(row)
        elif not any(map(str.strip, row)):
            yield number, ("", "")
        elif width > 1:
            yield number, OTHER_COLUMNS
        else:
            raise DataError(
                f"{where} {number} has no tab between source and target (or comma, if its name ends in .csv); write "
                "source<TAB>target on every line, or give two files, one for each language."
            )
