"""Eight bits: products equal to their formula, and steps of the decoder equal to passes over whole sentences."""

import copy

import pytest
import torch

from dragoman.decoding.precision import ready
from dragoman.errors import UsageError
from dragoman.model.fast import int8_linear
from dragoman.model.fast.int8 import Int8Cache, can_quantise, in_int8
from dragoman.model.fast.int8_linear import Int8Linear
from tests.model.variants import VARIANTS, build, sentences, small_config

WIDTHS = {"d_model": 64, "d_ff": 80, "num_heads": 2}
with_each_kind = pytest.mark.usefixtures("vectors")


@pytest.fixture(params=int8_linear.KINDS)
def vectors(request, monkeypatch):
    library = int8_linear.compiled(request.param)
    if library is None:
        pytest.skip(f"needs a processor that multiplies eight bits with {request.param}, and a C compiler")
    monkeypatch.setattr(int8_linear, "functions", library)


@with_each_kind
@pytest.mark.parametrize("rows", [1, 5, 8, 63, 64, 65, 130])
@pytest.mark.parametrize("outputs", [3, 16, 32, 47, 96])
def test_a_product_and_its_log_softmax_are_exact_but_for_the_order_of_float_sums(rows: int, outputs: int):
    torch.manual_seed(rows)
    linear = Int8Linear(torch.randn(outputs, 48), torch.randn(outputs) if outputs % 2 else None)
    x = torch.randn(rows, 96)[:, ::2] * torch.logspace(-3, 3, rows)[:, None]
    wanted = linear.formula(x)
    torch.testing.assert_close(linear(x), wanted, rtol=1e-5, atol=1e-5)
    found = torch.empty(rows, outputs)
    linear.log_probs(x, found)
    torch.testing.assert_close(found, wanted.log_softmax(-1), rtol=1e-5, atol=1e-3)  # logits reach thousands


@with_each_kind
def test_a_product_is_near_that_of_the_weights():
    torch.manual_seed(1)
    weight, bias, x = torch.randn(96, 512), torch.randn(96), torch.randn(70, 512)
    wanted = torch.nn.functional.linear(x, weight, bias)
    limit = {127: 0.015, 64: 0.02}[int8_linear.functions.greatest_weight]
    assert (Int8Linear(weight, bias)(x) - wanted).norm() / wanted.norm() < limit


@with_each_kind
@pytest.mark.parametrize("sign", [-1, 1])
def test_the_greatest_numbers_do_not_overflow(sign: int):
    found = Int8Linear(sign * torch.ones(32, 48), None)(torch.ones(3, 48))
    torch.testing.assert_close(found, torch.full((3, 32), 48.0 * sign), rtol=1e-6, atol=0)


@with_each_kind
def test_rows_and_outputs_of_zeros_give_the_bias_and_damage_is_seen():
    weight, bias = torch.randn(32, 16), torch.randn(32)
    weight[3] = 0
    linear = Int8Linear(weight, bias)
    assert torch.equal(linear(torch.zeros(2, 16)), bias.expand(2, -1))
    assert torch.equal(linear(torch.randn(2, 16))[:, 3], bias[3].expand(2))
    weight[5, 7] = float("nan")
    assert Int8Linear(weight, bias)(torch.ones(1, 16)).isnan().nonzero().tolist() == [[0, 5]]


@with_each_kind
@pytest.mark.parametrize("choices", VARIANTS.values(), ids=VARIANTS)
@torch.inference_mode()
def test_steps_give_what_a_pass_over_whole_sentences_gives(choices):
    model = build(**choices | WIDTHS)
    weights = copy.deepcopy(model.state_dict())
    twin = in_int8(model)
    torch.manual_seed(1)
    source, target = sentences(model, rows=5, src_len=13, tgt_len=7)
    memory, mask = twin.encode(source), source != model.config.pad_id
    cache = twin.new_cache()
    assert isinstance(cache, Int8Cache)
    steps = torch.cat([twin.decode(target[:, i : i + 1], memory, mask, cache) for i in range(7)], dim=1)
    # Keys and values are kept in half precision, and a number at the edge of two steps falls to either side.
    wanted = twin(source, target)
    assert (steps - wanted).norm() / wanted.norm() < 0.03
    plain = model(source, target)
    assert (wanted - plain).norm() / plain.norm() < 0.1
    assert all(torch.equal(weight, weights[name]) for name, weight in model.state_dict().items())


@with_each_kind
@torch.inference_mode()
def test_rows_take_their_history_with_them():
    twin = in_int8(build(positions="rotary", **WIDTHS))
    torch.manual_seed(1)
    source, target = sentences(twin, rows=3, src_len=9, tgt_len=6)
    memory, mask = twin.encode(source), source != twin.config.pad_id
    alone, mixed = twin.new_cache(), twin.new_cache()
    wanted = [twin.decode(target[:, i : i + 1], memory, mask, alone) for i in range(6)]
    order = torch.arange(3)
    for step, wish in enumerate(wanted):
        found = twin.decode(target[order, step : step + 1], memory, mask, mixed)
        torch.testing.assert_close(found, wish[order], rtol=1e-5, atol=1e-5)
        # Doubled, then the middle sentence is done, then the order turns.
        chosen = [[0, 0, 1, 1, 2, 2], [0, 1, 4, 5], [3, 2, 1, 0], [0, 1], [1, 0], [0]][step]
        order = order[chosen]
        mixed.reorder(torch.tensor(chosen))


def test_odd_widths_and_other_processors_have_none(monkeypatch):
    assert not can_quantise(small_config())
    with pytest.raises(UsageError, match="--precision auto"):
        ready(build(), "int8")
    monkeypatch.setattr(int8_linear, "functions", None)
    model = build(**WIDTHS)
    assert not can_quantise(model.config)
    assert not isinstance(ready(model, "auto").new_cache(), Int8Cache)
