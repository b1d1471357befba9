"""A block of sentence pairs as token ids: the unit in which pairs are encoded, saved and joined into stores."""

from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import IO, Self

import numpy as np

from dragoman.data.arrays import save_array

SIDES = ("source", "target")


@dataclass(frozen=True)
class Ragged:
    """Rows of different lengths: their values end to end, and how many each row has."""

    values: np.ndarray
    lengths: np.ndarray

    @classmethod
    def of(cls, rows: Sequence[Sequence[int]]) -> Self:
        """The rows as arrays of 32 bits."""
        return cls(np.fromiter(chain(*rows), np.uint32), np.fromiter(map(len, rows), np.uint32))

    def write(self, file: IO[bytes]) -> None:
        """Append both arrays to a file."""
        np.save(file, self.values)
        np.save(file, self.lengths)

    @classmethod
    def read(cls, file: IO[bytes]) -> Self:
        """The next rows that `write` has written."""
        return cls(np.load(file), np.load(file))


@dataclass(frozen=True)
class EncodedSide:
    """The sources or the targets of a block."""

    sentences: Ragged
    """Token ids of each sentence, or, if words are numbered, the number of each of its words."""
    words: Ragged | None = None
    """Token ids of each word of the block, by its number; None if words are not numbered."""


@dataclass(frozen=True)
class EncodedBlock:
    """Both sides of the pairs of a block."""

    sides: list[EncodedSide]
    """Sources, then targets."""
    too_long: int
    """Number of pairs that are left out, since a side has too many tokens."""

    def write(self, file: IO[bytes]) -> None:
        """Append all arrays to a file."""
        for side in self.sides:
            side.sentences.write(file)
            if side.words is not None:
                side.words.write(file)
        np.save(file, np.array(self.too_long))

    @classmethod
    def read(cls, file: IO[bytes], *, numbered: bool) -> Self:
        """The block that `write` has written; `numbered` tells whether its words are."""
        sides = [EncodedSide(Ragged.read(file), Ragged.read(file) if numbered else None) for _ in SIDES]
        return cls(sides, int(np.load(file)))


def store_paths(path: Path) -> list[Path]:
    """The paths of the stores of both sides, `path`-source and `path`-target."""
    return [path.with_name(f"{path.name}-{side}") for side in SIDES]


def write_stores(path: Path, blocks: Iterable[EncodedBlock]) -> tuple[int, int]:
    """Write the sentences of blocks, one after the other, as the stores `path`-source and `path`-target.

    Returns how many pairs they have, and how many are too long.
    """
    paths = store_paths(path)
    lengths: list[list[np.ndarray]] = [[] for _ in paths]
    too_long = 0
    with ExitStack() as opened:
        files = [opened.enter_context(open(store.with_suffix(".ids"), "wb")) for store in paths]
        for block in blocks:
            too_long += block.too_long
            for file, side, side_lengths in zip(files, block.sides, lengths, strict=True):
                file.write(side.sentences.values)
                side_lengths.append(side.sentences.lengths)
    for store, side_lengths in zip(paths, lengths, strict=True):
        save_array(store.with_suffix(".ends.npy"), np.cumsum(np.concatenate(side_lengths), dtype=np.int64))
    return sum(map(len, lengths[0])), too_long
