"""Lines of text in and out: split at LF only, UTF-8, from a file or stdin, to a file or stdout."""

import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TextIO

from dragoman.errors import DataError, UsageError


def read_lines(path: Path | None) -> Iterator[str]:
    """The lines of a file, or of stdin for None. Raises `DataError` that names file and line."""
    if path is None:
        if sys.stdin.isatty():
            print("Reading from the keyboard: a sentence a line, Ctrl-D ends.", file=sys.stderr)
        yield from _decoded(sys.stdin.buffer, "stdin")
        return
    try:
        with open(path, "rb") as file:
            yield from _decoded(file, str(path))
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}; check the path given to --input.") from None


def open_output(path: Path | None) -> TextIO:
    """A file to write, or stdout for None; closing it is the caller's."""
    if path is None:
        return os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    try:
        return open(path, "w", encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}; choose another --output.") from None


def one_line(text: str) -> str:
    """A model may invent a line break; N lines in must stay N lines out."""
    return text.replace("\n", " ")


def _decoded(file: Iterable[bytes], name: str) -> Iterator[str]:
    for number, line in enumerate(file, start=1):
        try:
            yield line.removesuffix(b"\n").removesuffix(b"\r").decode()
        except UnicodeDecodeError:
            raise DataError(f"{name}, line {number} is not valid UTF-8; convert it, for example with iconv.") from None
