"""Reads lines of text, in UTF-8 and split at LF only, from plain or packed files or stdin."""

import bz2
import codecs
import gzip
import lzma
import sys
import zlib
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from io import BufferedIOBase
from pathlib import Path
from types import ModuleType
from typing import IO, BinaryIO

from dragoman.errors import DataError
from dragoman.system.optional import load

PACKED = {
    ".gz": b"\x1f\x8b", ".xz": b"\xfd7zXZ\0", ".zst": b"\x28\xb5\x2f\xfd",
    ".bz2": tuple(b"BZh%d1AY&SY" % level for level in range(1, 10)),
}  # fmt: skip
"""By the end of the name of a packed file: the bytes with which such files begin."""
MARKS = {
    codecs.BOM_UTF8: "utf-8", codecs.BOM_UTF32_LE: "utf-32-le", codecs.BOM_UTF32_BE: "utf-32-be",
    codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be",
}  # fmt: skip
"""Encodings by the first bytes of a text. Those of UTF-32 begin like those of UTF-16, so they come first."""
HEAD = 1 << 14
"""First bytes of a file that are read to find its format."""
MAX_LINE = 1 << 24
"""Most bytes of a line; a longer one is no line of text, and would fill the memory."""
MAX_TEXT = 1 << 20
"""Most characters of a text over several lines; a longer one is no sentence, and would fill the memory."""


def open_input(path: Path | None) -> BufferedIOBase:
    """Open a file, unpacked if its first bytes or its name say that it is packed, or stdin for None.

    Raises `DataError` if it cannot be read.
    """
    if path is None:
        if sys.stdin.isatty():
            print("Reading from the keyboard: a sentence a line, Ctrl-D ends.", file=sys.stderr)
        return sys.stdin.buffer
    try:
        packing = packing_of(path)
        if packing == ".zst":
            return zstd().open(path)
        return {".gz": gzip.open, ".xz": lzma.open, ".bz2": bz2.open}.get(packing, open)(path, "rb")
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}; check the path.") from None


def packing_of(path: Path) -> str:
    """The key of `PACKED` that fits the first bytes of a file, or else the end of its name."""
    if path.is_file():  # a pipe could not be opened twice
        with open(path, "rb") as file:
            head = file.peek(8)
        for packing, marks in PACKED.items():
            if head.startswith(marks):
                return packing
    return path.suffix.lower()


def packed(file: BinaryIO, packing: str) -> AbstractContextManager[IO[bytes]]:
    """A stream that packs its content into `file`, which stays open. The same content gives the same bytes."""
    if packing == ".gz":
        return gzip.GzipFile("", "wb", fileobj=file, mtime=0)
    if packing == ".xz":
        return lzma.open(file, "wb")
    if packing == ".bz2":
        return bz2.open(file, "wb")
    if packing == ".zst":
        return zstd().open(file, "wb")
    return nullcontext(file)


def read_head(path: Path) -> bytes:
    """The first bytes of a file, unpacked; fewer if it is damaged, which a pass over it reports."""
    head = b""
    try:
        with open_input(path) as stream:
            while len(head) < HEAD and (part := stream.read1(HEAD - len(head))):
                head += part
    except unpacking_errors():
        pass
    return head


def unpacked_name(path: Path) -> str:
    """The name of a file without the end that says that it is packed."""
    return path.stem if path.suffix.lower() in PACKED else path.name


def read_lines(
    stream: BufferedIOBase, name: str, *, replace: bool = False, remedy: str = "", encoding: str = "UTF-8"
) -> Iterator[str]:
    """The lines of a stream, without BOM and without one CR at their end. Raises `DataError` with the line number.

    With `replace`, bytes that are not valid become U+FFFD. Without, they are refused with a message that ends with
    `remedy`.
    """
    errors = "replace" if replace else "strict"
    for number, content, is_whole in raw_lines(stream, name):
        if not is_whole:
            raise DataError(
                f"{name}, line {number} is longer than {MAX_LINE >> 20} MiB; give text with one sentence or pair "
                "on each line."
            )
        try:
            yield content.decode(encoding, errors)
        except UnicodeDecodeError as error:
            raise DataError(
                f"{name}, line {number} is not valid {encoding} (byte 0x{error.object[error.start]:02X} at "
                f"position {error.start + 1}); save or convert the file as UTF-8{remedy}."
            ) from None


def raw_lines(stream: BufferedIOBase, name: str) -> Iterator[tuple[int, bytes, bool]]:
    """(number, bytes, whether these are all) of each line, without BOM and line end, cut off at `MAX_LINE` bytes."""
    number = 0
    try:
        _refuse_other_text(stream.peek(1024), name)
        while raw := stream.readline(MAX_LINE):
            number += 1
            is_whole = len(raw) < MAX_LINE or raw.endswith(b"\n")
            content = raw.removeprefix(codecs.BOM_UTF8) if number == 1 else raw
            yield number, content.removesuffix(b"\n").removesuffix(b"\r"), is_whole
            while len(raw) == MAX_LINE and not raw.endswith(b"\n"):
                raw = stream.readline(MAX_LINE)
    except unpacking_errors() as error:
        raise DataError(
            f"{name} cannot be read after line {number}: {error}; check that the file is whole, that it is packed as "
            "its name says, and that you may read it."
        ) from None


def read_file(path: Path, *, replace: bool = False, encoding: str = "UTF-8") -> Iterator[str]:
    """The lines of a file of sentence pairs. Raises `DataError` if it has none."""
    line = None
    remedy = ", or leave such pairs out with data.replace_bad_bytes=true"
    with open_input(path) as stream:
        for line in read_lines(stream, str(path), replace=replace, remedy=remedy, encoding=encoding):
            yield line
    if line is None:
        raise DataError(f"{path} is empty; give a file with one sentence or pair on each line.")


def encoding_of(head: bytes) -> str | None:
    """The encoding of a text by its first bytes: by a byte order mark, or by the positions of NUL; None if unknown.

    UTF-16 and UTF-32 of Latin text have a NUL in every other byte, or in three of four.
    """
    for mark, encoding in MARKS.items():
        if head.startswith(mark):
            return encoding
    head = head[: len(head) // 4 * 4]
    if not head or head.count(0) * 4 <= len(head):
        return None
    is_mostly_nul = tuple(head[start::4].count(0) * 8 > len(head) for start in range(4))
    patterns = {
        (False, True, True, True): "utf-32-le", (True, True, True, False): "utf-32-be",
        (False, True, False, True): "utf-16-le", (True, False, True, False): "utf-16-be",
    }  # fmt: skip
    return patterns.get(is_mostly_nul)


def unpacking_errors() -> tuple[type[Exception], ...]:
    """The errors that are raised while a file is read that is damaged or cut short."""
    errors: tuple[type[Exception], ...] = (OSError, EOFError, zlib.error, lzma.LZMAError)
    if sys.modules.get("backports.zstd") or sys.modules.get("compression.zstd"):
        errors += (zstd().ZstdError,)
    return errors


def zstd() -> ModuleType:
    """The module that packs and unpacks .zst."""
    # Both have the same code. The package `zstandard` takes a file that breaks off for a whole one.
    module = "compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd"
    return load(module, extra="formats", purpose="Reading .zst files")


def _refuse_other_text(head: bytes, name: str) -> None:
    """Raise `DataError` for a text in UTF-16 or UTF-32, or with lines that end with CR alone."""
    if any(head.startswith(marks) for marks in PACKED.values()):
        raise DataError(f"{name} is packed; unpack it first, for example with `zcat`, or name the file.")
    # Without its BOM, UTF-16 of Latin text is valid UTF-8 in which every other byte is NUL.
    encoding = encoding_of(head)
    if encoding not in (None, "utf-8") or head.count(0) * 4 > len(head):
        actual = "UTF-32" if encoding and "32" in encoding else "UTF-16"
        raise DataError(
            f"{name}, line 1 is encoded as {actual}, not UTF-8; save or convert the file as UTF-8, "
            f"for example with `iconv -f {actual} -t UTF-8`."
        )
    if head.count(b"\r") > 1 and b"\n" not in head:
        raise DataError(f"{name} ends its lines with CR alone; convert them, such as with `tr '\\r' '\\n'`.")
