"""Training in bfloat16 on processors that multiply it (bfloat16.c): attention, and a projection with its loss.

`attend` equals `dragoman.model.attention.attention`. `Projection` computes the parts of
`dragoman.model.loss.cross_entropy` that need all logits; fast/loss.py adds the rest. Other processors, and shapes that
the library does not take, have fast/attention.py and the formulas.
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
from dragoman.model.fast.attention import LONGEST
from dragoman.model.fast.dropout import Draws
from dragoman.native import library
from dragoman.native.library import LANES

Pointer, Size = ctypes.c_void_p, ctypes.c_int64

BLOCK, WORDS, GROUP = 2 * LANES, 128, 8
"""Columns, words and rows that are multiplied at a time; as in bfloat16.c."""
SLICE = 256
"""Most rows that a `Projection` takes at once. The gradient of the weights passes through the cache once a slice, which
so many rows are worth."""


class _HeadsStruct(ctypes.Structure):
    """A tensor (rows, heads, positions, width): its address and its strides, in numbers."""

    _fields_ = [("at", Pointer), ("row", Size), ("head", Size), ("position", Size)]

    @classmethod
    def of(cls, x: Tensor) -> "_HeadsStruct":
        return cls(x.data_ptr(), *x.stride()[:3])


class _AttentionStruct(ctypes.Structure):
    _fields_ = [
        *((name, Size) for name in ("rows", "heads", "queries", "keys", "width")),
        *((name, _HeadsStruct) for name in ("query", "key", "value", "out")),
        *((name, _HeadsStruct) for name in ("query_gradient", "key_gradient", "value_gradient")),
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
    """The same as `dragoman.model.attention.attention`, with other random numbers.

    In memory, the heads of each position are side by side. Raises `MemoryError`.
    """
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
        tensor_structs = map(_HeadsStruct.of, (query, key, value, out))
        struct = _AttentionStruct(rows, heads, queries, keys, width, *tensor_structs)
        struct.weights = weights.data_ptr()
        if mask is not None:
            struct.mask, struct.mask_strides = mask.data_ptr(), (Size * 4)(*mask.stride())
        if draws is not None:
            struct.dropout = ctypes.pointer(draws)
        _train_attention(struct, back=False)
        ctx.struct = struct
        ctx.save_for_backward(query, key, value, weights, mask)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, out_gradient: Tensor) -> tuple[Tensor | None, ...]:
        out_gradient, struct = _in_rows(out_gradient), ctx.struct
        query, key, value, weights, mask = ctx.saved_tensors
        # What is computed again, or was moved meanwhile, stands elsewhere by now.
        struct.query, struct.key, struct.value = map(_HeadsStruct.of, (query, key, value))
        struct.weights = weights.data_ptr()
        if mask is not None:
            struct.mask = mask.data_ptr()
        # The gradients of a joint projection lie side by side, so that they need not be joined again.
        is_joint = query.untyped_storage().data_ptr() == key.untyped_storage().data_ptr()
        gradients = _side_by_side(key, 3) if is_joint else (*_side_by_side(query, 1), *_side_by_side(key, 2))
        struct.out = _HeadsStruct.of(out_gradient)
        struct.query_gradient, struct.key_gradient, struct.value_gradient = map(_HeadsStruct.of, gradients)
        _train_attention(struct, back=True)
        return *gradients, None, None


def _side_by_side(x: Tensor, count: int) -> tuple[Tensor, ...]:
    """Empty tensors of the shape (rows, heads, length, width) of `x`; a position of all is one piece of memory."""
    rows, heads, length, width = x.shape
    return x.new_empty(rows, length, count, heads, width).permute(2, 0, 3, 1, 4).unbind()


def _in_rows(x: Tensor) -> Tensor:
    """The tensor, or a copy if the numbers of its last dimension are not side by side."""
    return x if x.stride(3) == 1 else x.contiguous()


def _train_attention(struct: _AttentionStruct, *, back: bool) -> None:
    _check(_functions.train_attention(ctypes.byref(struct), back))


class _ProjectionStruct(ctypes.Structure):
    _fields_ = [
        ("vocab", Size), ("width", Size), *((name, Pointer) for name in ("weight", "across", "beside", "spread")),
        ("most_rows", Size),
    ]  # fmt: skip


class _SliceStruct(ctypes.Structure):
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
        across, beside = (torch.empty(words * width // 2, dtype=torch.int32) for _ in range(2))
        spread = torch.empty(words // WORDS * SLICE // 2 * (WORDS + LANES), dtype=torch.int32)
        self._tensors = weight.contiguous(), across, beside, spread  # the struct points to them
        self._struct = _ProjectionStruct(vocab, width, *(tensor.data_ptr() for tensor in self._tensors), SLICE)
        self._padded_gradient = torch.zeros(words, width)
        self.gradient = self._padded_gradient[:vocab]
        """The gradient of the weights; grows by each `Spread.multiply`."""
        _functions.pack_projection(ctypes.byref(self._struct))

    def spread(
        self, states: Float[Tensor, "rows width"], targets: Int[Tensor, " rows"], *, far: float
    ) -> "Spread | None":
        """Exponentials of the logits of at most `SLICE` rows; the next call overwrites them.

        None if logits are farther from 0 than `far`, where `exp` might leave the range of float32.
        """
        states, targets, (rows, width) = states.contiguous(), targets.contiguous(), states.shape
        mixed, terms = torch.empty(-(-rows // GROUP) * GROUP, width), torch.empty(rows, 2)
        struct = _SliceStruct(states.data_ptr(), targets.data_ptr(), rows, mixed.data_ptr(), terms.data_ptr(), far)
        code = _functions.raise_slice(ctypes.byref(self._struct), ctypes.byref(struct))
        _check(code == 1)  # else it is 0, or 2 if logits are too far from 0
        return None if code else Spread(self, target_logits=terms[:, :1], sums=terms[:, 1:], mixed=mixed[:rows])

    def add_outer(self, states: Float[Tensor, "rows width"]) -> None:
        """Add the exponentials of the last `spread`, transposed, times `states` to the gradient of the weights."""
        gradient = self._padded_gradient.data_ptr()
        _check(_functions.add_outer(ctypes.byref(self._struct), states.data_ptr(), len(states), gradient))


@dataclass
class Spread:
    """exp(logits) of a slice, but 0 at the targets."""

    projection: Projection
    target_logits: Float[Tensor, "rows 1"]
    sums: Float[Tensor, "rows 1"]
    """The sum of the exponentials of each row."""
    mixed: Float[Tensor, "rows width"]
    """The exponentials times the weights."""

    def multiply(self, states: Float[Tensor, "rows width"]) -> Float[Tensor, "rows width"]:
        """Returns `mixed`. The gradient of the weights grows by the exponentials, transposed, times `states`."""
        self.projection.add_outer(states)
        return self.mixed


def _check(failed: int) -> None:
    if failed:
        raise MemoryError("There is no memory for the numbers between two products.")


def _load() -> Any:
    """The library, if this processor multiplies bfloat16."""
    if library.loaded is None or not library.loaded.multiplies_bfloat16():
        return None
    library.loaded.add_outer.argtypes = [Pointer, Pointer, Size, Pointer]
    return library.loaded


_functions: Any = _load()
"""None: this processor or this library has no products of bfloat16."""
