"""The Transformer in numpy is the one in torch, for every architecture and in every way to decode."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from dragoman.engine import parameters
from dragoman.engine.transformer import DecoderCache, NumpyTransformer, erf, log_softmax
from dragoman.errors import DataError
from dragoman.model import Transformer
from dragoman.model.attention import AttentionMaps
from tests.model.variants import VARIANTS, build, sentences

IMPORTED: dict[str, dict[str, Any]] = {
    "marian": {"norm_order": "post", "positions": "sinusoidal-concatenated", "activation": "silu", "bos_id": 0},
    "fairseq": {"positions": "sinusoidal-fairseq", "pad_id": 1, "d_model": 33},
    "odd": {"positions": "sinusoidal", "d_model": 33, "projection_bias": True},
}
every_variant = pytest.mark.parametrize("choices", (VARIANTS | IMPORTED).values(), ids=VARIANTS | IMPORTED)


def arrays(model: Transformer) -> dict[str, np.ndarray]:
    return {name: parameter.detach().numpy() for name, parameter in model.named_parameters()}


def engine_of(model: Transformer) -> NumpyTransformer:
    return NumpyTransformer(model.config, arrays(model))


def padded(model: Transformer) -> tuple[torch.Tensor, torch.Tensor]:
    """Sources of different lengths, and targets."""
    source_ids, target_ids = sentences(model, rows=4, src_len=9, tgt_len=7)
    source_ids[0, 4:] = source_ids[2, 8:] = model.config.pad_id
    return source_ids, target_ids


@every_variant
def test_log_probabilities_are_those_of_torch(choices: dict[str, Any]) -> None:
    model = build(**choices)
    source_ids, target_ids = padded(model)
    mask = source_ids != model.config.pad_id
    with torch.no_grad():
        expected = model(source_ids, target_ids).log_softmax(-1)
    engine = engine_of(model)
    memory = engine.encode(source_ids.numpy(), mask.numpy())
    found = engine.log_probs(engine.decode(target_ids.numpy(), memory, mask.numpy()))
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected.numpy(), rtol=0, atol=2e-5)


@every_variant
def test_names_and_shapes_of_weights_follow_from_the_architecture(choices: dict[str, Any]) -> None:
    model = build(**choices)
    expected = {name: tuple(parameter.shape) for name, parameter in model.named_parameters()}
    assert parameters.shapes(model.config) == expected
    assert [*parameters.shapes(model.config)] == [*expected]
    parameters.check(model.config, arrays(model), origin=Path("model"))


@every_variant
def test_steps_give_what_a_pass_over_the_whole_target_gives(choices: dict[str, Any]) -> None:
    """Two rows for each source, which are reordered and dropped on the way."""
    model = build(**choices)
    engine = engine_of(model)
    source_ids, target_ids = (ids.numpy() for ids in padded(model))
    mask = source_ids != model.config.pad_id
    memory, cache = engine.encode(source_ids, mask), DecoderCache(model.config.num_decoder_layers)
    targets, others = target_ids, np.roll(target_ids, 1, axis=1)
    rows = np.stack([targets, others], axis=1).reshape(8, -1)
    sentences_of_rows = np.arange(4).repeat(2)
    for position in range(7):
        states = engine.decode(rows[:, position : position + 1], memory, mask, cache)
        whole_memory = engine.encode(source_ids, mask)[sentences_of_rows]
        whole = engine.decode(
            rows[:, : position + 1], whole_memory, (source_ids != model.config.pad_id)[sentences_of_rows]
        )
        np.testing.assert_allclose(states[:, 0], whole[:, -1], rtol=0, atol=2e-5)
        if position == 2:  # the second row of each sentence goes on twice
            kept = np.array([1, 1, 3, 3, 5, 5, 7, 7])
            rows = rows[kept]
            cache.reorder(kept)
        if position == 4:  # the second sentence is done
            kept = np.array([0, 1, 4, 5, 6, 7])
            rows, source_ids = rows[kept], source_ids[[0, 2, 3]]
            memory, mask, sentences_of_rows = memory[[0, 2, 3]], mask[[0, 2, 3]], np.arange(3).repeat(2)
            cache.reorder(kept, np.array([0, 2, 3]))


@every_variant
def test_attention_to_the_memory_is_that_of_torch(choices: dict[str, Any]) -> None:
    model = build(**choices)
    source_ids, target_ids = padded(model)
    maps, found = AttentionMaps(encoder=None, decoder=None), []
    with torch.no_grad():
        model.states(source_ids, target_ids, maps=maps)
    engine, mask = engine_of(model), (source_ids != model.config.pad_id).numpy()
    engine.decode(target_ids.numpy(), engine.encode(source_ids.numpy(), mask), mask, maps=found)
    for recorded, weights in zip(maps.cross, found, strict=True):
        np.testing.assert_allclose(weights, recorded.weights.numpy(), rtol=0, atol=1e-5)


def test_more_tokens_than_learned_positions_are_an_error() -> None:
    model = build(positions="learned", max_positions=5)
    ids = np.full((1, 6), 7)
    with pytest.raises(ValueError, match="6 tokens, but this model learned only `max_positions` = 5"):
        engine_of(model).encode(ids, ids > 0)


def test_the_error_function_is_right_to_six_places() -> None:
    x = np.linspace(-6, 6, 4001, dtype=np.float32)
    np.testing.assert_allclose(erf(x), [math.erf(value) for value in x.tolist()], rtol=0, atol=5e-7)


def test_extreme_scores_give_probabilities_without_a_warning() -> None:
    scores = np.array([[3e38, -3e38, 0.0], [-1e4, 1e4, 1e4]], np.float32)
    with np.errstate(over="ignore"):
        found = log_softmax(scores)
    assert found[0].tolist() == [0.0, -math.inf, pytest.approx(-3e38)]
    assert found[1, 1:].tolist() == pytest.approx([-math.log(2)] * 2)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda weights: weights.pop("decoder.norm.gain"), "lacks the weights 'decoder.norm.gain'"),
        (lambda weights: weights.update(other=np.zeros(3)), "has the weights 'other' that config.json does not know"),
        (
            lambda weights: weights.update({"encoder.norm.gain": np.ones(31, np.float32)}),
            r"'encoder.norm.gain' of shape \(31,\), but config.json describes \(30,\)",
        ),
        (
            lambda weights: weights.update({"encoder.norm.gain": np.full(30, np.nan, np.float32)}),
            "'encoder.norm.gain' that are no finite numbers",
        ),
        (
            lambda weights: weights.update({"encoder.norm.gain": np.ones(30, np.int64)}),
            "'encoder.norm.gain' that are no finite numbers",
        ),
    ],
)
def test_weights_of_another_model_are_refused(damage: Any, message: str) -> None:
    model = build()
    weights = arrays(model)
    damage(weights)
    with pytest.raises(DataError, match=message):
        parameters.check(model.config, weights, origin=Path("model"))
