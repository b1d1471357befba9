"""Sentences as token ids on disk, memory-mapped."""

from array import array
from collections.abc import Iterable
from pathlib import Path
from typing import Protocol, Self, runtime_checkable

import numpy as np


@runtime_checkable
class Sentences(Protocol):
    """Sentences as token ids."""

    lengths: np.ndarray
    """Tokens of each."""

    def __getitem__(self, index: int) -> np.ndarray: ...


@runtime_checkable
class Store(Protocol):
    """Sentences that may be cut into other tokens in each epoch."""

    def __len__(self) -> int: ...

    def epoch(self, number: int) -> Sentences:
        """The sentences of an epoch."""


class TokenStore:
    """Sentences as token ids in two memory-mapped files: the ids end to end, and where each sentence ends."""

    def __init__(self, path: Path):
        self.ends = np.load(path.with_suffix(".ends.npy"), mmap_mode="r")
        ids = path.with_suffix(".ids")
        # An empty file cannot be mapped.
        self.ids = np.memmap(ids, np.uint32, "r") if ids.stat().st_size else np.empty(0, np.uint32)

    @staticmethod
    def write(path: Path, sentences: Iterable[list[int]]) -> None:
        """Write one store."""
        with _StoreWriter(path) as writer:
            for ids in sentences:
                writer.add(ids)

    @staticmethod
    def write_pair(source: Path, target: Path, pairs: Iterable[tuple[list[int], list[int]]]) -> None:
        """Write two stores side by side; `pairs` is read once and never held as a whole."""
        with _StoreWriter(source) as source_writer, _StoreWriter(target) as target_writer:
            for source_ids, target_ids in pairs:
                source_writer.add(source_ids)
                target_writer.add(target_ids)

    def __len__(self) -> int:
        return len(self.ends)

    def __getitem__(self, index: int) -> np.ndarray:
        """The token ids of one sentence."""
        return self.ids[self.ends[index - 1] if index else 0 : self.ends[index]]

    @property
    def lengths(self) -> np.ndarray:
        return np.diff(self.ends, prepend=0)

    def epoch(self, number: int) -> "TokenStore":
        """What there is to read in an epoch: in each the same."""
        return self


class _StoreWriter:
    """Collects ids and flushes them by the million."""

    def __init__(self, path: Path):
        self.path = path
        self.lengths, self.pending = array("q"), array("I")

    def __enter__(self) -> Self:
        self.file = open(self.path.with_suffix(".ids"), "wb")
        return self

    def __exit__(self, *exception) -> None:
        self.pending.tofile(self.file)
        self.file.close()
        np.save(self.path.with_suffix(".ends.npy"), np.cumsum(np.frombuffer(self.lengths, np.int64)))

    def add(self, ids: list[int]) -> None:
        self.lengths.append(len(ids))
        self.pending.extend(ids)
        if len(self.pending) > 1_000_000:
            self.pending.tofile(self.file)
            self.pending = array("I")
