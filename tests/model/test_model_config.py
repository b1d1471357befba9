"""TransformerConfig: every field changes one thing, and what cannot be built is refused."""

import dataclasses
import json
import re
from typing import Any

import pytest
import torch
from torch import Tensor

from dragoman.model import Transformer, TransformerConfig
from dragoman.model.config import PRESETS
from dragoman.model.dropout import Dropout
from dragoman.native import library
from dragoman.training.optimizer import eager
from tests.model.variants import build, sentences, small_config

# For each field another value, with what must go with it.
CHANGES_LOGITS: dict[str, dict[str, Any]] = {
    "num_heads": {"num_heads": 5},
    "norm_order": {"norm_order": "post"},
    "norm": {"norm": "rms"},
    "norm_gain": {"norm_gain": "scalar"},
    "norm_eps": {"norm_eps": 0.1},
    "positions": {"positions": "sinusoidal-concatenated"},
    "activation": {"activation": "gelu"},
    "decoder_feed_forward": {"decoder_feed_forward": "positions"},
    "scale_embeddings": {"scale_embeddings": False},
    "projection_bias": {"projection_bias": True},
    "pad_id": {"pad_id": 1},
}
CHANGES_SHAPES: dict[str, tuple[dict[str, Any], str, tuple[int, ...]]] = {
    "source_vocab_size": ({"source_vocab_size": 59}, "encoder.embedding.table.weight", (59, 30)),
    "target_vocab_size": ({"target_vocab_size": 61}, "projection.weight", (61, 30)),
    "d_model": ({"d_model": 33}, "decoder.layers.0.cross_attention.query.weight", (33, 33)),
    "d_ff": ({"d_ff": 43}, "encoder.layers.0.feed_forward.inner.weight", (43, 30)),
    "num_encoder_layers": (
        {"num_encoder_layers": 5}, "encoder.layers.4.feed_forward.outer.bias", (30,),
    ),
    "num_decoder_layers": (
        {"num_decoder_layers": 7}, "decoder.layers.6.feed_forward.outer.bias", (30,),
    ),
    "max_positions": (
        {"max_positions": 71, "positions": "learned"},
        "encoder.embedding.positions.table", (71, 30),
    ),
}  # fmt: skip
DROPOUTS = {
    "dropout": {
        "encoder.embedding.dropout", "encoder.layers.0.residuals.0.dropout",
        "encoder.layers.0.residuals.1.dropout", "decoder.embedding.dropout",
        "decoder.layers.0.residuals.0.dropout", "decoder.layers.0.residuals.1.dropout",
        "decoder.layers.0.residuals.2.dropout",
    },
    "attention_dropout": {
        "encoder.layers.0.self_attention.dropout", "decoder.layers.0.self_attention.dropout",
        "decoder.layers.0.cross_attention.dropout",
    },
    "activation_dropout": {
        "encoder.layers.0.feed_forward.dropout", "decoder.layers.0.feed_forward.dropout",
    },
    "projection_dropout": {"projection_dropout"},
}  # fmt: skip
ONE_TABLE = {"share_embeddings", "tie_projection"}
READ_BY_DECODING = {"bos_id", "eos_id"}
READ_FOR_ALIGNMENTS = {"guided_head", "aligned_token"}  # see tests/training/test_guided_alignment.py
FIRST_WEIGHTS = {"initialisation"}  # see test_transformer.py


def test_every_field_is_tested_here():
    tested = [
        *CHANGES_LOGITS,
        *CHANGES_SHAPES,
        *DROPOUTS,
        *ONE_TABLE,
        *READ_BY_DECODING,
        *FIRST_WEIGHTS,
        *READ_FOR_ALIGNMENTS,
    ]
    assert sorted(tested) == sorted(field.name for field in dataclasses.fields(TransformerConfig))


@torch.no_grad()
def with_weights_of(model: Transformer, **choices: Any) -> Transformer:
    """A model of other choices, with the weights of `model` wherever it has them too."""
    other, own = build(**choices), model.state_dict()
    for name, weight in other.state_dict().items():
        if name in own and own[name].shape == weight.shape:
            weight.copy_(own[name])
    return other


@torch.no_grad()
def logits_of(model: Transformer) -> Tensor:
    torch.manual_seed(47)
    source, target = sentences(build(), rows=5, src_len=13, tgt_len=7)
    source[:, 11], source[:, 12] = 0, 1  # either may be padding
    return model(source, target)


@pytest.mark.first_is_quick
@pytest.mark.parametrize("choices", CHANGES_LOGITS.values(), ids=CHANGES_LOGITS)
def test_the_field_changes_the_logits(choices: dict[str, Any]):
    model = build()
    changed = logits_of(with_weights_of(model, **choices))[..., :47]
    assert (changed - logits_of(model)).abs().mean() > 1e-3
    assert torch.equal(logits_of(with_weights_of(model)), logits_of(model))


@pytest.mark.parametrize(("choices", "name", "shape"), CHANGES_SHAPES.values(), ids=CHANGES_SHAPES)
def test_the_field_changes_the_shape(choices: dict[str, Any], name: str, shape: tuple[int, ...]):
    before, after = build().state_dict(), build(**choices).state_dict()
    assert after[name].shape == shape
    assert name not in before or before[name].shape != shape


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("shared", [True, False])
def test_shared_and_tied_tables_are_one_and_stay_one(shared: bool, tied: bool):
    model = build(target_vocab_size=53, share_embeddings=shared, tie_projection=tied).train()
    optimizer = eager(torch.optim.SGD)(model.parameters(), lr=0.1)
    model(*sentences(model, rows=5, src_len=13, tgt_len=7)).sin().sum().backward()
    optimizer.step()
    tables = [module.embedding.table.weight for module in (model.encoder, model.decoder)]
    assert torch.equal(*tables) == (tables[0] is tables[1]) == shared
    tables.append(model.projection.weight)
    assert torch.equal(*tables[1:]) == (tables[1] is tables[2]) == tied
    sizes = [p.shape for p in model.parameters()]
    assert sizes.count((53, 30)) == 3 - shared - tied


def small_with(name: str, rate: float) -> Transformer:
    return build(**{"num_encoder_layers": 1, "num_decoder_layers": 1, name: rate})


@pytest.mark.parametrize("name", DROPOUTS)
def test_the_dropout_is_where_it_belongs_and_nowhere_else(name: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(library, "functions", None)  # which drops attention weights itself
    model, calls = small_with(name, 0.37).train(), []
    dropouts = {path: m for path, m in model.named_modules() if isinstance(m, Dropout)}
    assert {path for path, module in dropouts.items() if module.rate == 0.37} == DROPOUTS[name]
    for path, module in dropouts.items():
        module.register_forward_pre_hook(lambda *_, path=path: calls.append(path))
    model(*sentences(model, rows=2, src_len=3, tgt_len=5))
    assert sorted(calls) == sorted(dropouts)


@pytest.mark.first_is_quick
@pytest.mark.parametrize("name", DROPOUTS)
def test_the_dropout_acts_in_training_only(name: str):
    model, plain = small_with(name, 0.37), small_with(name, 0.0)
    assert torch.equal(logits_of(model), logits_of(plain))
    assert torch.equal(logits_of(plain.train()), logits_of(plain.eval()))
    first, second = logits_of(model.train()), logits_of(model)
    assert torch.equal(first, second)  # the same seed
    assert not torch.allclose(first, logits_of(plain), atol=1e-2)


@pytest.mark.usefixtures("annotations_unchecked")
@pytest.mark.parametrize(
    ("name", "value", "remedy"),
    [
        ("norm", "batch", "choose one of 'layer', 'rms'"),
        ("positions", ["rotary"], "choose one of 'sinusoidal'"),
        ("activation", None, "choose one of 'relu'"),
        ("decoder_feed_forward", "none", "choose one of 'network', 'positions'"),
        ("tie_projection", 1, "must be true or false"),
        ("d_ff", 2.5, "must be a whole number"),
        ("d_ff", True, "must be a whole number"),
        ("num_heads", "8", "must be a whole number"),
        ("norm_eps", "small", "must be a number"),
        ("norm_eps", 0.0, "must be above 0"),
        ("norm_eps", float("nan"), "must be above 0"),
        ("norm_eps", float("inf"), "must be"),
        ("dropout", 1.0, "at least 0 and below 1"),
        ("attention_dropout", -0.1, "at least 0 and below 1"),
        ("activation_dropout", float("nan"), "at least 0 and below 1"),
        ("projection_dropout", False, "must be a number"),
        ("pad_id", -1, "start at 0"),
        ("eos_id", 3.0, "must be a whole number"),
        ("num_decoder_layers", 0, "above 0 and at most 100"),
        ("source_vocab_size", 10**12, "above 0 and at most 4000000"),
        ("max_positions", -5, "above 0 and at most 1000000"),
        ("d_model", 31, "not a multiple of `num_heads` 3"),
    ],
)
def test_a_bad_value_is_refused_with_field_value_and_remedy(name: str, value: Any, remedy: str):
    with pytest.raises(ValueError, match=f"`{name}` is .*{re.escape(remedy)}") as caught:
        small_config(**{name: value})
    assert str(value) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", sorted(PRESETS["tiny"]))
def test_no_size_may_ask_for_a_terabyte(name: str):
    with pytest.raises(ValueError, match="at most"):
        small_config(**{name: 10**9})


def test_rotary_positions_need_pairs_of_features():
    with pytest.raises(ValueError, match="even head width, not 15"):
        small_config(positions="rotary", num_heads=2)


@pytest.mark.parametrize("positions", ["learned", "rotary"])
def test_a_decoder_that_adds_positions_needs_sinusoidal_ones(positions: str):
    with pytest.raises(ValueError, match=f"`decoder_feed_forward` is 'positions'.* `positions` is '{positions}'"):
        small_config(positions=positions, decoder_feed_forward="positions")


def test_a_shared_table_needs_one_vocabulary():
    with pytest.raises(ValueError, match=r"`source_vocab_size` is 53 .*`target_vocab_size` 47"):
        small_config(share_embeddings=True)


def test_the_config_survives_json():
    config = small_config(positions="rotary", norm_eps=1e-6, dropout=0, projection_bias=True)
    assert TransformerConfig.from_dict(json.loads(json.dumps(config.to_dict()))) == config


def test_an_unknown_or_missing_key_is_refused():
    values = small_config().to_dict()
    with pytest.raises(ValueError, match="unknown key 'dropuot'"):
        TransformerConfig.from_dict(values | {"dropuot": 0.1})
    for name in ("source_vocab_size", "target_vocab_size"):
        with pytest.raises(ValueError, match=f"lacks '{name}'"):
            TransformerConfig.from_dict({k: v for k, v in values.items() if k != name})


def test_the_config_cannot_be_changed_after_the_model_was_built():
    with pytest.raises(dataclasses.FrozenInstanceError):
        small_config().d_model = 60


@pytest.mark.parametrize("name", PRESETS)
def test_presets_can_be_built_and_changed(name: str):
    config = TransformerConfig.preset(name, source_vocab_size=7, target_vocab_size=11, d_ff=13)
    assert (config.d_model, config.d_ff) == (PRESETS[name]["d_model"], 13)
    with torch.device("meta"):
        Transformer(config)


def test_base_and_big_are_those_of_table_3():
    sizes = {name: tuple(PRESETS[name].values()) for name in ("base", "big")}
    assert sizes == {"base": (512, 2048, 8, 6, 6), "big": (1024, 4096, 16, 6, 6)}


def test_an_unknown_preset_names_those_there_are():
    with pytest.raises(ValueError, match="no preset 'huge'; choose one of tiny, small, base, big"):
        TransformerConfig.preset("huge", source_vocab_size=7, target_vocab_size=11)
