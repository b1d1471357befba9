"""Curves and heat maps: what they show, and that anything can be drawn."""

import html

import matplotlib as mpl
import numpy as np
import pytest

from dragoman.report import plot_attention, plot_curves, to_png, to_svg
from dragoman.report.pictures import MAX_POINTS
from tests.report.runs import attention_of, steps, validation

WORD = "</g><script>\"'&"


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


@pytest.mark.parametrize("count", [0, 1, 2, 29])
def test_curves_can_be_drawn_for_any_number_of_events(count):
    metrics = [*steps(count, loss=float("nan")), *map(validation, range(1, count, 7))]
    figure = plot_curves(metrics)
    assert len(figure.axes) == 4
    assert to_png(figure).startswith(b"\x89PNG")
    assert ("none yet" in to_svg(figure, "curves")) == (count < 2)


def test_words_are_drawn_as_they_are_and_not_as_formulas():
    source, target = ["$x^$", "5$", WORD, "</s>"], ["猫", "है", "\\frac", "</s>"]
    figure = plot_attention(attention_of([1, 0, 2, 3]), source, target, title="t")
    svg = html.unescape(to_svg(figure, "picture"))
    assert "<script" not in to_svg(figure, "picture")
    for word in source + target:
        assert word in svg
    assert to_png(figure).startswith(b"\x89PNG")


def test_an_endless_word_is_cut_instead_of_squeezing_the_picture():
    picture = to_svg(plot_attention(attention_of([1, 0]), ["x" * 101, "</s>"], ["y", "z"]), "a")
    assert "xxx…" in picture
    assert "x" * 21 not in picture


def test_drawing_changes_no_setting_of_matplotlib():
    before = dict(mpl.rcParams)
    to_svg(plot_curves(steps(5)), "curves")
    assert dict(mpl.rcParams) == before


def test_the_same_figure_has_the_same_bytes():
    assert to_svg(plot_curves(steps(5)), "a") == to_svg(plot_curves(steps(5)), "a")
