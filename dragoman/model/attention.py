"""Attention (section 3.2 of the paper): the formula, a fused kernel equal to it, heads, masks, the cache.

Masks are boolean and True means "may be attended to".
"""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from dragoman.model.config import TransformerConfig
from dragoman.model.dropout import Dropout

Queries = Float[Tensor, "rows heads queries width"]
Keys = Float[Tensor, "rows heads keys width"]
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


def fastest_attention(query: Queries, key: Keys, value: Keys, mask: Mask | None = None, *, dropout: Dropout) -> Queries:
    """The quicker of the two: on a CPU the fused kernel only pays when the weights outgrow the cache."""
    kernel = attention if query.device.type == "cpu" and key.size(-2) <= 512 else fused_attention
    return kernel(query, key, value, mask, dropout=dropout)


def _softmax(scores: Tensor) -> Tensor:
    # Rows below 16 numbers miss PyTorch's vector path on CPUs, which is 12 times as fast.
    missing = 16 - scores.size(-1)
    if missing <= 0 or scores.device.type != "cpu":
        return scores.softmax(-1)
    return F.pad(scores, (0, missing), value=float("-inf")).softmax(-1)[..., :-missing]


def causal_mask(length: int, *, past: int = 0, device: torch.device | None = None) -> Bool[Tensor, "length keys"]:
    """Position i of `length` new ones may see the `past` before them, the new ones up to i, and itself."""
    return torch.ones(length, past + length, dtype=torch.bool, device=device).tril(past)


class KeyValueCache:
    """The keys and values one attention layer has seen, for rows that are decoded step by step."""

    def __init__(self, *, grows: bool = True):
        """`grows`: leave room for more positions, those of a target; a memory is appended once."""
        self.length, self.grows = 0, grows
        self._store: Tensor | None = None  # (2, rows, heads, capacity, width): keys, then values

    def append(self, key: Keys, value: Keys) -> tuple[Tensor, Tensor]:
        """Add new positions and return the contents with them."""
        end = self.length + key.size(2)
        if self._store is None or end > self._store.size(3):
            # Doubling: appending one position at a time copies each old one about once.
            rows, heads, _, width = key.shape
            grown = key.new_empty(2, rows, heads, max(16, 2 * end) if self.grows else end, width)
            if self._store is not None:
                grown[..., : self.length, :] = self._store[..., : self.length, :]
            self._store = grown
        self._store[0, :, :, self.length : end] = key
        self._store[1, :, :, self.length : end] = value
        self.length = end
        return self.contents()

    def contents(self) -> tuple[Tensor, Tensor]:
        """All keys and values so far, each (rows, heads, length, width)."""
        return self._store[0, :, :, : self.length], self._store[1, :, :, : self.length]

    def reorder(self, rows: Int[Tensor, " kept"]) -> None:
        """Keep these rows, in this order; a row may be kept several times."""
        if self._store is not None:
            self._store = self._store.index_select(1, rows)


class DecoderCache:
    """What decoding has computed so far: per layer the keys and values of the target and of the memory."""

    def __init__(self, num_layers: int):
        self.target = [KeyValueCache() for _ in range(num_layers)]
        self.memory = [KeyValueCache(grows=False) for _ in range(num_layers)]

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
        self.kernel = fastest_attention

    def forward(
        self,
        x: Float[Tensor, "rows length d_model"],
        memory: Float[Tensor, "groups keys d_model"],
        mask: Mask | None = None,
        cache: KeyValueCache | None = None,
    ) -> Float[Tensor, "rows length d_model"]:
        """Let each position of `x` attend to `memory` (to `x` itself for self-attention).

        With a cache, self-attention adds its new positions to it; attention to another memory fills it once.
        `x` may hold several rows for one of `memory`, one after another: the beams of a sentence share it.
        """
        # Rows that share a memory are only more queries to it.
        query = self._heads(self.query(x).reshape(memory.size(0), -1, x.size(-1)))
        past = cache.length if cache is not None else 0
        if past and memory is not x:
            key, value = cache.contents()
        else:
            key, value = self._heads(self.key(memory)), self._heads(self.value(memory))
            if self.rotation is not None:
                query, key = self.rotation(query, offset=past), self.rotation(key, offset=past)
            if cache is not None:
                key, value = cache.append(key, value)
        mixed = self.kernel(query, key, value, mask, dropout=self.dropout)
        return self.output(mixed.transpose(1, 2).reshape(x.shape))

    def _heads(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)


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
