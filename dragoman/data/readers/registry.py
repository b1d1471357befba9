"""From what a user types to a reader: files by the ends of their names, built-in sentences, data sets of the Hub."""

import difflib
import os
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import NamedTuple

from dragoman.data.readers.huggingface import HUB, open_dataset
from dragoman.data.readers.jsonl import open_jsonl
from dragoman.data.readers.po import open_po
from dragoman.data.readers.text_io import unpacked_name
from dragoman.data.readers.tmx import open_tmx
from dragoman.data.readers.tsv import read_tsv, read_two_files
from dragoman.data.readers.types import Languages, PairReader, ReaderOptions
from dragoman.data.readers.xliff import open_xliff
from dragoman.data.synthetic.builtin import BUILTIN, open_builtin, settings_for
from dragoman.errors import DataError

__all__ = ["Source", "find", "settings_for"]

FORMATS: dict[str, Callable[[Path, ReaderOptions], PairReader]] = {
    ".jsonl": open_jsonl,
    ".ndjson": open_jsonl,
    ".tmx": open_tmx,
    ".xliff": open_xliff,
    ".xlf": open_xliff,
    ".po": open_po,
}
"""By the end of the name; every other file is tab-separated."""


class Source(NamedTuple):
    """A corpus that was found: its short name, how to read it, and what the user calls it."""

    name: str
    reader: PairReader
    files: tuple[str, ...]
    states: Mapping[Path, tuple[int, int]] = {}
    """Size and time of change of each file when it was found."""

    def check_unchanged(self) -> None:
        """Raise `DataError` if a file is no longer what it was when it was found."""
        for path, state in self.states.items():
            if _state(path) != state:
                raise DataError(f"{path} changed while it was read; type the command again when the file is complete.")


def find(source: str, target: str | None, options: ReaderOptions) -> Source:
    """What `source`, and for two files `target`, stand for. Raises `DataError` if there is no such thing."""
    if target is not None and (source.startswith((BUILTIN, HUB)) or _suffix(source) in FORMATS):
        raise DataError(f"{source} has both languages already; leave out {target}.")
    if source.startswith(BUILTIN):
        return Source(*open_builtin(source), (source,))
    if source.startswith(HUB):
        name = re.sub(r"[^\w.-]+", "-", source.removeprefix(HUB)).strip("-.")
        return Source(name, open_dataset(source, options), (source,))
    found = _one_file(Path(source), options) if target is None else _two_files(Path(source), Path(target), options)
    return found._replace(states={path: _state(path) for path in (Path(source), Path(target or source))})


def _one_file(path: Path, options: ReaderOptions) -> Source:
    _check_is_file(path)
    name = unpacked_name(path)
    if open_format := FORMATS.get(_suffix(str(path))):
        return Source(Path(name).stem, open_format(path, options), (str(path),))
    pair = re.search("(?<![A-Za-z0-9])([a-z]{2,3})-([a-z]{2,3})(?![A-Za-z0-9])", name)
    guessed = (pair[1], pair[2]) if pair is not None and len(pair[1]) == len(pair[2]) else (None, None)
    reader = PairReader(partial(read_tsv, path, options.replace_bad_bytes), options.languages or guessed)
    return Source(Path(name).stem, reader, (str(path),))


def _two_files(source: Path, target: Path, options: ReaderOptions) -> Source:
    _check_is_file(source)
    _check_is_file(target)
    if source.samefile(target):
        raise DataError(f"Source and target are the same file {source}; give one per language.")
    parts = list(zip(source.name.split("."), target.name.split("."), strict=False))
    common = [left for left, _ in takewhile(lambda pair: pair[0] == pair[1], parts)]
    different = [pair for pair in parts if pair[0] != pair[1]]
    code = re.compile("(?!src|tgt|trg|ref)[a-z]{2,3}([-_][A-Za-z]{2,4})?")
    guessed: Languages = (None, None)
    if len(different) == 1 and all(map(code.fullmatch, different[0])):
        guessed = different[0]
    name = ".".join(common) or parts[0][0]
    reader = PairReader(
        partial(read_two_files, source, target, options.replace_bad_bytes), options.languages or guessed
    )
    return Source(name, reader, (str(source), str(target)))


def _suffix(name: str) -> str:
    return Path(unpacked_name(Path(name))).suffix.lower()


def _check_is_file(path: Path) -> None:
    # os.path answers False where pathlib raises: too long a name, a folder that may not be entered.
    if os.path.isfile(path):
        return
    if os.path.isdir(path):
        raise DataError(f"{path} is a folder; name a file in it, such as {path / 'train.tsv'}.")
    if os.path.exists(path):
        raise DataError(f"{path} cannot be read twice, as training must; save it to a file first.")
    near: list[str] = []
    with suppress(OSError):
        near = difflib.get_close_matches(path.name, os.listdir(path.parent), n=1)
    remedy = f"did you mean {path.parent / near[0]}?" if near else "check the path."
    raise DataError(f"There is no file {path}; {remedy}")


def _state(path: Path) -> tuple[int, int]:
    with suppress(OSError):
        status = path.stat()
        return status.st_size, status.st_mtime_ns
    return 0, 0
