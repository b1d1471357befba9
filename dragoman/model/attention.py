"""Attention (section 3.2 of the paper): the formula, a fused kernel equal to it, heads, masks, the cache.

Masks are boolean and True means "may be attended to".
"""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from dragoman.model import kernels
from dragoman.model.config import TransformerConfig
from dragoman.model.dropout import Dropout
from dragoman.model.kernels import Keys, Queries

Weights = Float[Tensor, "rows heads queries keys"]
Mask = Bool[Tensor, "..."]
"""Anything that broadcasts to (rows, heads, queries, keys)."""


def attention(query: Queries, key: Keys, value: Keys, mask: Mask | None = None, *, dropout: Dropout) -> Queries:
    """softmax(Q K^T / sqrt(d_k)) V, equation 1, as it stands."""
    weights = attention_weights(query, key, mask)
    return dropout(weights) @ value


def attention_weights(query: Queries, key: Keys, mask: Mask | None = None) -> Weights:
    """softmax(Q K^T / sqrt(d_k)): how much each query takes from each key."""
    scores = (query / math.sqrt(key.size(-1))) @ key.transpose(-2, -1)
    if mask is not None:
        # The smallest number rather than -inf: a row that may see nothing becomes uniform, not NaN.
        scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    return _softmax(scores)


def fused_attention(query: Queries, key: Keys, value: Keys, mask: Mask | None = None, *, dropout: Dropout) -> Queries:
    """The same in one kernel that never stores the weights; a query that may see nothing gets zeros, not the mean."""
    rate = dropout.rate if dropout.training else 0.0
    return F.scaled_dot_product_attention(query, key, value, attn_mask=mask, dropout_p=rate)


def single_query_attention(
    query: Queries, key: Keys, value: Keys, mask: Mask | None = None, *, dropout: Dropout
) -> Queries:
    """The formula for one query a row, as sums of products, where a matrix product would first copy scattered keys."""
    scores = (query / math.sqrt(key.size(-1)) * key).sum(-1)[:, :, None]
    if mask is not None:
        scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    weights = dropout(_softmax(scores))
    return (weights.transpose(-2, -1) * value).sum(-2, keepdim=True)


def compiled_attention(
    query: Queries, key: Keys, value: Keys, mask: Mask | None = None, *, dropout: Dropout
) -> Queries:
    """The formula for training: what stands between the two products is done in one pass, and back in another."""
    rate = dropout.rate if dropout.training else 0.0
    scores = query @ key.transpose(-2, -1)
    return kernels.weights(scores, mask, width=key.size(-1), rate=rate, generator=dropout.generator) @ value


def fastest_attention(query: Queries, key: Keys, value: Keys, mask: Mask | None = None, *, dropout: Dropout) -> Queries:
    """The quickest of all: on a CPU the fused kernel only pays when the weights outgrow the cache."""
    drops = dropout.training and dropout.rate > 0
    if kernels.can_attend(query, key, value) and not drops:
        return kernels.attention(query, key, value, mask)
    # What PyTorch drops on a CPU follows from a generator that all threads share.
    if query.device.type != "cpu" or (key.size(-2) > kernels.LONGEST and not drops):
        return fused_attention(query, key, value, mask, dropout=dropout)
    if kernels.can_weigh(query, key):
        return compiled_attention(query, key, value, mask, dropout=dropout)
    kernel = single_query_attention if query.size(-2) == 1 and not key.is_contiguous() else attention
    return kernel(query, key, value, mask, dropout=dropout)


def _softmax(scores: Tensor) -> Tensor:
    # On CPUs PyTorch's vector path begins at 16 numbers of float32 a row, and is 12 times as fast.
    if scores.device.type != "cpu":
        return scores.softmax(-1)
    missing = max(0, 16 - scores.size(-1))
    wide = F.pad(scores, (0, missing), value=float("-inf")) if missing else scores
    dtype = torch.promote_types(scores.dtype, torch.float32)
    return wide.softmax(-1, dtype=dtype)[..., : scores.size(-1)].to(scores.dtype)


def causal_mask(length: int, *, past: int = 0, device: torch.device | None = None) -> Bool[Tensor, "length keys"]:
    """Position i of `length` new ones may see the `past` before them, the new ones up to i, and itself."""
    return torch.ones(length, past + length, dtype=torch.bool, device=device).tril(past)


class KeyValueCache:
    """The keys and values that self-attention has seen, for rows that are decoded step by step."""

    def __init__(self):
        self.length = 0
        # (capacity, rows, heads, width): a new position is one piece of memory, and so are those up to any position.
        self._key: Tensor | None = None
        self._value: Tensor | None = None

    def append(self, key: Keys, value: Keys) -> tuple[Tensor, Tensor]:
        """Add new positions and return all of them."""
        start, self.length = self.length, self.length + key.size(2)
        if self._key is None or self.length > self._key.size(0):
            # Doubling: appending one position at a time copies each old one about once.
            capacity = max(16, 2 * self.length)
            self._key, self._value = (
                self._with_room(old, new, capacity) for old, new in ((self._key, key), (self._value, value))
            )
        self._key[start : self.length] = key.permute(2, 0, 1, 3)
        self._value[start : self.length] = value.permute(2, 0, 1, 3)
        return self._key[: self.length].permute(1, 2, 0, 3), self._value[: self.length].permute(1, 2, 0, 3)

    @staticmethod
    def _with_room(old: Tensor | None, new: Keys, capacity: int) -> Tensor:
        rows, heads, _, width = new.shape
        grown = new.new_empty(capacity, rows, heads, width)
        if old is not None:
            grown[: len(old)] = old
        return grown

    def reorder(self, rows: Int[Tensor, " kept"]) -> None:
        """Keep these rows, in this order; a row may be kept several times."""
        if self._key is not None:
            self._key, self._value = (self._kept(store, rows) for store in (self._key, self._value))

    def _kept(self, store: Tensor, rows: Tensor) -> Tensor:
        kept = store.new_empty(len(store), len(rows), *store.shape[2:])
        torch.index_select(store[: self.length], 1, rows, out=kept[: self.length])
        return kept


class MemoryCache:
    """The keys and values of a memory, which do not change while the target is decoded."""

    def __init__(self):
        self.contents: tuple[Tensor, Tensor] | None = None

    def fill(self, key: Keys, value: Keys) -> tuple[Tensor, Tensor]:
        """Take them in and return them, each as one piece of memory, of which the products of a step need no copy."""
        self.contents = key.contiguous(), value.contiguous()
        return self.contents

    def reorder(self, rows: Int[Tensor, " kept"]) -> None:
        """Keep these rows, in this order."""
        if self.contents is not None:
            key, value = self.contents
            self.contents = key.index_select(0, rows), value.index_select(0, rows)


class DecoderCache:
    """What decoding has computed so far: per layer the keys and values of the target and of the memory."""

    def __init__(self, num_layers: int):
        self.target = [KeyValueCache() for _ in range(num_layers)]
        self.memory = [MemoryCache() for _ in range(num_layers)]

    @property
    def length(self) -> int:
        """Target positions decoded so far."""
        return self.target[0].length

    def reorder(self, rows: Int[Tensor, " kept"], memory_rows: Int[Tensor, " groups"] | None = None) -> None:
        """Keep these target rows and, where given, these rows of the memory."""
        for cache in self.target:
            cache.reorder(rows)
        for cache in self.memory if memory_rows is not None else ():
            cache.reorder(memory_rows)


class MultiHeadAttention(nn.Module):
    """Section 3.2.2: queries, keys and values projected to heads, attention in each, one output projection.

    `rotation`, if given, turns queries and keys by their position (rotary positions).
    """

    def __init__(self, config: TransformerConfig, rotation: Callable[..., Tensor] | None = None):
        super().__init__()
        self.num_heads = config.num_heads
        self.rotation = rotation
        self.query = nn.Linear(config.d_model, config.d_model)
        self.key = nn.Linear(config.d_model, config.d_model)
        self.value = nn.Linear(config.d_model, config.d_model)
        self.output = nn.Linear(config.d_model, config.d_model)
        self.dropout = Dropout(config.attention_dropout)
        self.kernel, self.project = fastest_attention, in_one_product

    def forward(
        self,
        x: Float[Tensor, "rows length d_model"],
        memory: Float[Tensor, "groups keys d_model"],
        mask: Mask | None = None,
        cache: KeyValueCache | MemoryCache | None = None,
    ) -> Float[Tensor, "rows length d_model"]:
        """Let each position of `x` attend to `memory` (to `x` itself for self-attention).

        With a cache, self-attention adds its new positions to it; attention to another memory fills it once.
        `x` may hold several rows for one of `memory`, one after another: the beams of a sentence share it.
        """
        if memory is x:
            query, key, value = map(self._heads, self.project(x, self.query, self.key, self.value))
            if self.rotation is not None:
                past = cache.length if cache is not None else 0
                query, key = self.rotation(query, offset=past), self.rotation(key, offset=past)
            if cache is not None:
                key, value = cache.append(key, value)
        else:
            # Rows that share a memory are only more queries to it.
            query = self._heads(self.query(x).reshape(memory.size(0), -1, x.size(-1)))
            if cache is None or cache.contents is None:
                key, value = map(self._heads, self.project(memory, self.key, self.value))
            if cache is not None:
                key, value = cache.contents or cache.fill(key, value)
        mixed = self.kernel(query, key, value, mask, dropout=self.dropout)
        return self.output(mixed.transpose(1, 2).reshape(x.shape))

    def _heads(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)


def in_one_product(x: Tensor, *projections: nn.Linear) -> Sequence[Tensor]:
    """Each projection of `x`; joined to one product, which is faster, where `x` is worth a copy of the weights.

    In half precision it always is: a product takes longer to begin, and a copy is half as long.
    """
    if x.element_size() > 2 and x.numel() < projections[0].weight.numel():
        return [project(x) for project in projections]
    weight = torch.cat([project.weight for project in projections])
    bias = torch.cat([project.bias for project in projections])
    return F.linear(x, weight, bias).chunk(len(projections), dim=-1)


@contextmanager
def record_attention(model: nn.Module) -> Iterator[dict[str, Weights]]:
    """Collect the attention weights of this model's next forward passes, by name of the attention module.

    Inside the `with` block the formula replaces the fused kernel; a later pass overwrites an earlier one.
    """
    maps: dict[str, Tensor] = {}

    def recorder(name: str) -> Callable[..., Tensor]:
        def kernel(query: Queries, key: Keys, value: Keys, mask: Mask | None = None, *, dropout: Dropout) -> Queries:
            maps[name] = attention_weights(query, key, mask).detach()
            return attention(query, key, value, mask, dropout=dropout)

        return kernel

    modules = {name: module for name, module in model.named_modules() if isinstance(module, MultiHeadAttention)}
    kernels = {name: module.kernel for name, module in modules.items()}
    for name, module in modules.items():
        module.kernel = recorder(name)
    try:
        yield maps
    finally:
        for name, module in modules.items():
            module.kernel = kernels[name]
