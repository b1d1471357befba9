"""Files beside a model that it translates without: the sketch of what it was trained on, and its confidence.

Each names the weights that it belongs to, so that those of a model that was replaced do not count, and is verified when
it is read.
"""

import hashlib
import os
from pathlib import Path
from typing import Any

from dragoman.engine.confidence import ConfidenceModel
from dragoman.errors import DataError
from dragoman.storage.validate import WEIGHTS
from dragoman.storage.weights_file import opened
from dragoman.system.atomic import write_file
from dragoman.system.seals import read_sealed, write_sealed
from dragoman.text.sketch import LARGEST as LARGEST_SKETCH
from dragoman.text.sketch import MOST_PARTS, SEAL, Sketch

SKETCH, CONFIDENCE = "sketch.bin", "confidence.json"
LARGEST = {SKETCH: MOST_PARTS * (LARGEST_SKETCH + SEAL) + SEAL, CONFIDENCE: 1 << 20}
"""Most bytes of each file."""
REMEDY = "copy it again, or delete it: the model translates without it"
_DIGEST = hashlib.sha256().digest_size


def weights_checksum(path: Path) -> str:
    """The checksum of the weights of a model directory, as its weights file names it; empty if it names none."""
    with opened(path / WEIGHTS) as (_, header):
        return header.sums.get(WEIGHTS, "")


def write_sketch(path: Path, sketch: Sketch) -> None:
    """Write the sketch of the model in a directory: a SHA-256, the checksum of its weights, and the bits."""
    content = weights_checksum(path).encode().ljust(8) + sketch.to_bytes()
    write_file(path / SKETCH, hashlib.sha256(content).digest() + content)


def read_sketch(path: Path) -> Sketch | None:
    """The sketch of the model in a directory; None if it has none. Raises `DataError` for a damaged one."""
    content = _content(path / SKETCH)
    if content is None:
        return None
    digest, weights, bits = content[:_DIGEST], content[_DIGEST : _DIGEST + 8], content[_DIGEST + 8 :]
    try:
        if hashlib.sha256(content[_DIGEST:]).digest() != digest:
            raise ValueError("it is not what was written")
        sketch = Sketch.from_bytes(bits)
    except ValueError as error:
        raise DataError(f"{path / SKETCH} is damaged ({error}); {REMEDY}.") from None
    return sketch if weights.decode(errors="replace").strip() == weights_checksum(path) else None


def write_confidence(path: Path, model: ConfidenceModel) -> None:
    """Write the confidence model of the model in a directory."""
    write_sealed(path / CONFIDENCE, {"weights": weights_checksum(path), **model.to_dict()})


def read_confidence(path: Path) -> ConfidenceModel | None:
    """The confidence model of the model in a directory; None if it has none. Raises `DataError` for a damaged one."""
    if _content(path / CONFIDENCE) is None:
        return None
    stored = read_sealed(path / CONFIDENCE, into=_read_confidence, remedy=REMEDY)
    return stored[1] if stored[0] == weights_checksum(path) else None


def copy_beside(model: Path, copy: Path) -> None:
    """Give a copy of a model, whose weights may be written in another way, what stands beside the model."""
    if sketch := read_sketch(model):
        write_sketch(copy, sketch)
    if confidence := read_confidence(model):
        write_confidence(copy, confidence)


def _read_confidence(content: dict[str, Any]) -> tuple[str, ConfidenceModel]:
    """The checksum of the weights that a confidence model belongs to, and the model."""
    return content["weights"], ConfidenceModel.from_dict(content)


def _content(file: Path) -> bytes | None:
    """The bytes of a file; None if it is missing. Raises `DataError` if it cannot be read, or is too large."""
    if not os.path.lexists(file):
        return None
    if not os.path.isfile(file):
        raise DataError(f"{file} is no file; {REMEDY}.")
    most = LARGEST[file.name]
    if os.path.getsize(file) > most:
        raise DataError(f"{file} has more than {most >> 20} MiB, which no such file has; {REMEDY}.")
    try:
        return file.read_bytes()
    except OSError as error:
        raise DataError(f"{file} cannot be read ({error.strerror}); {REMEDY}.") from None
