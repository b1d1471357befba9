"""A language model as they are built today: the paper's model (transformer.py) without encoder and cross-attention.

Norms come first, and there is no dropout. Later inventions are options, off by default; all of them together make the
model of Llama. Attention, the feed-forward network and the sines are the paper's.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformer import FeedForward, attention, positions


def rotate(x: Tensor, first: int = 0) -> Tensor:
    """Turns features 2i and 2i + 1 by the angle pos / 10000^(2i / d_k) (RoPE, Su et al. 2021).

    `x` is (batch, heads, length, d_k), and `first` the position of its first vector. The paper adds the same sines and
    cosines to the embeddings.
    """
    waves = positions(first + x.size(-2), x.size(-1))[first:].to(x.device)
    (sin, cos), (even, odd) = (each.unflatten(-1, (-1, 2)).unbind(-1) for each in (waves, x))
    return torch.stack([even * cos - odd * sin, even * sin + odd * cos], dim=-1).flatten(-2)


def no_future(length: int, past: int) -> Tensor:
    """The mask (length, past + length): a position sees the past, the positions before it, and itself."""
    return torch.ones(length, past + length, dtype=torch.bool).tril(past)


class RMSNorm(nn.Module):
    """x / sqrt(mean(x^2) + eps) * g: LayerNorm without mean and bias (Zhang and Sennrich 2019)."""

    def __init__(self, d_model: int, eps: float = 1e-5):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(d_model)), eps

    def forward(self, x: Tensor) -> Tensor:
        return x / torch.sqrt(x.square().mean(-1, keepdim=True) + self.eps) * self.weight


class SwiGLU(nn.Module):
    """(silu(x W) * x V) W_2 with silu(z) = z sigmoid(z): a gate instead of ReLU, no biases (Shazeer 2020)."""

    def __init__(self, d_model: int, d_ff: int):
        super().__init__()
        self.gate, self.inner = nn.Linear(d_model, d_ff, bias=False), nn.Linear(d_model, d_ff, bias=False)
        self.outer = nn.Linear(d_ff, d_model, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.outer(F.silu(self.gate(x)) * self.inner(x))


class SelfAttention(nn.Module):
    """Attention to the past, in groups of heads that share keys and values (GQA, Ainslie et al. 2023)."""

    def __init__(self, d_model: int, num_heads: int, num_kv_heads: int, rotary: bool):
        super().__init__()
        self.d_k, self.rotary = d_model // num_heads, rotary
        self.query = nn.Linear(d_model, d_model, bias=False)
        self.key = nn.Linear(d_model, num_kv_heads * self.d_k, bias=False)
        self.value = nn.Linear(d_model, num_kv_heads * self.d_k, bias=False)
        self.output = nn.Linear(d_model, d_model, bias=False)

    def forward(self, x: Tensor, cache: list[Tensor]) -> Tensor:
        """`cache` holds the keys and values of earlier positions; those of `x` (batch, length, d_model) are added."""
        query, key, value = self.split(self.query(x)), self.split(self.key(x)), self.split(self.value(x))
        past = cache[0].size(2) if cache else 0
        if self.rotary:
            query, key = rotate(query, past), rotate(key, past)
        if cache:
            key, value = torch.cat([cache[0], key], dim=2), torch.cat([cache[1], value], dim=2)
        cache[:] = key, value
        group = query.size(1) // key.size(1)
        key, value = (each.repeat_interleave(group, dim=1) for each in (key, value))
        heads = attention(query, key, value, no_future(x.size(1), past).to(x.device))
        return self.output(heads.transpose(1, 2).flatten(2))

    def split(self, x: Tensor) -> Tensor:
        """(batch, length, heads * d_k) to (batch, heads, length, d_k)."""
        return x.unflatten(-1, (-1, self.d_k)).transpose(1, 2)


class Layer(nn.Module):
    """Self-attention and a feed-forward network, each as x + Sublayer(norm(x))."""

    def __init__(self, d_model: int, self_attention: nn.Module, feed_forward: nn.Module, norm: type[nn.Module]):
        super().__init__()
        self.self_attention, self.feed_forward = self_attention, feed_forward
        self.norms = nn.ModuleList(norm(d_model) for _ in range(2))

    def forward(self, x: Tensor, cache: list[Tensor]) -> Tensor:
        x = x + self.self_attention(self.norms[0](x), cache)
        return x + self.feed_forward(self.norms[1](x))


class Decoder(nn.Module):
    """The decoder of figure 1 without its middle, and with a norm at the end."""

    def __init__(
        self,
        vocab_size: int,
        d_model: int = 512,
        d_ff: int = 2048,
        num_heads: int = 8,
        num_layers: int = 6,
        *,
        num_kv_heads: int | None = None,
        rotary: bool = False,
        rms_norm: bool = False,
        swiglu: bool = False,
    ):
        """`num_kv_heads` divides `num_heads`, and is as many by default."""
        super().__init__()
        self.d_model, self.rotary = d_model, rotary
        self.table = nn.Embedding(vocab_size, d_model)
        norm, network = RMSNorm if rms_norm else nn.LayerNorm, SwiGLU if swiglu else FeedForward
        heads = d_model, num_heads, num_kv_heads or num_heads, rotary
        self.layers = nn.ModuleList(
            Layer(d_model, SelfAttention(*heads), network(d_model, d_ff), norm) for _ in range(num_layers)
        )
        self.norm = norm(d_model)
        for weight in self.parameters():
            if weight.dim() > 1:
                nn.init.xavier_uniform_(weight)
        nn.init.normal_(self.table.weight, std=d_model**-0.5)

    def forward(self, ids: Tensor, cache: list[list[Tensor]] | None = None) -> Tensor:
        """(batch, length) to logits of the token after each; with a cache (`new_cache`), `ids` are only new tokens."""
        cache = self.new_cache() if cache is None else cache
        past = cache[0][0].size(2) if cache[0] else 0
        x = self.table(ids) * math.sqrt(self.d_model)
        if not self.rotary:
            x = x + positions(past + ids.size(1), self.d_model)[past:].to(x.device)
        for layer, of_layer in zip(self.layers, cache, strict=True):
            x = layer(x, of_layer)
        return self.norm(x) @ self.table.weight.T

    def new_cache(self) -> list[list[Tensor]]:
        """An empty cache; later each layer has its keys and values, both (batch, num_kv_heads, length, d_k)."""
        return [[] for _ in self.layers]


def probabilities(logits: Tensor, temperature: float = 1.0, top_k: int | None = None, top_p: float = 1.0) -> Tensor:
    """softmax(logits / temperature) of the likeliest tokens; the others get 0.

    These are the `top_k` likeliest, and of them as few as have the probability `top_p` together.
    """
    likeliest, ids = (logits / temperature).topk(min(top_k or logits.size(-1), logits.size(-1)))
    shares = likeliest.softmax(-1)
    likelier = shares.cumsum(-1) - shares
    shares = shares.masked_fill(likelier >= top_p, 0.0) if top_p < 1 else shares
    return torch.zeros_like(logits).scatter(-1, ids, shares / shares.sum(-1, keepdim=True))


@torch.no_grad()
def generate(model: Decoder, ids: Tensor, length: int, **choices: float) -> Tensor:
    """(batch, length so far) to `length` tokens more, each drawn by `probabilities(logits, **choices)`."""
    cache, new = model.new_cache(), ids
    for _ in range(length):
        new = torch.multinomial(probabilities(model(new, cache)[:, -1], **choices), 1)
        ids = torch.cat([ids, new], dim=1)
    return ids
