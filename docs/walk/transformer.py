"""The model of "Attention Is All You Need" (Vaswani et al., 2017), and nothing else: figure 1 from the bottom up.

Sections and equations are those of the paper. Masks are boolean, and True may be attended to.
"""

import math

import torch
from torch import Tensor, nn


def attention(query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
    """softmax(Q K^T / sqrt(d_k)) V: equation 1, for all heads at once; (batch, heads, length, d_k) each."""
    scores = query @ key.transpose(-2, -1) / math.sqrt(key.size(-1))
    return scores.masked_fill(~mask, -math.inf).softmax(-1) @ value


class MultiHeadAttention(nn.Module):
    """Attention in several heads, each with projections of its own (section 3.2.2)."""

    def __init__(self, d_model: int, num_heads: int):
        super().__init__()
        self.num_heads = num_heads
        # The matrices of all heads side by side.
        self.query = nn.Linear(d_model, d_model, bias=False)
        self.key = nn.Linear(d_model, d_model, bias=False)
        self.value = nn.Linear(d_model, d_model, bias=False)
        self.output = nn.Linear(d_model, d_model, bias=False)

    def forward(self, x: Tensor, memory: Tensor, mask: Tensor) -> Tensor:
        """Each position of `x` takes what it needs from the positions of `memory`: (batch, length, d_model) both."""
        query, key, value = self.split(self.query(x)), self.split(self.key(memory)), self.split(self.value(memory))
        heads = attention(query, key, value, mask)
        return self.output(heads.transpose(1, 2).flatten(2))

    def split(self, x: Tensor) -> Tensor:
        """(batch, length, d_model) to (batch, heads, length, d_k)."""
        return x.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)


class FeedForward(nn.Module):
    """max(0, x W_1 + b_1) W_2 + b_2: equation 2, for each position by itself."""

    def __init__(self, d_model: int, d_ff: int):
        super().__init__()
        self.inner, self.outer = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)

    def forward(self, x: Tensor) -> Tensor:
        return self.outer(self.inner(x).relu())


class EncoderLayer(nn.Module):
    """Self-attention and a feed-forward network, each as LayerNorm(x + Sublayer(x)) (section 3.1)."""

    def __init__(self, d_model: int, d_ff: int, num_heads: int, dropout: float):
        super().__init__()
        self.self_attention, self.feed_forward = MultiHeadAttention(d_model, num_heads), FeedForward(d_model, d_ff)
        self.norms = nn.ModuleList(nn.LayerNorm(d_model) for _ in range(2))
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        x = self.norms[0](x + self.dropout(self.self_attention(x, x, mask)))
        return self.norms[1](x + self.dropout(self.feed_forward(x)))


class DecoderLayer(nn.Module):
    """The same with attention to what the encoder made in between."""

    def __init__(self, d_model: int, d_ff: int, num_heads: int, dropout: float):
        super().__init__()
        self.self_attention, self.feed_forward = MultiHeadAttention(d_model, num_heads), FeedForward(d_model, d_ff)
        self.cross_attention = MultiHeadAttention(d_model, num_heads)
        self.norms = nn.ModuleList(nn.LayerNorm(d_model) for _ in range(3))
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, memory: Tensor, mask: Tensor, memory_mask: Tensor) -> Tensor:
        x = self.norms[0](x + self.dropout(self.self_attention(x, x, mask)))
        x = self.norms[1](x + self.dropout(self.cross_attention(x, memory, memory_mask)))
        return self.norms[2](x + self.dropout(self.feed_forward(x)))


def positions(length: int, d_model: int) -> Tensor:
    """sin(pos / 10000^(2i / d_model)) and the cosine of the same, in turn (section 3.5)."""
    angles = torch.arange(length)[:, None] / 10_000 ** (torch.arange(0, d_model, 2) / d_model)
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)


class Transformer(nn.Module):
    """Encoder and decoder (figure 1), with one table for source, target and projection (section 3.4)."""

    def __init__(
        self,
        vocab_size: int,
        d_model: int = 512,
        d_ff: int = 2048,
        num_heads: int = 8,
        num_layers: int = 6,
        dropout: float = 0.1,
        pad_id: int = 0,
    ):
        super().__init__()
        self.d_model, self.pad_id = d_model, pad_id
        self.table = nn.Embedding(vocab_size, d_model)
        self.dropout = nn.Dropout(dropout)
        sizes = d_model, d_ff, num_heads, dropout
        self.encoder = nn.ModuleList(EncoderLayer(*sizes) for _ in range(num_layers))
        self.decoder = nn.ModuleList(DecoderLayer(*sizes) for _ in range(num_layers))
        # The paper does not say how weights begin; this is usual.
        for weight in self.parameters():
            if weight.dim() > 1:
                nn.init.xavier_uniform_(weight)
        nn.init.normal_(self.table.weight, std=d_model**-0.5)

    def forward(self, source_ids: Tensor, target_ids: Tensor) -> Tensor:
        """(batch, source length) and (batch, target length) to logits of the token after each target token."""
        source_mask = (source_ids != self.pad_id)[:, None, None, :]
        return self.decode(target_ids, self.encode(source_ids, source_mask), source_mask)

    def encode(self, source_ids: Tensor, source_mask: Tensor) -> Tensor:
        """The memory, a vector for each source token."""
        x = self.embed(source_ids)
        for layer in self.encoder:
            x = layer(x, source_mask)
        return x

    def decode(self, target_ids: Tensor, memory: Tensor, source_mask: Tensor) -> Tensor:
        """Logits; no position sees the ones after it (section 3.2.3)."""
        length = target_ids.size(1)
        no_future = torch.ones(length, length, dtype=torch.bool, device=target_ids.device).tril()
        x = self.embed(target_ids)
        for layer in self.decoder:
            x = layer(x, memory, no_future, source_mask)
        return x @ self.table.weight.T

    def embed(self, ids: Tensor) -> Tensor:
        """The table times sqrt(d_model), plus positions, with dropout (sections 3.4, 3.5, 5.4)."""
        x = self.table(ids) * math.sqrt(self.d_model)
        return self.dropout(x + positions(ids.size(1), self.d_model).to(x.device))
