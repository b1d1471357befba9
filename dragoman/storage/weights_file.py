"""Seals files of weights, reads them as arrays, and checks by their header that they are whole.

The file is read, not mapped: the bytes that were verified must be those that are used, even if somebody copies another
model over the file meanwhile. The format: https://huggingface.co/docs/safetensors.
"""

import json
import math
import os
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import Any

import numpy as np

from dragoman.errors import DataError
from dragoman.system.seals import checksum

SUMS = "checksums"
"""Key in the metadata: checksums of all files of the model, as JSON. It is the only key, since safetensors would write
several in any order."""
HEADER = "header"
"""Key in these checksums: checksum of the list of tensors."""
TYPES = {
    "F64": np.float64, "F32": np.float32, "F16": np.float16, "BF16": np.uint16,
    "F8_E4M3": np.uint8, "F8_E5M2": np.uint8,
    "I64": np.int64, "I32": np.int32, "I16": np.int16, "I8": np.int8, "U8": np.uint8, "BOOL": np.bool_,
}  # fmt: skip
"""Types of arrays by the formats that tensors may have. numpy knows neither bfloat16 nor numbers of eight bits."""
LARGEST_HEADER = 1 << 23
"""Most bytes before the weights."""
MOST_DIMENSIONS = 32
"""Most dimensions of a tensor. To multiply a million of them would take minutes."""


@dataclass(frozen=True)
class StoredTensor:
    """A tensor as the header describes it."""

    name: str
    dtype: str
    """A key of `TYPES`."""
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


@dataclass(frozen=True)
class StoredWeights:
    """Content of a weights file."""

    arrays: dict[str, np.ndarray]
    """Each array has memory of its own; bfloat16 became float32, without any loss."""
    checksum: str
    """Checksum of the tensors as they were read."""
    sums: dict[str, str]
    """Checksums that the file names for itself and the other files; empty in files without them."""


def read_weights(path: Path) -> StoredWeights:
    """Read a whole file. Raises `DataError` as `opened` does."""
    arrays = {}
    total = ""
    with opened(path) as (file, header):
        for entry in header.tensors:
            array: np.ndarray = np.empty(entry.shape, TYPES[entry.dtype])
            content = array.reshape(-1).view(np.uint8).data
            if file.readinto(content) != entry.size:
                raise ValueError(f"'{entry.name}' ends too early")
            total = checksum(content, total)
            arrays[entry.name] = _from_bfloat16(array) if entry.dtype == "BF16" else array
    return StoredWeights(arrays, total or checksum(b""), header.sums)


def sealed(tensors: Mapping[str, Any], save: Callable[..., bytes], sums: Mapping[str, str], *, name: str) -> bytes:
    """The content of the weights file `name`, with checksums of its tensors, of its header, and `sums`.

    `save` is that of safetensors for these tensors.
    """
    content = memoryview(save(tensors))
    begin = 8 + int.from_bytes(content[:8], "little")
    header = header_checksum(json.loads(bytes(content[8:begin])))
    own = {name: checksum(content[begin:]), HEADER: header}
    return save(tensors, metadata={SUMS: json.dumps({**sums, **own})})


def _from_bfloat16(halves: np.ndarray) -> np.ndarray:
    """Numbers in bfloat16, which are the upper halves of those in float32."""
    return (halves.astype(np.uint32) << 16).view(np.float32)


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
        if len(shape) > MOST_DIMENSIONS:
            raise ValueError(f"'{name}' has {len(shape):,} dimensions")
        if not all(type(number) is int and number >= 0 for number in (*shape, start, end)):
            raise ValueError(f"'{name}' has a size that is no number")
        known = dtype in TYPES
        if not known or start != begin or end - start != np.dtype(TYPES[dtype]).itemsize * math.prod(shape):
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
