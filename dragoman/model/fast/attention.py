"""Attention in one pass over memory: by PyTorch's fused kernel, or by the library's own.

`fused_attention`, `compiled_attention` and `single_pass_attention` equal `dragoman.model.attention.attention`.
"""

import ctypes
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from dragoman.model.attention import Keys, Mask, Queries
from dragoman.model.dropout import Dropout
from dragoman.model.fast.dropout import Draws
from dragoman.model.fast.memory import pointer, takes
from dragoman.native import library

LONGEST = 512
"""Most keys that the library takes: a row must fit on the stack. With more, matrix products are worth their copies."""


def can_fuse(query: Queries, key: Keys, value: Keys, mask: Mask | None = None, *, dropout: Dropout) -> bool:
    """Whether `fused_attention` is quicker than the other ways.

    On a CPU it pays only when the weights outgrow the cache. Its dropout there has a generator that all threads share.
    """
    return query.device.type != "cpu" or (key.size(-2) > LONGEST and not dropout.drops)


def fused_attention(query: Queries, key: Keys, value: Keys, mask: Mask | None = None, *, dropout: Dropout) -> Queries:
    """Attention by a kernel of PyTorch that never stores the weights.

    A query that may attend to nothing gets zeros, where the formula gives it the mean of the values.
    """
    rate = dropout.rate if dropout.drops else 0.0
    return F.scaled_dot_product_attention(query, key, value, attn_mask=mask, dropout_p=rate)


def can_compile(query: Queries, key: Keys, value: Keys, mask: Mask | None = None, *, dropout: Dropout) -> bool:
    """Whether `compiled_attention` takes these. It runs on one thread; several share the formula."""
    return takes(query) and 0 < key.size(2) <= LONGEST and torch.get_num_threads() == 1


def compiled_attention(
    query: Queries, key: Keys, value: Keys, mask: Mask | None = None, *, dropout: Dropout
) -> Queries:
    """Attention for training, with one compiled pass between the two matrix products, and one in the backward pass."""
    draws = Draws.of(dropout.rate, dropout.generator) if dropout.drops else None
    scores = query @ key.transpose(-2, -1)
    return MaskedSoftmaxDropout.apply(scores, mask, key.size(-1), draws) @ value


def can_attend(
    query: Queries, key: Keys, value: Keys, mask: Mask | None = None, *, dropout: Dropout | None = None
) -> bool:
    """Whether `single_pass_attention` takes these: it has no gradient and no dropout, and is for CPUs and few keys."""
    return (
        not (dropout and dropout.drops)
        and takes(query)
        and query.size(3) % library.LANES == 0
        and 0 < key.size(2) <= LONGEST
        and not (torch.is_grad_enabled() and any(x.requires_grad for x in (query, key, value)))
    )


def single_pass_attention(
    query: Queries, key: Keys, value: Keys, mask: Mask | None = None, *, dropout: Dropout | None = None
) -> Queries:
    """softmax(Q K^T / sqrt(d_k)) V for tensors of any strides, without dropout.

    In memory, the heads of each position of the result are side by side. Raises `MemoryError`.
    """
    query, key, value = (x if x.stride(3) == 1 else x.contiguous() for x in (query, key, value))
    rows, heads, queries, width = query.shape
    out = query.new_empty(rows, queries, heads, width).transpose(1, 2)
    strides = [stride for x in (query, key, value, out) for stride in x.stride()[:3]]
    if mask is not None:
        mask = mask.bool().expand(rows, heads, queries, key.size(2))
        strides += mask.stride()
    failed = library.functions.attention(
        *(x.data_ptr() for x in (query, key, value)),
        pointer(mask),
        out.data_ptr(),
        (ctypes.c_int64 * 5)(rows, heads, queries, key.size(2), width),
        (ctypes.c_int64 * 16)(*strides),
        query.dtype == torch.bfloat16,
    )
    if failed:
        raise MemoryError("There is no memory for the keys and values of a sentence.")
    return out


class MaskedSoftmaxDropout(torch.autograd.Function):
    """Dropout of softmax(scores / sqrt(width)), for scores (rows, heads, queries, keys)."""

    @staticmethod
    def forward(ctx: Any, scores: Tensor, mask: Mask | None, width: int, draws: Draws | None) -> Tensor:
        scores = scores.contiguous()
        mask = None if mask is None else mask.bool().expand(scores.shape)
        weights = torch.empty_like(scores)
        kept = torch.empty_like(scores) if draws else weights
        ctx.draws = draws
        ctx.shape = (ctypes.c_int64 * 5)(*scores.shape, width)
        ctx.strides = None if mask is None else (ctypes.c_int64 * 4)(*mask.stride())
        ctx.save_for_backward(weights, mask)
        library.functions.masked_softmax_dropout(
            scores.data_ptr(), pointer(mask), weights.data_ptr(), kept.data_ptr() if draws else None,
            ctx.shape, ctx.strides, library.address(draws), scores.dtype == torch.bfloat16,
        )  # fmt: skip
        return kept

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None, None]:
        weights, mask = ctx.saved_tensors
        scores_gradient, gradient = torch.empty_like(weights), gradient.contiguous()
        library.functions.masked_softmax_dropout_backward(
            weights.data_ptr(), pointer(mask), gradient.data_ptr(), scores_gradient.data_ptr(),
            ctx.shape, ctx.strides, library.address(ctx.draws), weights.dtype == torch.bfloat16,
        )  # fmt: skip
        return scores_gradient, None, None, None
