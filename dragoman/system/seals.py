"""Seals: what we write for ourselves is verified before a byte of it is understood.

A folder that is finished has a manifest with the size and the SHA-256 of each of its files. A file that stands alone,
or in a folder that is not finished, begins with the SHA-256 of what follows. Whoever reads either gets what was
verified, or a `DataError` that names the file.
"""

import hashlib
import json
import re
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, TypeVar

from dragoman.errors import DataError
from dragoman.system.atomic import write_file

T = TypeVar("T")
MANIFEST = "manifest.json"
LOCK = "lock"
"""The file that a process locks while it fills a folder; no part of what is sealed."""
Mark = dict[str, Any]
"""Size and SHA-256 of a content."""
ANEW = "start a new run with another --output"
_SEALED = re.compile(rb'\{"sha256": "([0-9a-f]{64})", "content": (.*)\}\n', re.DOTALL)
_STRANGE = (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError)
"""What reading raises where a file is not there, or not of the kind that it should be."""


def fingerprint(data: bytes) -> Mark:
    """The mark of a content in a manifest."""
    return {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}


def mark_of(file: Path) -> Mark:
    """The mark of a file, which need not fit into memory."""
    with open(file, "rb") as opened:
        return {"size": file.stat().st_size, "sha256": hashlib.file_digest(opened, "sha256").hexdigest()}


# --- folders --------------------------------------------------------------------------------------


def seal(folder: Path) -> None:
    """Write the manifest of a folder of files, which `check_seal` compares them with."""
    marks = {file.name: mark_of(file) for file in sorted(folder.iterdir()) if file.name != LOCK}
    write_file(folder / MANIFEST, json.dumps(marks, separators=(",", ":")).encode())


def check_seal(folder: Path, *, remedy: str = ANEW) -> None:
    """Raise `DataError` that names the file, unless all files of a folder are as they were when it was sealed."""
    name = MANIFEST
    try:
        for name, mark in _marks(folder).items():
            if mark_of(folder / name) != mark:
                raise ValueError(name)
    except _STRANGE:
        raise _damaged(folder, name, remedy) from None


def content_in(folder: Path, name: str, *, remedy: str = ANEW) -> bytes:
    """The content of a file of a sealed folder. Raises `DataError` if it is not what was written."""
    try:
        mark = _marks(folder)[name]
    except _STRANGE:
        raise _damaged(folder, name, remedy) from None
    return read_verified(folder / name, [mark], remedy=remedy)


def read_in(folder: Path, name: str, *, into: Callable[[Any], T] = lambda value: value, remedy: str = ANEW) -> T:
    """What a JSON file of a sealed folder says, by way of `into`. Raises `DataError` if it is not what was written."""
    content = content_in(folder, name, remedy=remedy)
    try:
        return into(json.loads(content))
    except _STRANGE:
        raise _damaged(folder, name, remedy) from None


def read_verified(path: Path, marks: Collection[Mark], *, remedy: str = ANEW) -> bytes:
    """The content of a file that is as one of its marks says. Raises `DataError` for another one."""
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
    """Replace a file by a value, as JSON with its checksum."""
    content = json.dumps(value).encode()
    digest = hashlib.sha256(content).hexdigest().encode()
    write_file(path, b'{"sha256": "%b", "content": %b}\n' % (digest, content))


def read_sealed(path: Path, *, into: Callable[[Any], T] = lambda value: value, remedy: str = ANEW) -> T:
    """The value that `write_sealed` wrote, by way of `into`. Raises `DataError` if it is not what was written."""
    try:
        found = _SEALED.fullmatch(path.read_bytes())
        if not found or hashlib.sha256(found[2]).hexdigest().encode() != found[1]:
            raise ValueError(path)
        return into(json.loads(found[2]))
    except _STRANGE:
        raise DataError(f"{path} is damaged (it is not what was written); {remedy}.") from None
