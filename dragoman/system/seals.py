"""Seals: checksums of our own files, which are verified before a byte is parsed.

A folder that is finished has a manifest with the size and the SHA-256 of each of its files. A file that stands alone,
or in a folder that is not finished, begins with the SHA-256 of what follows. Reading either gives what was verified, or
raises a `DataError` that names the file.
"""

import hashlib
import json
import re
import zlib
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, TypeVar

from dragoman.errors import DataError
from dragoman.system.atomic import write_file

T = TypeVar("T")
MANIFEST = "manifest.json"
LOCK = "lock"
"""Name of the file that a process locks while it fills a folder. It is not sealed."""
Mark = dict[str, Any]
"""`size` and `sha256` of a content."""
ANEW = "start a new run with another --output"
_SEALED = re.compile(rb'\{"sha256": "([0-9a-f]{64})", "content": (.*)\}\n', re.DOTALL)
_DAMAGE = (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError)
"""Errors that reading raises where a file is missing, or holds something else than it should."""


def fingerprint(data: bytes) -> Mark:
    """Size and SHA-256 of a content, as a manifest has them."""
    return {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}


def mark_of(file: Path) -> Mark:
    """Size and SHA-256 of a file, which need not fit into memory."""
    with open(file, "rb") as opened:
        return {"size": file.stat().st_size, "sha256": hashlib.file_digest(opened, "sha256").hexdigest()}


def checksum(content: bytes | memoryview, before: str = "") -> str:
    """CRC-32 as eight hexadecimal digits, which finds damage, not malice; 100 MB take some 25 ms.

    It seals what is read by browsers and by other versions: models, and entries of a memory. Of a content in pieces,
    `before` is the checksum of those before this one.
    """
    return f"{zlib.crc32(content, int(before or '0', 16)):08x}"


# --- folders --------------------------------------------------------------------------------------


def seal(folder: Path) -> None:
    """Write the manifest of a folder, with which `check_seal` compares its files."""
    marks = {file.name: mark_of(file) for file in sorted(folder.iterdir()) if file.name not in (LOCK, MANIFEST)}
    write_file(folder / MANIFEST, json.dumps(marks, separators=(",", ":")).encode())


def check_seal(folder: Path, *, remedy: str = ANEW) -> None:
    """Raise `DataError` that names the file, unless all files of a folder are as they were when it was sealed."""
    name = MANIFEST
    try:
        for name, mark in _marks(folder).items():
            if mark_of(folder / name) != mark:
                raise ValueError(name)
    except _DAMAGE:
        raise _damaged(folder, name, remedy) from None


def content_in(folder: Path, name: str, *, remedy: str = ANEW) -> bytes:
    """The content of a file of a sealed folder. Raises `DataError` if it has changed."""
    try:
        mark = _marks(folder)[name]
    except _DAMAGE:
        raise _damaged(folder, name, remedy) from None
    return read_verified(folder / name, [mark], remedy=remedy)


def read_in(folder: Path, name: str, *, into: Callable[[Any], T] = lambda value: value, remedy: str = ANEW) -> T:
    """The value in a JSON file of a sealed folder, converted by `into`. Raises `DataError` if the file has changed."""
    content = content_in(folder, name, remedy=remedy)
    try:
        return into(json.loads(content))
    except _DAMAGE:
        raise _damaged(folder, name, remedy) from None


def read_verified(path: Path, marks: Collection[Mark], *, remedy: str = ANEW) -> bytes:
    """The content of a file that has one of these marks. Raises `DataError` if it has another one."""
    try:
        content = path.read_bytes()
    except OSError:
        content = b""
    if fingerprint(content) not in marks:
        raise _damaged(path.parent, path.name, remedy)
    return content


def _marks(folder: Path) -> dict[str, Any]:
    marks: dict[str, Any] = json.loads((folder / MANIFEST).read_bytes())
    return marks


def _damaged(folder: Path, name: str, remedy: str) -> DataError:
    return DataError(f"{folder} is damaged ({name} is not what was written); {remedy}.")


# --- files ----------------------------------------------------------------------------------------


def write_sealed(path: Path, value: Any) -> None:
    """Replace a file by the JSON of a value, with its checksum."""
    content = json.dumps(value).encode()
    digest = hashlib.sha256(content).hexdigest().encode()
    write_file(path, b'{"sha256": "%b", "content": %b}\n' % (digest, content))


def read_sealed(path: Path, *, into: Callable[[Any], T] = lambda value: value, remedy: str = ANEW) -> T:
    """The value that `write_sealed` wrote, converted by `into`. Raises `DataError` if the file has changed."""
    try:
        match = _SEALED.fullmatch(path.read_bytes())
        if not match:
            raise ValueError(path)
        digest, content = match.groups()
        if hashlib.sha256(content).hexdigest().encode() != digest:
            raise ValueError(path)
        return into(json.loads(content))
    except _DAMAGE:
        raise DataError(f"{path} is damaged (it is not what was written); {remedy}.") from None
