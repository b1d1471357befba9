"""Attention (section 3.2 of the paper): the formula, masks, caches, heads, self- and cross-attention.

Masks are boolean and True means "may be attended to".
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from dragoman.model.config import TransformerConfig
from dragoman.model.dropout import Dropout
from dragoman.model.formula import Formula

Queries = Float[Tensor, "rows heads queries width"]
Keys = Float[Tensor, "rows heads keys width"]
Mask = Bool[Tensor, "..."]
"""Anything that broadcasts to (rows, heads, queries, keys)."""
Weights = Float[Tensor, "rows heads queries keys"]
States = Float[Tensor, "rows length d_model"]


def attention(query: Queries, key: Keys, value: Keys, mask: Mask | None = None, *, dropout: Dropout) -> Queries:
    """softmax(Q K^T / sqrt(d_k)) V, equation 1."""
    weights = attention_weights(query, key, mask)
    return dropout(weights) @ value


def attention_weights(query: Queries, key: Keys, mask: Mask | None = None) -> Weights:
    """softmax(Q K^T / sqrt(d_k)): how much each query takes from each key; rows sum to 1."""
    scores = (query / math.sqrt(key.size(-1))) @ key.transpose(-2, -1)
    if mask is not None:
        # The smallest number rather than -inf: a row that may attend to nothing becomes uniform, not NaN.
        scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    return scores.softmax(-1, dtype=torch.promote_types(scores.dtype, torch.float32)).to(scores.dtype)


attend = Formula(attention)
"""The same as `attention`, computed in the quickest way for this device and these sizes."""


@Formula
def project(x: Tensor, *projections: nn.Linear) -> Sequence[Tensor]:
    """Each projection of `x`."""
    return [projection(x) for projection in projections]


def causal_mask(length: int, *, past: int = 0, device: torch.device | None = None) -> Bool[Tensor, "length keys"]:
    """Mask of `length` new positions, each of which may attend to the `past` ones and to the new ones up to itself."""
    return torch.ones(length, past + length, dtype=torch.bool, device=device).tril(past)


class KeyValueCache:
    """The keys and values that self-attention has computed, for rows that are decoded step by step."""

    def __init__(self) -> None:
        self.length = 0
        # Shape (keys and values, capacity, rows, heads, width), in which a new position is one piece of memory.
        self._store: Tensor | None = None

    def append(self, key: Keys, value: Keys) -> tuple[Tensor, Tensor]:
        """Add new positions; returns the keys and values of all positions."""
        start, self.length = self.length, self.length + key.size(2)
        store = self._store
        if store is None or self.length > store.size(1):
            # A quarter more each time, so that appending position by position copies each old one about four times.
            rows, heads, _, width = key.shape
            grown = key.new_empty(2, self.length + max(7, self.length // 4), rows, heads, width)
            if store is not None:
                grown[:, :start] = store[:, :start]
            store = self._store = grown
        store[0, start : self.length] = key.permute(2, 0, 1, 3)
        store[1, start : self.length] = value.permute(2, 0, 1, 3)
        keys, values = store[:, : self.length].permute(0, 2, 3, 1, 4)
        return keys, values

    def reorder(self, rows: Int[Tensor, " kept"]) -> None:
        """Keep these rows, in this order; a row may be kept several times."""
        if self._store is not None:
            kept = self._store.new_empty(*self._store.shape[:2], len(rows), *self._store.shape[3:])
            for old, new in zip(self._store, kept, strict=True):
                torch.index_select(old[: self.length], 1, rows, out=new[: self.length])
            self._store = kept


class MemoryCache:
    """The keys and values of a memory, which do not change while the target is decoded."""

    def __init__(self) -> None:
        self.contents: tuple[Tensor, Tensor] | None = None

    def fill(self, key: Keys, value: Keys) -> tuple[Tensor, Tensor]:
        """Store both as contiguous tensors, which the products of later steps read without a copy; return them."""
        self.contents = key.contiguous(), value.contiguous()
        return self.contents

    def reorder(self, rows: Int[Tensor, " kept"]) -> None:
        """Keep these rows, in this order."""
        if self.contents is not None:
            key, value = self.contents
            self.contents = key.index_select(0, rows), value.index_select(0, rows)


class LayerCache:
    """The caches of both attentions of one decoder layer."""

    def __init__(self) -> None:
        self.self_attention, self.cross_attention = KeyValueCache(), MemoryCache()


class DecoderCache:
    """Keys and values that decoding has computed so far: for each layer those of the target and of the memory."""

    def __init__(self, num_layers: int):
        self.layers = [LayerCache() for _ in range(num_layers)]

    @property
    def length(self) -> int:
        """Target positions decoded so far."""
        return self.layers[0].self_attention.length

    def reorder(self, rows: Int[Tensor, " kept"], memory_rows: Int[Tensor, " groups"] | None = None) -> None:
        """Keep these target rows and, where given, these rows of the memory."""
        for layer in self.layers:
            layer.self_attention.reorder(rows)
            if memory_rows is not None:
                layer.cross_attention.reorder(memory_rows)


@dataclass(frozen=True)
class Recorded:
    """Queries, keys and values of all heads of one attention, from which their weights follow."""

    query: Queries
    key: Keys
    value: Keys
    mask: Mask | None

    @property
    def weights(self) -> Weights:
        """How much each query takes from each key."""
        return attention_weights(self.query, self.key, self.mask)

    def weights_of(self, head: int) -> Float[Tensor, "rows queries keys"]:
        """The weights of one head."""
        return attention_weights(self.query[:, head : head + 1], self.key[:, head : head + 1], self.mask).squeeze(1)


@dataclass
class AttentionMaps:
    """Lists to which each attention of one forward pass (section 3.2.3) appends; None: it is not recorded."""

    encoder: list[Recorded] | None = field(default_factory=list)
    """Self-attention of the encoder."""
    decoder: list[Recorded] | None = field(default_factory=list)
    """Self-attention of the decoder."""
    cross: list[Recorded] = field(default_factory=list)
    """The decoder's attention to the memory."""


class MultiHeadAttention(nn.Module):
    """Section 3.2.2: queries, keys and values projected to heads, attention in each, one output projection."""

    def __init__(self, config: TransformerConfig):
        super().__init__()
        self.num_heads = config.num_heads
        self.query = nn.Linear(config.d_model, config.d_model)
        self.key = nn.Linear(config.d_model, config.d_model)
        self.value = nn.Linear(config.d_model, config.d_model)
        self.output = nn.Linear(config.d_model, config.d_model)
        self.dropout = Dropout(config.attention_dropout)
        self.project: Callable[..., Sequence[Tensor]] = project

    def mix(
        self, query: Queries, key: Keys, value: Keys, mask: Mask | None, record: list[Recorded] | None
    ) -> Float[Tensor, "groups queries d_model"]:
        """The results of all heads, side by side. Appends queries, keys and values to `record`, if given."""
        if record is not None:
            record.append(Recorded(query, key, value, mask))
        return attend(query, key, value, mask, dropout=self.dropout).transpose(1, 2).flatten(2)

    def heads(self, x: Float[Tensor, "rows length d_model"]) -> Float[Tensor, "rows heads length width"]:
        """`x`, split into the heads."""
        return x.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)


class SelfAttention(MultiHeadAttention):
    """Each position attends to the positions of its own sequence; `rotation` turns queries and keys by position."""

    def __init__(self, config: TransformerConfig, rotation: nn.Module | None = None):
        super().__init__(config)
        self.rotation = rotation

    def forward(
        self,
        x: States,
        mask: Mask | None = None,
        cache: KeyValueCache | None = None,
        record: list[Recorded] | None = None,
    ) -> States:
        """With a cache, `x` holds the new positions alone, which attend to the cached ones too."""
        query, key, value = map(self.heads, self.project(x, self.query, self.key, self.value))
        if self.rotation is not None:
            past = cache.length if cache is not None else 0
            query, key = self.rotation(query, offset=past), self.rotation(key, offset=past)
        if cache is not None:
            key, value = cache.append(key, value)
        return self.output(self.mix(query, key, value, mask, record))


class CrossAttention(MultiHeadAttention):
    """Each target position attends to the memory, the encoder's output."""

    def forward(
        self,
        x: States,
        memory: Float[Tensor, "groups keys d_model"],
        mask: Mask | None = None,
        cache: MemoryCache | None = None,
        record: list[Recorded] | None = None,
    ) -> States:
        """A cache keeps the keys and values of the memory from the first call on.

        `x` may have several rows, one after another, for each row of `memory`: the hypotheses of one sentence share it.
        """
        # Rows that share a memory are only more queries to it.
        query = self.heads(self.query(x).reshape(memory.size(0), -1, x.size(-1)))
        if cache is not None and cache.contents is not None:
            key, value = cache.contents
        else:
            key, value = map(self.heads, self.project(memory, self.key, self.value))
            if cache is not None:
                key, value = cache.fill(key, value)
        return self.output(self.mix(query, key, value, mask, record).reshape(x.shape))
