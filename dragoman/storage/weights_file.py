"""Opens model.safetensors and checks that the file is whole, by its header. The caller reads the tensors.

The file is read, not mapped: the bytes that were verified must be those that are used, even if somebody copies another
model over the file meanwhile. The format: https://huggingface.co/docs/safetensors.
"""

import json
import math
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import Any

from dragoman.errors import DataError
from dragoman.system.seals import checksum

SUMS = "checksums"
"""Key in the metadata: checksums of all files of the model, as JSON. It is the only key, since safetensors would write
several in any order."""
HEADER = "header"
"""Key in these checksums: checksum of the list of tensors."""
BYTES = {
    "F64": 8, "F32": 4, "F16": 2, "BF16": 2, "F8_E4M3": 1, "F8_E5M2": 1,
    "I64": 8, "I32": 4, "I16": 2, "I8": 1, "U8": 1, "BOOL": 1,
}  # fmt: skip
"""Bytes of a number in each format that tensors may have."""
LARGEST_HEADER = 1 << 23
"""Most bytes before the weights."""


@dataclass(frozen=True)
class StoredTensor:
    """A tensor as the header describes it."""

    name: str
    dtype: str
    """A key of `BYTES`."""
    shape: tuple[int, ...]
    size: int
    """Bytes."""


@dataclass(frozen=True)
class Header:
    """Header of a weights file, which precedes the tensors."""

    tensors: list[StoredTensor]
    """Tensors in the order of their bytes, which have no gaps."""
    sums: dict[str, str]
    """Checksums of the files of the model, by name; empty in files of other programs and of version 0.1.0."""
    begin: int
    """Position of the first tensor, in bytes."""


@contextmanager
def opened(path: Path) -> Iterator[tuple[BufferedReader, Header]]:
    """The file, positioned at its first tensor, and its header.

    Raises `DataError` unless the file has exactly the bytes that the header describes.
    """
    try:
        with open(path, "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise ValueError("it is no file")
            yield file, _read_header(file, status.st_size)
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}; copy the model again.") from None
    except (ValueError, LookupError, RecursionError, AttributeError, TypeError) as error:
        raise DataError(f"{path} is cut short or damaged ({error}); copy the model again.") from None


def header_checksum(content: dict[str, Any]) -> str:
    """CRC-32 of a header without its metadata: the names, formats, shapes and positions of the tensors."""
    tensors = {name: entry for name, entry in content.items() if name != "__metadata__"}
    return checksum(json.dumps(tensors, sort_keys=True).encode())


def _read_header(file: BufferedReader, size: int) -> Header:
    length = int.from_bytes(file.read(8), "little")
    if length > LARGEST_HEADER:
        raise ValueError(f"a header of {length} bytes")
    content = json.loads(file.read(length))
    metadata = content.get("__metadata__") or {}
    entries = {name: entry for name, entry in content.items() if name != "__metadata__"}
    tensors = []
    begin = 0  # of the next tensor
    for name, entry in sorted(entries.items(), key=lambda item: item[1]["data_offsets"]):
        dtype, shape = entry["dtype"], tuple(entry["shape"])
        start, end = entry["data_offsets"]
        if not all(type(number) is int and number >= 0 for number in (*shape, start, end)):
            raise ValueError(f"'{name}' has a size that is no number")
        if dtype not in BYTES or start != begin or end - start != BYTES[dtype] * math.prod(shape):
            raise ValueError(f"'{name}' is not where its size says")
        tensors.append(StoredTensor(name, dtype, shape, end - start))
        begin = end
    if 8 + length + begin != size:
        raise ValueError(f"{size:,} bytes, not fully covered by {8 + length + begin:,} of header and tensors")
    sums = json.loads(metadata.get(SUMS, "{}"))
    if not all(isinstance(text, str) for text in sums.values()):
        raise TypeError("its checksums are no text")
    if sums.pop(HEADER, header_checksum(content)) != header_checksum(content):
        raise ValueError("its header is not what was written")
    return Header(tensors, sums, 8 + length)
