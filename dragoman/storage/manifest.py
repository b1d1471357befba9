"""What files were when they were written: their sizes and SHA-256, which tell damage before it does any."""

import hashlib
import json
from pathlib import Path
from typing import Any

from dragoman.errors import DataError
from dragoman.storage.atomic import write_file

MANIFEST = "manifest.json"


def fingerprint(data: bytes) -> dict[str, Any]:
    """The mark of a content in a manifest."""
    return {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}


def seal(folder: Path) -> None:
    """Write the manifest of a folder of files, which `check_seal` compares them with."""
    marks = {file.name: mark_of(file) for file in sorted(folder.iterdir())}
    write_file(folder / MANIFEST, json.dumps(marks, separators=(",", ":")).encode())


def check_seal(folder: Path, *, remedy: str = "start a new run with another --output") -> None:
    """Raise `DataError` that names the file, unless all files of a folder are as they were when it was sealed."""
    name = MANIFEST
    try:
        marks = json.loads((folder / name).read_bytes())
        for name, mark in marks.items():
            if mark_of(folder / name) != mark:
                raise ValueError(name)
    except (OSError, ValueError, TypeError, AttributeError, RecursionError):
        raise DataError(f"{folder} is damaged ({name} is not what was written); {remedy}.") from None


def mark_of(file: Path) -> dict[str, Any]:
    """The mark of a file, which need not fit into memory."""
    with open(file, "rb") as opened:
        return {"size": file.stat().st_size, "sha256": hashlib.file_digest(opened, "sha256").hexdigest()}
