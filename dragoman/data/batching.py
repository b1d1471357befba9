"""Sentence pairs as token ids on disk, and the batches of an epoch: length buckets under a token budget."""

import os
from array import array
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any, Protocol, Self, runtime_checkable

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from dragoman.data.arrays import save_array
from dragoman.data.soft_targets import SoftTargets, SoftTargetStore
from dragoman.text.tokenizers.algorithms import OURS, SpecialIds

Rows = Sequence[Sequence[int] | np.ndarray]
"""The token ids of some sentences."""
Specials = tuple[SpecialIds, ...]
"""The special ids of targets, and those of sources if they differ."""


class Sentences:
    """Sentences as token ids: the ids end to end, and where each sentence ends."""

    changed: Collection[int] = ()
    """Indices of sentences that have other tokens in this epoch than they are stored with."""

    def __init__(self, ids: np.ndarray, ends: np.ndarray):
        # Plain arrays, since slices of `np.memmap` take longer.
        self.ids = np.asarray(ids)
        self.ends = np.asarray(ends)

    def __len__(self) -> int:
        return len(self.ends)

    def __getitem__(self, index: int) -> np.ndarray:
        """The token ids of one sentence."""
        return self.ids[self.ends[index - 1] if index else 0 : self.ends[index]]

    @property
    def lengths(self) -> np.ndarray:
        """Number of tokens of each sentence."""
        return np.diff(self.ends, prepend=0)


@runtime_checkable
class Store(Protocol):
    """Sentences that may be split into other tokens in each epoch."""

    def __len__(self) -> int: ...

    def epoch(self, number: int) -> Sentences:
        """The sentences of an epoch."""


class TokenStore(Sentences):
    """Sentences in two memory-mapped files."""

    def __init__(self, path: Path):
        with open(path.with_suffix(".ids"), "rb") as ids:
            super().__init__(memory_mapped(ids), np.load(path.with_suffix(".ends.npy"), mmap_mode="r"))

    @staticmethod
    def write(paths: Sequence[Path], rows: Iterable[Sequence[Sequence[int]]]) -> None:
        """Write a store at each path, in one pass; each of the `rows` has a sentence for each store.

        `rows` is read once and never held as a whole.
        """
        lengths = [array("q") for _ in paths]
        with ExitStack() as opened:
            files = [opened.enter_context(open(path.with_suffix(".ids"), "wb")) for path in paths]
            for row in rows:
                for ids, file, store_lengths in zip(row, files, lengths, strict=True):
                    array("I", ids).tofile(file)
                    store_lengths.append(len(ids))
        for path, store_lengths in zip(paths, lengths, strict=True):
            save_array(path.with_suffix(".ends.npy"), np.cumsum(np.frombuffer(store_lengths, np.int64)))

    def epoch(self, number: int) -> Self:
        """The sentences themselves, the same in each epoch."""
        return self


def memory_mapped(file: IO[bytes]) -> np.ndarray:
    """The token ids in a file, as an array that is read from the disk where it is used."""
    if not file.seek(0, os.SEEK_END):  # an empty file cannot be mapped
        return np.empty(0, np.uint32)
    return np.memmap(file, np.uint32, "r")


@dataclass(frozen=True)
class Batch:
    """Token ids of sentence pairs, short rows filled up with padding on the right."""

    source_ids: Int[Tensor, "batch src_len"]
    """Input of the encoder: tokens, then the end of sentence."""
    target_ids: Int[Tensor, "batch tgt_len"]
    """Input of the decoder: the begin of sentence, then tokens."""
    labels: Int[Tensor, "batch tgt_len"]
    """Tokens that the decoder must predict: those of the sentence, then its end."""
    soft_targets: SoftTargets | None = None
    """Likeliest tokens of teachers at the position of each label, if there are teachers."""
    positions: Int[Tensor, "batch tgt_len"] | None = None
    """Position of the source token that each label comes from, negative where nobody knows, if a head is guided."""

    @property
    def tensors(self) -> list[Tensor]:
        """All tensors of the batch, from which `from_tensors` makes it again."""
        positions = [] if self.positions is None else [self.positions]
        return [self.source_ids, self.target_ids, self.labels, *(self.soft_targets or ()), *positions]

    @classmethod
    def from_tensors(cls, source_ids: Tensor, target_ids: Tensor, labels: Tensor, *others: Tensor) -> Self:
        """The batch whose `tensors` these are; `others` are the two of its soft targets, its positions, or all."""
        soft = SoftTargets(*others[:2]) if len(others) > 1 else None
        return cls(source_ids, target_ids, labels, soft, others[-1] if len(others) % 2 else None)

    @classmethod
    def of(cls, sources: Rows, targets: Rows, special: SpecialIds = OURS, closing: SpecialIds | None = None) -> Self:
        """A batch of sentence pairs, given as token ids without begin and end of sentence.

        `special` has the special ids of targets, and `closing` those of sources if they differ.
        """
        labels = padded(targets, special)
        # The inputs of short rows have their end of sentence too; its label is padding, which nobody predicts.
        target_ids = torch.cat([labels.new_full((len(labels), 1), special.bos), labels[:, :-1]], dim=1)
        return cls(padded(sources, closing or special), target_ids, labels)

    def to(self, device: torch.device | str) -> "Batch":
        return Batch.from_tensors(*(tensor.to(device, non_blocking=True) for tensor in self.tensors))


@dataclass
class Position:
    """Epoch and number of the next batch."""

    epoch: int = 0
    batch: int = 0


class TokenBatches:
    """An endless, shuffled, resumable sequence of batches over a pair of token stores.

    Each epoch holds every pair once. A batch has at most `max_tokens` target tokens and twice as many source
    tokens, padding included; a single longer pair is a batch of its own. The order follows from `seed` and the
    epoch alone, so a `Position` is all there is to save.
    """

    soft_targets: SoftTargetStore | None = None
    """Likeliest tokens of teachers for each position of the targets; set only if there are teachers."""
    alignments: Sentences | None = None
    """For each target the position of the source token that each of its tokens comes from (`dragoman.data.aligning`);
    set only if a head is guided."""

    def __init__(self, source: Store, target: Store, *, max_tokens: int, seed: int, special: Specials = (OURS,)):
        assert len(source) == len(target) > 0
        self._stores = source, target
        # The sentences of the current epoch; before the first one, the stores themselves.
        self.source: Any = source
        self.target: Any = target
        self.max_tokens = max_tokens
        self.seed = seed
        self.special = special
        self._planned: tuple[int, list[np.ndarray]] | None = None

    def plan(self, epoch: int) -> list[np.ndarray]:
        """Indices of the pairs of each batch of an epoch, in order."""
        if self._planned is None or self._planned[0] != epoch:
            self._open(epoch)
            self._planned = (epoch, self._shuffled_batches(np.random.default_rng((self.seed, epoch))))
        return self._planned[1]

    def next(self, position: Position) -> Batch:
        """The batch at `position`, which moves on."""
        return self.collate(self.next_rows(position))

    def next_rows(self, position: Position) -> np.ndarray:
        """Indices of the pairs of the batch at `position`, which moves on."""
        if position.batch >= len(self.plan(position.epoch)):
            position.epoch, position.batch = position.epoch + 1, 0
        rows = self.plan(position.epoch)[position.batch]
        position.batch += 1
        return rows

    def in_order(self) -> Iterator[Batch]:
        """One pass over all pairs, sorted by length: for validation."""
        self._open(0)
        for rows in self._cut(np.lexsort((self._source_lengths, self._target_lengths))):
            yield self.collate(rows)

    def first(self, number: int) -> Iterator[Batch]:
        """The first `number` batches of the current epoch. Their order is random, so they are a sample."""
        return map(self.collate, self.plan(self._planned[0] if self._planned else 0)[:number])

    def collate(self, rows: np.ndarray) -> Batch:
        """The pairs with these indices as one batch."""
        sources = [self.source[i] for i in rows.tolist()]
        targets = [self.target[i] for i in rows.tolist()]
        batch = Batch.of(sources, targets, *self.special)
        if self.soft_targets is not None:
            batch = replace(batch, soft_targets=self.soft_targets.padded(rows, batch.labels.size(1)))
        if self.alignments is not None:
            batch = replace(batch, positions=self._positions(rows, batch.labels.shape))
        return batch

    def _positions(self, rows: np.ndarray, shape: Sequence[int]) -> Tensor:
        """The aligned source positions of the labels of a batch: the end of a target comes from that of its source."""
        assert self.alignments is not None
        positions = np.full(shape, -1, np.int64)
        for positions_of_row, row in zip(positions, rows.tolist(), strict=True):
            if row not in self.source.changed:
                aligned = self.alignments[row]
                positions_of_row[: len(aligned)] = aligned
                positions_of_row[len(aligned)] = len(self.source[row])
        return torch.from_numpy(positions)

    def part(self, rows: np.ndarray, index: int, count: int) -> Batch:
        """Part `index` of `count` of the pairs of a batch. A part without pairs gets one whose labels do not count."""
        rows_of_part = rows[index::count]
        if len(rows_of_part):
            return self.collate(rows_of_part)
        batch = self.collate(rows[:1])
        return replace(batch, labels=torch.full_like(batch.labels, self.special[0].pad), positions=None)

    def _open(self, epoch: int) -> None:
        """Make an epoch the current one. Lengths count the begin or the end of sentence, too."""
        self.source, self.target = (store.epoch(epoch) for store in self._stores)
        self._source_lengths, self._target_lengths = self.source.lengths + 1, self.target.lengths + 1
        self._planned = None

    def _shuffled_batches(self, rng: np.random.Generator) -> list[np.ndarray]:
        """Sort the pairs by length, those of equal length at random, cut them into batches and shuffle these."""
        order = rng.permutation(len(self.target))
        target, source = self._target_lengths[order], self._source_lengths[order]
        # By target length; within one length sources ascend, within the next they descend. So sources are about as long
        # on both sides of a change of length, and few batches mix short and long ones.
        # NumPy sorts numbers of 16 bits several times as fast.
        dtype = np.int16 if max(source.max(), target.max()) < 1 << 15 else np.int64
        order = order[np.lexsort((np.where(target % 2, source, -source).astype(dtype), target.astype(dtype)))]
        batches = self._cut(order)
        return [batches[i] for i in rng.permutation(len(batches))]

    def _cut(self, order: np.ndarray) -> list[np.ndarray]:
        """Cut pairs, in ascending order of target length, into batches as large as the token budgets allow."""
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


def padded(sentences: Rows, special: SpecialIds) -> Int[Tensor, "batch length"]:
    """Sentences as rows: tokens, then the end of sentence, filled up with padding on the right."""
    lengths = np.array([len(ids) for ids in sentences])[:, None]
    columns = np.arange(lengths.max() + 1)
    rows = np.where(columns == lengths, special.eos, special.pad)
    rows[columns < lengths] = np.concatenate(sentences)
    return torch.from_numpy(rows)
