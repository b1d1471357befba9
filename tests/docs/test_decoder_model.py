"""The language model of the walk, docs/walk/decoder.py, is that of Llama, and each of its parts is what it says."""

import itertools
import sys
from collections.abc import Iterator
from types import ModuleType

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from dragoman.engine.log_probs import ArrayLogProbs
from dragoman.model.layers import RotaryPositions
from tools.pages import DOCS

SIZES = {"vocab_size": 50, "d_model": 32, "d_ff": 48, "num_heads": 4, "num_layers": 2}
TODAY = {"num_kv_heads": 2, "rotary": True, "rms_norm": True, "swiglu": True}
KINDS = pytest.mark.parametrize(
    "choices", [{}, TODAY, {"rotary": True, "num_kv_heads": 1}], ids=["plain", "today", "mqa"]
)


@pytest.fixture(autouse=True)
def in_double_precision() -> Iterator[None]:
    torch.manual_seed(1)
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.fixture
def decoder(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(DOCS / "walk"))
    import decoder

    for name in ("decoder", "transformer"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return decoder


def ids(rows: int = 3, length: int = 9) -> Tensor:
    return torch.randint(SIZES["vocab_size"], (rows, length))


def halves(weight: Tensor, heads: int) -> Tensor:
    """Rows of queries or keys for Llama, which turns features i and i + d_k / 2 together instead of 2i and 2i + 1."""
    return weight.unflatten(0, (heads, -1, 2)).transpose(1, 2).flatten(0, 2)


def llama_name(name: str) -> str:
    """What transformers calls a weight of a layer of ours."""
    for ours, theirs in {
        "self_attention.query": "self_attn.q_proj", "self_attention.key": "self_attn.k_proj",
        "self_attention.value": "self_attn.v_proj", "self_attention.output": "self_attn.o_proj",
        "feed_forward.gate": "mlp.gate_proj", "feed_forward.inner": "mlp.up_proj",
        "feed_forward.outer": "mlp.down_proj", "norms.0": "input_layernorm", "norms.1": "post_attention_layernorm",
    }.items():  # fmt: skip
        name = name.replace(ours, theirs)
    return name


@pytest.mark.slow
def test_with_all_options_it_is_the_model_of_llama(decoder: ModuleType) -> None:
    transformers = pytest.importorskip("transformers")
    ours = decoder.Decoder(**SIZES, **TODAY)
    config = transformers.LlamaConfig(
        vocab_size=50, hidden_size=32, intermediate_size=48, num_attention_heads=4, num_key_value_heads=2,
        num_hidden_layers=2, rms_norm_eps=1e-5, max_position_embeddings=64, tie_word_embeddings=False,
        attn_implementation="eager",
    )  # fmt: skip
    theirs = transformers.LlamaForCausalLM(config).double().eval()
    weights = {}
    for name, weight in ours.state_dict().items():
        if name.endswith("query.weight"):
            weight = halves(weight, 4)
        elif name.endswith("key.weight"):
            weight = halves(weight, 2)
        weights[f"model.{llama_name(name)}"] = weight
    table = weights.pop("model.table.weight")
    # Llama does not multiply its table by sqrt(d_model), and here has another one for its projection.
    weights |= {"model.embed_tokens.weight": table * 32**0.5, "lm_head.weight": table}
    theirs.load_state_dict(weights)
    tokens = ids()
    torch.testing.assert_close(ours(tokens), theirs(tokens).logits, rtol=1e-6, atol=1e-6)
    greedy = theirs.generate(tokens, max_new_tokens=6, do_sample=False, pad_token_id=0, eos_token_id=None)
    assert decoder.generate(ours, tokens, 6, top_k=1).equal(greedy)


@KINDS
def test_self_attention_is_that_of_torch(decoder: ModuleType, choices: dict) -> None:
    """With rotations by complex numbers, and keys and values that torch itself shares out to the heads."""
    layer = decoder.Decoder(**SIZES, **choices).layers[0].self_attention
    x = torch.randn(3, 9, 32)
    query, key, value = (
        (x @ each.weight.T).view(3, 9, -1, 8).transpose(1, 2) for each in (layer.query, layer.key, layer.value)
    )
    if choices.get("rotary"):
        query, key = turned(query), turned(key)
    heads = F.scaled_dot_product_attention(query, key, value, is_causal=True, enable_gqa=True)
    expected = heads.transpose(1, 2).reshape(3, 9, 32) @ layer.output.weight.T
    torch.testing.assert_close(layer(x, []), expected)


def turned(x: Tensor) -> Tensor:
    """`x` (batch, heads, length, d_k) with each pair of features as a complex number, times e^(i angle)."""
    length, width = x.shape[-2:]
    frequencies = 10_000.0 ** -(torch.arange(0, width, 2) / width)
    turns = torch.polar(torch.tensor(1.0), torch.outer(torch.arange(length).double(), frequencies))
    return torch.view_as_real(torch.view_as_complex(x.unflatten(-1, (-1, 2)).contiguous()) * turns).flatten(-2)


@KINDS
def test_a_later_token_changes_no_earlier_logit(decoder: ModuleType, choices: dict) -> None:
    model, tokens = decoder.Decoder(**SIZES, **choices), ids()
    other = tokens.clone()
    other[:, 5] = (tokens[:, 5] + 1) % 50
    before, after = model(tokens), model(other)
    torch.testing.assert_close(before[:, :5], after[:, :5], rtol=0, atol=0)
    assert not before[:, 5:].isclose(after[:, 5:]).all(-1).any()


@KINDS
def test_a_cache_changes_no_logit(decoder: ModuleType, choices: dict) -> None:
    model, tokens = decoder.Decoder(**SIZES, **choices), ids()
    cache = model.new_cache()
    parts = [model(part, cache) for part in tokens.split([4, 1, 3, 1], dim=1)]
    torch.testing.assert_close(torch.cat(parts, dim=1), model(tokens))
    assert [key.shape for key, _ in cache] == [(3, choices.get("num_kv_heads", 4), 9, 8)] * 2


def test_a_rotated_product_depends_on_the_distance_alone(decoder: ModuleType) -> None:
    query, key = torch.randn(2, 1, 1, 1, 16)
    everywhere = torch.cat([decoder.rotate(each.expand(1, 1, 40, 16)) for each in (query, key)])
    products = everywhere[0, 0] @ everywhere[1, 0].T
    for distance in range(-39, 40):
        diagonal = products.diagonal(distance)
        torch.testing.assert_close(diagonal, diagonal[:1].expand_as(diagonal))
    assert products[0].std() > 0.1
    torch.testing.assert_close(everywhere.norm(dim=-1), torch.cat([query, key]).norm(dim=-1).expand(2, 1, 40))


def test_rotations_are_those_of_the_package_and_begin_anywhere(decoder: ModuleType) -> None:
    x = torch.randn(2, 3, 5, 16)
    torch.testing.assert_close(decoder.rotate(x), turned(x))
    torch.testing.assert_close(decoder.rotate(x, 7), RotaryPositions()(x, offset=7), rtol=1e-5, atol=1e-5)


def test_groups_of_one_head_are_ordinary_attention_and_others_share(decoder: ModuleType) -> None:
    ordinary = decoder.Decoder(**SIZES)
    as_many = decoder.Decoder(**SIZES, num_kv_heads=4)
    as_many.load_state_dict(ordinary.state_dict())
    tokens = ids()
    assert as_many(tokens).equal(ordinary(tokens))
    shared = decoder.Decoder(**SIZES, num_kv_heads=2)
    weights = shared.state_dict()
    for name in weights:
        if name.endswith(("key.weight", "value.weight")):  # both heads of a group with the same matrix
            weights[name] = weights[name].unflatten(0, (2, 8)).repeat_interleave(2, dim=0).flatten(0, 1)
    ordinary.load_state_dict(weights)
    torch.testing.assert_close(shared(tokens), ordinary(tokens))


def test_norm_and_gate_are_those_of_torch(decoder: ModuleType) -> None:
    x, gain = torch.randn(2, 5, 32), torch.randn(32)
    norm, network = decoder.RMSNorm(32), decoder.SwiGLU(32, 48)
    norm.weight.data = gain
    torch.testing.assert_close(norm(x), F.rms_norm(x, (32,), gain, eps=1e-5))
    both = F.linear(x, torch.cat([network.inner.weight, network.gate.weight]))
    inner, gate = both.chunk(2, dim=-1)
    torch.testing.assert_close(network(x), (inner * gate * gate.sigmoid()) @ network.outer.weight.T)


def test_plain_layers_are_those_of_torch_with_norms_first(decoder: ModuleType) -> None:
    """Without rotation, gates and groups: an encoder layer of torch with a causal mask and no biases of attention."""
    model = decoder.Decoder(**SIZES)
    x = torch.randn(3, 9, 32)
    theirs = torch.nn.TransformerEncoderLayer(32, 4, 48, dropout=0.0, batch_first=True, norm_first=True)
    ours = model.layers[0]
    attention = ours.self_attention
    theirs.load_state_dict({
        "self_attn.in_proj_weight": torch.cat([attention.query.weight, attention.key.weight, attention.value.weight]),
        "self_attn.in_proj_bias": torch.zeros(96),
        "self_attn.out_proj.weight": attention.output.weight,
        "self_attn.out_proj.bias": torch.zeros(32),
        **{f"linear{i}.{name}": weight for i, part in ((1, "inner"), (2, "outer"))
           for name, weight in getattr(ours.feed_forward, part).state_dict().items()},
        **{f"norm{i + 1}.{name}": weight for i in range(2) for name, weight in ours.norms[i].state_dict().items()},
    })  # fmt: skip
    mask = torch.nn.Transformer.generate_square_subsequent_mask(9, dtype=torch.float64)
    torch.testing.assert_close(ours(x, []), theirs(x, src_mask=mask, is_causal=True))


@pytest.mark.parametrize("choices", [{"temperature": 1e-6}, {"top_k": 1}, {"top_p": 1e-9}])
def test_a_cold_sample_and_one_token_to_choose_from_are_greedy(decoder: ModuleType, choices: dict) -> None:
    model, tokens = decoder.Decoder(**SIZES, **TODAY), ids()
    expected = tokens
    for _ in range(8):
        expected = torch.cat([expected, model(expected)[:, -1:].argmax(-1)], dim=1)
    assert decoder.generate(model, tokens, 8, **choices).equal(expected)


def test_probabilities_by_hand(decoder: ModuleType) -> None:
    logits = torch.tensor([0.1, 0.5, 0.2, 0.2]).log()[None]
    logits[0, 3] += 1e-9  # the likelier one of two that are nearly the same
    for choices, expected in [
        ({}, [0.1, 0.5, 0.2, 0.2]),
        ({"temperature": 0.5}, [1 / 34, 25 / 34, 4 / 34, 4 / 34]),
        ({"top_k": 2}, [0, 5 / 7, 0, 2 / 7]),
        ({"top_k": 9}, [0.1, 0.5, 0.2, 0.2]),
        ({"top_p": 0.49}, [0, 1, 0, 0]),
        ({"top_p": 0.6}, [0, 5 / 7, 0, 2 / 7]),
        ({"top_k": 3, "top_p": 0.7}, [0, 5 / 7, 0, 2 / 7]),
        ({"temperature": 2.0, "top_k": 1}, [0, 1, 0, 0]),
    ]:
        found = decoder.probabilities(logits, **choices)[0]
        torch.testing.assert_close(
            found, torch.tensor(expected, dtype=torch.float64), rtol=1e-6, atol=1e-6, msg=str((choices, found))
        )


def test_probabilities_are_those_of_the_package(decoder: ModuleType) -> None:
    """Of a thousand evenly spaced numbers, as many draw a token as its probability says."""
    log_probs = torch.randn(20).log_softmax(-1)
    numbers = (np.arange(1000) + 0.5) / 1000
    rows = ArrayLogProbs(log_probs.numpy().astype(np.float32)[None].repeat(1000, axis=0))
    for temperature, top_k, top_p in itertools.product((0.5, 1.5), (None, 3), (0.4, 1.0)):
        tokens, _ = rows.drawn(numbers, top_k or 20, temperature, top_p)
        shares = torch.from_numpy(np.bincount(tokens, minlength=20) / 1000)
        expected = decoder.probabilities(log_probs, temperature, top_k, top_p)
        torch.testing.assert_close(shares, expected, rtol=0, atol=1.01e-3)
