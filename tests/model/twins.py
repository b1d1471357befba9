"""Our weights under the names that torch.nn's own layers give them.

`pick` takes what is wanted of each parameter, itself or its gradient, so that one table of names
serves to copy weights and to compare gradients.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from dragoman.model.attention import MultiHeadAttention
from dragoman.model.layers import DecoderLayer, EncoderLayer, FeedForward, ResidualConnection
from dragoman.model.transformer import Transformer

Pick = Callable[[nn.Parameter], Tensor]
Named = dict[str, Tensor]


def weights(parameter: nn.Parameter) -> Tensor:
    return parameter.detach()


def gradients(parameter: nn.Parameter) -> Tensor:
    assert parameter.grad is not None
    return parameter.grad


def attention(ours: MultiHeadAttention, pick: Pick) -> Named:
    """For `nn.MultiheadAttention`, which stacks the three projections."""
    projections = (ours.query, ours.key, ours.value)
    return {
        "in_proj_weight": torch.cat([pick(p.weight) for p in projections]),
        "in_proj_bias": torch.cat([pick(p.bias) for p in projections]),
        "out_proj.weight": pick(ours.output.weight),
        "out_proj.bias": pick(ours.output.bias),
    }


def encoder_layer(ours: EncoderLayer, pick: Pick) -> Named:
    return {
        **_under("self_attn", attention(ours.self_attention, pick)),
        **_feed_forward(ours.feed_forward, pick),
        **_norms(ours.residuals, pick),
    }


def decoder_layer(ours: DecoderLayer, pick: Pick) -> Named:
    return {
        **_under("self_attn", attention(ours.self_attention, pick)),
        **_under("multihead_attn", attention(ours.cross_attention, pick)),
        **_feed_forward(ours.feed_forward, pick),
        **_norms(ours.residuals, pick),
    }


def transformer(ours: Transformer, pick: Pick) -> Named:
    """For `nn.Transformer`, which has no embeddings and no output projection."""
    named: Named = {}
    for side, stack, layer_twin in (
        ("encoder", ours.encoder, encoder_layer),
        ("decoder", ours.decoder, decoder_layer),
    ):
        for index, layer in enumerate(stack.layers):
            named |= _under(f"{side}.layers.{index}", layer_twin(layer, pick))
        if ours.config.norm_order == "pre":
            named[f"{side}.norm.weight"] = pick(stack.norm.gain)
            named[f"{side}.norm.bias"] = pick(stack.norm.bias)
    return named


def assert_same_gradients(theirs: nn.Module, ours: Named) -> None:
    """Every parameter of torch's module has the gradient that ours has, in double precision."""
    expected = {name: gradients(p) for name, p in theirs.named_parameters()}
    assert expected.keys() == ours.keys()
    for name, gradient in expected.items():
        torch.testing.assert_close(
            ours[name],
            gradient,
            rtol=1e-9,
            atol=1e-9,
            msg=lambda text, name=name: f"{name}: {text}",
        )


def _feed_forward(ours: FeedForward, pick: Pick) -> Named:
    return {
        "linear1.weight": pick(ours.inner.weight),
        "linear1.bias": pick(ours.inner.bias),
        "linear2.weight": pick(ours.outer.weight),
        "linear2.bias": pick(ours.outer.bias),
    }


def _norms(residuals: nn.ModuleList, pick: Pick) -> Named:
    named: Named = {}
    for number, residual in enumerate(residuals, start=1):
        assert isinstance(residual, ResidualConnection)
        named[f"norm{number}.weight"] = pick(residual.norm.gain)
        named[f"norm{number}.bias"] = pick(residual.norm.bias)
    return named


def _under(prefix: str, named: Named) -> Named:
    return {f"{prefix}.{name}": tensor for name, tensor in named.items()}
