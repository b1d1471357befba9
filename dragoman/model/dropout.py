"""Dropout (section 5.4 of the paper), whose random bits follow from a key where the kernel is compiled."""

import ctypes
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from dragoman.model import library


class Dropout(nn.Module):
    """Zeroes elements with probability `rate` while training and scales the rest so that the mean stays.

    Without the compiled kernel the rate is, in half precision, the nearest one, within 0.002, whose scale is a number.
    """

    def __init__(self, rate: float):
        super().__init__()
        self.rate = rate
        self.generator: torch.Generator | None = None
        """Generator of the random numbers on a CPU; None: that of torch."""

    def forward(
        self, x: Float[Tensor, "*shape"], add_to: Float[Tensor, "*shape"] | None = None
    ) -> Float[Tensor, "*shape"]:
        """What is left of `x`, added to `add_to` where that is given."""
        if self.training and self.rate > 0:
            if add_to is not None and library.takes(x) and add_to.dtype == x.dtype and add_to.is_contiguous():
                return _Dropout.apply(x, add_to, Draws.of(self.rate, self.generator))
            x = self._left(x)
        return x if add_to is None else add_to + x

    def _left(self, x: Tensor) -> Tensor:
        if library.takes(x):
            return _Dropout.apply(x, None, Draws.of(self.rate, self.generator))
        if x.device.type != "cpu":
            return F.dropout(x, self.rate)
        return x * _keep_mask(x, self.rate, self.generator)

    def extra_repr(self) -> str:
        return f"rate={self.rate}"


def _keep_mask(x: Tensor, rate: float, generator: torch.Generator | None) -> Tensor:
    """Zeros with probability `rate`, else 1 / (1 - rate).

    On a CPU, Bernoulli sampling costs more than a matrix product. Sixteen random bits an element, compared with a
    threshold, cost a sixth and hit the rate to 1 in 65,536.
    """
    scale = torch.tensor(1 / (1 - rate), dtype=x.dtype).item()
    dropped = min(round((1 - 1 / scale) * 2**16), 2**16 - 1)
    # From -2**63: without a lower bound the sign bit stays 0, and with it one number of four non-negative.
    draws = torch.empty(-(-x.numel() // 4), dtype=torch.int64).random_(-(2**63), None, generator=generator)
    bits = draws.view(torch.int16)[: x.numel()].view(x.shape)
    return (bits >= dropped - 2**15).to(x.dtype) * (2**16 / (2**16 - dropped))


class Draws(ctypes.Structure):
    """Which elements dropout keeps. They follow from a key, so the backward pass finds the same."""

    _fields_ = [("key", ctypes.c_uint32 * 2), ("dropped", ctypes.c_uint32), ("scale", ctypes.c_float)]

    @classmethod
    def of(cls, rate: float, generator: torch.Generator | None) -> "Draws":
        """The next draws of a generator; `None` is that of torch."""
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
    pointers = x.data_ptr(), library.pointer(add_to), kept.data_ptr()
    library.functions.drop(*pointers, x.numel(), library.address(draws), x.dtype == torch.bfloat16)
    return kept
