"""Eight bits: products equal to their formula, and steps of the decoder equal to passes over whole sentences."""

import threading

import numpy as np
import pytest
import torch

from dragoman.decoding.precision import engine_of
from dragoman.engine import int8
from dragoman.engine.engine import ArrayEngine, ArrayStepper
from dragoman.engine.int8 import Int8Engine, Int8Linear, Int8Stepper, can_quantise
from dragoman.engine.transformer import log_softmax
from dragoman.errors import UsageError
from dragoman.model import Transformer
from dragoman.storage.directory import ModelArrays
from tests.engine.test_transformer import arrays, padded
from tests.model.variants import VARIANTS, build, small_config

WIDTHS = {"d_model": 64, "d_ff": 80, "num_heads": 2}
with_each_kind = pytest.mark.usefixtures("vectors")


@pytest.fixture(params=int8.KINDS)
def vectors(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    library = int8.compiled(request.param)
    if library is None:
        pytest.skip(f"needs a processor that multiplies eight bits with {request.param}, and a C compiler")
    monkeypatch.setattr(int8, "functions", library)


def normal(*shape: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def in_int8(model: Transformer) -> Int8Engine:
    return Int8Engine(model.config, arrays(model))


@with_each_kind
@pytest.mark.parametrize("rows", [1, 5, 8, 63, 64, 65, 130])
@pytest.mark.parametrize("outputs", [3, 16, 32, 47, 96])
def test_a_product_and_its_log_softmax_are_exact_but_for_the_order_of_float_sums(rows: int, outputs: int) -> None:
    linear = Int8Linear(normal(outputs, 48), normal(outputs) if outputs % 2 else None)
    x = normal(rows, 96)[:, ::2] * np.logspace(-3, 3, rows, dtype=np.float32)[:, None]
    wanted = linear.formula(x)
    np.testing.assert_allclose(linear(x), wanted, rtol=1e-5, atol=1e-5)
    found = linear.log_probs(x).array
    np.testing.assert_allclose(found, log_softmax(wanted), rtol=1e-5, atol=1e-3)  # logits reach thousands


@with_each_kind
def test_a_part_of_a_product_is_a_part_of_its_result() -> None:
    linear, x = Int8Linear(normal(96, 48), normal(96)), normal(2, 3, 48)
    whole = linear(x)
    for index in range(3):
        np.testing.assert_array_equal(linear.part(index, 3)(x), whole[..., 32 * index : 32 * (index + 1)])


def test_a_product_in_bfloat16_is_its_result_rounded_to_the_nearest_or_even() -> None:
    linear, x = Int8Linear(normal(96, 48), normal(96)), normal(5, 27, 48)  # more rows than share a pass
    rounded = torch.from_numpy(linear(x)).bfloat16().view(torch.uint16).numpy()
    np.testing.assert_array_equal(linear.halves(x), rounded)


@with_each_kind
def test_a_product_is_near_that_of_the_weights() -> None:
    weight, bias, x = normal(96, 512), normal(96, seed=2), normal(70, 512, seed=3)
    wanted = x @ weight.T + bias
    limit = {127: 0.015, 64: 0.02}[int8.functions.greatest_weight]
    assert np.linalg.norm(Int8Linear(weight, bias)(x) - wanted) / np.linalg.norm(wanted) < limit


@with_each_kind
@pytest.mark.parametrize("sign", [-1, 1])
def test_the_greatest_numbers_do_not_overflow(sign: int) -> None:
    found = Int8Linear(sign * np.ones((32, 48), np.float32), None)(np.ones((3, 48), np.float32))
    np.testing.assert_allclose(found, np.full((3, 32), 48.0 * sign), rtol=1e-6)


@with_each_kind
def test_rows_and_outputs_of_zeros_give_the_bias_and_damage_is_seen() -> None:
    weight, bias = normal(32, 16), normal(32)
    weight[3] = 0
    linear = Int8Linear(weight, bias)
    np.testing.assert_array_equal(linear(np.zeros((2, 16), np.float32)), np.stack([bias, bias]))
    np.testing.assert_array_equal(linear(normal(2, 16))[:, 3], [bias[3], bias[3]])
    weight[5, 7] = np.nan
    assert np.argwhere(np.isnan(Int8Linear(weight, bias)(np.ones((1, 16), np.float32)))).tolist() == [[0, 5]]


@with_each_kind
@pytest.mark.parametrize("choices", VARIANTS.values(), ids=VARIANTS)
def test_steps_give_what_a_pass_over_whole_sentences_gives(choices: dict) -> None:
    model = build(**choices | WIDTHS)
    engine, exact = in_int8(model), ArrayEngine(model.config, arrays(model))
    source, target = (ids.numpy() for ids in padded(model))
    stepper = engine.stepper(source)
    is_compiled = model.config.decoder_feed_forward == "network"
    assert isinstance(stepper, Int8Stepper if is_compiled else ArrayStepper)
    steps = np.stack([stepper.step(column).array.copy() for column in target.T], axis=1)
    everywhere = np.ones(target.shape, bool)
    (wanted,), (plain,) = (one.distributions(source, target, everywhere) for one in (engine, exact))
    wanted, plain = (part.array.reshape(steps.shape) for part in (wanted, plain))
    # Keys and values are kept in half precision, and a number at the edge of two steps falls to either side.
    assert np.linalg.norm(steps - wanted) / np.linalg.norm(wanted) < 0.03
    assert np.linalg.norm(wanted - plain) / np.linalg.norm(plain) < 0.1
    attention = [one.attention(source, target) for one in (engine, exact)]
    assert np.abs(attention[0] - attention[1]).max() < 0.1


@with_each_kind
def test_rows_take_their_history_with_them() -> None:
    engine = in_int8(build(positions="rotary", **WIDTHS))
    source, target = np.random.default_rng(1).integers(4, 20, (3, 9)), np.random.default_rng(2).integers(4, 20, (3, 6))
    alone, mixed = engine.stepper(source), engine.stepper(source)
    wanted = [alone.step(column).array.copy() for column in target.T]
    order = np.arange(3)
    for step, wish in enumerate(wanted):
        found = mixed.step(target[order, step]).array
        np.testing.assert_allclose(found, wish[order], rtol=1e-5, atol=1e-5)
        # Doubled, then the middle sentence is done, then the order turns.
        chosen = [[0, 0, 1, 1, 2, 2], [0, 1, 4, 5], [3, 2, 1, 0], [0, 1], [1, 0], [0]][step]
        order = order[chosen]
        mixed.reorder(np.array(chosen))


@with_each_kind
def test_a_sentence_may_have_any_number_of_positions() -> None:
    engine = in_int8(build(positions="rotary", **WIDTHS))
    stepper = engine.stepper(np.array([[5, 6, 7]]))
    for _ in range(600):
        assert np.isfinite(stepper.step(np.array([9])).array).all()


def test_odd_widths_and_other_processors_have_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def model_arrays(**choices: int) -> ModelArrays:
        model = build(**choices)
        return ModelArrays(model.config, arrays(model))

    assert not can_quantise(small_config())
    with pytest.raises(UsageError, match="--precision auto"):
        engine_of(model_arrays(), "int8")
    monkeypatch.setattr(int8, "functions", None)
    model = model_arrays(**WIDTHS)
    assert not can_quantise(model.config)
    assert not isinstance(engine_of(model, "auto"), Int8Engine)


@pytest.mark.parametrize("precision", ["float32", "int8"])
def test_a_model_in_torch_stays_as_it_is(precision: str) -> None:
    model = build(**WIDTHS)
    if precision == "int8" and not can_quantise(model.config):
        pytest.skip("needs a processor that multiplies eight bits")
    before = {name: parameter.clone() for name, parameter in model.named_parameters()}
    engine = engine_of(model, precision)
    assert engine.precision == precision
    engine.stepper(np.array([[5, 3]])).step(np.array([2]))
    assert all(torch.equal(parameter, before[name]) for name, parameter in model.named_parameters())


@pytest.mark.slow
def test_a_long_source_needs_no_room_on_the_stack() -> None:
    """In a thread with a small one, which a weight for each key and head would exceed."""
    engine, ids = in_int8(build(**WIDTHS)), np.full((1, 20_000), 5)
    found: list[np.ndarray] = []
    before = threading.stack_size(256 * 1024)
    try:
        thread = threading.Thread(target=lambda: found.append(engine.encode(ids)))
        thread.start()
        thread.join()
    finally:
        threading.stack_size(before)
    assert np.isfinite(found[0]).all()
