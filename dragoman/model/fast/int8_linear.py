"""Products of eight bits on a CPU: numbers, linear layers, and the compiled library (int8.h).

Weights have a scale for each output, and activations one for each row, which is found while they are multiplied.
"""

import ctypes
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from dragoman.model.fast import library

GREATEST = 127
"""Whole numbers reach from minus this to this, but for the weights of processors without VNNI."""
SCALE = ".scale"
"""End of the names of scales in a file of weights."""
Pointer, Size = ctypes.c_void_p, ctypes.c_int64


class LinearStruct(ctypes.Structure):
    _fields_ = [(name, Pointer) for name in ("weight", "scale", "bias", "offset")] + [
        ("inputs", Size),
        ("outputs", Size),
    ]


def quantised(
    weight: Float[Tensor, "outputs inputs"], greatest: int = GREATEST
) -> tuple[Int[Tensor, "outputs inputs"], Float[Tensor, " outputs"]]:
    """Whole numbers, and the scale of each output that they have to be multiplied by."""
    scale = weight.detach().float().abs().amax(1) / greatest
    return (weight.detach().float() / scale.clamp_min(torch.finfo().tiny)[:, None]).round().to(torch.int8), scale


def stored(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """Matrices as whole numbers, and their scales beside them, by the name of the matrix and `SCALE`."""
    found = {}
    for name, weight in weights.items():
        if weight.dim() == 2:
            found[name], found[name + SCALE] = quantised(weight)
        else:
            found[name] = weight
    return found


def restored(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """The inverse of `stored`; what has no scale for each row stays as it is."""
    found = dict(weights)
    for name, whole in weights.items():
        scale = weights.get(name + SCALE)
        if scale is None or (whole.dtype, scale.dtype) != (torch.int8, torch.float32):
            continue
        if scale.shape == whole.shape[:1]:
            found[name] = whole * found.pop(name + SCALE)[:, None]
    return found


class Int8Linear:
    """Applies a linear layer in eight bits; `formula` is what it equals but for the order of sums."""

    def __init__(self, weight: Float[Tensor, "outputs inputs"], bias: Float[Tensor, " outputs"] | None):
        whole, scale = quantised(weight, functions.greatest_weight)
        self.outputs, inputs = whole.shape
        missing = -self.outputs % library.LANES
        whole = nn.functional.pad(whole, (0, 0, 0, missing))
        self.weight = whole.view(-1, library.LANES, inputs // 4, 4).transpose(1, 2).contiguous()
        self.offset = (-128 * whole.sum(1, dtype=torch.int32)).int()
        self.scale = nn.functional.pad(scale, (0, missing))
        bias = torch.zeros(self.outputs) if bias is None else bias.detach().float()
        self.bias = nn.functional.pad(bias, (0, missing))
        pointers = (each.data_ptr() for each in (self.weight, self.scale, self.bias, self.offset))
        self.struct = LinearStruct(*pointers, inputs, self.outputs)

    def __call__(self, x: Float[Tensor, "*shape inputs"]) -> Float[Tensor, "*shape outputs"]:
        out = torch.empty(*x.shape[:-1], self.outputs)
        self._write(functions.linear, x, out)
        return out

    def log_probs(self, x: Float[Tensor, "rows inputs"], out: Float[Tensor, "rows outputs"]) -> None:
        """Write the log-softmax of what `__call__` returns to `out`."""
        self._write(functions.log_probs, x, out)

    def _write(self, compiled: Callable[..., int], x: Tensor, out: Tensor) -> None:
        x = x.float().contiguous()
        check(compiled(x.data_ptr(), out.numel() // self.outputs, ctypes.byref(self.struct), out.data_ptr()))

    def formula(self, x: Float[Tensor, "rows inputs"]) -> Float[Tensor, "rows outputs"]:
        """The same with PyTorch."""
        whole = self.weight.transpose(1, 2).reshape(-1, x.size(-1))[: self.outputs].double()
        rows, scale = quantised(x)
        found = rows.double() @ whole.T * scale[:, None] * self.scale[: self.outputs]
        return (found + self.bias[: self.outputs]).float()


def check(failed: int) -> None:
    """Raises `MemoryError` for what functions of int8.h return where there is none."""
    if failed:
        raise MemoryError("There is no memory to multiply eight bits.")


def compiled(kind: str) -> Any:
    """The functions of int8.h for vectors of `512` or `256` bits and the VNNI of each, or for `avx2` alone.

    None where this processor or this library has none. `greatest_weight` says how far its whole numbers may reach.
    """
    found = library.loaded
    if found is None or not found[f"multiplies_int8_{kind}"]():
        return None
    chosen = {name: found[f"{name}_{kind}"] for name in ("encode", "decoder_step", "linear", "log_probs")}
    for name in ("linear", "log_probs"):
        chosen[name].argtypes = [Pointer, Size, ctypes.POINTER(LinearStruct), Pointer]
    return SimpleNamespace(**chosen, greatest_weight=64 if kind == "avx2" else GREATEST)


KINDS = "512", "256", "avx2"
"""Kinds of vector instructions, the quickest first."""
functions: Any = next(filter(None, map(compiled, KINDS)), None)
"""None: this processor or this library has no products of eight bits."""
