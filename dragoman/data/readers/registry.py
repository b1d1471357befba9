"""Finds the reader for a name that a user types: of a file by the end of its name, of built-in pairs, of a data set."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from dragoman.data.builtin.reader import BUILTIN, open_builtin, settings_for
from dragoman.data.readers.archives import archive_of, read_archive
from dragoman.data.readers.encodings import in_utf8
from dragoman.data.readers.fetched import fetch
from dragoman.data.readers.huggingface import HUB, open_dataset
from dragoman.data.readers.jsonl import open_json
from dragoman.data.readers.memory import open_memory
from dragoman.data.readers.po import open_po
from dragoman.data.readers.tables import open_csv, open_table
from dragoman.data.readers.tmx import open_tmx
from dragoman.data.readers.two_files import open_two_files
from dragoman.data.readers.types import PairReader, ReaderOptions
from dragoman.data.readers.xliff import open_xliff
from dragoman.errors import DataError
from dragoman.formats.other_files import check_is_file, refuse_other_files
from dragoman.formats.text_files import read_head, unpacked_name
from dragoman.formats.xliff import ENDINGS as XLIFF_ENDINGS
from dragoman.storage.memory import is_memory
from dragoman.system.urls import is_url

__all__ = ["find", "settings_for"]


def open_xml(path: Path, options: ReaderOptions) -> PairReader:
    """A reader of TMX or XLIFF in a file whose name does not say which."""
    return (open_tmx if b"<tmx" in read_head(path) else open_xliff)(path, options)


FORMATS: dict[str, Callable[[Path, ReaderOptions], PairReader]] = {
    ".csv": open_csv,
    ".json": open_json,
    ".jsonl": open_json,
    ".ndjson": open_json,
    ".tmx": open_tmx,
    **dict.fromkeys(XLIFF_ENDINGS, open_xliff),
    ".xml": open_xml,
    ".po": open_po,
}
"""Functions that open a file, by the end of its name. Every other file is tab-separated, unless it begins like JSON."""


class ResolvedCorpus(NamedTuple):
    """A corpus whose name, format and files are known."""

    name: str
    """Short, for messages and folders."""
    reader: PairReader
    files: tuple[str | Path, ...]
    """Its files, or the archives that these are in; as texts they are what the user calls them."""


def find(source: str, target: str | None, options: ReaderOptions) -> ResolvedCorpus:
    """The corpus that a user calls `source`, or `source` and `target`.

    Raises `DataError` if there is no such thing.
    """
    from_hub = source.startswith(HUB) and not is_url(source)
    if source.startswith(BUILTIN) or from_hub:
        if target is not None:
            raise DataError(f"{source} has both languages already; leave out {target}.")
        _check_columns(source, options, has_columns=from_hub)
        if source.startswith(BUILTIN):
            name, reader = open_builtin(source)
        else:
            name = re.sub(r"[^\w.-]+", "-", source.removeprefix(HUB)).strip("-.")
            reader = open_dataset(source, options)
        return ResolvedCorpus(name, reader, (source,))
    files = [_file(name) for name in (source, target) if name is not None]
    paths = [path for file in files for path in _unpacked(file, options)]
    if len(paths) > 2:
        listed = ", ".join(map(str, paths))
        raise DataError(f"{source} and {target} are more than two texts ({listed}); give one archive, or two texts.")
    unpacked = Path(unpacked_name(paths[0]))
    open_format = open_memory if is_memory(paths[0]) else FORMATS.get(unpacked.suffix.lower())
    if len(paths) == 2 and open_format:
        raise DataError(f"{source} has both languages already; leave out {paths[1]}.")
    for path in paths:
        check_is_file(path)
        refuse_other_files(path)
    _check_columns(source, options, has_columns=len(paths) == 1 and open_format in (None, open_csv, open_json))
    if open_format not in (open_memory, open_tmx, open_xliff, open_xml):
        paths = [in_utf8(path) for path in paths]
    if len(paths) == 1:
        name, reader = unpacked.stem, (open_format or open_table)(paths[0], options)
    else:
        name, reader = open_two_files(paths[0], paths[1], options)
    return ResolvedCorpus(name, reader, tuple(archive or path for path, archive in files))


def _file(name: str) -> tuple[Path, Path | None]:
    """The path of a file, which is downloaded if it is at a URL, and the archive that it is or that it is in."""
    path = fetch(name) if is_url(name) else Path(name)
    archive = archive_of(path)
    return path, archive


def _unpacked(file: tuple[Path, Path | None], options: ReaderOptions) -> list[Path]:
    """The file itself, or copies of the one or two files with pairs in an archive."""
    path, archive = file
    if archive is None:
        return [path]
    inner = "" if path == archive else path.relative_to(archive).as_posix()
    return list(read_archive(archive, inner, options.languages))


def _check_columns(source: str, options: ReaderOptions, *, has_columns: bool) -> None:
    """Raise `DataError` for options that choose columns where there are none, or one twice."""
    if options.columns and not has_columns:
        raise DataError(f"{source} has no columns to choose from; leave out --columns.")
    if options.language_column and not has_columns:
        raise DataError(f"{source} has no columns, of which one could tell the language; leave out language_column.")
    if options.columns and options.columns[0] == options.columns[1]:
        raise DataError(f"--columns names {options.columns[0]} twice; give the columns of source and target.")
