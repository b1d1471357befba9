"""Lines of text in and out: UTF-8, split at LF only, plain or gzipped, from a file or stdin, to a file or stdout."""

import codecs
import gzip
import os
import sys
import zlib
from collections.abc import Iterator
from io import BufferedIOBase
from pathlib import Path
from typing import TextIO

from dragoman.errors import DataError, UsageError


def open_input(path: Path | None) -> BufferedIOBase:
    """A file, unpacked if its name ends in `.gz`, or stdin for None. Raises `DataError`."""
    if path is None:
        if sys.stdin.isatty():
            print("Reading from the keyboard: a sentence a line, Ctrl-D ends.", file=sys.stderr)
        return sys.stdin.buffer
    try:
        return gzip.open(path) if path.suffix == ".gz" else path.open("rb")
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}; check the path.") from None


def open_output(path: Path | None, *, source: Path | None = None) -> TextIO:
    """A file to write, which must not be `source`, or stdout for None; closing it is the caller's."""
    if path is None:
        return os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    check_output(path, source=source)
    try:
        return open(path, "w", encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}; choose another --output.") from None


def check_input(path: Path | None) -> None:
    """Raise for a file whose first line cannot be read, or for a stdin (None) that is closed."""
    if path is not None:
        with open_input(path) as stream:
            next(read_lines(stream, str(path)), None)
    elif sys.stdin is None:
        raise UsageError("There is nothing to read, since stdin is closed; give sentences, or a file with --input.")


def check_output(path: Path, *, source: Path | None = None) -> None:
    """Raise `UsageError` for a file that cannot be written, or is `source`."""
    if source is not None and path.exists() and path.samefile(source):
        raise UsageError(f"{path} is read and cannot be written at the same time; choose another --output.")
    why = None
    if path.is_dir():
        why = "it is a folder"
    elif not path.parent.is_dir():
        why = f"there is no folder {path.parent}"
    elif not os.access(path if path.exists() else path.parent, os.W_OK):
        why = "you may not write there"
    if why:
        raise UsageError(f"{path} cannot be written: {why}; choose another --output.")


def read_lines(stream: BufferedIOBase, name: str) -> Iterator[str]:
    """The lines of a stream, without BOM and without one CR at their end. Raises `DataError` with the line number."""
    number = 0
    try:
        _refuse_utf16(stream.peek(1024), name)
        for number, raw in enumerate(stream, start=1):
            content = raw.removeprefix(codecs.BOM_UTF8) if number == 1 else raw
            yield content.removesuffix(b"\n").removesuffix(b"\r").decode("utf-8")
    except UnicodeDecodeError as error:
        raise DataError(
            f"{name}, line {number} is not valid UTF-8 (byte 0x{error.object[error.start]:02X} at "
            f"position {error.start + 1}); save or convert the file as UTF-8."
        ) from None
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(
            f"{name} cannot be read after line {number}: {error}; check that the file is whole "
            "and that you may read it."
        ) from None


def one_line(text: str) -> str:
    """A model may invent a line break; N lines in must stay N lines out."""
    return text.replace("\n", " ")


def _refuse_utf16(head: bytes, name: str) -> None:
    # Without its BOM, UTF-16 of Latin text is valid UTF-8 in which every other byte is NUL.
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) or head.count(0) * 4 > len(head):
        raise DataError(
            f"{name}, line 1 is encoded as UTF-16, not UTF-8; save or convert the file as UTF-8, "
            "for example with `iconv -f UTF-16 -t UTF-8`."
        )
