"""Inputs of the tests of compiled kernels, and the formulas in double precision."""

import numpy as np
import pytest
import torch
from torch import Tensor

from dragoman.model.attention import attention
from dragoman.model.dropout import Dropout
from dragoman.native import library

NO_DROPOUT = Dropout(0.0)
TOLERANCE = {torch.float32: 3e-6, torch.bfloat16: 2e-2}
needs_library = pytest.mark.skipif(not library.compiled(), reason="there is no C compiler")
every_precision = pytest.mark.parametrize("dtype", list(TOLERANCE), ids=str)


def heads(rows: int, length: int, *, width: int, dtype: torch.dtype, layout: str) -> Tensor:
    """(rows, 3, length, width), as `layout` puts it into memory."""
    order, back = {
        "heads first": ((rows, 3, length, width), (0, 1, 2, 3)),
        "heads last": ((rows, length, 3, width), (0, 2, 1, 3)),
        "of a cache": ((length, rows, 3, width), (1, 2, 0, 3)),
        "width scattered": ((width, rows, 3, length), (1, 2, 3, 0)),
    }[layout]
    # Every other number of a larger tensor, so that no stride is what the shape would make it.
    return torch.randn(*order[:-1], 2 * order[-1])[..., : order[-1]].permute(back).to(dtype)


def exact(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
    """`attention` in double precision."""
    return attention(query.double(), key.double(), value.double(), mask, dropout=NO_DROPOUT)


def dropped(key: tuple[int, int], indices: np.ndarray, rate: float) -> Tensor:
    """Whether dropout zeroes the elements with these indices: the hash of vectors.h in numpy."""
    x = indices.astype(np.uint32) ^ np.uint32(key[0])
    x ^= x >> np.uint32(16)
    x = (x * np.uint32(0x7FEB352D)) ^ np.uint32(key[1])
    x ^= x >> np.uint32(15)
    x *= np.uint32(0x846CA68B)
    x ^= x >> np.uint32(16)
    return torch.from_numpy(x < np.uint32(round(rate * 2**32)))
