"""Copies that learn side by side: the gradient of the model alone, however many they are and whatever the model is."""

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from dragoman.data.batching import Batch
from dragoman.model import Transformer
from dragoman.model.loss import LossOptions
from dragoman.training.executors import TOKENS_PER_COPY, Executor, build_executor
from dragoman.training.loss import batch_loss, loss_and_backward
from tests.model.variants import VARIANTS, build

Gradients = dict[str, Tensor]
SMOOTHED = LossOptions(0, smoothing=0.1)
LEARN = partial(loss_and_backward, step_tokens=1, options=SMOOTHED)
LOOK = partial(loss_and_backward, step_tokens=0, options=LossOptions(0))

pytestmark = pytest.mark.usefixtures("two_threads")


@pytest.fixture
def copied() -> Iterator[Callable[..., Executor]]:
    """Makes executor, whose processes end with the test."""
    made = []

    def make(model: Transformer, precision: torch.dtype = torch.float32, copies: int = 2) -> Executor:
        made.append(build_executor(model, precision, SMOOTHED, max_tokens=copies * TOKENS_PER_COPY))
        assert copies == 1 or len(made[-1].copies) == copies
        return made[-1]

    yield make
    for executor in made:
        executor.close()


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
    loss, _ = batch_loss(model, batch, SMOOTHED)
    loss.backward()
    return loss.item(), gradients_of(model)


def side_by_side(executor: Executor, batch: Batch) -> tuple[float, Gradients]:
    executor.model.zero_grad()
    found = executor.run(LEARN, batch)
    assert sum(count for _, count in found) == int((batch.labels != 0).sum())
    return sum(loss for loss, _ in found), gradients_of(executor.model)


def assert_close(own: Gradients, theirs: Gradients) -> None:
    """Sums in another order: equal to a part in 10,000."""
    for name in theirs:
        torch.testing.assert_close(own[name], theirs[name], rtol=1e-4, atol=1e-5, msg=name)


# Every architecture by the way that it is least like the model alone, and the first one also by the other.
QUICK = ("pre-norm", "rotary", "swiglu", "shared-untied", "biased")


def variants(copies: int) -> list[Any]:
    return [
        pytest.param(choices, copies, id=f"{name}-{copies}", marks=[pytest.mark.slow] * (name not in QUICK))
        for name, choices in VARIANTS.items()
    ]


ONE_COPY, TWO_COPIES = variants(1), variants(2)


@pytest.mark.first_is_quick
@pytest.mark.parametrize(("choices", "copies"), [*TWO_COPIES, ONE_COPY[0]])
def test_gradients_are_those_of_the_model_alone(copied, choices: dict[str, Any], copies: int):
    model = build(**choices)
    expected, theirs = alone(model, a_batch(model))
    loss, own = side_by_side(copied(model, copies=copies), a_batch(model))
    assert loss == pytest.approx(expected, rel=1e-5)
    assert_close(own, theirs)


@pytest.mark.first_is_quick
@pytest.mark.parametrize(("choices", "copies"), [*ONE_COPY, TWO_COPIES[0]])
def test_in_bfloat16_gradients_point_the_same_way(copied, choices: dict[str, Any], copies: int):
    """8 bits a number: a loss to 1 %, the whole gradient to 8 % of its length, and float32 for the optimizer."""
    model = build(**choices)
    expected, theirs = alone(model, a_batch(model))
    loss, own = side_by_side(copied(model, torch.bfloat16, copies), a_batch(model))
    assert loss == pytest.approx(expected, rel=0.01)
    assert {gradient.dtype for gradient in own.values()} == {torch.float32}
    flat, flat_theirs = (torch.cat([gradients[name].flatten() for name in theirs]) for gradients in (own, theirs))
    assert (flat - flat_theirs).norm() < 0.08 * flat_theirs.norm()
    assert any(not torch.equal(own[name], theirs[name]) for name in theirs)


def test_gradients_of_several_batches_add_up(copied):
    model = build()
    batches = [a_batch(model), a_batch(model, rows=1), a_batch(model, rows=3)]
    theirs = [alone(model, batch)[1] for batch in batches]
    model.zero_grad()
    executor = copied(model)
    for batch in batches:
        executor.run(LEARN, batch)
    assert_close(gradients_of(model), {name: sum(part[name] for part in theirs) for name in theirs[0]})


@pytest.mark.first_is_quick
@pytest.mark.parametrize("precision", [torch.float32, torch.bfloat16])
def test_copies_compute_with_the_weights_that_the_model_has_now(copied, precision: torch.dtype):
    model = build()
    executor = copied(model, precision)
    batch = a_batch(model)
    before = sum(loss for loss, _ in executor.run(LOOK, batch))
    with torch.no_grad():
        for weight in model.parameters():
            weight.data = weight * 0.5  # new memory, as a moving average that is swapped in has
    after = sum(loss for loss, _ in executor.run(LOOK, batch))
    assert abs(after - before) > 0.01 * before
    assert after == pytest.approx(batch_loss(model, batch, LossOptions(0))[0].item(), rel=0.01)


def test_copies_have_their_weights_together(copied):
    executor = copied(build())
    for copy in executor.copies:
        for own, weight in zip(copy.model.parameters(), executor.weights, strict=True):
            assert own.data_ptr() == weight.data_ptr()


def rows_and_process(model: Transformer, part: Batch) -> tuple[int, int]:
    return len(part.labels), os.getpid()


def test_each_copy_has_a_process(copied):
    model = build()
    executor = copied(model)
    for _ in range(3):
        (rows, own), (other_rows, other) = executor.run(rows_and_process, a_batch(model))
        assert (rows, other_rows) == (4, 3)
        assert own == os.getpid() != other


def test_more_rows_than_one_are_needed_for_two_copies(copied):
    model = build()
    executor = copied(model)
    side_by_side(executor, a_batch(model))  # which leaves something behind
    expected, theirs = alone(model, a_batch(model, rows=1))
    loss, own = side_by_side(executor, a_batch(model, rows=1))
    assert loss == pytest.approx(expected)
    assert_close(own, theirs)
    assert executor.run(rows_and_process, a_batch(model, rows=1)) == [(1, os.getpid())]


def test_dropout_follows_from_the_seed_and_differs_between_copies(copied):
    model = build(dropout=0.5).train()
    executor = copied(model)
    batch = a_batch(model, rows=1)
    twice = Batch(*(ids.repeat(2, 1) for ids in (batch.source_ids, batch.target_ids, batch.labels)))
    found = [executor.run(LOOK, twice, seed=seed) for seed in (5, 5, 6)]
    assert found[0] == found[1] != found[2]
    assert found[0][0] != found[0][1]


def test_where_processes_cannot_be_forked_threads_do_the_same(copied, monkeypatch: pytest.MonkeyPatch):
    model = build(dropout=0.5).train()
    found, apart = copied(model).run(LEARN, a_batch(model), seed=7), gradients_of(model)
    model.zero_grad()
    monkeypatch.setattr(sys, "platform", "darwin")
    executor = copied(model)
    assert {process for _, process in executor.run(rows_and_process, a_batch(model))} == {os.getpid()}
    assert executor.run(LEARN, a_batch(model), seed=7) == found
    for name, gradient in gradients_of(model).items():
        assert torch.equal(gradient, apart[name])


def wanted(model: Transformer, part: Batch) -> bool:
    return torch.is_grad_enabled()


def test_gradients_are_wanted_where_the_caller_wants_them(copied):
    model = build()
    executor = copied(model)
    with torch.no_grad():
        assert executor.run(wanted, a_batch(model)) == [False, False]
    assert executor.run(wanted, a_batch(model)) == [True, True]


def break_off(model: Transformer, part: Batch, *, rows: int, ended: Path) -> None:
    """The copy with so many rows has not enough memory, after the gradient; the other takes its time."""
    LEARN(model, part)
    if len(part.labels) == rows:
        raise MemoryError("in one copy")
    time.sleep(0.3)
    ended.touch()


@pytest.mark.slow
@pytest.mark.parametrize("rows", [4, 3])
def test_an_error_of_any_copy_reaches_the_caller_after_all_have_ended(copied, tmp_path: Path, rows: int):
    model = build()
    _, theirs = alone(model, a_batch(model))
    executor, ended = copied(model), tmp_path / "ended"
    with pytest.raises(MemoryError, match="in one copy"):
        executor.run(partial(break_off, rows=rows, ended=ended), a_batch(model))
    assert ended.exists()
    assert torch.get_num_threads() == 2
    assert_close(side_by_side(executor, a_batch(model))[1], theirs)


def die(model: Transformer, part: Batch, *, parent: int) -> tuple[float, int]:
    if os.getpid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)
    return LEARN(model, part)


@pytest.mark.slow
def test_what_a_killed_copy_should_have_done_is_done_here_from_then_on(copied):
    model = build(dropout=0.5).train()
    expected, theirs = copied(model).run(LEARN, a_batch(model), seed=7), gradients_of(model)
    warnings = []
    executor = build_executor(model, torch.float32, SMOOTHED, max_tokens=2 * TOKENS_PER_COPY, warn=warnings.append)
    for compute in (partial(die, parent=os.getpid()), LEARN):
        model.zero_grad()
        assert executor.run(compute, a_batch(model), seed=7) == expected
        for name, gradient in gradients_of(model).items():
            assert torch.equal(gradient, theirs[name])
    assert len(warnings) == 1
    assert "goes on in one process" in warnings[0]
    assert {process for _, process in executor.run(rows_and_process, a_batch(model))} == {os.getpid()}
    assert torch.get_num_threads() == 2


def test_copies_that_cannot_be_forked_are_no_end(monkeypatch: pytest.MonkeyPatch):
    model = build()
    _, theirs = alone(model, a_batch(model))
    warnings, fork, forked = [], os.fork, []

    def seldom() -> int:
        if forked:
            raise BlockingIOError(11, "Resource temporarily unavailable")
        forked.append(fork())
        return forked[0]

    monkeypatch.setattr(os, "fork", seldom)
    torch.set_num_threads(3)
    executor = build_executor(model, torch.float32, SMOOTHED, max_tokens=3 * TOKENS_PER_COPY, warn=warnings.append)
    assert_close(side_by_side(executor, a_batch(model))[1], theirs)
    assert len(forked) == 1
    assert "temporarily unavailable" in warnings[0]
    os.waitpid(forked[0], 0)  # it ends
