"""Dropout, and the addition of its result to another tensor, in one pass over memory."""

import ctypes
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from dragoman.model.fast.memory import pointer, takes
from dragoman.native import library


def can_drop(x: Tensor, *_: object) -> bool:
    """Whether `drop` takes this."""
    return takes(x)


def drop(x: Tensor, rate: float, generator: torch.Generator | None = None, add_to: Tensor | None = None) -> Tensor:
    """The same as `dragoman.model.dropout.drop`, with other random numbers."""
    draws = Draws.of(rate, generator)
    if add_to is None or (add_to.dtype == x.dtype and add_to.is_contiguous()):
        return _Dropout.apply(x, add_to, draws)
    return add_to + _Dropout.apply(x, None, draws)


class Draws(ctypes.Structure):
    """Random numbers that decide which elements dropout keeps.

    They follow from a key and the index of each element, so that the backward pass draws the same.
    """

    _fields_ = [("key", ctypes.c_uint32 * 2), ("dropped", ctypes.c_uint32), ("scale", ctypes.c_float)]

    @classmethod
    def of(cls, rate: float, generator: torch.Generator | None) -> "Draws":
        """New draws, whose key comes from a generator; None: that of torch."""
        key = torch.empty(1, dtype=torch.int64).random_(-(2**63), None, generator=generator).view(torch.int32)
        return cls((ctypes.c_uint32 * 2)(*key.tolist()), min(round(rate * 2**32), 2**32 - 1), 1 / (1 - rate))


class _Dropout(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, add_to: Tensor | None, draws: Draws) -> Tensor:
        ctx.draws, ctx.added = draws, add_to is not None
        return _drop(x, add_to, draws)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        return _drop(gradient, None, ctx.draws), gradient if ctx.added else None, None


def _drop(x: Tensor, add_to: Tensor | None, draws: Draws) -> Tensor:
    x = x.contiguous()
    kept = torch.empty_like(x)
    pointers = x.data_ptr(), pointer(add_to), kept.data_ptr()
    library.functions.drop(*pointers, x.numel(), library.address(draws), x.dtype == torch.bfloat16)
    return kept
