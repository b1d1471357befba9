"""What kernels.c computes on a CPU while sentences are translated, several times as fast as its formulas.

It is compiled when the package is built where there is a C compiler; without it the formulas run.
"""

import ctypes
from pathlib import Path

import torch
from jaxtyping import Bool, Float
from torch import Tensor

LIBRARY = Path(__file__).with_name("libkernels.so")
INTERFACE = 1
"""Of the library; one of another number was compiled from other sources."""
LANES = 16
"""Numbers that the library takes at a time, so that heads are as wide or a multiple of it."""
LONGEST = 512
"""Keys; where there are more, matrix products are worth their copies."""

Queries = Float[Tensor, "rows heads queries width"]
Keys = Float[Tensor, "rows heads keys width"]


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


def attention(query: Queries, key: Keys, value: Keys, mask: Bool[Tensor, "..."] | None = None) -> Queries:
    """softmax(Q K^T / sqrt(d_k)) V, wherever in memory places and heads stand.

    The result has its heads side by side, place by place. Raises `MemoryError`.
    """
    query, key, value = (x if x.stride(3) == 1 else x.contiguous() for x in (query, key, value))
    rows, heads, queries, width = query.shape
    out = query.new_empty(rows, queries, heads, width).transpose(1, 2)
    steps = [step for x in (query, key, value, out) for step in x.stride()[:3]]
    if mask is not None:
        mask = mask.expand(rows, heads, queries, key.size(2))
        steps += mask.stride()
    failed = _library.attention(
        *(x.data_ptr() for x in (query, key, value)),
        None if mask is None else mask.data_ptr(),
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


def _takes(x: Tensor) -> bool:
    return _library is not None and x.device.type == "cpu" and x.dtype in (torch.float32, torch.bfloat16)


def _load() -> ctypes.CDLL | None:
    try:
        library = ctypes.CDLL(str(LIBRARY))
        if library.interface() != INTERFACE:
            return None
    except (OSError, AttributeError):
        return None
    pointer, size, flag = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int
    library.attention.argtypes = [*[pointer] * 7, flag]
    library.log_softmax.argtypes, library.log_softmax.restype = [pointer, pointer, size, size, flag], None
    return library


_library = _load()
