"""Copies that learn side by side: the gradient of the model alone, however many they are and whatever the model is."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from dragoman.data.batching import Batch
from dragoman.model import Transformer
from dragoman.training.gradient import batch_loss
from dragoman.training.replicas import SHARE, Replicas
from tests.model.variants import VARIANTS, build

Gradients = dict[str, Tensor]


@pytest.fixture(autouse=True)
def two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def a_batch(model: Transformer, *, rows: int = 7) -> Batch:
    """Rows of all lengths, filled up with padding."""
    generator = torch.Generator().manual_seed(3)
    source = torch.randint(4, model.config.source_vocab_size, (rows, 11), generator=generator)
    target = torch.randint(4, model.config.target_vocab_size, (rows, 14), generator=generator)
    for row in range(rows):
        source[row, 1 + row :], target[row, 2 + 2 * row :] = 0, 0
    return Batch(source, target[:, :-1], target[:, 1:])


def gradients_of(model: Transformer) -> Gradients:
    return {name: weight.grad.clone() for name, weight in model.named_parameters()}


def alone(model: Transformer, batch: Batch) -> tuple[float, Gradients]:
    """The readable way: one model, one pass, in float32."""
    model.zero_grad()
    loss, _ = batch_loss(model, batch, pad_id=0, smoothing=0.1)
    loss.backward()
    return loss.item(), gradients_of(model)


def side_by_side(model: Transformer, batch: Batch, precision: torch.dtype, copies: int) -> tuple[float, Gradients]:
    model.zero_grad()
    replicas = Replicas(model, precision, max_tokens=copies * SHARE)
    assert len(replicas.models) == copies

    def compute(model: Transformer, part: Batch) -> float:
        loss, _ = batch_loss(model, part, pad_id=0, smoothing=0.1)
        loss.backward()
        return loss.item()

    losses = replicas.map(compute, batch)
    assert len(losses) == min(copies, len(batch.labels))
    replicas.collect_gradients()
    return sum(losses), gradients_of(model)


@pytest.mark.parametrize("copies", [1, 2])
@pytest.mark.parametrize("choices", VARIANTS.values(), ids=VARIANTS)
def test_gradients_are_those_of_the_model_alone(choices: dict[str, Any], copies: int):
    """Sums in another order: equal to a part in 10,000."""
    model = build(**choices)
    expected, theirs = alone(model, a_batch(model))
    loss, own = side_by_side(model, a_batch(model), torch.float32, copies)
    assert loss == pytest.approx(expected, rel=1e-5)
    for name in theirs:
        torch.testing.assert_close(own[name], theirs[name], rtol=1e-4, atol=1e-5, msg=name)


@pytest.mark.parametrize("copies", [1, 2])
@pytest.mark.parametrize("choices", VARIANTS.values(), ids=VARIANTS)
def test_in_bfloat16_gradients_point_the_same_way(choices: dict[str, Any], copies: int):
    """8 bits a number: a loss to 1 %, the whole gradient to 8 % of its length, and float32 for the optimizer."""
    model = build(**choices)
    expected, theirs = alone(model, a_batch(model))
    loss, own = side_by_side(model, a_batch(model), torch.bfloat16, copies)
    assert loss == pytest.approx(expected, rel=0.01)
    assert {each.dtype for each in own.values()} == {torch.float32}
    flat, flat_theirs = (torch.cat([each[name].flatten() for name in theirs]) for each in (own, theirs))
    assert (flat - flat_theirs).norm() < 0.08 * flat_theirs.norm()
    assert any(not torch.equal(own[name], theirs[name]) for name in theirs)


@pytest.mark.parametrize("precision", [torch.float32, torch.bfloat16])
def test_copies_compute_with_the_weights_that_the_model_has_now(precision: torch.dtype):
    model = build()
    replicas = Replicas(model, precision, max_tokens=2 * SHARE)
    batch = a_batch(model)

    def compute(model: Transformer, part: Batch) -> float:
        return batch_loss(model, part, pad_id=0)[0].item()

    before = sum(replicas.map(compute, batch))
    with torch.no_grad():
        for weight in model.parameters():
            weight.data = weight * 0.5  # new memory, as a moving average that is swapped in has
    after = sum(replicas.map(compute, batch))
    assert abs(after - before) > 0.01 * before
    assert after == pytest.approx(batch_loss(model, batch, pad_id=0)[0].item(), rel=0.01)


def test_copies_take_no_memory_for_weights_that_they_share():
    model = build()
    replicas = Replicas(model, torch.float32, max_tokens=2 * SHARE)
    for each in replicas.models:
        for own, weight in zip(each.parameters(), model.parameters(), strict=True):
            assert own.data_ptr() == weight.data_ptr()


def test_more_rows_than_one_are_needed_for_two_copies():
    model = build()
    expected, _ = alone(model, a_batch(model, rows=1))
    assert side_by_side(model, a_batch(model, rows=1), torch.float32, 1)[0] == pytest.approx(expected)
    replicas = Replicas(model, torch.float32, max_tokens=2 * SHARE)
    assert replicas.map(lambda model, part: len(part.labels), a_batch(model, rows=1)) == [1]


def test_dropout_follows_from_the_seed_and_differs_between_copies():
    model = build(dropout=0.5).train()
    replicas = Replicas(model, torch.float32, max_tokens=2 * SHARE)
    batch = a_batch(model, rows=1)
    twice = Batch(*(ids.repeat(2, 1) for ids in (batch.source_ids, batch.target_ids, batch.labels)))

    def compute(model: Transformer, part: Batch) -> float:
        return batch_loss(model, part, pad_id=0)[0].item()

    found = []
    for seed in (5, 5, 6):
        replicas.seed(seed)
        found.append(replicas.map(compute, twice))
    assert found[0] == found[1] != found[2]
    assert found[0][0] != found[0][1]


def test_gradients_are_wanted_where_the_caller_wants_them():
    model = build()
    replicas = Replicas(model, torch.float32, max_tokens=2 * SHARE)
    with torch.no_grad():
        assert replicas.map(lambda model, part: torch.is_grad_enabled(), a_batch(model)) == [False, False]
    assert replicas.map(lambda model, part: torch.is_grad_enabled(), a_batch(model)) == [True, True]


@pytest.mark.parametrize("place", [0, 1])
def test_an_error_of_any_copy_reaches_the_caller_after_all_have_ended(place: int):
    model = build()
    replicas = Replicas(model, torch.float32, max_tokens=2 * SHARE)
    ended = []

    def compute(model: Transformer, part: Batch) -> None:
        if model is replicas.models[place]:
            raise MemoryError("in one copy")
        ended.append(model)

    with pytest.raises(MemoryError, match="in one copy"):
        replicas.map(compute, a_batch(model))
    assert ended == [replicas.models[1 - place]]
    assert torch.get_num_threads() == 2
