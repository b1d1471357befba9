"""The speed of a training is measured by real steps before the first one that counts."""

from pathlib import Path

import pytest

from dragoman.config.training import TrainingConfig
from dragoman.data.batching import TokenBatches
from dragoman.training import throughput
from dragoman.training.throughput import measure_throughput
from tests.training.runs import batches_of, small_model


class Clock:
    """Moves on by a fixed time whenever it is looked at."""

    def __init__(self, *, step: float):
        self.now, self.step = 0.0, step

    def __call__(self) -> float:
        self.now += self.step
        return self.now


def sentences(folder: Path, count: int, length: int) -> TokenBatches:
    """Pairs of equal length, of which batches have 100 tokens a side; the end of a sentence is one of its tokens."""
    return batches_of(folder, [([9] * (length - 1), [7] * (length - 1))] * count, max_tokens=100)


def test_tokens_of_gradients_and_the_time_of_an_update_make_the_throughput(tmp_path: Path) -> None:
    batches = sentences(tmp_path, 40, 10)  # ten pairs a batch, and so 200 tokens
    config = TrainingConfig(max_tokens=100, accumulate=3)
    measured = measure_throughput(small_model(), batches, config, seconds=2.0, clock=Clock(step=0.5))
    of_gradients = 4 * 200 / 2.0  # four batches at 0.5 s each, until two seconds have passed
    assert measured == pytest.approx(600 / (600 / of_gradients + 0.5))


def test_an_update_that_takes_long_is_made_once(tmp_path: Path) -> None:
    clock = Clock(step=1.5)
    config = TrainingConfig(max_tokens=100)
    measure_throughput(small_model(), sentences(tmp_path, 40, 10), config, seconds=1.0, clock=clock)
    assert clock.now == 1.5 * (2 + 2)  # a gradient after the first one, and one update


def test_large_batches_are_measured_in_parts_on_a_cpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(throughput, "TOKENS_PER_COPY", 35)
    sizes = []

    def compute(model, batch, **_):
        sizes.append(len(batch.labels))
        return float(batch.labels.numel()), batch.labels.numel()

    monkeypatch.setattr("dragoman.training.executors.loss_and_backward", compute)
    for length, count in ((10, 40), (100, 4)):
        batches = sentences(tmp_path, count, length)
        measure_throughput(small_model(), batches, TrainingConfig(max_tokens=100), seconds=1.0, clock=Clock(step=1.0))
    assert sizes == [3, 3, 1, 1]  # a sentence longer than a part is measured whole


def test_a_model_that_does_not_fit_has_no_throughput(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_, **__):
        raise MemoryError

    monkeypatch.setattr("dragoman.training.executors.loss_and_backward", fail)
    batches = sentences(tmp_path, 8, 10)
    config = TrainingConfig(max_tokens=100)
    assert measure_throughput(small_model(), batches, config, seconds=1.0, clock=Clock(step=1.0)) == 0


def test_several_processes_share_a_batch_and_each_updates_the_weights(tmp_path: Path) -> None:
    config = TrainingConfig(max_tokens=100)
    measured = measure_throughput(
        small_model(), sentences(tmp_path, 40, 10), config, ranks=4, seconds=2.0, clock=Clock(step=0.5)
    )
    of_gradients = 4 * 40 / 2.0  # a quarter of 100 target tokens are two pairs
    assert measured == pytest.approx(200 / (200 / (4 * of_gradients) + 0.5))


def test_the_moments_of_an_optimizer_may_not_fit_either(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_, **__):
        raise MemoryError

    monkeypatch.setattr(throughput, "build_optimizer", fail)
    config = TrainingConfig(max_tokens=100)
    assert (
        measure_throughput(small_model(), sentences(tmp_path, 8, 10), config, seconds=1.0, clock=Clock(step=1.0)) == 0
    )
