"""Checks and addresses of the tensors that are passed to the library of kernels."""

import torch
from torch import Tensor

from dragoman.native import library


def takes(x: Tensor) -> bool:
    """Whether the library can compute with this tensor."""
    return library.compiled() and x.device.type == "cpu" and x.dtype in (torch.float32, torch.bfloat16)


def pointer(x: Tensor | None) -> int | None:
    """The address of the numbers of a tensor; None, which C sees as NULL, for None."""
    return None if x is None else x.data_ptr()
