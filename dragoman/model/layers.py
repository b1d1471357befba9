"""The layers (sections 3.1, 3.3 to 3.5): norms, residual connections, feed-forward, embeddings, positions."""

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from dragoman.model.attention import AttentionMaps, CrossAttention, LayerCache, Mask, SelfAttention, States
from dragoman.model.config import TransformerConfig
from dragoman.model.dropout import Dropout
from dragoman.model.formula import Formula

ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "silu": "silu", "swiglu": "silu"}
"""Name in `torch.nn.functional` of each `TransformerConfig.activation`."""


class Norm(nn.Module):
    """LayerNorm or RMSNorm, with one gain per feature or one for all features."""

    def __init__(self, config: TransformerConfig):
        super().__init__()
        self.eps = config.norm_eps
        size = config.d_model if config.norm_gain == "feature" else 1
        self.gain = nn.Parameter(torch.ones(size))
        self.bias = None if config.norm == "rms" else nn.Parameter(torch.zeros(size))

    def forward(self, x: States) -> States:
        width = x.shape[-1:]
        gain, bias = self.gain.expand(width), None if self.bias is None else self.bias.expand(width)
        return normalise(x, gain, bias, self.eps)


@Formula
def normalise(x: States, gain: Float[Tensor, " d_model"], bias: Float[Tensor, " d_model"] | None, eps: float) -> States:
    """LayerNorm of `x`, or RMSNorm where there is no bias."""
    if bias is None:
        return F.rms_norm(x, gain.shape, gain.to(x.dtype), eps)
    return F.layer_norm(x, gain.shape, gain, bias, eps)


class ResidualConnection(nn.Module):
    """Adds the output of a sub-layer f to its input: norm(x + f(x)) as in section 3.1, or x + f(norm(x))."""

    def __init__(self, config: TransformerConfig):
        super().__init__()
        self.norm = Norm(config)
        self.dropout = Dropout(config.dropout)
        self.pre_norm = config.norm_order == "pre"

    def forward(self, x: States, sublayer: Callable[[States], States]) -> States:
        if self.pre_norm:
            return self.dropout(sublayer(self.norm(x)), add_to=x)
        return self.norm(self.dropout(sublayer(x), add_to=x))


class FeedForward(nn.Module):
    """max(0, x W1 + b1) W2 + b2, equation 2, or with another activation; `swiglu` multiplies in a gate."""

    def __init__(self, config: TransformerConfig):
        super().__init__()
        self.inner = nn.Linear(config.d_model, config.d_ff)
        self.gate = nn.Linear(config.d_model, config.d_ff) if config.activation == "swiglu" else None
        self.outer = nn.Linear(config.d_ff, config.d_model)
        self.activation: Callable[[Tensor], Tensor] = getattr(F, ACTIVATIONS[config.activation])
        self.dropout = Dropout(config.activation_dropout)

    def forward(self, x: States) -> States:
        if self.gate is None:
            return self.outer(self.dropout(self.activation(self.inner(x))))
        return self.outer(self.dropout(self.activation(self.gate(x)) * self.inner(x)))


class Embedding(nn.Module):
    """Token embeddings times sqrt(d_model) (section 3.4) plus positions, with dropout (section 5.4)."""

    def __init__(self, config: TransformerConfig, vocab_size: int, positions: nn.Module | None):
        super().__init__()
        self.table = nn.Embedding(vocab_size, config.d_model)
        self.scale = math.sqrt(config.d_model) if config.scale_embeddings else 1.0
        self.positions = positions
        self.dropout = Dropout(config.dropout)

    def forward(self, ids: Int[Tensor, "rows length"], offset: int = 0) -> States:
        """`offset` is the position of the first column."""
        x = self.table(ids) * self.scale
        if self.positions is not None:
            x = x + self.positions(offset, ids.size(1))
        return self.dropout(x)


class SinusoidalPositions(nn.Module):
    """Section 3.5: sin(pos / 10000^(2i/d)) and its cosine, interleaved or all sines first. The table grows on demand.

    In fairseq's table the last frequency is 1 / 10000, and the first position has the number `pad_id` + 1.
    """

    def __init__(self, config: TransformerConfig):
        super().__init__()
        self.d_model, self.kind = config.d_model, config.positions
        self.first = config.pad_id + 1 if self.kind == "sinusoidal-fairseq" else 0
        self.table: Tensor
        self.register_buffer("table", self._compute(1024), persistent=False)

    def forward(self, offset: int, length: int) -> Float[Tensor, "length d_model"]:
        if offset + length > self.table.size(0):
            self.table = self._compute(2 * (offset + length)).to(self.table)
        return self.table[offset : offset + length]

    def _compute(self, length: int) -> Tensor:
        even = self.d_model // 2 * 2
        width, span = (even, even - 2) if self.kind == "sinusoidal-fairseq" else (self.d_model, self.d_model)
        angles = _angles(torch.arange(length) + self.first, width, span)
        sin, cos = angles.sin().float(), angles.cos().float()
        if self.kind == "sinusoidal":
            return torch.stack([sin, cos], dim=-1).flatten(1)[:, : self.d_model]
        if self.kind == "sinusoidal-fairseq":
            return F.pad(torch.cat([sin, cos], dim=-1), (0, self.d_model - even))
        return torch.cat([sin, cos], dim=-1)[:, : self.d_model]


class LearnedPositions(nn.Module):
    """A trained vector for each of the first `max_positions` positions."""

    def __init__(self, config: TransformerConfig):
        super().__init__()
        self.table = nn.Parameter(torch.randn(config.max_positions, config.d_model) * config.d_model**-0.5)

    def forward(self, offset: int, length: int) -> Float[Tensor, "length d_model"]:
        if offset + length > self.table.size(0):
            raise ValueError(
                f"The sequence has {offset + length} tokens, but this model learned only `max_positions` = "
                f"{self.table.size(0)} positions; split it, or train with more."
            )
        return self.table[offset : offset + length]


class RotaryPositions(nn.Module):
    """Turns each pair of features by an angle that grows with the position (RoFormer, arXiv 2104.09864)."""

    def __init__(self) -> None:
        super().__init__()
        self.turns = torch.empty(0, 2, 0)
        """Cosines and sines of each position; the sine for the first of a pair is negative. Grows on demand."""

    def forward(
        self, heads: Float[Tensor, "rows heads length width"], *, offset: int = 0
    ) -> Float[Tensor, "rows heads length width"]:
        turns = self.turns_before(offset + heads.size(2), heads)[offset:]
        return rotate(heads, turns)

    def turns_before(self, length: int, heads: Tensor) -> Float[Tensor, "length 2 width"]:
        """Cosines and sines of the first `length` positions, for `heads` of this width, on their device."""
        if length > len(self.turns) or self.turns.device != heads.device:
            with torch.inference_mode(False):  # training may need the table, too
                places = torch.arange(max(1024, 2 * length), device=heads.device)
                angles = _angles(places, heads.size(-1), heads.size(-1))
                sin, cos = angles.sin().float(), angles.cos().float()
                self.turns = torch.stack([torch.stack([cos, cos], -1), torch.stack([-sin, sin], -1)], 1).flatten(2)
        return self.turns[:length]


@Formula
def rotate(
    heads: Float[Tensor, "rows heads length width"], turns: Float[Tensor, "length 2 width"]
) -> Float[Tensor, "rows heads length width"]:
    """Each number of `heads` times its cosine, plus the other number of its pair times its sine."""
    cos, sin = turns.to(heads.dtype).unbind(1)
    swapped = heads.unflatten(-1, (-1, 2)).flip(-1).flatten(-2)
    return heads * cos + swapped * sin


def _angles(positions: Tensor, width: int, span: int) -> Float[Tensor, "length half"]:
    """pos / 10000^(2i/span) for 2i below width; in double precision, because far positions turn many times."""
    exponents = torch.arange(0, width, 2, device=positions.device, dtype=torch.float64) / max(span, 1)
    return torch.outer(positions.double(), 10_000.0**-exponents)


def build_positions(config: TransformerConfig) -> tuple[nn.Module | None, RotaryPositions | None]:
    """Positions that are added to the embeddings, and the rotation of queries and keys: one of the two is None."""
    if config.positions == "rotary":
        return None, RotaryPositions()
    if config.positions == "learned":
        return LearnedPositions(config), None
    return SinusoidalPositions(config), None


class EncoderLayer(nn.Module):
    """Self-attention, then a feed-forward network (figure 1, left)."""

    def __init__(self, config: TransformerConfig, rotation: RotaryPositions | None):
        super().__init__()
        self.self_attention = SelfAttention(config, rotation)
        self.feed_forward = FeedForward(config)
        self.residuals = nn.ModuleList(ResidualConnection(config) for _ in range(2))

    def forward(self, x: States, mask: Mask | None, maps: AttentionMaps | None = None) -> States:
        record = maps.encoder if maps else None
        x = self.residuals[0](x, lambda x: self.self_attention(x, mask, record=record))
        return self.residuals[1](x, self.feed_forward)


class DecoderLayer(nn.Module):
    """Masked self-attention, attention to the memory, then a feed-forward network (figure 1, right)."""

    def __init__(self, config: TransformerConfig, rotation: RotaryPositions | None):
        super().__init__()
        self.self_attention = SelfAttention(config, rotation)
        self.cross_attention = CrossAttention(config)
        self.feed_forward = FeedForward(config) if config.decoder_feed_forward == "network" else PositionsAgain(config)
        self.residuals = nn.ModuleList(ResidualConnection(config) for _ in range(3))

    def forward(
        self,
        x: States,
        memory: Float[Tensor, "groups src_len d_model"],
        mask: Mask | None,
        memory_mask: Mask | None,
        cache: LayerCache | None = None,
        maps: AttentionMaps | None = None,
    ) -> States:
        self_cache, cross_cache = (cache.self_attention, cache.cross_attention) if cache else (None, None)
        self_maps, cross_maps = (maps.decoder, maps.cross) if maps else (None, None)
        offset = self_cache.length if self_cache else 0
        x = self.residuals[0](x, lambda x: self.self_attention(x, mask, self_cache, self_maps))
        x = self.residuals[1](x, lambda x: self.cross_attention(x, memory, memory_mask, cross_cache, cross_maps))
        if isinstance(self.feed_forward, PositionsAgain):
            return self.residuals[2](x, lambda x: self.feed_forward(x, offset))
        return self.residuals[2](x, self.feed_forward)


class PositionsAgain(nn.Module):
    """Adds the positions to the states, x + positions, as a notebook does in place of the decoder's networks."""

    def __init__(self, config: TransformerConfig):
        super().__init__()
        self.positions = SinusoidalPositions(config)

    def forward(self, x: States, offset: int = 0) -> States:
        """`offset` is the position of the first column."""
        return x + self.positions(offset, x.size(1)).to(x.dtype)
