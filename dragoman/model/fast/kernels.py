"""Every fast path of the model, each equal to a formula: dropout, attention, projections, norms, ends of a softmax.

`Dropout`, `fast_attention` and `project` choose by device, precision, size and whether gradients are wanted. The
kernels of the library (library.py) have a function beside them that says what they take.
"""

import ctypes
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from dragoman.model.fast import library

LONGEST = 512
"""Most keys that the library takes; with more, matrix products are worth their copies. A row must fit on the stack."""

Queries = Float[Tensor, "rows heads queries width"]
Keys = Float[Tensor, "rows heads keys width"]
Mask = Bool[Tensor, "..."]
"""Anything that broadcasts to (rows, heads, queries, keys)."""


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
            if add_to is not None and _takes(x) and add_to.dtype == x.dtype and add_to.is_contiguous():
                return _Dropout.apply(x, add_to, Draws.of(self.rate, self.generator))
            x = self._left(x)
        return x if add_to is None else add_to + x

    def _left(self, x: Tensor) -> Tensor:
        if _takes(x):
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


def fast_attention(
    query: Queries, key: Keys, value: Keys, mask: Mask | None = None, *, dropout: Dropout
) -> Queries | None:
    """The result of `attention.attention`, or None where nothing is faster than the formula."""
    drops = dropout.training and dropout.rate > 0
    if can_attend(query, key, value) and not drops:
        return single_pass_attention(query, key, value, mask)
    # On a CPU, PyTorch's fused kernel pays only when the weights outgrow the cache, and it draws dropout from a
    # generator that all threads share.
    if query.device.type != "cpu" or (key.size(-2) > LONGEST and not drops):
        return fused_attention(query, key, value, mask, dropout=dropout)
    # The compiled pass runs on one thread; where there are several, they share the formula.
    if _takes(query) and 0 < key.size(2) <= LONGEST and torch.get_num_threads() == 1:
        return compiled_attention(query, key, value, mask, dropout=dropout)
    return None


def fused_attention(query: Queries, key: Keys, value: Keys, mask: Mask | None = None, *, dropout: Dropout) -> Queries:
    """One kernel of PyTorch that never stores the weights. A query that may attend to nothing gets zeros, where the
    formula gives it the mean of the values.
    """
    rate = dropout.rate if dropout.training else 0.0
    return F.scaled_dot_product_attention(query, key, value, attn_mask=mask, dropout_p=rate)


def compiled_attention(
    query: Queries, key: Keys, value: Keys, mask: Mask | None = None, *, dropout: Dropout
) -> Queries:
    """For training: one compiled pass between the two matrix products, and one in the backward pass."""
    drops = dropout.training and dropout.rate > 0
    draws = Draws.of(dropout.rate, dropout.generator) if drops else None
    scores = query @ key.transpose(-2, -1)
    return MaskedSoftmaxDropout.apply(scores, mask, key.size(-1), draws) @ value


def project(x: Tensor, *projections: nn.Linear) -> Sequence[Tensor]:
    """Each projection of `x`. Where `x` is large enough to be worth a copy of the weights, they are a single product.

    In half precision it always is: a product takes longer to begin, and a copy is half as large.
    """
    if x.element_size() > 2 and x.numel() < projections[0].weight.numel():
        return [each(x) for each in projections]
    weight = torch.cat([each.weight for each in projections])
    bias = torch.cat([each.bias for each in projections])
    return _Parts.apply(F.linear(x, weight, bias), len(projections))


class _Parts(torch.autograd.Function):
    """Equal parts of the last dimension. Gradients that lie side by side are joined without a copy."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, count: int) -> tuple[Tensor, ...]:
        return x.chunk(count, dim=-1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        first, *others = gradients
        width, steps = first.size(-1), first.stride()
        beside = steps == (first.size(1) * len(gradients) * width, len(gradients) * width, 1)
        for index, each in enumerate(others, 1):
            beside &= each.stride() == steps and each.data_ptr() == first.data_ptr() + index * width * each.itemsize
        if beside:
            return first.as_strided((*first.shape[:-1], len(gradients) * width), steps), None
        return torch.cat(gradients, dim=-1), None


def can_attend(query: Queries, key: Keys, value: Keys) -> bool:
    """Whether `single_pass_attention` takes these: it gives no gradient, and is for CPUs and few keys."""
    return (
        _takes(query)
        and query.size(3) % library.LANES == 0
        and 0 < key.size(2) <= LONGEST
        and not (torch.is_grad_enabled() and any(x.requires_grad for x in (query, key, value)))
    )


def single_pass_attention(query: Queries, key: Keys, value: Keys, mask: Mask | None = None) -> Queries:
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
    failed = library.functions.attention(
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


def can_rotate(heads: Queries) -> bool:
    """Whether `rotate` takes these."""
    return _takes(heads) and heads.size(3) % library.LANES == 0


def rotate(heads: Queries, turns: Float[Tensor, "queries 2 width"]) -> Queries:
    """`heads` times the first factors, plus the other number of each pair times the second ones; contiguous."""
    return _Rotation.apply(heads, turns)


class _Rotation(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, heads: Tensor, turns: Tensor) -> Tensor:
        ctx.save_for_backward(turns)
        return _rotate(heads, turns, 1.0)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return _rotate(gradient, ctx.saved_tensors[0], -1.0), None


def _rotate(heads: Tensor, turns: Tensor, sign: float) -> Tensor:
    heads = heads if heads.stride(3) == 1 else heads.contiguous()
    out = torch.empty(heads.shape, dtype=heads.dtype)
    shape, steps = (ctypes.c_int64 * 4)(*heads.shape), (ctypes.c_int64 * 3)(*heads.stride()[:3])
    pointers = (each.data_ptr() for each in (heads, turns, out))
    library.functions.rotate(*pointers, shape, steps, sign, heads.dtype == torch.bfloat16)
    return out


def log_softmax(logits: Float[Tensor, "rows vocab"], out: Float[Tensor, "rows vocab"]) -> None:
    """Write log-probabilities in float32 to `out`."""
    if _takes(logits) and logits.is_contiguous() and out.is_contiguous():
        library.functions.log_softmax(logits.data_ptr(), out.data_ptr(), *logits.shape, logits.dtype == torch.bfloat16)
    else:
        torch.log_softmax(logits.detach(), -1, dtype=torch.float32, out=out)


class Draws(ctypes.Structure):
    """The elements that dropout keeps. They follow from a key, so the backward pass finds the same."""

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
    pointers = x.data_ptr(), _pointer(add_to), kept.data_ptr()
    library.functions.drop(*pointers, x.numel(), library.address(draws), x.dtype == torch.bfloat16)
    return kept


class _NormStruct(ctypes.Structure):
    _fields_ = [
        ("rows", ctypes.c_int64), ("width", ctypes.c_int64),
        *((name, ctypes.c_void_p) for name in ("gain", "bias", "moments")), ("eps", ctypes.c_float),
    ]  # fmt: skip


def can_normalise(x: Float[Tensor, "*shape width"], gain: Float[Tensor, " width"]) -> bool:
    """Whether `normalise` takes these. It is for training, on one thread."""
    return (
        _takes(x)
        and torch.is_grad_enabled()
        and not torch.is_autocast_enabled("cpu")
        and gain.dtype == torch.float32
        and x.size(-1) % library.LANES == 0
        and torch.get_num_threads() == 1
    )


def normalise(
    x: Float[Tensor, "*shape width"], gain: Float[Tensor, " width"], bias: Float[Tensor, " width"] | None, eps: float
) -> Float[Tensor, "*shape width"]:
    """LayerNorm of `x`, or RMSNorm where there is no bias."""
    return _Normalise.apply(x, gain, bias, eps)


class _Normalise(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, gain: Tensor, bias: Tensor | None, eps: float) -> Tensor:
        x, gain = x.contiguous(), gain.contiguous()
        bias = None if bias is None else bias.contiguous()
        rows, width = x.numel() // x.size(-1), x.size(-1)
        out, moments = torch.empty_like(x), torch.empty(rows, 2)
        ctx.norm = _NormStruct(rows, width, gain.data_ptr(), _pointer(bias), moments.data_ptr(), eps)
        ctx.save_for_backward(x, gain, bias, moments)
        library.functions.normalise_rows(
            x.data_ptr(), out.data_ptr(), ctypes.byref(ctx.norm), x.dtype == torch.bfloat16
        )
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        x, gain, bias, _ = ctx.saved_tensors
        gradient = gradient.contiguous()
        found, sums = torch.empty_like(x), torch.zeros(2, len(gain))
        pointers = (each.data_ptr() for each in (x, gradient, found, *sums))
        library.functions.normalise_rows_back(
            (ctypes.c_void_p * 5)(*pointers), ctypes.byref(ctx.norm), x.dtype == torch.bfloat16
        )
        return found, sums[0], None if bias is None else sums[1], None


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
            scores.data_ptr(), _pointer(mask), weights.data_ptr(), kept.data_ptr() if draws else None,
            ctx.shape, ctx.strides, library.address(draws), scores.dtype == torch.bfloat16,
        )  # fmt: skip
        return kept

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None, None]:
        weights, mask = ctx.saved_tensors
        found, gradient = torch.empty_like(weights), gradient.contiguous()
        library.functions.masked_softmax_dropout_backward(
            weights.data_ptr(), _pointer(mask), gradient.data_ptr(), found.data_ptr(),
            ctx.shape, ctx.strides, library.address(ctx.draws), weights.dtype == torch.bfloat16,
        )  # fmt: skip
        return found, None, None, None


def can_exponentiate(logits: Float[Tensor, "rows vocab"]) -> bool:
    """Whether `exponentiate` takes these. It runs on one thread; where there are several, they share the formula."""
    return _takes(logits) and logits.is_contiguous() and torch.get_num_threads() == 1


def exponentiate(
    logits: Float[Tensor, "rows vocab"], targets: Int[Tensor, " rows"], *, far: float, alpha: float = 0.0
) -> Float[Tensor, "rows 4"]:
    """Turn each row, in place, into exp(logits - shift), and 0 at its target.

    The shift is the largest number of a row if that is farther from 0 than `far`, else 0. Returns the shift of each
    row, its logit at the target less the shift, and the sum of what the row has become, in float32; then 0.

    With `alpha`, that of R-Drop, rows come in twos, whatever `far` is. The shift is the log of the sum of exponentials,
    so that rows become probabilities, 0 at the target, plus what R-Drop adds to the gradient of each logit. The third
    number is the sum of the other tokens' probabilities, the fourth what R-Drop adds to the loss.
    """
    terms = torch.empty(len(logits), 4, dtype=torch.float32)
    library.functions.exponentiate(
        *(x.data_ptr() for x in (logits, targets, terms)), *logits.shape, far, alpha, logits.dtype == torch.bfloat16
    )
    return terms


def can_rank(log_probs: Float[Tensor, "sentences beam vocab"]) -> bool:
    """Whether `best_continuations` takes these."""
    return _takes(log_probs) and log_probs.dtype == torch.float32 and log_probs.is_contiguous()


def best_continuations(
    log_probs: Float[Tensor, "sentences beam vocab"], totals: Float[Tensor, "sentences beam"], count: int
) -> tuple[Float[Tensor, "sentences count"], Int[Tensor, "sentences count"]]:
    """As that of `decoding.search`, in one pass; `totals` are float64."""
    shape, totals = log_probs.shape, totals.contiguous()
    found, indices = totals.new_empty(len(totals), count), torch.empty(len(totals), count, dtype=torch.long)
    library.functions.best_continuations(
        log_probs.data_ptr(), totals.data_ptr(), *shape, count, found.data_ptr(), indices.data_ptr()
    )
    return found, indices


def _takes(x: Tensor) -> bool:
    return library.compiled() and x.device.type == "cpu" and x.dtype in (torch.float32, torch.bfloat16)


def _pointer(x: Tensor | None) -> int | None:
    return None if x is None else x.data_ptr()
