"""What teachers expect in the place of each target token: their likeliest tokens and how likely these are, on disk."""

from pathlib import Path
from typing import NamedTuple, Self

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from dragoman.errors import UsageError

NO_TEACHER = "training.soft_targets are what teachers expect; type `dragoman distill TEACHER OUT --soft-targets SHARE`."
TOP = 8
"""Tokens of each position that are kept. Those of a teacher with label smoothing had 92 % of the probability in half of
the places (300 pairs of Multi30k); what the others have is shared out among them."""


class SoftTargets(NamedTuple):
    """What teachers expect in the place of each target."""

    ids: Int[Tensor, "*targets top"]
    probabilities: Float[Tensor, "*targets top"]
    """They add up to 1, or to 0 where the target is padding."""


class SoftTargetStore:
    """The likeliest tokens for each position of the sentences of a `TokenStore`, and for their ends of sentence."""

    def __init__(self, ids: np.ndarray, probabilities: np.ndarray, ends: np.ndarray):
        self.ids, self.probabilities = ids, probabilities
        # A sentence has one position more than tokens.
        self.ends = np.asarray(ends) + np.arange(1, len(ends) + 1)

    @classmethod
    def open(cls, folder: Path, ends: np.ndarray) -> Self:
        """Those in a folder, for sentences that end at `ends`. Raises `UsageError` if there are none."""
        if not all(map(Path.exists, _paths(folder))):
            raise UsageError(NO_TEACHER)
        return cls(*(np.load(path, mmap_mode="r") for path in _paths(folder)), ends)

    @classmethod
    def create(cls, folder: Path, ends: np.ndarray) -> Self:
        """Files that are to be filled."""
        shape = int(ends[-1]) + len(ends), TOP
        types = zip(_paths(folder), (np.uint32, np.float16), strict=True)
        return cls(*(np.lib.format.open_memmap(path, "w+", dtype, shape) for path, dtype in types), ends)

    def __len__(self) -> int:
        """Number of sentences."""
        return len(self.ends)

    def positions(self, index: int) -> slice:
        """Where a sentence has its positions."""
        return slice(self.ends[index - 1] if index else 0, self.ends[index])

    def padded(self, rows: np.ndarray, length: int) -> SoftTargets:
        """Those of some sentences, of shape (batch, length, top), filled up with zeros on the right."""
        ids = np.zeros((len(rows), length, TOP), np.int64)
        probabilities = np.zeros((len(rows), length, TOP), np.float32)
        for row, index in enumerate(rows.tolist()):
            at = self.positions(index)
            ids[row, : at.stop - at.start] = self.ids[at]
            probabilities[row, : at.stop - at.start] = self.probabilities[at]
        return SoftTargets(torch.from_numpy(ids), torch.from_numpy(probabilities))


def _paths(folder: Path) -> tuple[Path, Path]:
    return folder / "train-soft-ids.npy", folder / "train-soft-probabilities.npy"
