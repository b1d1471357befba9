"""What kernels.c computes on a CPU in one pass over memory, several times as fast as its formulas.

It is compiled when the package is built where there is a C compiler; without it the formulas run.
"""

import ctypes
from pathlib import Path

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable

LIBRARY = Path(__file__).with_name("libkernels.so")
INTERFACE = 3
"""Of the library; one of another number was compiled from other sources."""
LANES = 16
"""Numbers that the library takes at a time, so that heads are as wide or a multiple of it."""
LONGEST = 512
"""Keys; where there are more, matrix products are worth their copies. A row of them has to fit on the stack."""

Queries = Float[Tensor, "rows heads queries width"]
Keys = Float[Tensor, "rows heads keys width"]
Mask = Bool[Tensor, "..."]
"""Anything that broadcasts to (rows, heads, queries, keys)."""


def compiled() -> bool:
    """Whether the library is there."""
    return _library is not None


def can_attend(query: Queries, key: Keys, value: Keys) -> bool:
    """Whether `attention` takes these: no gradient comes from it, and it is for CPUs and few keys."""
    return (
        _takes(query)
        and query.size(3) % LANES == 0
        and 0 < key.size(2) <= LONGEST
        and not (torch.is_grad_enabled() and any(x.requires_grad for x in (query, key, value)))
    )


def attention(query: Queries, key: Keys, value: Keys, mask: Mask | None = None) -> Queries:
    """softmax(Q K^T / sqrt(d_k)) V for tensors of any strides.

    In memory, the heads of each position of the result are side by side. Raises `MemoryError`.
    """
    query, key, value = (x if x.stride(3) == 1 else x.contiguous() for x in (query, key, value))
    rows, heads, queries, width = query.shape
    out = query.new_empty(rows, queries, heads, width).transpose(1, 2)
    steps = [step for x in (query, key, value, out) for step in x.stride()[:3]]
    if mask is not None:
        mask = mask.bool().expand(rows, heads, queries, key.size(2))
        steps += mask.stride()
    failed = _library.attention(
        *(x.data_ptr() for x in (query, key, value)),
        _pointer(mask),
        out.data_ptr(),
        (ctypes.c_int64 * 5)(rows, heads, queries, key.size(2), width),
        (ctypes.c_int64 * 16)(*steps),
        query.dtype == torch.bfloat16,
    )
    if failed:
        raise MemoryError("There is no memory for the keys and values of a sentence.")
    return out


def log_softmax(logits: Float[Tensor, "rows vocab"], out: Float[Tensor, "rows vocab"]) -> None:
    """Write log-probabilities in float32 to `out`."""
    if _takes(logits) and logits.is_contiguous() and out.is_contiguous():
        _library.log_softmax(logits.data_ptr(), out.data_ptr(), *logits.shape, logits.dtype == torch.bfloat16)
    else:
        torch.log_softmax(logits.detach(), -1, dtype=torch.float32, out=out)


class Draws(ctypes.Structure):
    """Which elements dropout keeps: it follows from a key, and so the same are found on the way back."""

    _fields_ = [("key", ctypes.c_uint32 * 2), ("dropped", ctypes.c_uint32), ("scale", ctypes.c_float)]

    @classmethod
    def of(cls, rate: float, generator: torch.Generator | None) -> "Draws":
        """The next of a generator's; `None` is that of torch."""
        key = torch.empty(1, dtype=torch.int64).random_(-(2**63), None, generator=generator).view(torch.int32)
        return cls((ctypes.c_uint32 * 2)(*key.tolist()), min(round(rate * 2**32), 2**32 - 1), 1 / (1 - rate))


def can_drop(x: Tensor) -> bool:
    """Whether `dropout` takes these."""
    return _takes(x)


def dropout(x: Float[Tensor, "*shape"], rate: float, generator: torch.Generator | None) -> Float[Tensor, "*shape"]:
    """Zeroes elements with probability `rate`, below 1, and scales the rest so that the mean stays."""
    return _Dropout.apply(x, Draws.of(rate, generator))


class _Dropout(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, draws):
        ctx.draws = draws
        return _drop(x, draws)

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient):
        return _drop(gradient, ctx.draws), None


def _drop(x: Tensor, draws: Draws) -> Tensor:
    x = x.contiguous()
    kept = torch.empty_like(x)
    _library.drop(x.data_ptr(), kept.data_ptr(), x.numel(), draws, x.dtype == torch.bfloat16)
    return kept


def can_soften(query: Queries, key: Keys) -> bool:
    """Whether `masked_softmax_dropout` takes the scores of these; it has one thread, so not where several share."""
    return _takes(query) and 0 < key.size(2) <= LONGEST and torch.get_num_threads() == 1


def masked_softmax_dropout(
    scores: Float[Tensor, "rows heads queries keys"],
    mask: Mask | None,
    *,
    width: int,
    rate: float,
    generator: torch.Generator | None,
) -> Float[Tensor, "rows heads queries keys"]:
    """Dropout of softmax(scores / sqrt(width)), differentiable."""
    if mask is not None:
        mask = mask.bool().expand(scores.shape)
    return _MaskedSoftmaxDropout.apply(scores, mask, width, Draws.of(rate, generator) if rate else None)


class _MaskedSoftmaxDropout(torch.autograd.Function):
    @staticmethod
    def forward(ctx, scores, mask, width, draws):
        scores = scores.contiguous()
        weights = torch.empty_like(scores)
        kept = torch.empty_like(scores) if draws else weights
        ctx.draws = draws
        ctx.shape = (ctypes.c_int64 * 5)(*scores.shape, width)
        ctx.strides = None if mask is None else (ctypes.c_int64 * 4)(*mask.stride())
        ctx.save_for_backward(weights, mask)
        _library.masked_softmax_dropout(
            scores.data_ptr(), _pointer(mask), weights.data_ptr(), kept.data_ptr() if draws else None,
            ctx.shape, ctx.strides, draws, scores.dtype == torch.bfloat16,
        )  # fmt: skip
        return kept

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient):
        weights, mask = ctx.saved_tensors
        found, gradient = torch.empty_like(weights), gradient.contiguous()
        _library.masked_softmax_dropout_backward(
            weights.data_ptr(), _pointer(mask), gradient.data_ptr(), found.data_ptr(),
            ctx.shape, ctx.strides, ctx.draws, weights.dtype == torch.bfloat16,
        )  # fmt: skip
        return found, None, None, None


def can_exponentiate(logits: Float[Tensor, "rows vocab"]) -> bool:
    """Whether `exponentiate` takes these; where several threads would share the work, the formula is left."""
    return _takes(logits) and logits.is_contiguous() and torch.get_num_threads() == 1


def exponentiate(
    logits: Float[Tensor, "rows vocab"], targets: Int[Tensor, " rows"], *, far: float
) -> Float[Tensor, "rows 3"]:
    """Turn each row, in place, into exp(logits - shift), and 0 at its target.

    The shift is the largest number of a row if that is farther from 0 than `far`, else 0. Returns the shift of each
    row, its logit at the target less the shift, and the sum of what the row has become, in float32.
    """
    terms = torch.empty(len(logits), 3, dtype=torch.float32)
    _library.exponentiate(
        *(x.data_ptr() for x in (logits, targets, terms)), *logits.shape, far, logits.dtype == torch.bfloat16
    )
    return terms


def _pointer(x: Tensor | None) -> int | None:
    return None if x is None else x.data_ptr()


def _takes(x: Tensor) -> bool:
    return _library is not None and x.device.type == "cpu" and x.dtype in (torch.float32, torch.bfloat16)


def _load() -> ctypes.CDLL | None:
    try:
        library = ctypes.CDLL(str(LIBRARY))
        if library.interface() != INTERFACE:
            return None
    except (OSError, AttributeError):
        return None
    pointer, size, flag, draws = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int, ctypes.POINTER(Draws)
    library.attention.argtypes = [*[pointer] * 7, flag]
    library.log_softmax.argtypes = [pointer, pointer, size, size, flag]
    library.drop.argtypes = [pointer, pointer, size, draws, flag]
    library.masked_softmax_dropout.argtypes = [*[pointer] * 6, draws, flag]
    library.masked_softmax_dropout_backward.argtypes = [*[pointer] * 6, draws, flag]
    library.exponentiate.argtypes = [pointer, pointer, pointer, size, size, ctypes.c_float, flag]
    for function in (
        library.log_softmax,
        library.drop,
        library.masked_softmax_dropout,
        library.masked_softmax_dropout_backward,
        library.exponentiate,
    ):
        function.restype = None
    return library


_library = _load()
