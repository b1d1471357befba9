"""The notebooks' four models as plain functions of their named weights: what imported models are compared with.

Written from the notebooks' formulas, with nothing of Dragoman in them.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

Get = Callable[[str], Tensor]


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

    def layers(self, stack: str) -> int:
        return self.encoder_layers if stack.startswith("encoder") else self.decoder_layers


def random_weights(style: str, sizes: Sizes, seed: int = 0) -> dict[str, Tensor]:
    """Weights as the notebook would save them, none of them at its initial value."""
    generator = torch.Generator().manual_seed(seed)
    return {
        name: sinusoids(*shape[1:])[None]
        if name.endswith(".pe")
        else torch.randn(shape, generator=generator) * 0.3 + ("norm" in name and name.endswith(("alpha", "a_2")))
        for name, shape in SHAPES[style](sizes).items()
    }


def linear(name: str, outputs: int, inputs: int) -> dict[str, tuple[int, ...]]:
    return {f"{name}.weight": (outputs, inputs), f"{name}.bias": (outputs,)}


def torch_shapes(sizes: Sizes, stacks, projections, inner, norms, norm_kinds, rest) -> dict[str, tuple[int, ...]]:
    """`stacks`: prefix -> attention names; the others are patterns inside a layer."""
    shapes = dict(rest)
    for stack, attentions in stacks.items():
        for layer in range(sizes.layers(stack)):
            prefix = f"{stack}.{layer}."
            for attention in attentions:
                for projection in projections:
                    shapes |= linear(f"{prefix}{attention}.{projection}", sizes.d_model, sizes.d_model)
            shapes |= linear(f"{prefix}{inner[0]}", sizes.d_ff, sizes.d_model)
            shapes |= linear(f"{prefix}{inner[1]}", sizes.d_model, sizes.d_ff)
            for number in range(len(attentions) + 1):
                for kind, width in norm_kinds.items():
                    shapes[f"{prefix}{norms(number)}.{kind}"] = (width,)
    return shapes


def prenorm_shapes(sizes: Sizes) -> dict[str, tuple[int, ...]]:
    rest = {
        "src_embed.embedding.weight": (sizes.source_vocab, sizes.d_model),
        "tgt_embed.embedding.weight": (sizes.target_vocab, sizes.d_model),
        "src_pos.pe": (1, sizes.positions, sizes.d_model),
        "tgt_pos.pe": (1, sizes.positions, sizes.d_model),
        **{f"{stack}.norm.{kind}": (1,) for stack in ("encoder", "decoder") for kind in ("alpha", "bias")},
        **linear("projection_layer.proj", sizes.target_vocab, sizes.d_model),
    }
    stacks = {
        "encoder.layers": ["self_attention_block"],
        "decoder.layers": ["self_attention_block", "cross_attention_block"],
    }
    inner = ("feed_forward_block.linear_1", "feed_forward_block.linear_2")
    return torch_shapes(
        sizes, stacks, ["w_q", "w_k", "w_v", "w_o"], inner, "residual_connections.{}.norm".format,
        {"alpha": 1, "bias": 1}, rest,
    )  # fmt: skip


def annotated_shapes(sizes: Sizes) -> dict[str, tuple[int, ...]]:
    rest = {
        "src_embed.0.lut.weight": (sizes.source_vocab, sizes.d_model),
        "tgt_embed.0.lut.weight": (sizes.target_vocab, sizes.d_model),
        "src_embed.1.pe": (1, sizes.positions, sizes.d_model),
        "tgt_embed.1.pe": (1, sizes.positions, sizes.d_model),
        **{f"{stack}.norm.{kind}": (sizes.d_model,) for stack in ("encoder", "decoder") for kind in ("a_2", "b_2")},
        **linear("generator.proj", sizes.target_vocab, sizes.d_model),
    }
    stacks = {"encoder.layers": ["self_attn"], "decoder.layers": ["self_attn", "src_attn"]}
    projections = [f"linears.{number}" for number in range(4)]
    kinds = {"a_2": sizes.d_model, "b_2": sizes.d_model}
    inner = ("feed_forward.w_1", "feed_forward.w_2")
    return torch_shapes(sizes, stacks, projections, inner, "sublayer.{}.norm".format, kinds, rest)


def postnorm_shapes(sizes: Sizes) -> dict[str, tuple[int, ...]]:
    rest = {
        "encoder_embedding.weight": (sizes.source_vocab, sizes.d_model),
        "decoder_embedding.weight": (sizes.target_vocab, sizes.d_model),
        "positional_encoding.pe": (1, sizes.positions, sizes.d_model),
        **linear("fc", sizes.target_vocab, sizes.d_model),
    }
    stacks = {"encoder_layers": ["self_attn"], "decoder_layers": ["self_attn", "cross_attn"]}
    kinds = {"weight": sizes.d_model, "bias": sizes.d_model}
    inner = ("feed_forward.fc1", "feed_forward.fc2")
    return torch_shapes(
        sizes, stacks, ["W_q", "W_k", "W_v", "W_o"], inner, lambda number: f"norm{number + 1}", kinds, rest
    )


def keras_shapes(sizes: Sizes) -> dict[str, tuple[int, ...]]:
    width = sizes.d_model

    def dense(name: str, inputs: int, outputs: int) -> dict[str, tuple[int, ...]]:
        return {f"{name}/vars/0": (inputs, outputs), f"{name}/vars/1": (outputs,)}

    shapes = dense("layers/dense", width, sizes.target_vocab)
    for stack, attentions, suffix, vocab in (
        ("encoder", ["global_self_attention"], "", sizes.source_vocab),
        ("decoder", ["causal_self_attention", "cross_attention"], "_1", sizes.target_vocab),
    ):
        shapes[f"layers/positional_embedding{suffix}/token_embeddings/vars/0"] = (vocab, width)
        shapes[f"layers/positional_embedding{suffix}/position_embeddings/vars/0"] = (sizes.positions, width)
        for layer in range(sizes.layers(stack)):
            prefix = f"layers/transformer_{stack}{f'_{layer}' if layer else ''}"
            for attention in attentions:
                for projection in ("q_linear", "k_linear", "v_linear", "concat_linear"):
                    shapes |= dense(f"{prefix}/{attention}/{projection}", width, width)
            shapes |= dense(f"{prefix}/feed_forward/layers/dense", width, sizes.d_ff)
            shapes |= dense(f"{prefix}/feed_forward/layers/dense_1", sizes.d_ff, width)
            for number in range(len(attentions) + 1):
                shapes |= {f"{prefix}/layer_norm_{number + 1}/vars/{kind}": (width,) for kind in (0, 1)}
    return shapes


SHAPES = {
    "prenorm": prenorm_shapes,
    "postnorm": postnorm_shapes,
    "annotated": annotated_shapes,
    "keras": keras_shapes,
}


def sinusoids(length: int, width: int) -> Tensor:
    table = torch.zeros(length, width)
    for position in range(length):
        for i in range(0, width, 2):
            angle = position / 10000 ** (i / width)
            table[position, i] = math.sin(angle)
            if i + 1 < width:
                table[position, i + 1] = math.cos(angle)
    return table


def heads_attend(query: Tensor, key: Tensor, value: Tensor, mask: Tensor, heads: int) -> Tensor:
    results = []
    for q, k, v in zip(*(x.chunk(heads, dim=-1) for x in (query, key, value)), strict=True):
        scores = (q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))).masked_fill(~mask, -1e9)
        results.append(scores.softmax(-1) @ v)
    return torch.cat(results, dim=-1)


@dataclass(frozen=True)
class Model:
    """What differs between the notebooks, as functions."""

    embed: Callable[[str, Tensor], Tensor]
    attend: Callable[[str, Tensor, Tensor, Tensor], Tensor]
    feed: Callable[[str, Tensor], Tensor]
    residual: Callable[[str, Tensor, Callable[[Tensor], Tensor]], Tensor]
    last: Callable[[str, Tensor], Tensor]
    project: Callable[[Tensor], Tensor]
    names: dict[str, Callable[[int], str]]
    attentions: tuple[str, str, str]
    norms: Callable[[int], str]
    padding_visible: bool = False


def log_probabilities(
    style: str, weights: dict[str, Tensor], sizes: Sizes, source: Tensor, target: Tensor, *, padding: int = 0
) -> Tensor:
    """What the notebook's model gives, dropout off; `padding` in the source is hidden, but for the Keras notebook."""
    model = keras_model(weights, sizes) if style == "keras" else pytorch_model(weights, sizes, style=style)
    seen = torch.ones_like(source, dtype=torch.bool) if model.padding_visible else source != padding
    seen = seen[:, None, :]
    past = torch.ones(target.size(1), target.size(1), dtype=torch.bool).tril()[None]
    own, causal, cross = model.attentions
    x = model.embed("source", source)
    for layer in range(sizes.encoder_layers):
        prefix = model.names["encoder"](layer)
        x = model.residual(prefix + model.norms(0), x, lambda x, p=prefix: model.attend(p + own, x, x, seen))
        x = model.residual(prefix + model.norms(1), x, lambda x, p=prefix: model.feed(p, x))
    memory = model.last("encoder", x)
    x = model.embed("target", target)
    for layer in range(sizes.decoder_layers):
        prefix = model.names["decoder"](layer)
        x = model.residual(prefix + model.norms(0), x, lambda x, p=prefix: model.attend(p + causal, x, x, past))
        x = model.residual(prefix + model.norms(1), x, lambda x, p=prefix: model.attend(p + cross, x, memory, seen))
        x = model.residual(prefix + model.norms(2), x, lambda x, p=prefix: model.feed(p, x))
    return model.project(model.last("decoder", x)).log_softmax(-1)


def greedy(
    style: str, weights: dict[str, Tensor], sizes: Sizes, source: list[int], *, ids: tuple[int, int, int], most: int
) -> list[int]:
    """The notebook's decoding loop: the likeliest next id, again and again, the whole prefix computed anew each time.

    `ids` are those of padding, begin and end; the result is what stands between the latter.
    """
    padding, begin, end = ids
    found = [begin]
    while len(found) <= most and (len(found) == 1 or found[-1] != end):
        rows = torch.tensor([source]), torch.tensor([found])
        found.append(int(log_probabilities(style, weights, sizes, *rows, padding=padding)[0, -1].argmax()))
    return [id_ for id_ in found[1:] if id_ != end]


def pytorch_model(w: dict[str, Tensor], sizes: Sizes, *, style: str) -> Model:
    """Notebooks A, B and C."""
    pre = style != "postnorm"
    projections = {
        "prenorm": ["w_q", "w_k", "w_v", "w_o"],
        "postnorm": ["W_q", "W_k", "W_v", "W_o"],
        "annotated": ["linears.0", "linears.1", "linears.2", "linears.3"],
    }[style]
    inner, outer = {
        "prenorm": ("feed_forward_block.linear_1", "feed_forward_block.linear_2"),
        "postnorm": ("feed_forward.fc1", "feed_forward.fc2"),
        "annotated": ("feed_forward.w_1", "feed_forward.w_2"),
    }[style]
    tables = {
        "prenorm": {"source": "src_embed.embedding", "target": "tgt_embed.embedding"},
        "postnorm": {"source": "encoder_embedding", "target": "decoder_embedding"},
        "annotated": {"source": "src_embed.0.lut", "target": "tgt_embed.0.lut"},
    }[style]
    gain, bias = {"prenorm": ("alpha", "bias"), "postnorm": ("weight", "bias"), "annotated": ("a_2", "b_2")}[style]
    head = {"prenorm": "projection_layer.proj", "postnorm": "fc", "annotated": "generator.proj"}[style]

    def apply(name: str, x: Tensor) -> Tensor:
        return F.linear(x, w[f"{name}.weight"], w[f"{name}.bias"])

    def norm(name: str, x: Tensor) -> Tensor:
        centred = x - x.mean(-1, keepdim=True)
        if pre:
            scaled = centred / (x.std(-1, keepdim=True) + 1e-6)
        else:
            scaled = centred / (x.var(-1, keepdim=True, unbiased=False) + 1e-5).sqrt()
        return w[f"{name}.{gain}"] * scaled + w[f"{name}.{bias}"]

    def attend(name: str, x: Tensor, memory: Tensor, mask: Tensor) -> Tensor:
        q, k, v = (apply(f"{name}.{p}", y) for p, y in zip(projections, (x, memory, memory), strict=False))
        return apply(f"{name}.{projections[3]}", heads_attend(q, k, v, mask, sizes.heads))

    def residual(name: str, x: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        return x + sublayer(norm(name, x)) if pre else norm(name, x + sublayer(x))

    def embed(side: str, ids: Tensor) -> Tensor:
        scale = math.sqrt(sizes.d_model) if pre else 1.0
        return w[f"{tables[side]}.weight"][ids] * scale + sinusoids(ids.size(1), sizes.d_model)

    layers = "{}_layers.{}." if style == "postnorm" else "{}.layers.{}."
    own, cross = {
        "prenorm": ("self_attention_block", "cross_attention_block"),
        "postnorm": ("self_attn", "cross_attn"),
        "annotated": ("self_attn", "src_attn"),
    }[style]
    norms = {"prenorm": "residual_connections.{}.norm", "annotated": "sublayer.{}.norm"}
    return Model(
        embed=embed,
        attend=attend,
        feed=lambda prefix, x: apply(prefix + outer, apply(prefix + inner, x).relu()),
        residual=residual,
        last=lambda stack, x: norm(f"{stack}.norm", x) if pre else x,
        project=lambda x: apply(head, x),
        names={stack: lambda layer, s=stack: layers.format(s, layer) for stack in ("encoder", "decoder")},
        attentions=(own, own, cross),
        norms=lambda number: norms[style].format(number) if pre else f"norm{number + 1}",
    )


def keras_model(w: dict[str, Tensor], sizes: Sizes) -> Model:
    """Notebook D: nothing is masked but the future."""

    def dense(name: str, x: Tensor) -> Tensor:
        return x @ w[f"{name}/vars/0"] + w[f"{name}/vars/1"]

    def norm(name: str, x: Tensor) -> Tensor:
        scaled = (x - x.mean(-1, keepdim=True)) / (x.var(-1, keepdim=True, unbiased=False) + 1e-3).sqrt()
        return scaled * w[f"{name}/vars/0"] + w[f"{name}/vars/1"]

    def attend(name: str, x: Tensor, memory: Tensor, mask: Tensor) -> Tensor:
        q, k, v = (dense(f"{name}/{p}_linear", y) for p, y in zip("qkv", (x, memory, memory), strict=True))
        return dense(f"{name}/concat_linear", heads_attend(q, k, v, mask, sizes.heads))

    def embed(side: str, ids: Tensor) -> Tensor:
        prefix = f"layers/positional_embedding{'' if side == 'source' else '_1'}"
        return w[f"{prefix}/token_embeddings/vars/0"][ids] + w[f"{prefix}/position_embeddings/vars/0"][: ids.size(1)]

    def feed(prefix: str, x: Tensor) -> Tensor:
        name = f"{prefix}feed_forward/layers/dense"
        return dense(f"{name}_1", dense(name, x).relu())

    return Model(
        embed=embed,
        attend=attend,
        feed=feed,
        residual=lambda name, x, sublayer: norm(name, x + sublayer(x)),
        last=lambda stack, x: x,
        project=lambda x: dense("layers/dense", x),
        names={
            stack: lambda layer, s=stack: f"layers/transformer_{s}{f'_{layer}' if layer else ''}/"
            for stack in ("encoder", "decoder")
        },
        attentions=("global_self_attention", "causal_self_attention", "cross_attention"),
        norms=lambda number: f"layer_norm_{number + 1}",
        padding_visible=True,
    )
