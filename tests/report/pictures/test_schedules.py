"""Schedules: the plotted rates are those that training would set."""

import numpy as np
import pytest

from dragoman.config.training import TrainingConfig
from dragoman.errors import UsageError
from dragoman.report.pictures import example_schedules, plot_schedules, read_curve
from dragoman.report.pictures.schedules import SCHEDULES
from dragoman.training.schedule import learning_rate


def line_of(config: TrainingConfig, steps: int):
    (axes,) = plot_schedules({"Rate": {"own": config}}, steps=steps).axes
    (line,) = axes.lines
    return line


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_line_is_what_training_does_at_every_step(schedule):
    config = TrainingConfig(schedule=schedule, learning_rate=0.003, warmup=7, max_steps=31)
    expected = [(step, learning_rate(step, config, last_step=31)) for step in range(1, 42)]
    np.testing.assert_allclose(line_of(config, 41).get_xydata(), expected)


def test_the_peak_of_a_long_line_is_not_lost_between_points():
    config = TrainingConfig(learning_rate=0.003, warmup=12_347)
    x, y = line_of(config, 1_000_003).get_data()
    assert x[y.argmax()] == 12_347
    assert y.max() == pytest.approx(0.003)
    assert (x[0], x[-1]) == (1, 1_000_003)


def test_without_curves_the_paper_stands_beside_all_schedules():
    figure = plot_schedules(example_schedules(20_000), steps=20_000)
    paper, every = figure.axes
    assert [line.get_label() for line in every.lines] == list(SCHEDULES)
    # Equation 3 of the paper, for the three lines that "The Annotated Transformer" draws.
    for line, (d_model, warmup) in zip(paper.lines, ((512, 4000), (512, 8000), (256, 4000)), strict=True):
        assert line.get_label() == f"d_model {d_model}, warm-up {warmup:,}"
        for step, rate in line.get_xydata()[::50]:
            assert rate == pytest.approx(d_model**-0.5 * min(step**-0.5, step * warmup**-1.5))


def test_a_curve_is_read_from_settings():
    curve = read_curve("schedule=inverse_sqrt,warmup=17,learning_rate=2e-3", steps=101)
    assert (curve.schedule, curve.warmup, curve.learning_rate, curve.max_steps) == ("inverse_sqrt", 17, 0.002, 101)
    assert read_curve("max_steps=53", steps=101).max_steps == 53
    assert read_curve("warmup=25,d_model=64", steps=101).learning_rate == pytest.approx(1 / 8 / 5)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("warm=3", "`warm=3` in `warm=3` is no setting of a schedule"),
        ("warmup", "no setting of a schedule"),
        ("", "no setting of a schedule"),
        ("betas=[0.1, 0.2]", "no setting of a schedule"),
        ("warmup=0", "`training.warmup` is 0"),
        ("schedule=sine", "`training.schedule` is 'sine'"),
        ("d_model=0", "whole number from 1"),
        ("d_model=x", "whole number from 1"),
        ("d_model=3,learning_rate=1e-3", "give one of them"),
    ],
)
def test_a_curve_that_cannot_be_drawn_is_refused_in_a_sentence(text, problem):
    with pytest.raises(UsageError) as caught:
        read_curve(text, steps=101)
    assert problem in str(caught.value)
    assert "\n" not in str(caught.value)
