"""Training in bfloat16 on processors that multiply it (bfloat16.c): attention, and a projection with its loss.

Other processors, and shapes that the library does not take, have the formulas and attention.py.
"""

import ctypes
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable

from dragoman.model.attention import Keys, Mask, Queries
from dragoman.model.dropout import Dropout
from dragoman.model.fast import library
from dragoman.model.fast.attention import LONGEST
from dragoman.model.fast.dropout import Draws
from dragoman.model.fast.library import LANES

Pointer, Size = ctypes.c_void_p, ctypes.c_int64

BLOCK, WORDS, GROUP = 2 * LANES, 128, 8
"""As in bfloat16.c: columns and words that are multiplied at a time, and rows."""
SLICE = 256
"""Most rows that a `Projection` takes at once: enough to be worth the way of its gradient through the cache."""


class _Heads(ctypes.Structure):
    _fields_ = [("at", Pointer), ("row", Size), ("head", Size), ("position", Size)]

    @classmethod
    def of(cls, x: Tensor) -> "_Heads":
        return cls(x.data_ptr(), *x.stride()[:3])


class _Attention(ctypes.Structure):
    _fields_ = [
        *((name, Size) for name in ("rows", "heads", "queries", "keys", "width")),
        *((name, _Heads) for name in ("query", "key", "value", "out")),
        *((name, _Heads) for name in ("query_gradient", "key_gradient", "value_gradient")),
        ("mask", Pointer), ("mask_strides", Size * 4), ("weights", Pointer), ("dropout", ctypes.POINTER(Draws)),
    ]  # fmt: skip


def can_attend(
    query: Queries, key: Keys, value: Keys, mask: Mask | None = None, *, dropout: Dropout | None = None
) -> bool:
    """Whether `attend` takes these. It is for training, on one thread; several share the formula."""
    return (
        _functions is not None
        and torch.is_grad_enabled()
        and query.dtype == key.dtype == value.dtype == torch.bfloat16
        and query.device.type == "cpu"
        and query.size(3) % (2 * LANES) == 0
        and 0 < key.size(2) <= LONGEST
        and torch.get_num_threads() == 1
    )


def attend(query: Queries, key: Keys, value: Keys, mask: Mask | None = None, *, dropout: Dropout) -> Queries:
    """Dropout of softmax(Q K^T / sqrt(d_k)), times V; in memory, the heads of each position are side by side."""
    draws = Draws.of(dropout.rate, dropout.generator) if dropout.drops else None
    return _Attend.apply(query, key, value, mask, draws)


class _Attend(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, value: Tensor, mask: Mask | None, draws: Draws | None) -> Tensor:
        query, key, value = map(_in_rows, (query, key, value))
        rows, heads, queries, width = query.shape
        keys = key.size(2)
        out = query.new_empty(rows, queries, heads, width).transpose(1, 2)
        weights = query.new_empty(rows, heads, queries, -(-keys // LANES) * LANES)
        mask = None if mask is None else mask.bool().expand(rows, heads, queries, keys)
        of = _Attention(rows, heads, queries, keys, width, *map(_Heads.of, (query, key, value, out)))
        of.weights = weights.data_ptr()
        if mask is not None:
            of.mask, of.mask_strides = mask.data_ptr(), (Size * 4)(*mask.stride())
        if draws is not None:
            of.dropout = ctypes.pointer(draws)
        _run(of, back=False)
        ctx.of = of
        ctx.save_for_backward(query, key, value, weights, mask)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        gradient, of = _in_rows(gradient), ctx.of
        query, key, _, *_ = ctx.saved_tensors
        # Side by side, so that those of a joint projection need not be joined again.
        joined = query.untyped_storage().data_ptr() == key.untyped_storage().data_ptr()
        beside, own = (3, ()) if joined else (2, _side_by_side(query, 1))
        found = *own, *_side_by_side(key, beside)
        of.out = _Heads.of(gradient)
        of.query_gradient, of.key_gradient, of.value_gradient = map(_Heads.of, found)
        _run(of, back=True)
        return *found, None, None


def _side_by_side(x: Tensor, count: int) -> tuple[Tensor, ...]:
    """Space for tensors (rows, heads, length, width), of which each position is one piece of memory."""
    rows, heads, length, width = x.shape
    return x.new_empty(rows, length, count, heads, width).permute(2, 0, 3, 1, 4).unbind()


def _in_rows(x: Tensor) -> Tensor:
    return x if x.stride(3) == 1 else x.contiguous()


def _run(of: _Attention, *, back: bool) -> None:
    _check(_functions.train_attention(ctypes.byref(of), back))


class _Projection(ctypes.Structure):
    _fields_ = [
        ("vocab", Size), ("width", Size), *((name, Pointer) for name in ("weight", "across", "beside", "spread")),
        ("most_rows", Size),
    ]  # fmt: skip


class _Slice(ctypes.Structure):
    _fields_ = [
        ("states", Pointer), ("targets", Pointer), ("rows", Size), ("mixed", Pointer), ("terms", Pointer),
        ("far", ctypes.c_float),
    ]  # fmt: skip


def can_project(weight: Float[Tensor, "vocab width"]) -> bool:
    """Whether `Projection` takes these weights; on one thread, as `can_attend`."""
    return (
        _functions is not None
        and weight.dtype == torch.bfloat16
        and weight.device.type == "cpu"
        and weight.size(1) % BLOCK == 0
        and torch.get_num_threads() == 1
    )


class Projection:
    """Weights of a projection to logits, packed for the products of a slice of rows and of its gradients."""

    def __init__(self, weight: Float[Tensor, "vocab width"]):
        vocab, width = weight.shape
        words = -(-vocab // WORDS) * WORDS
        sizes = words * width // 2, words * width // 2, words // WORDS * SLICE // 2 * (WORDS + LANES)
        self._tensors = [weight.contiguous(), *(torch.empty(size, dtype=torch.int32) for size in sizes)]
        self.of = _Projection(vocab, width, *(each.data_ptr() for each in self._tensors), SLICE)
        self._whole_gradient = torch.zeros(words, width)
        self.gradient = self._whole_gradient[:vocab]
        """The gradient of the weights; grows by each `Spread.multiply`."""
        _functions.pack_projection(ctypes.byref(self.of))

    def spread(
        self, states: Float[Tensor, "rows width"], targets: Int[Tensor, " rows"], *, far: float
    ) -> "Spread | None":
        """Exponentials of the logits of at most `SLICE` rows; they are overwritten by the next ones.

        None if any logit is so far from 0 that `exp` may leave the range of float32.
        """
        states, targets, (rows, width) = states.contiguous(), targets.contiguous(), states.shape
        mixed, terms = torch.empty(-(-rows // GROUP) * GROUP, width), torch.empty(rows, 2)
        of = _Slice(states.data_ptr(), targets.data_ptr(), rows, mixed.data_ptr(), terms.data_ptr(), far)
        found = _functions.raise_slice(ctypes.byref(self.of), ctypes.byref(of))
        _check(found == 1)
        return None if found else Spread(self, terms[:, :1], terms[:, 1:], mixed[:rows])


@dataclass
class Spread:
    """exp(logits) of a slice, but 0 at the targets."""

    projection: Projection
    chosen: Float[Tensor, "rows 1"]
    """Logits of the targets."""
    sums: Float[Tensor, "rows 1"]
    """The sum of the exponentials of each row."""
    mixed: Float[Tensor, "rows width"]
    """The exponentials times the weights."""

    def multiply(self, states: Float[Tensor, "rows width"]) -> Float[Tensor, "rows width"]:
        """`mixed`; the gradient of the weights gets the exponentials, transposed, times `states`."""
        to, of = self.projection._whole_gradient, self.projection.of
        _check(_functions.add_outer(ctypes.byref(of), states.data_ptr(), len(states), to.data_ptr()))
        return self.mixed


def _check(failed: int) -> None:
    if failed:
        raise MemoryError("There is no memory for the numbers between two products.")


def _load() -> Any:
    found = library.loaded
    if found is not None:
        found.add_outer.argtypes = [Pointer, Pointer, Size, Pointer]
    return found if found is not None and found.multiplies_bfloat16() else None


_functions: Any = _load()  # None: `can_attend` says no to everything
