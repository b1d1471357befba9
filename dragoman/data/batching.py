"""Sentence pairs as token ids on disk, and the batches of an epoch: length buckets under a token budget."""

from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, Self, runtime_checkable

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor


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


@dataclass(frozen=True)
class Batch:
    """Sentence pairs side by side, short rows filled up with padding on the right."""

    source_ids: Int[Tensor, "batch src_len"]
    """Tokens, then the end of sentence."""
    target_ids: Int[Tensor, "batch tgt_len"]
    """What the decoder is given: the begin of sentence, then tokens."""
    labels: Int[Tensor, "batch tgt_len"]
    """What it shall predict: tokens, then the end of sentence."""

    def to(self, device: torch.device | str) -> "Batch":
        moved = (t.to(device, non_blocking=True) for t in (self.source_ids, self.target_ids, self.labels))
        return Batch(*moved)


@dataclass
class Position:
    """Where in the endless row of epochs the next batch stands."""

    epoch: int = 0
    batch: int = 0


class TokenBatches:
    """An endless, shuffled, resumable row of batches over a pair of token stores.

    Each epoch holds every pair once. A batch has at most `max_tokens` target tokens and twice as many source
    tokens, padding included; a single longer pair is a batch of its own. The order follows from `seed` and the
    epoch alone, so a `Position` is all there is to save.
    """

    def __init__(
        self,
        source: Store,
        target: Store,
        *,
        max_tokens: int,
        seed: int,
        special_ids: tuple[int, int, int],
    ):
        """`special_ids` are those of padding, begin and end of sentence."""
        assert len(source) == len(target) > 0
        self._stores = self.source, self.target = source, target
        self.max_tokens, self.seed = max_tokens, seed
        self.pad_id, self.bos_id, self.eos_id = special_ids
        self._planned: tuple[int, list[np.ndarray]] | None = None

    def plan(self, epoch: int) -> list[np.ndarray]:
        """The pairs of each batch of an epoch, in order."""
        if self._planned is None or self._planned[0] != epoch:
            self._open(epoch)
            self._planned = (epoch, self._plan(np.random.default_rng((self.seed, epoch))))
        return self._planned[1]

    def next(self, position: Position) -> Batch:
        """The batch at `position`, which moves on."""
        if position.batch >= len(self.plan(position.epoch)):
            position.epoch, position.batch = position.epoch + 1, 0
        batch = self.collate(self.plan(position.epoch)[position.batch])
        position.batch += 1
        return batch

    def in_order(self) -> Iterator[Batch]:
        """One pass over all pairs, sorted by length: for validation."""
        self._open(0)
        for rows in self._cut(np.lexsort((self._source_lengths, self._target_lengths))):
            yield self.collate(rows)

    def collate(self, rows: np.ndarray) -> Batch:
        """The pairs with these indices as one batch."""
        source = padded([self.source[i] for i in rows.tolist()], self.pad_id, end=self.eos_id)
        target = padded([self.target[i] for i in rows.tolist()], self.pad_id, begin=self.bos_id, end=self.eos_id)
        # Short rows are given their end of sentence too; what follows it is padding, which nobody predicts.
        return Batch(source, target[:, :-1], target[:, 1:])

    def _open(self, epoch: int) -> None:
        self.source, self.target = (store.epoch(epoch) for store in self._stores)
        self._source_lengths, self._target_lengths = self.source.lengths + 1, self.target.lengths + 1
        self._planned = None

    def _plan(self, rng: np.random.Generator) -> list[np.ndarray]:
        order = rng.permutation(len(self.target))
        target, source = self._target_lengths[order], self._source_lengths[order]
        # Equal target lengths side by side, within them sources up for one length and down for the next: where
        # one length ends, the sources go on at the same end, and few batches mix short and long ones.
        order = order[np.lexsort((np.where(target % 2, source, -source), target))]
        batches = self._cut(order)
        return [batches[i] for i in rng.permutation(len(batches))]

    def _cut(self, order: np.ndarray) -> list[np.ndarray]:
        target, source = self._target_lengths[order], self._source_lengths[order]
        batches, start = [], 0
        while start < len(order):
            stop = min(len(order), start + max(1, self.max_tokens // int(target[start])))
            # Lengths grow to the right: a later end makes wider rows, so shrink until both budgets hold.
            while stop > start + 1 and (
                (stop - start) * target[stop - 1] > self.max_tokens
                or (stop - start) * source[start:stop].max() > 2 * self.max_tokens
            ):
                stop -= 1
            batches.append(order[start:stop])
            start = stop
        return batches


def padded(
    rows: Sequence[np.ndarray | list[int]], pad: int, *, begin: int | None = None, end: int
) -> Int[Tensor, "batch length"]:
    """Sentences as rows between the ids `begin` (if given) and `end`, filled up with `pad` on the right."""
    first = int(begin is not None)
    out = np.full((len(rows), max(map(len, rows)) + 1 + first), pad, np.int64)
    if begin is not None:
        out[:, 0] = begin
    for row, ids in zip(out, rows, strict=True):
        row[first : first + len(ids)] = ids
        row[first + len(ids)] = end
    return torch.from_numpy(out)


def batches_by_length(lengths: Sequence[int], max_tokens: int) -> Iterator[list[int]]:
    """Indices of sentences, longest first, in groups of at most `max_tokens` tokens with padding, or of one."""
    order = sorted(range(len(lengths)), key=lambda i: -lengths[i])
    start = 0
    while start < len(order):
        size = max(1, max_tokens // lengths[order[start]])
        yield order[start : start + size]
        start += size


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
