"""Names of files with pretrained models, and their JSON, read within bounds."""

import json
from pathlib import Path
from typing import Any

from dragoman.errors import DataError, ResourceError
from dragoman.system.resources import memory_available

LARGEST = 2**26
"""Most bytes of a vocabulary or another file of JSON, which takes twenty times as much memory at worst. The largest
that is known, of NLLB-200, has 32 MB."""

MOST_RATIO, LEAST_BYTES = 20, 2**20
"""How many times as large as its file the content may be, if it has more than so many bytes: numbers of weights can
hardly be compressed, and a file that promises more is made to fill the memory."""

INDEX = ".index.json"
"""Ending of a file that tells in which other files weights are."""
PRETRAINED = ("model.safetensors", "pytorch_model.bin")
"""How transformers calls the weights, the safest first; those of large models are in several files and an index."""

STYLE_FILE = "source_style.json"
"""How sources are written, beside the files that transformers reads: Dragoman writes it when it exports a model."""


def read_bytes(path: Path, most: int) -> bytes:
    """The content of a file. Raises `ValueError` for one that is larger than `most` bytes, or for a pipe or device."""
    if path.exists() and not path.is_file():
        raise ValueError("no file")
    with path.open("rb") as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise ValueError(f"larger than {most >> 20} MB")
    return content


def check_promise(path: Path, size: int) -> None:
    """Judge the bytes that a file of weights says it has, before memory is asked for them.

    Raises `ValueError` if they are more than its own size can hold, and `ResourceError` if memory does not suffice.
    """
    if size > MOST_RATIO * path.stat().st_size + LEAST_BYTES:
        raise ValueError(f"it would be more than {MOST_RATIO} times as large in memory")
    available = memory_available()
    if available is not None and size > available:
        raise ResourceError(
            f"{path} has {size >> 20:,} MB of weights, but only {available >> 20:,} MB of memory are free; close other "
            "programs, or use a machine with more memory."
        )


def read_json(path: Path, *, missing: dict[str, Any] | None = None) -> dict[str, Any]:
    """The object in a JSON file; `missing`, if given, for a file that is not there. Raises `DataError` else."""
    if missing is not None and not path.exists():
        return missing
    try:
        content = json.loads(read_bytes(path, LARGEST).decode())
    except (OSError, ValueError, RecursionError) as error:
        problem = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise DataError(f"{path} cannot be read: {problem}; copy the whole model again.") from None
    if not isinstance(content, dict):
        raise DataError(f"{path} holds no JSON object; copy the whole model again.")
    return content
