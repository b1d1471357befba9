"""Norms, forward and backward, in one pass over memory each."""

import ctypes
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from dragoman.model.fast.memory import pointer, takes
from dragoman.native import library


class _NormStruct(ctypes.Structure):
    _fields_ = [
        ("rows", ctypes.c_int64), ("width", ctypes.c_int64),
        *((name, ctypes.c_void_p) for name in ("gain", "bias", "moments")), ("eps", ctypes.c_float),
    ]  # fmt: skip


def can_normalise(x: Float[Tensor, "*shape width"], gain: Float[Tensor, " width"], *_: object) -> bool:
    """Whether `normalise` takes these. It is for training, on one thread."""
    return (
        takes(x)
        and torch.is_grad_enabled()
        and not torch.is_autocast_enabled("cpu")
        and gain.dtype == torch.float32
        and x.size(-1) % library.LANES == 0
        and torch.get_num_threads() == 1
    )


def normalise(
    x: Float[Tensor, "*shape width"], gain: Float[Tensor, " width"], bias: Float[Tensor, " width"] | None, eps: float
) -> Float[Tensor, "*shape width"]:
    """The same as `dragoman.model.layers.normalise`."""
    return _Normalise.apply(x, gain, bias, eps)


class _Normalise(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, gain: Tensor, bias: Tensor | None, eps: float) -> Tensor:
        x, gain = x.contiguous(), gain.contiguous()
        bias = None if bias is None else bias.contiguous()
        rows, width = x.numel() // x.size(-1), x.size(-1)
        out, moments = torch.empty_like(x), torch.empty(rows, 2)
        ctx.norm = _NormStruct(rows, width, gain.data_ptr(), pointer(bias), moments.data_ptr(), eps)
        ctx.save_for_backward(x, gain, bias, moments)
        library.functions.normalise_rows(
            x.data_ptr(), out.data_ptr(), ctypes.byref(ctx.norm), x.dtype == torch.bfloat16
        )
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        x, gain, bias, moments = ctx.saved_tensors
        # Weights that are in parts on several machines, and what is computed again, stand elsewhere by now.
        ctx.norm.gain, ctx.norm.bias, ctx.norm.moments = gain.data_ptr(), pointer(bias), moments.data_ptr()
        gradient = gradient.contiguous()
        x_gradient, gain_gradient, bias_gradient = torch.empty_like(x), *torch.zeros(2, len(gain))
        pointers = (tensor.data_ptr() for tensor in (x, gradient, x_gradient, gain_gradient, bias_gradient))
        library.functions.normalise_rows_back(
            (ctypes.c_void_p * 5)(*pointers), ctypes.byref(ctx.norm), x.dtype == torch.bfloat16
        )
        return x_gradient, gain_gradient, None if bias is None else bias_gradient, None
