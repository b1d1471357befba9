"""Learning rates against numbers worked out by hand and torch's own."""

import math
from typing import get_args

import pytest
import torch
from torch import nn

from dragoman.config.training import TrainingConfig
from dragoman.training.optimizer import eager
from dragoman.training.schedule import learning_rate

SCHEDULES = get_args(TrainingConfig.model_fields["schedule"].annotation)


@pytest.mark.parametrize(
    ("step", "factor"),
    [(1, 1 / 4), (2, 1 / 2), (3, 3 / 4), (4, 1), (16, 1 / 2), (64, 1 / 4), (400, 0.1)],
)
def test_inverse_sqrt_rises_linearly_for_four_steps_and_then_falls(step: int, factor: float):
    rate = learning_rate(step, TrainingConfig(learning_rate=0.002, warmup=4, schedule="inverse_sqrt"))
    assert rate == pytest.approx(0.002 * factor, rel=1e-12)


@pytest.mark.parametrize("step", [1, 1999, 4000, 4001, 100_000])
def test_inverse_sqrt_is_equation_3_up_to_its_constant(step: int):
    equation = 512**-0.5 * min(step**-0.5, step * 4000**-1.5)
    peak = (512 * 4000) ** -0.5
    rate = learning_rate(step, TrainingConfig(learning_rate=peak, warmup=4000, schedule="inverse_sqrt"))
    assert rate == pytest.approx(equation, rel=1e-12)


def test_the_packaged_learning_rates_are_the_peaks_of_equation_3():
    """7e-4 for the base model and 5e-4 for the big one, as the recipes say."""
    assert math.isclose((512 * 4000) ** -0.5, 7e-4, rel_tol=0.01)
    assert math.isclose((1024 * 4000) ** -0.5, 5e-4, rel_tol=0.02)


def rates(schedule: str, steps: range, *, warmup: int, last_step: int | None = None) -> list[float]:
    config = TrainingConfig(schedule=schedule, learning_rate=0.003, warmup=warmup, max_steps=last_step)
    return [learning_rate(step, config, last_step) for step in steps]


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_every_schedule_warms_up_linearly(schedule: str):
    expected = [0.003 * step / 7 for step in range(1, 8)]
    assert rates(schedule, range(1, 8), warmup=7, last_step=29) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("schedule", ["constant", "plateau"])
def test_a_constant_rate_stays(schedule: str):
    assert rates(schedule, range(7, 999), warmup=7) == [0.003] * 992


def test_a_linear_rate_falls_by_the_same_at_each_step_and_is_0_after_the_last():
    found = rates("linear", range(4, 15), warmup=4, last_step=11)
    assert found == pytest.approx([0.003 * share / 8 for share in (8, 7, 6, 5, 4, 3, 2, 1, 0, 0, 0)], abs=1e-12)


def test_a_cosine_rate_is_that_of_torch():
    optimizer = eager(torch.optim.SGD)([nn.Parameter(torch.zeros(1))], lr=0.003)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=17)
    expected = []
    for _ in range(18):
        expected.append(scheduler.get_last_lr()[0])
        optimizer.step()
        scheduler.step()
    assert rates("cosine", range(5, 23), warmup=5, last_step=21) == pytest.approx(expected, abs=1e-12)
    assert rates("cosine", range(23, 31), warmup=5, last_step=21) == [0] * 8


def test_a_run_may_end_with_its_warm_up():
    assert rates("cosine", range(3, 5), warmup=3, last_step=3) == [0.003, 0]


def test_wsd_is_constant_until_the_last_share_of_the_steps_and_then_falls_to_0():
    config = TrainingConfig(schedule="wsd", learning_rate=0.003, warmup=2, decay=0.4)
    found = [learning_rate(step, config, 10) for step in range(1, 12)]
    assert found == pytest.approx([0.003 * share / 5 for share in (2.5, 5, 5, 5, 5, 5, 4, 3, 2, 1, 0)], abs=1e-12)
    assert [learning_rate(step, config) for step in (1, 2, 999)] == [0.0015, 0.003, 0.003]  # no end in sight
    assert learning_rate(8, config, 11, decay_from=7) == pytest.approx(0.003 * 4 / 5)


def test_a_decay_inside_the_warm_up_never_exceeds_either():
    config = TrainingConfig(schedule="wsd", learning_rate=0.003, warmup=8, decay=0.5)
    assert [learning_rate(step, config, 4, decay_from=2) for step in (1, 3, 4)] == pytest.approx(
        [0.003 / 8, 0.003 * 3 / 8, 0.003 * 1 / 3]
    )
