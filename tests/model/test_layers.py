"""Layers against torch.nn's own, and their parts against the formulas of the papers."""

import cmath
import math
from typing import TypeVar

import pytest
import torch
from torch import Tensor, nn

from dragoman.model.attention import SelfAttention, causal_mask
from dragoman.model.layers import (
    DecoderLayer,
    Embedding,
    EncoderLayer,
    FeedForward,
    LearnedPositions,
    Norm,
    ResidualConnection,
    RotaryPositions,
    SinusoidalPositions,
    build_positions,
)
from tests.model import twins
from tests.model.variants import small_config

DOUBLE = torch.float64
Module = TypeVar("Module", bound=nn.Module)


@pytest.fixture(autouse=True)
def same_random_numbers() -> None:
    torch.manual_seed(29)


def randomised(module: Module) -> Module:
    """In double precision, and with no weight left at 0 or 1."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter += 0.1 * torch.randn_like(parameter)
    return module.double()


@pytest.mark.parametrize("eps", [1e-5, 1e-3, 0.5])
@pytest.mark.parametrize("gain", ["feature", "scalar"])
@pytest.mark.parametrize("kind", ["layer", "rms"])
def test_the_norm_is_its_formula(kind: str, gain: str, eps: float):
    norm = randomised(Norm(small_config(norm=kind, norm_gain=gain, norm_eps=eps)))
    assert norm.gain.numel() == (30 if gain == "feature" else 1)
    x = torch.randn(5, 7, 30, dtype=DOUBLE) + 2
    centre = x.mean(-1, keepdim=True) if kind == "layer" else 0.0
    variance = ((x - centre) ** 2).sum(-1, keepdim=True) / 30
    expected = (x - centre) / (variance + eps).sqrt() * norm.gain
    if kind == "layer":
        expected = expected + norm.bias
    assert (norm.bias is None) == (kind == "rms")
    torch.testing.assert_close(norm(x), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("order", ["pre", "post"])
def test_the_residual_connection_is_its_formula(order: str):
    residual = randomised(ResidualConnection(small_config(norm_order=order)))
    x = torch.randn(5, 7, 30, dtype=DOUBLE)
    norm = residual.norm
    expected = x + norm(x).sin() if order == "pre" else norm(x + x.sin())
    torch.testing.assert_close(residual(x, torch.sin), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("relu", lambda x: max(0.0, x)),
        ("gelu", lambda x: x * (1 + math.erf(x / math.sqrt(2))) / 2),
        ("silu", lambda x: x / (1 + math.exp(-x))),
        ("swiglu", lambda x: x / (1 + math.exp(-x))),
    ],
)
def test_the_feed_forward_network_is_its_formula(name: str, function):
    network = randomised(FeedForward(small_config(activation=name)))
    x = 3 * torch.randn(2, 3, 30, dtype=DOUBLE)
    inner = x @ network.inner.weight.T + network.inner.bias
    if name == "swiglu":
        gate = x @ network.gate.weight.T + network.gate.bias
        hidden = gate.detach().clone().apply_(function) * inner
    else:
        assert network.gate is None
        hidden = inner.detach().clone().apply_(function)
    expected = hidden @ network.outer.weight.T + network.outer.bias
    torch.testing.assert_close(network(x), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("scaled", [True, False])
@pytest.mark.parametrize("positions", ["sinusoidal", "learned", "rotary"])
def test_embeddings_are_scaled_before_positions_are_added(positions: str, scaled: bool):
    config = small_config(positions=positions, scale_embeddings=scaled)
    added, _ = build_positions(config)
    embedding = Embedding(config, 31, added)
    ids = torch.randint(31, (5, 7))
    expected = embedding.table.weight[ids] * (math.sqrt(30) if scaled else 1)
    if added is not None:
        expected = expected + added(3, 7)
    torch.testing.assert_close(embedding(ids, 3), expected, rtol=0, atol=1e-6)


def paper_positions(positions: range, d_model: int) -> Tensor:
    """PE(pos, 2i) = sin(pos / 10000^(2i / d)) and PE(pos, 2i + 1) its cosine, number by number."""
    return torch.tensor(
        [
            [(math.cos if k % 2 else math.sin)(position / 10_000 ** ((k - k % 2) / d_model)) for k in range(d_model)]
            for position in positions
        ]
    )


# The odd width has one sine more than cosines.
@pytest.mark.first_is_quick
@pytest.mark.parametrize("d_model", [30, 33])
@pytest.mark.parametrize("start", [0, 499, 1009, 10_007, 100_003])
def test_sinusoidal_positions_are_those_of_the_paper(start: int, d_model: int):
    """Both orders, within the first table and far beyond it, to the precision of float32."""
    expected = paper_positions(range(start, start + 5), d_model)
    concatenated = torch.cat([expected[:, ::2], expected[:, 1::2]], dim=1)
    for kind, table in (("sinusoidal", expected), ("sinusoidal-concatenated", concatenated)):
        positions = SinusoidalPositions(small_config(d_model=d_model, positions=kind))
        torch.testing.assert_close(positions(start, 5), table, rtol=0, atol=1e-6)


def test_sinusoidal_positions_grow_without_changing_and_are_not_saved():
    positions = SinusoidalPositions(small_config(max_positions=11))
    first = positions(0, 11).clone()
    beyond = positions(7, 23)
    assert torch.equal(positions(0, 11), first)
    assert torch.equal(beyond[:4], first[7:])
    torch.testing.assert_close(beyond, paper_positions(range(7, 30), 30), rtol=0, atol=1e-5)
    assert positions.state_dict() == {}


def test_a_table_that_grew_while_translating_can_be_trained_with():
    positions = SinusoidalPositions(small_config(max_positions=3))
    with torch.inference_mode():
        positions(0, 7)
    x = torch.randn(7, 30, requires_grad=True)
    (x + positions(0, 7)).square().sum().backward()
    assert x.grad is not None


def test_learned_positions_are_a_table_that_ends():
    positions = LearnedPositions(small_config(positions="learned", max_positions=11))
    assert torch.equal(positions(4, 7), positions.table[4:])
    for offset, length in ((0, 12), (11, 1)):
        with pytest.raises(ValueError, match=r"12 tokens.*`max_positions` = 11"):
            positions(offset, length)


@pytest.mark.parametrize("offset", [0, 3, 1009, 100_003])
def test_rotation_multiplies_complex_pairs_by_the_angle_of_the_position(offset: int):
    """Pair i of a head of width w turns by pos / 10000^(2i / w) (RoFormer, equation 15)."""
    heads = torch.randn(2, 3, 5, 10)
    expected = torch.empty_like(heads)
    for position in range(5):
        for i in range(5):
            turn = cmath.exp(1j * (offset + position) / 10_000 ** (2 * i / 10))
            pairs = torch.complex(heads[:, :, position, 2 * i], heads[:, :, position, 2 * i + 1])
            turned = pairs.to(torch.complex128) * turn
            expected[:, :, position, 2 * i] = turned.real
            expected[:, :, position, 2 * i + 1] = turned.imag
    rotated = RotaryPositions()(heads, offset=offset)
    torch.testing.assert_close(rotated, expected, rtol=0, atol=1e-5)


def test_rotated_products_depend_on_the_distance_only():
    query, key = torch.randn(2, 1, 1, 1, 10)
    rotate = RotaryPositions()

    def product(query_position: int, key_position: int) -> Tensor:
        return (rotate(query, offset=query_position) * rotate(key, offset=key_position)).sum()

    near = product(5, 2)
    for shift in (1, 17, 1009, 100_003):
        torch.testing.assert_close(product(5 + shift, 2 + shift), near, rtol=0, atol=1e-4)
    assert not torch.isclose(product(5, 3), near, atol=1e-2)


def test_rotary_models_turn_self_attention_and_nothing_else():
    config = small_config(positions="rotary")
    added, rotation = build_positions(config)
    assert added is None
    layer = DecoderLayer(config, rotation)
    assert layer.self_attention.rotation is rotation
    assert not any(isinstance(module, RotaryPositions) for module in layer.cross_attention.modules())
    attention, x = SelfAttention(config, rotation), torch.randn(2, 7, 30)
    swapped = x[:, [1, 0, 2, 3, 4, 5, 6]]
    # Without positions the last query would not notice that two keys changed places.
    assert not torch.allclose(attention(x)[:, -1], attention(swapped)[:, -1], atol=1e-4)


LAYER_CHOICES = [
    pytest.param(order, activation, id=f"{order}-{activation}")
    for order in ("pre", "post")
    for activation in ("relu", "gelu")
]


def torch_layer(kind: type[nn.Module], order: str, activation: str) -> nn.Module:
    return kind(30, 3, 41, 0.0, activation, batch_first=True, norm_first=order == "pre", dtype=DOUBLE).train()


@pytest.mark.parametrize(("order", "activation"), LAYER_CHOICES)
def test_an_encoder_layer_equals_that_of_torch_with_every_gradient(order: str, activation: str):
    ours = randomised(EncoderLayer(small_config(norm_order=order, activation=activation), None))
    theirs = torch_layer(nn.TransformerEncoderLayer, order, activation)
    theirs.load_state_dict(twins.encoder_layer(ours, twins.weights))
    x = torch.randn(5, 7, 30, dtype=DOUBLE)
    hidden = torch.rand(5, 7) > 0.7
    hidden[:, 0] = False
    expected = theirs(x, src_key_padding_mask=hidden)
    states = ours(x, ~hidden[:, None, None, :])
    torch.testing.assert_close(states, expected, rtol=0, atol=1e-12)
    states.sin().sum().backward()
    expected.sin().sum().backward()
    twins.assert_same_gradients(theirs, twins.encoder_layer(ours, twins.gradients))


@pytest.mark.parametrize(("order", "activation"), LAYER_CHOICES)
def test_a_decoder_layer_equals_that_of_torch_with_every_gradient(order: str, activation: str):
    ours = randomised(DecoderLayer(small_config(norm_order=order, activation=activation), None))
    theirs = torch_layer(nn.TransformerDecoderLayer, order, activation)
    theirs.load_state_dict(twins.decoder_layer(ours, twins.weights))
    x, memory = torch.randn(5, 7, 30, dtype=DOUBLE), torch.randn(5, 11, 30, dtype=DOUBLE)
    hidden = torch.rand(5, 11) > 0.7
    hidden[:, 0] = False
    causal = causal_mask(7)
    expected = theirs(x, memory, tgt_mask=~causal, memory_key_padding_mask=hidden)
    states = ours(x, memory, causal, ~hidden[:, None, None, :])
    torch.testing.assert_close(states, expected, rtol=0, atol=1e-12)
    states.sin().sum().backward()
    expected.sin().sum().backward()
    twins.assert_same_gradients(theirs, twins.decoder_layer(ours, twins.gradients))


def test_a_table_of_rotations_that_was_made_without_gradients_serves_training():
    rotate = RotaryPositions()
    with torch.inference_mode():
        rotate(torch.randn(1, 2, 5, 8))
    heads = torch.randn(1, 2, 5, 8, requires_grad=True)
    rotate(heads).sum().backward()
    assert heads.grad is not None
