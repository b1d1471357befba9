"""Curves: what they show, and that any run can be drawn."""

import numpy as np
import pytest

from dragoman.report.pictures import OVERLAYS, plot_curves, plot_runs, to_svg
from dragoman.report.pictures.curves import MAX_POINTS
from dragoman.report.pictures.style import COLORS, FIRST, SECOND
from tests.report.pictures.legibility import drawn
from tests.report.runs import steps, validation


def lines(metrics: list[dict], panel: str) -> dict[str, np.ndarray]:
    axes = plot_curves(metrics, [panel]).axes[0]
    return {line.get_label(): line.get_xydata() for line in axes.lines}


def test_curves_show_what_was_reported():
    metrics = [*steps(13), validation(5), validation(13)]
    metrics += [{"event": "average", "steps": [5, 13], "better": True, "bleu": 17.0}]
    loss = lines(metrics, "loss")
    np.testing.assert_allclose(loss["training"], [(i, 7 / i) for i in range(1, 14)])
    np.testing.assert_allclose(loss["validation"], [(5, 3), (13, 3)])
    scores = lines(metrics, "validation scores")
    np.testing.assert_allclose(scores["BLEU"], [(5, 11.05), (13, 11.13)])
    np.testing.assert_allclose(scores["BLEU, averaged"], [(13, 17)])


def test_the_interval_of_a_score_is_a_band_around_its_curve():
    metrics = [validation(5, intervals={"bleu": [9.0, 13.0]}), validation(13, intervals={"bleu": [10.0, 12.5]})]
    alone, beside_others = plot_curves(metrics, ["validation scores"]), plot_runs({"a": metrics}, ["validation BLEU"])
    for axes in (alone.axes[0], beside_others.axes[0]):
        (band,) = axes.collections
        corners = {tuple(corner) for corner in band.get_paths()[0].vertices.round(3)}
        assert corners == {(5, 9), (5, 13), (13, 10), (13, 12.5)}
    assert not plot_curves([validation(5)], ["validation scores"]).axes[0].collections


def test_a_long_curve_is_the_mean_of_neighbours():
    count = 7 * MAX_POINTS
    shown = lines([*steps(count)], "learning rate")
    points = next(iter(shown.values()))
    assert len(points) == MAX_POINTS
    np.testing.assert_allclose(points[1], (np.mean(range(8, 15)), 1e-3 * np.mean(range(8, 15))))


def test_the_speed_is_that_of_training_without_the_pauses_of_validation():
    metrics = steps(31)
    for event in metrics[15:]:
        event["seconds"] += 60  # a validation after the fifteenth step
    speed = next(iter(lines(metrics, "training speed").values()))[:, 1]
    np.testing.assert_allclose(speed, 700 / 7)


@pytest.mark.first_is_quick
@pytest.mark.parametrize("count", [0, 1, 2, 29])
def test_curves_can_be_drawn_for_any_number_of_events(count):
    metrics = [*steps(count, loss=float("nan")), *map(validation, range(1, count, 7))]
    figure = plot_curves(metrics)
    assert len(figure.axes) == 4
    assert figure.to_png(dpi=50).startswith(b"\x89PNG")
    assert ("none yet" in to_svg(figure, "curves")) == (count < 2)


def test_runs_are_drawn_over_each_other_each_with_its_name():
    runs = {"first": [*steps(31), *map(validation, range(1, 31, 4))], "second": [*steps(13), validation(7)], "new": []}
    figure = plot_runs(runs, list(OVERLAYS))
    for axes, panel in zip(figure.axes, OVERLAYS, strict=True):
        assert axes.get_title(loc="left").lower() == panel.lower()
        assert [line.get_color() for line in axes.lines] == [FIRST, SECOND]
    shown = {axes.get_title(loc="left"): [line.get_xydata() for line in axes.lines] for axes in figure.axes}
    np.testing.assert_allclose(shown["Training loss"][1], [(i, 7 / i) for i in range(1, 14)])
    np.testing.assert_allclose(shown["Validation loss"][1], [(7, 3)])
    np.testing.assert_allclose(shown["Validation BLEU"][0], [(i, 11 + i / 100) for i in range(1, 31, 4)])
    np.testing.assert_allclose(shown["Learning rate"][1], [(i, 1e-3 * i) for i in range(1, 14)])
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == list(runs)
    assert [line.get_color() for line in legend.get_lines()] == list(COLORS[:3])


def test_time_is_read_from_the_steps():
    (axes,) = plot_runs({"a": [*steps(31), validation(10), validation(30)]}, ["validation BLEU in time"]).axes
    np.testing.assert_allclose(axes.lines[0].get_xdata(), [10 * 7 / 60, 30 * 7 / 60])
    (axes,) = plot_runs({"a": [*steps(5), validation(3), validation(5)]}, ["validation BLEU in time"]).axes
    labels = [label.get_text() for label in drawn(axes.figure).axes[0].get_xticklabels()]
    assert len(set(labels)) == len(labels)  # also of times below a minute


def test_a_validation_before_any_step_has_no_time():
    (axes,) = plot_runs({"a": [validation(1)]}, ["validation BLEU in time"]).axes
    assert not axes.lines
