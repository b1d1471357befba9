"""Tensors as the library of kernels takes them."""

import torch
from torch import Tensor

from dragoman.model.fast import library


def takes(x: Tensor) -> bool:
    """Whether the library computes with such a tensor."""
    return library.compiled() and x.device.type == "cpu" and x.dtype in (torch.float32, torch.bfloat16)


def pointer(x: Tensor | None) -> int | None:
    """The address of the numbers of a tensor, or NULL."""
    return None if x is None else x.data_ptr()
