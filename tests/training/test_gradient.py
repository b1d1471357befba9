"""Batches that do not fit in memory: halved with the gradient of the whole, pairs left out, nothing counted twice."""

import contextlib
import gc
import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from dragoman.data.batching import Batch
from dragoman.errors import ResourceError
from dragoman.model import Transformer
from dragoman.training import executors
from dragoman.training.executors import TOKENS_PER_COPY, out_of_memory
from dragoman.training.loss import loss_and_backward
from dragoman.training.trainer import Trainer
from tests.storage.crashes import in_child
from tests.training.runs import Runs, computing_model, equal, random_pairs, small_model, weights_of
from tests.training.test_trainer import Fixed, step_with_gradients

MORE_THAN_THERE_IS = 2**60  # bytes; no processor addresses as many


@pytest.fixture
def runs(tmp_path: Path) -> Runs:
    return Runs(tmp_path)


def no_memory_on_a_cpu() -> None:
    torch.empty(MORE_THAN_THERE_IS, dtype=torch.uint8)


def no_memory_on_a_gpu() -> None:
    raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")


def no_memory_in_python() -> None:
    raise MemoryError


def fails_above(trainer: Trainer, rows: int, fail: Callable[[], None]) -> list[int]:
    """Let `fail` run on batches of more pairs than `rows`; the list returned grows by the pairs of each attempt."""
    attempts, compute = [], trainer.executor.loss

    def loss(batch: Batch, **options: Any) -> tuple[float, int]:
        attempts.append(len(batch.labels))
        if len(batch.labels) > rows:
            fail()
        return compute(batch, **options)

    trainer.executor.loss = loss
    return attempts


def trainer_of(runs: Runs, rows: list[list[int]], **choices: float) -> Trainer:
    """Without dropout, for which parts draw other numbers than the whole."""
    pairs = runs.batches("pairs", random_pairs(29, seed=101), max_tokens=997)
    fixed = {"model": small_model(dropout=0.0), "batches": Fixed(pairs, rows), "clip_norm": 0.0}
    return runs.trainer(**(fixed | {"accumulate": len(rows)} | choices))[0]


WHOLE = [list(range(13)), list(range(13, 20))]


@pytest.mark.first_is_quick
@pytest.mark.parametrize("fail", [no_memory_on_a_cpu, no_memory_on_a_gpu, no_memory_in_python])
@pytest.mark.parametrize("r_drop", [0.0, 2.0])
def test_a_batch_that_does_not_fit_is_halved_with_the_same_gradient(runs: Runs, fail, r_drop: float):
    """Sums in another order: equal to 1e-6 of the longest component, or a part in 10,000."""
    expected_metrics, expected = step_with_gradients(trainer_of(runs, WHOLE, r_drop=r_drop))
    trainer = trainer_of(runs, WHOLE, r_drop=r_drop)
    attempts = fails_above(trainer, 4, fail)
    metrics, gradients = step_with_gradients(trainer)
    assert attempts[:2] == [13, 7]
    assert sorted(attempts[-6:]) == [3, 3, 3, 3, 4, 4]  # the last attempt: halves of halves, all 20 pairs
    for name in expected:
        torch.testing.assert_close(gradients[name], expected[name], rtol=1e-4, atol=1e-6, msg=name)
    assert metrics["loss"] == pytest.approx(expected_metrics["loss"], rel=1e-5)
    assert metrics["tokens"] == expected_metrics["tokens"]


def scarce(model: Transformer, part: Batch, *, parent: int, **options: Any) -> tuple[float, int]:
    """Only in another process there is no memory for more than two pairs."""
    if os.getpid() != parent and len(part.labels) > 2:
        no_memory_on_a_cpu()
    return loss_and_backward(model, part, **options)


@pytest.mark.slow
@pytest.mark.usefixtures("two_threads")
def test_a_batch_that_does_not_fit_into_another_process_is_halved_too(runs: Runs, monkeypatch: pytest.MonkeyPatch):
    _, expected = step_with_gradients(trainer_of(runs, WHOLE, max_tokens=TOKENS_PER_COPY))  # here alone
    monkeypatch.setattr(executors, "loss_and_backward", partial(scarce, parent=os.getpid()))
    trainer = trainer_of(runs, WHOLE, max_tokens=2 * TOKENS_PER_COPY)
    _, gradients = step_with_gradients(trainer)
    trainer.executor.close()
    assert trainer.progress.too_large is not None
    for name in expected:
        torch.testing.assert_close(gradients[name], expected[name], rtol=1e-4, atol=1e-6, msg=name)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="limits memory by /proc")
def test_a_batch_beyond_the_memory_of_the_process_is_halved_with_the_same_gradient(runs: Runs, tmp_path: Path):
    """The inner layer has 67 MB for 32 pairs of 64 tokens, and several times as much for its gradient."""
    import resource  # not on Windows

    pairs = runs.batches("wide", [([5 + number % 7] * 63, [6] * 63) for number in range(32)], max_tokens=4096)

    def trainer() -> Trainer:
        return runs.trainer(model=small_model(dropout=0.0, d_ff=8192), batches=Fixed(pairs, [list(range(32))]))[0]

    def step() -> None:
        torch.set_num_threads(1)  # others do not survive a fork
        gc.collect()
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        hard = resource.getrlimit(resource.RLIMIT_AS)[1]
        resource.setrlimit(resource.RLIMIT_AS, (used, hard))
        freed_by_other_tests = []  # filled, or it would be room beyond the limit
        with contextlib.suppress(MemoryError):
            while True:
                freed_by_other_tests.append(bytearray(2**20))
        resource.setrlimit(resource.RLIMIT_AS, (used + 200 * 2**20, hard))
        limited = trainer()
        attempts = fails_above(limited, 32, no_memory_in_python)
        torch.save((attempts, step_with_gradients(limited)[1]), tmp_path / "found")

    assert in_child(step) == 0
    attempts, found = torch.load(tmp_path / "found", weights_only=True)
    assert attempts[:2] == [32, 16]
    assert max(attempts[2:]) <= 16
    for name, expected in step_with_gradients(trainer())[1].items():
        torch.testing.assert_close(found[name], expected, rtol=1e-4, atol=1e-6, msg=name)


def test_what_a_broken_backward_pass_added_is_not_counted_twice(runs: Runs):
    """Memory runs out after the gradients of the last layers are there, in the second of two batches."""
    _, expected = step_with_gradients(trainer_of(runs, WHOLE))
    trainer = trainer_of(runs, WHOLE)
    added = []

    def fail_once(parameter: Tensor) -> None:
        added.append(computing_model(trainer).decoder.norm.gain.grad is not None)
        if len(added) == 2:
            no_memory_on_a_gpu()

    computing_model(trainer).encoder.layers[0].feed_forward.inner.weight.register_post_accumulate_grad_hook(fail_once)
    _, gradients = step_with_gradients(trainer)
    assert added[:2] == [True, True]
    assert len(added) == 2 + 4  # both batches, then the halves of both, as the first is the larger one
    for name in expected:
        torch.testing.assert_close(gradients[name], expected[name], rtol=1e-4, atol=1e-6, msg=name)


@pytest.mark.slow
def test_as_large_a_batch_is_halved_at_once_the_next_time(runs: Runs):
    trainer, watcher = runs.trainer(batches=runs.batches("large", random_pairs(97, seed=7), max_tokens=97))
    compute, failed, whole = trainer.executor.loss, [], 0

    def loss(batch: Batch, **options: Any) -> tuple[float, int]:
        nonlocal whole
        tokens = batch.source_ids.numel() + batch.labels.numel()
        if tokens > 83:
            failed.append(tokens)
            no_memory_on_a_cpu()
        whole += 1
        return compute(batch, **options)

    trainer.executor.loss = loss
    for _ in range(13):
        trainer.train_step()
    assert failed == sorted(set(failed), reverse=True)  # each smaller than all before
    assert 1 <= len(failed) < 13 / 2
    assert whole > 13 + len(failed)
    assert trainer.progress.state_dict()["too_large"] == failed[-1]
    warned = [event["text"] for event in watcher.of("warning")]
    assert 1 <= len(warned) <= len(failed)
    assert all("training.max_tokens than 4,096" in text for text in warned)


def test_a_pair_that_does_not_fit_alone_is_left_out_and_the_others_weigh_as_if_it_were_not(runs: Runs):
    """Pair 5 is the only one with 7 target tokens."""
    rows = [0, 1, 2, 3, 4, 5]
    pairs = runs.batches("lengths", [([5] * n, [6] * n) for n in (1, 2, 3, 2, 4, 6)], max_tokens=997)

    def trainer(rows: list[int]) -> tuple:
        batches = Fixed(pairs, [rows])
        return runs.trainer(model=small_model(dropout=0.0), batches=batches, clip_norm=0.0)

    expected_metrics, expected = step_with_gradients(trainer(rows[:5])[0])
    short, watcher = trainer(rows)
    compute = short.executor.loss

    def loss(batch: Batch, **options: Any) -> tuple[float, int]:
        if int((batch.labels != 0).sum(1).max()) == 7:
            no_memory_on_a_cpu()
        return compute(batch, **options)

    short.executor.loss = loss
    metrics, gradients = step_with_gradients(short)
    for name in expected:
        torch.testing.assert_close(gradients[name], expected[name], rtol=1e-4, atol=1e-6, msg=name)
    assert metrics["loss"] == pytest.approx(expected_metrics["loss"], rel=1e-5)
    assert metrics["tokens"] == expected_metrics["tokens"]
    assert short.progress.left_out == 1
    assert any("left out" in event["text"] for event in watcher.of("warning"))


def test_a_step_of_which_nothing_fits_changes_nothing_and_the_run_goes_on(runs: Runs):
    trainer, watcher = runs.trainer(max_steps=6)
    before, fail = weights_of(trainer.model), trainer.executor.loss

    def loss(batch: Batch, **options: Any) -> tuple[float, int]:
        if trainer.progress.step <= 5 and trainer.model.training:
            no_memory_on_a_cpu()
        return fail(batch, **options)

    trainer.executor.loss = loss
    for _ in range(5):
        assert trainer.train_step() is None
    assert equal(weights_of(trainer.model), before)
    assert trainer.progress.bad_steps == 0
    assert trainer.train() == "6 steps"
    assert [event["step"] for event in watcher.of("step")] == [6]
    assert not equal(weights_of(trainer.model), before)


def test_a_model_too_large_for_any_pair_gives_up(runs: Runs):
    trainer, _ = runs.trainer(max_steps=50, validate_every=100)
    fails_above(trainer, 0, no_memory_on_a_cpu)
    with pytest.raises(ResourceError, match="first 10 batches"):
        trainer.train()


def test_other_errors_are_not_taken_for_a_lack_of_memory(runs: Runs):
    trainer, _ = runs.trainer()

    def fail() -> None:
        raise RuntimeError("mat1 and mat2 shapes cannot be multiplied (2x3 and 5x7)")

    attempts = fails_above(trainer, 0, fail)
    with pytest.raises(RuntimeError, match="mat1"):
        trainer.train_step()
    assert len(attempts) == 1


@pytest.mark.parametrize(
    ("message", "memory"),
    [
        ("CUDA out of memory. Tried to allocate 2.00 GiB.", True),
        ("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`", True),
        ("could not create a primitive", True),
        ("could not create a primitive descriptor for a matmul primitive", False),
        ("CUDA error: device-side assert triggered", False),
    ],
)
def test_what_torch_says_when_memory_runs_out(message: str, memory: bool):
    assert out_of_memory(RuntimeError(message)) is memory


def test_parts_are_dropped_differently(runs: Runs):
    """Twice the same pair, halved: with the same mask for both the mean would be that of one."""
    gradients = []
    for rows, most in (([[3]], 1), ([[3, 3]], 1)):
        trainer = trainer_of(runs, rows, model=small_model(dropout=0.5))
        fails_above(trainer, most, no_memory_on_a_cpu)
        gradients.append(step_with_gradients(trainer)[1])
    name = "decoder.layers.0.feed_forward.outer.weight"
    assert not np.allclose(gradients[0][name], gradients[1][name], rtol=0.01)
