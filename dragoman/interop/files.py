"""Names of the files of pretrained models, and functions that read them within bounds."""

import json
from pathlib import Path
from typing import Any

from dragoman.errors import DataError, ResourceError
from dragoman.system.resources import memory_available

LARGEST = 2**26
"""Most bytes of a vocabulary or another file of JSON, which takes twenty times as much memory at worst. The largest
known file, of NLLB-200, has 32 MB."""
MOST_RATIO = 20
"""Largest ratio of the content of a file of weights to its size. Weights can hardly be compressed: a file that promises
more is made to fill the memory."""
LEAST_BYTES = 2**20
"""Bytes of content that a file may have besides, however small it is."""

INDEX = ".index.json"
"""Ending of a file that names the files in which weights are."""
PRETRAINED = ("model.safetensors", "pytorch_model.bin")
"""Names of the weights in transformers, the safest format first. Large models have several files and an index."""

STYLE_FILE = "source_style.json"
"""File with the style of sources, which Dragoman writes beside the files of transformers when it exports a model."""


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
    """Check the number of bytes that a file of weights says it holds, before memory is allocated for them.

    Raises `ValueError` if a file of its size cannot hold them, and `ResourceError` if memory does not suffice.
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
    """The object in a JSON file; `missing`, if given, if there is no file. Raises `DataError` for anything else."""
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
