"""The Transformer in numpy, equation by equation: the shortest way from the paper to code that runs.

It computes with float32 what `dragoman.model.Transformer` computes without dropout, from the same weights. Masks are
boolean, and True means "may be attended to".
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from dragoman.engine.parameters import with_shared
from dragoman.model.config import TransformerConfig

Array = np.ndarray
LinearMap = Callable[[Array], Array]
"""A `Linear`, or what computes the same in another precision."""


def attention(query: Array, key: Array, value: Array, mask: Array | None = None) -> tuple[Array, Array]:
    """softmax(Q K^T / sqrt(d_k)) V, equation 1, and the weights, which are the softmax.

    Queries are (rows, heads, queries, width); keys and values (rows, heads, keys, width). The mask broadcasts to
    (rows, heads, queries, keys).
    """
    scores = query @ key.swapaxes(-1, -2) / np.float32(math.sqrt(key.shape[-1]))
    if mask is not None:
        # The smallest number rather than -inf: a row that may attend to nothing becomes uniform, not NaN.
        scores = np.where(mask, scores, np.finfo(np.float32).min)
    weights = softmax(scores)
    return weights @ value, weights


def softmax(scores: Array) -> Array:
    """exp(x) / sum of exp(x) over the last dimension."""
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def log_softmax(scores: Array) -> Array:
    """The logarithm of `softmax`."""
    shifted = scores - scores.max(-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))


def causal_mask(length: int, past: int = 0) -> Array:
    """(length, past + length): each new position may attend to the `past` ones and to the new ones up to itself."""
    return np.tri(length, past + length, past, dtype=bool)


def relu(x: Array) -> Array:
    """max(0, x)."""
    return np.maximum(x, 0)


def silu(x: Array) -> Array:
    """x times its logistic sigmoid, which is (1 + tanh(x / 2)) / 2."""
    half = x * np.float32(0.5)
    return half * (1 + np.tanh(half))


def gelu(x: Array) -> Array:
    """x times the share of a normal distribution below x: x / 2 * (1 + erf(x / sqrt 2))."""
    return x * np.float32(0.5) * (1 + erf(x * np.float32(math.sqrt(0.5))))


def erf(x: Array) -> Array:
    """The error function to 5e-7 (Abramowitz and Stegun, Handbook of Mathematical Functions, 7.1.26)."""
    t = 1 / (1 + np.float32(0.3275911) * np.abs(x))
    polynomial = np.zeros_like(x)
    for coefficient in (1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592):
        polynomial = (polynomial + np.float32(coefficient)) * t
    return np.sign(x) * (1 - polynomial * np.exp(-x * x))


ACTIVATIONS = {"relu": relu, "gelu": gelu, "silu": silu, "swiglu": silu}
"""Function of each `TransformerConfig.activation`."""


@dataclass(frozen=True)
class Linear:
    """x W^T + b."""

    weight: Array
    """(outputs, inputs)."""
    bias: Array | None = None

    def __call__(self, x: Array) -> Array:
        # Of two dimensions, since numpy multiplies a batch of matrices one by one.
        y = x.reshape(-1, x.shape[-1]) @ self.weight.T
        if self.bias is not None:
            y += self.bias
        return y.reshape(*x.shape[:-1], -1)


@dataclass(frozen=True)
class Norm:
    """LayerNorm, or RMSNorm where there is no bias. A single gain is that of all features."""

    gain: Array
    bias: Array | None
    eps: float

    def __call__(self, x: Array) -> Array:
        if self.bias is None:
            return x / np.sqrt((x * x).mean(-1, keepdims=True) + np.float32(self.eps)) * self.gain
        centred = x - x.mean(-1, keepdims=True)
        deviation = np.sqrt((centred * centred).mean(-1, keepdims=True) + np.float32(self.eps))
        return centred / deviation * self.gain + self.bias


@dataclass(frozen=True)
class FeedForward:
    """max(0, x W1 + b1) W2 + b2, equation 2, or with another activation, or with a gate."""

    inner: LinearMap
    gate: LinearMap | None
    outer: LinearMap
    activation: str

    def __call__(self, x: Array, offset: int = 0) -> Array:
        """`x` may begin at any position `offset`: all positions are computed alike."""
        activated = ACTIVATIONS[self.activation]
        if self.gate is None:
            return self.outer(activated(self.inner(x)))
        return self.outer(activated(self.gate(x)) * self.inner(x))


class KeyValues:
    """The keys and values of one attention: those of a memory, or those that a target has had so far."""

    def __init__(self) -> None:
        self.length = 0
        self._store = np.empty((2, 0, 0, 0, 0), np.float32)
        """(keys and values, rows, heads, capacity, width)."""

    def append(self, key: Array, value: Array) -> tuple[Array, Array]:
        """Add new positions; returns the keys and values of all positions."""
        start, self.length = self.length, self.length + key.shape[2]
        if self.length > self._store.shape[3]:
            # A quarter more each time, so that appending position by position copies each old one a few times.
            rows, heads, _, width = key.shape
            grown = np.empty((2, rows, heads, self.length + max(7, self.length // 4), width), np.float32)
            if start:
                grown[:, :, :, :start] = self._store[:, :, :, :start]
            self._store = grown
        self._store[0, :, :, start : self.length] = key
        self._store[1, :, :, start : self.length] = value
        return self.contents

    @property
    def contents(self) -> tuple[Array, Array]:
        """The keys and values of all positions, (rows, heads, length, width) each."""
        return self._store[0, :, :, : self.length], self._store[1, :, :, : self.length]

    def reorder(self, rows: Array) -> None:
        """Keep these rows, in this order; a row may be kept several times."""
        self._store = self._store[:, rows]


@dataclass(frozen=True)
class MultiHeadAttention:
    """Section 3.2.2: queries, keys and values projected to heads, attention in each, one output projection."""

    query: LinearMap
    key: LinearMap
    value: LinearMap
    output: LinearMap
    num_heads: int
    rotates: bool
    """Whether queries and keys are turned by their positions."""

    def to_own(self, x: Array, mask: Array | None, cache: KeyValues | None = None) -> Array:
        """Self-attention: each position of `x` attends to its own sequence. A cache holds the positions before."""
        query, key, value = (self._heads(part(x)) for part in (self.query, self.key, self.value))
        if self.rotates:
            past = cache.length if cache is not None else 0
            query, key = rotate(query, past), rotate(key, past)
        if cache is not None:
            key, value = cache.append(key, value)
        return self._joined(attention(query, key, value, mask)[0], x)

    def to_memory(self, x: Array, memory: Array, mask: Array | None, cache: KeyValues) -> tuple[Array, Array]:
        """Attention to the memory of the encoder, and its weights. The cache keeps the keys and values of the memory.

        `x` may have several rows, one after another, for each row of `memory`, which are more queries to it.
        """
        query = self._heads(self.query(x).reshape(len(memory), -1, x.shape[-1]))
        if not cache.length:
            cache.append(self._heads(self.key(memory)), self._heads(self.value(memory)))
        mixed, weights = attention(query, *cache.contents, mask)
        return self._joined(mixed, x), weights

    def _heads(self, x: Array) -> Array:
        """(rows, length, d_model) as (rows, heads, length, width)."""
        return x.reshape(*x.shape[:2], self.num_heads, -1).swapaxes(1, 2)

    def _joined(self, heads: Array, x: Array) -> Array:
        """The output projection of all heads side by side, in the shape of `x`."""
        return self.output(heads.swapaxes(1, 2).reshape(x.shape))


def rotate(heads: Array, offset: int) -> Array:
    """Turn each pair of features by an angle that grows with the position (RoFormer, arXiv 2104.09864)."""
    angles = rotary_angles(offset, heads.shape[2], heads.shape[3])
    cos, sin = np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)
    first, second = heads[..., 0::2], heads[..., 1::2]
    turned = np.empty_like(heads)
    turned[..., 0::2] = first * cos - second * sin
    turned[..., 1::2] = second * cos + first * sin
    return turned


def rotary_angles(offset: int, length: int, width: int) -> Array:
    """The angle (length, width / 2) of each pair of features of a head, at each position from `offset` on."""
    return _angles(np.arange(offset, offset + length), width, width)


def sinusoidal_positions(config: TransformerConfig, offset: int, length: int) -> Array:
    """Section 3.5: sin(pos / 10000^(2i/d)) and its cosine, (length, d_model); interleaved, or all sines first.

    In fairseq's table the last frequency is 1 / 10000, and the first position has the number `pad_id` + 1.
    """
    width = config.d_model
    positions = np.arange(offset, offset + length)
    if config.positions == "sinusoidal-fairseq":
        even = width // 2 * 2
        angles = _angles(positions + config.pad_id + 1, even, even - 2)
        table = np.concatenate([np.sin(angles), np.cos(angles), np.zeros((length, width - even))], axis=1)
    else:
        angles = _angles(positions, width, width)
        if config.positions == "sinusoidal":
            table = np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(length, -1)
        else:
            table = np.concatenate([np.sin(angles), np.cos(angles)], axis=1)
    return table[:, :width].astype(np.float32)


def _kept_positions(config: TransformerConfig, offset: int, length: int) -> Array:
    """`sinusoidal_positions` from a table that is kept: a step of the decoder would compute a row each time."""
    end = offset + length
    return _first_positions(config, max(512, 1 << (end - 1).bit_length()))[offset:end]


@lru_cache(maxsize=8)
def _first_positions(config: TransformerConfig, length: int) -> Array:
    """`sinusoidal_positions` from the first one on."""
    return sinusoidal_positions(config, 0, length)


def _angles(positions: Array, width: int, span: int) -> Array:
    """pos / 10000^(2i/span) for 2i below width; in double precision, because far positions turn many times."""
    exponents = np.arange(0, width, 2) / max(span, 1)
    return np.outer(positions.astype(np.float64), 10_000.0**-exponents)


@dataclass(frozen=True)
class Embedding:
    """Token embeddings times sqrt(d_model) (section 3.4) plus positions."""

    table: Array
    positions: Array | None
    """A learned vector for each position; None for other kinds of positions."""
    config: TransformerConfig

    def __call__(self, ids: Array, offset: int = 0) -> Array:
        """Embeddings of `ids` (rows, length); the first column has the position `offset`."""
        scale = math.sqrt(self.config.d_model) if self.config.scale_embeddings else 1.0
        x = self.table[ids] * np.float32(scale)
        end = offset + ids.shape[1]
        if self.positions is not None:
            if end > len(self.positions):
                raise ValueError(
                    f"The sequence has {end} tokens, but this model learned only `max_positions` = "
                    f"{len(self.positions)} positions; split it, or train with more."
                )
            return x + self.positions[offset:end]
        if self.config.positions == "rotary":
            return x
        return x + _kept_positions(self.config, offset, ids.shape[1])


@dataclass(frozen=True)
class PositionsAgain:
    """x + positions, which a notebook computes in place of the decoder's feed-forward networks."""

    config: TransformerConfig

    def __call__(self, x: Array, offset: int = 0) -> Array:
        """`x` (rows, length, d_model) plus its positions, of which the first is `offset`."""
        return x + _kept_positions(self.config, offset, x.shape[1])


@dataclass(frozen=True)
class Layer:
    """A layer of the encoder, which has no cross-attention, or of the decoder (figure 1)."""

    self_attention: MultiHeadAttention
    cross_attention: MultiHeadAttention | None
    feed_forward: FeedForward | PositionsAgain
    norms: list[Norm]
    """One for each sub-layer."""
    pre_norm: bool

    def before(self, x: Array, index: int) -> Array:
        """What the sub-layer `index` reads: norm(x) with pre-norm, x itself as in section 3.1."""
        return self.norms[index](x) if self.pre_norm else x

    def after(self, x: Array, change: Array, index: int) -> Array:
        """The residual connection: x + f(norm(x)), or norm(x + f(x))."""
        return x + change if self.pre_norm else self.norms[index](x + change)


class DecoderCache:
    """What a decoder keeps between its steps: keys and values of the target and of the memory, for each layer."""

    def __init__(self, num_layers: int):
        self.own = [KeyValues() for _ in range(num_layers)]
        self.memory = [KeyValues() for _ in range(num_layers)]

    @property
    def length(self) -> int:
        """Target positions decoded so far."""
        return self.own[0].length

    def reorder(self, rows: Array, memory_rows: Array | None = None) -> None:
        """Keep these target rows and, where given, these rows of the memory."""
        for cache in self.own:
            cache.reorder(rows)
        if memory_rows is not None:
            for cache in self.memory:
                cache.reorder(memory_rows)


class NumpyTransformer:
    """The encoder-decoder Transformer (figure 1) over arrays of weights."""

    def __init__(
        self,
        config: TransformerConfig,
        weights: Mapping[str, Array],
        linear: Callable[[str], LinearMap] | None = None,
    ):
        """`weights` are float32 arrays with the names and shapes of `dragoman.engine.parameters.shapes`.

        With `linear`, a function that returns the linear map of a name, they need not have those of linear maps.
        """
        self.config = config
        self._weights = with_shared(config, weights)
        self._linear = linear or self._exact_linear
        self.embedded_source, self.embedded_target = self._embedding("encoder"), self._embedding("decoder")
        self._encoder = [self._layer(f"encoder.layers.{number}") for number in range(config.num_encoder_layers)]
        self._decoder = [self._layer(f"decoder.layers.{number}") for number in range(config.num_decoder_layers)]
        self._projection = self._linear("projection")
        # With pre-norm, the sum of all layers is normalised at last.
        has_last_norms = config.norm_order == "pre"
        self._last_norms = {stack: self._norm(f"{stack}.norm") for stack in ("encoder", "decoder") if has_last_norms}

    def encode(self, source_ids: Array, mask: Array) -> Array:
        """The memory (batch, src_len, d_model) of sources (batch, src_len); the mask hides padding."""
        x, mask = self.embedded_source(source_ids), mask[:, None, None, :]
        for layer in self._encoder:
            x = layer.after(x, layer.self_attention.to_own(layer.before(x, 0), mask), 0)
            x = layer.after(x, layer.feed_forward(layer.before(x, 1)), 1)
        return self._last_norms["encoder"](x) if self._last_norms else x

    def decode(
        self,
        target_ids: Array,
        memory: Array,
        mask: Array,
        cache: DecoderCache | None = None,
        maps: list[Array] | None = None,
    ) -> Array:
        """States (rows, tgt_len, d_model), each of which predicts the token after that of `target_ids`.

        With a cache, `target_ids` holds only the new tokens, and several rows may share one of `memory`. `maps` gets
        the weights of the attention to the memory (rows, heads, tgt_len, src_len) of each layer.
        """
        cache = cache or DecoderCache(len(self._decoder))
        past, length = cache.length, target_ids.shape[1]
        x, memory_mask = self.embedded_target(target_ids, past), mask[:, None, None, :]
        own_mask = causal_mask(length, past) if length > 1 else None
        for layer, own, of_memory in zip(self._decoder, cache.own, cache.memory, strict=True):
            x = layer.after(x, layer.self_attention.to_own(layer.before(x, 0), own_mask, own), 0)
            assert layer.cross_attention is not None
            change, weights = layer.cross_attention.to_memory(layer.before(x, 1), memory, memory_mask, of_memory)
            x = layer.after(x, change, 1)
            x = layer.after(x, layer.feed_forward(layer.before(x, 2), past), 2)
            if maps is not None:
                maps.append(weights)
        return self._last_norms["decoder"](x) if self._last_norms else x

    def log_probs(self, states: Array) -> Array:
        """Log-probabilities of the next token after each state, over the target vocabulary."""
        return log_softmax(self._projection(states))

    def _embedding(self, stack: str) -> Embedding:
        positions = self._weights.get(f"{stack}.embedding.positions.table")
        return Embedding(self._weights[f"{stack}.embedding.table.weight"], positions, self.config)

    def _layer(self, name: str) -> Layer:
        has_memory, has_networks = name.startswith("decoder"), self.config.decoder_feed_forward == "network"
        return Layer(
            self._attention(f"{name}.self_attention", rotates=self.config.positions == "rotary"),
            self._attention(f"{name}.cross_attention", rotates=False) if has_memory else None,
            PositionsAgain(self.config) if has_memory and not has_networks else self._feed_forward(name),
            [self._norm(f"{name}.residuals.{number}.norm") for number in range(3 if has_memory else 2)],
            pre_norm=self.config.norm_order == "pre",
        )

    def _feed_forward(self, layer: str) -> FeedForward:
        name, is_gated = f"{layer}.feed_forward", self.config.activation == "swiglu"
        gate = self._linear(f"{name}.gate") if is_gated else None
        return FeedForward(self._linear(f"{name}.inner"), gate, self._linear(f"{name}.outer"), self.config.activation)

    def _attention(self, name: str, *, rotates: bool) -> MultiHeadAttention:
        query, key, value, output = (self._linear(f"{name}.{part}") for part in ("query", "key", "value", "output"))
        return MultiHeadAttention(query, key, value, output, self.config.num_heads, rotates)

    def _exact_linear(self, name: str) -> Linear:
        return Linear(self._weights[f"{name}.weight"], self._weights.get(f"{name}.bias"))

    def _norm(self, name: str) -> Norm:
        return Norm(self._weights[f"{name}.gain"], self._weights.get(f"{name}.bias"), self.config.norm_eps)
