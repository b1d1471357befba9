"""The notebooks' four models as plain functions of their named weights: what imported models are compared with.

Written from the notebooks' formulas, with nothing of Dragoman in them.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Sizes:
    d_model: int = 21
    d_ff: int = 37
    heads: int = 3
    encoder_layers: int = 2
    decoder_layers: int = 2
    source_vocab: int = 53
    target_vocab: int = 47
    positions: int = 19


@dataclass(frozen=True)
class Notebook:
    """The names of a notebook's weights; stacks and sides are 0 (encoder, source) or 1 (decoder, target)."""

    tables: tuple[str, str]
    positions: tuple[str, ...]
    """Learned tables of Keras; the others save sines under these names."""
    layer: Callable[[int, int], str]
    """Prefix of a stack's layer."""
    attentions: tuple[str, str, str]
    """Self-attention of the encoder and of the decoder, cross-attention."""
    projections: tuple[str, str, str, str]
    feed_forward: tuple[str, str]
    norm: Callable[[int], str]
    head: str
    gain: str
    shift: str
    weight: str = ".weight"
    bias: str = ".bias"
    pre: bool = False
    eps: float = 1e-6


NOTEBOOKS = {
    "prenorm": Notebook(
        ("src_embed.embedding", "tgt_embed.embedding"), ("src_pos.pe", "tgt_pos.pe"),
        lambda stack, layer: f"{('encoder', 'decoder')[stack]}.layers.{layer}.",
        ("self_attention_block.", "self_attention_block.", "cross_attention_block."), ("w_q", "w_k", "w_v", "w_o"),
        ("feed_forward_block.linear_1", "feed_forward_block.linear_2"),
        "residual_connections.{}.norm".format, "projection_layer.proj", ".alpha", ".bias", pre=True,
    ),
    "postnorm": Notebook(
        ("encoder_embedding", "decoder_embedding"), ("positional_encoding.pe",),
        lambda stack, layer: f"{('encoder', 'decoder')[stack]}_layers.{layer}.",
        ("self_attn.", "self_attn.", "cross_attn."), ("W_q", "W_k", "W_v", "W_o"),
        ("feed_forward.fc1", "feed_forward.fc2"),
        lambda number: f"norm{number + 1}", "fc", ".weight", ".bias", eps=1e-5,
    ),
    "annotated": Notebook(
        ("src_embed.0.lut", "tgt_embed.0.lut"), ("src_embed.1.pe", "tgt_embed.1.pe"),
        lambda stack, layer: f"{('encoder', 'decoder')[stack]}.layers.{layer}.",
        ("self_attn.", "self_attn.", "src_attn."), ("linears.0", "linears.1", "linears.2", "linears.3"),
        ("feed_forward.w_1", "feed_forward.w_2"),
        "sublayer.{}.norm".format, "generator.proj", ".a_2", ".b_2", pre=True,
    ),
    "keras": Notebook(
        ("layers/positional_embedding/token_embeddings", "layers/positional_embedding_1/token_embeddings"),
        ("layers/positional_embedding/position_embeddings", "layers/positional_embedding_1/position_embeddings"),
        lambda stack, layer: f"layers/transformer_{('encoder', 'decoder')[stack]}{f'_{layer}' if layer else ''}/",
        ("global_self_attention/", "causal_self_attention/", "cross_attention/"),
        ("q_linear", "k_linear", "v_linear", "concat_linear"),
        ("feed_forward/layers/dense", "feed_forward/layers/dense_1"),
        lambda number: f"layer_norm_{number + 1}", "layers/dense", "/vars/0", "/vars/1", "/vars/0", "/vars/1", eps=1e-3,
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Model:
    """A notebook's formulas over its weights: `get(name, *shape)` gives one of them."""

    style: str
    sizes: Sizes
    get: Callable[..., Tensor]

    @property
    def names(self) -> Notebook:
        return NOTEBOOKS[self.style]

    def log_probabilities(self, source: Tensor, target: Tensor, padding: int) -> Tensor:
        """Dropout off; `padding` in the source is hidden, but for the Keras notebook, which masks the future alone."""
        visible = (source != padding)[:, None, :] | (self.style == "keras")
        past = torch.ones(target.size(1), target.size(1), dtype=torch.bool).tril()[None]
        encoder, causal, cross = self.names.attentions
        x = self.embed(0, source)
        for layer in range(self.sizes.encoder_layers):
            at = self.names.layer(0, layer)
            x = self.residual(at, 0, x, lambda x, at=at: self.attend(at + encoder, x, x, visible))
            x = self.residual(at, 1, x, lambda x, at=at: self.feed(at, x))
        memory = self.norm("encoder.norm", x) if self.names.pre else x
        x = self.embed(1, target)
        for layer in range(self.sizes.decoder_layers):
            at = self.names.layer(1, layer)
            x = self.residual(at, 0, x, lambda x, at=at: self.attend(at + causal, x, x, past))
            x = self.residual(at, 1, x, lambda x, at=at: self.attend(at + cross, x, memory, visible))
            x = self.residual(at, 2, x, lambda x, at=at: self.feed(at, x))
        x = self.norm("decoder.norm", x) if self.names.pre else x
        return self.linear(self.names.head, x, self.sizes.target_vocab).log_softmax(-1)

    def embed(self, side: int, ids: Tensor) -> Tensor:
        sizes, length = self.sizes, ids.size(1)
        vocab = (sizes.source_vocab, sizes.target_vocab)[side]
        x = self.get(self.names.tables[side] + self.names.weight, vocab, sizes.d_model)[ids]
        if self.style == "keras":
            return x + self.get(self.names.positions[side] + "/vars/0", sizes.positions, sizes.d_model)[:length]
        return x * (math.sqrt(sizes.d_model) if self.names.pre else 1.0) + sinusoids(length, sizes.d_model)

    def linear(self, name: str, x: Tensor, outputs: int) -> Tensor:
        shape = (outputs, x.size(-1))
        weight = self.get(name + self.names.weight, *(reversed(shape) if self.style == "keras" else shape))
        return x @ (weight if self.style == "keras" else weight.T) + self.get(name + self.names.bias, outputs)

    def norm(self, name: str, x: Tensor) -> Tensor:
        centred, eps = x - x.mean(-1, keepdim=True), self.names.eps
        if self.names.pre:
            scaled = centred / (x.std(-1, keepdim=True) + eps)
        else:
            scaled = centred / (x.var(-1, keepdim=True, unbiased=False) + eps).sqrt()
        width = 1 if self.style == "prenorm" else x.size(-1)
        return self.get(name + self.names.gain, width) * scaled + self.get(name + self.names.shift, width)

    def residual(self, prefix: str, number: int, x: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        name = prefix + self.names.norm(number)
        return x + sublayer(self.norm(name, x)) if self.names.pre else self.norm(name, x + sublayer(x))

    def feed(self, prefix: str, x: Tensor) -> Tensor:
        inner, outer = (prefix + name for name in self.names.feed_forward)
        return self.linear(outer, self.linear(inner, x, self.sizes.d_ff).relu(), x.size(-1))

    def attend(self, prefix: str, x: Tensor, memory: Tensor, mask: Tensor) -> Tensor:
        names = [prefix + name for name in self.names.projections]
        projected = [self.linear(name, y, y.size(-1)) for name, y in zip(names, (x, memory, memory), strict=False)]
        results = []
        for q, k, v in zip(*(y.chunk(self.sizes.heads, dim=-1) for y in projected), strict=True):
            scores = (q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))).masked_fill(~mask, -1e9)
            results.append(scores.softmax(-1) @ v)
        return self.linear(names[3], torch.cat(results, dim=-1), x.size(-1))


def sinusoids(length: int, width: int) -> Tensor:
    angles = torch.arange(length)[:, None] / 10000 ** (torch.arange(0, width, 2) / width)
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)[:, :width]


def random_weights(style: str, sizes: Sizes, seed: int = 0) -> dict[str, Tensor]:
    """The weights that the notebook would save, none of them at its initial value."""
    generator = torch.Generator().manual_seed(seed)
    weights: dict[str, Tensor] = {}

    def make(name: str, *shape: int) -> Tensor:
        centre = float(name.endswith(("alpha", "a_2")))
        return weights.setdefault(name, torch.randn(shape, generator=generator) * 0.3 + centre)

    Model(style, sizes, make).log_probabilities(torch.tensor([[1]]), torch.tensor([[1]]), padding=0)
    if style != "keras":
        weights |= {name: sinusoids(sizes.positions, sizes.d_model)[None] for name in NOTEBOOKS[style].positions}
    return weights


def log_probabilities(
    style: str, weights: dict[str, Tensor], sizes: Sizes, source: Tensor, target: Tensor, *, padding: int = 0
) -> Tensor:
    """What the notebook's model gives."""
    return Model(style, sizes, lambda name, *_: weights[name]).log_probabilities(source, target, padding)


def greedy(
    style: str, weights: dict[str, Tensor], sizes: Sizes, source: list[int], *, ids: tuple[int, int, int], most: int
) -> list[int]:
    """The notebook's decoding loop: the likeliest next id, again and again, the whole prefix computed anew each time.

    `ids` are those of padding, begin and end; the result is what stands between the latter.
    """
    padding, begin, end = ids
    target = [begin]
    while len(target) <= most and (len(target) == 1 or target[-1] != end):
        rows = torch.tensor([source]), torch.tensor([target])
        target.append(int(log_probabilities(style, weights, sizes, *rows, padding=padding)[0, -1].argmax()))
    return [id_ for id_ in target[1:] if id_ != end]
