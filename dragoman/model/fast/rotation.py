"""Rotation of queries and keys by their positions, in one pass over memory."""

import ctypes
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from dragoman.model.attention import Queries
from dragoman.model.fast.memory import takes
from dragoman.native import library


def can_rotate(heads: Queries, *_: object) -> bool:
    """Whether `rotate` takes these."""
    return takes(heads) and heads.size(3) % library.LANES == 0


def rotate(heads: Queries, turns: Float[Tensor, "queries 2 width"]) -> Queries:
    """The same as `dragoman.model.layers.rotate`; contiguous."""
    return _Rotation.apply(heads, turns)


class _Rotation(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, heads: Tensor, turns: Tensor) -> Tensor:
        ctx.save_for_backward(turns)
        return _rotate(heads, turns, 1.0)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return _rotate(gradient, ctx.saved_tensors[0], -1.0), None


def _rotate(heads: Tensor, turns: Tensor, sign: float) -> Tensor:
    heads = heads if heads.stride(3) == 1 else heads.contiguous()
    out = torch.empty(heads.shape, dtype=heads.dtype)
    shape, strides = (ctypes.c_int64 * 4)(*heads.shape), (ctypes.c_int64 * 3)(*heads.stride()[:3])
    pointers = (tensor.data_ptr() for tensor in (heads, turns, out))
    library.functions.rotate(*pointers, shape, strides, sign, heads.dtype == torch.bfloat16)
    return out
