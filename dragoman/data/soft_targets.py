"""What teachers expect in the place of each target token: their likeliest tokens and how likely these are, on disk."""

from pathlib import Path
from typing import Self

import numpy as np
import torch

from dragoman.config.training import NO_TEACHER
from dragoman.errors import UsageError
from dragoman.model.loss import SoftTargets

TOP = 8
"""Tokens of each position that are kept. Those of a teacher with label smoothing had 92 % of the probability in half of
the places (300 pairs of Multi30k); what the others have is shared out among them."""
BYTES = 6
"""On disk, of a token and its probability."""


class SoftTargetStore:
    """The likeliest tokens for each position of the sentences of a `TokenStore`, and for their ends of sentence."""

    def __init__(self, ids: np.ndarray, probabilities: np.ndarray, ends: np.ndarray):
        self.ids, self.probabilities = ids, probabilities
        # A sentence has one position more than tokens.
        self.ends = np.asarray(ends) + np.arange(1, len(ends) + 1)
        self.starts = np.append(0, self.ends[:-1])

    @classmethod
    def open(cls, folder: Path, ends: np.ndarray) -> Self:
        """Open the soft targets in a folder, for sentences that end at `ends`. `UsageError` if there are none."""
        if not all(map(Path.exists, _paths(folder))):
            raise UsageError(NO_TEACHER)
        return cls(*(np.load(path, mmap_mode="r") for path in _paths(folder)), ends)

    @classmethod
    def create(cls, folder: Path, ends: np.ndarray) -> Self:
        """Files that are to be filled."""
        shape = int(ends[-1]) + len(ends), TOP
        types = zip(_paths(folder), (np.uint32, np.float16), strict=True)
        return cls(*(np.lib.format.open_memmap(path, "w+", dtype, shape) for path, dtype in types), ends)

    def positions(self, rows: np.ndarray) -> np.ndarray:
        """The positions of some sentences, in their order."""
        return np.concatenate([*map(np.arange, self.starts[rows], self.ends[rows])])

    def padded(self, rows: np.ndarray, length: int) -> SoftTargets:
        """The soft targets of some sentences, of shape (batch, length, top), filled up with zeros on the right."""
        at, inside = self.positions(rows), np.arange(length) < (self.ends - self.starts)[rows][:, None]
        found = []
        for array, dtype in ((self.ids, np.int64), (self.probabilities, np.float32)):
            filled = np.zeros((*inside.shape, TOP), dtype)
            filled[inside] = array[at]
            found.append(torch.from_numpy(filled))
        return SoftTargets(*found)


def _paths(folder: Path) -> tuple[Path, Path]:
    return folder / "train-soft-ids.npy", folder / "train-soft-probabilities.npy"
