"""Soft targets on disk: for each target token the tokens that teachers find likeliest, and their probabilities."""

from pathlib import Path
from typing import Self

import numpy as np
import torch

from dragoman.config.training import NO_TEACHER
from dragoman.errors import UsageError
from dragoman.model.loss import SoftTargets

TOP = 8
"""Tokens that are kept for each position; the probability of all others is shared out among them. With a teacher that
had label smoothing, they had 92 % of the probability in half of the positions (300 pairs of Multi30k)."""
BYTES = 6
"""Bytes on disk of a token and its probability."""


class SoftTargetStore:
    """The likeliest tokens for each position of the sentences of a `TokenStore`, and for their ends of sentence."""

    def __init__(self, ids: np.ndarray, probabilities: np.ndarray, ends: np.ndarray):
        self.ids, self.probabilities = ids, probabilities
        # A sentence has one position more than tokens.
        self.ends = np.asarray(ends) + np.arange(1, len(ends) + 1)
        self.starts = np.append(0, self.ends[:-1])

    @classmethod
    def open(cls, folder: Path, ends: np.ndarray) -> Self:
        """Open the soft targets in a folder, for sentences that end at `ends`. Raises `UsageError` if it has none."""
        if not all(map(Path.exists, _paths(folder))):
            raise UsageError(NO_TEACHER)
        return cls(*(np.load(path, mmap_mode="r") for path in _paths(folder)), ends)

    @classmethod
    def create(cls, folder: Path, ends: np.ndarray) -> Self:
        """Create the files in a folder, memory-mapped, to be filled in."""
        shape = int(ends[-1]) + len(ends), TOP
        ids_path, probabilities_path = _paths(folder)
        ids = np.lib.format.open_memmap(ids_path, "w+", np.uint32, shape)
        probabilities = np.lib.format.open_memmap(probabilities_path, "w+", np.float16, shape)
        return cls(ids, probabilities, ends)

    def positions(self, rows: np.ndarray) -> np.ndarray:
        """Indices of all positions of some sentences, in the order of the sentences."""
        return np.concatenate([*map(np.arange, self.starts[rows], self.ends[rows])])

    def padded(self, rows: np.ndarray, length: int) -> SoftTargets:
        """The soft targets of some sentences, of shape (batch, length, top), filled up with zeros on the right."""
        positions = self.positions(rows)
        lengths = (self.ends - self.starts)[rows]
        is_position = np.arange(length) < lengths[:, None]  # (batch, length)
        ids = np.zeros((*is_position.shape, TOP), np.int64)
        ids[is_position] = self.ids[positions]
        probabilities = np.zeros((*is_position.shape, TOP), np.float32)
        probabilities[is_position] = self.probabilities[positions]
        return SoftTargets(torch.from_numpy(ids), torch.from_numpy(probabilities))


def _paths(folder: Path) -> tuple[Path, Path]:
    """Files of the token ids and of the probabilities."""
    return folder / "train-soft-ids.npy", folder / "train-soft-probabilities.npy"
