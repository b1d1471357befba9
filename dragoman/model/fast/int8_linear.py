"""Products of eight-bit integers on a CPU: numbers, linear layers, and the compiled library (int8.h).

Weights have a scale for each output, and activations one for each row, which is computed as they are multiplied.
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
"""Quantised numbers range from -127 to 127; weights for processors without VNNI have a smaller range."""
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
    """Weights as eight-bit integers, and the scale of each output by which they have to be multiplied."""
    scale = weight.detach().float().abs().amax(1) / greatest
    return (weight.detach().float() / scale.clamp_min(torch.finfo().tiny)[:, None]).round().to(torch.int8), scale


def with_quantised_matrices(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """Weights for a file: matrices as eight-bit integers, with their scales under the name of the matrix + `SCALE`."""
    tensors = {}
    for name, weight in weights.items():
        if weight.dim() == 2:
            tensors[name], tensors[name + SCALE] = quantised(weight)
        else:
            tensors[name] = weight
    return tensors


def with_restored_matrices(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """The inverse of `with_quantised_matrices`; tensors without a scale for each row stay as they are."""
    tensors = dict(weights)
    for name, whole in weights.items():
        scale = weights.get(name + SCALE)
        if scale is None or (whole.dtype, scale.dtype) != (torch.int8, torch.float32):
            continue
        if scale.shape == whole.shape[:1]:
            tensors[name] = whole * tensors.pop(name + SCALE)[:, None]
    return tensors


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
        pointers = (tensor.data_ptr() for tensor in (self.weight, self.scale, self.bias, self.offset))
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
        products = rows.double() @ whole.T * scale[:, None] * self.scale[: self.outputs]
        return (products + self.bias[: self.outputs]).float()


def check(failed: int) -> None:
    """Raise `MemoryError` if a function of int8.h returned that memory ran out."""
    if failed:
        raise MemoryError("There is no memory to multiply eight bits.")


def compiled(kind: str) -> Any:
    """The functions of int8.h for vectors of `512` or `256` bits and the VNNI of each, or for `avx2` alone.

    None where this processor or this library has none. `greatest_weight` is the largest integer for their weights.
    """
    loaded = library.loaded
    if loaded is None or not loaded[f"multiplies_int8_{kind}"]():
        return None
    functions_of_kind = {name: loaded[f"{name}_{kind}"] for name in ("encode", "decoder_step", "linear", "log_probs")}
    for name in ("linear", "log_probs"):
        functions_of_kind[name].argtypes = [Pointer, Size, ctypes.POINTER(LinearStruct), Pointer]
    return SimpleNamespace(**functions_of_kind, greatest_weight=64 if kind == "avx2" else GREATEST)


KINDS = "512", "256", "avx2"
"""Kinds of vector instructions, the quickest first."""
functions: Any = next(filter(None, map(compiled, KINDS)), None)
"""None: this processor or this library has no products of eight bits."""
