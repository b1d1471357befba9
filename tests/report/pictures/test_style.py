"""Every picture can be read, looks like the others, and shows itself in notebooks."""

import struct

import matplotlib as mpl
import pytest
from matplotlib.colors import to_hex

from dragoman.report.pictures import to_svg
from dragoman.report.pictures.picture import CSS_DPI
from dragoman.report.pictures.style import COLORS, INK, line_style
from tests.report.pictures.examples import EXAMPLES
from tests.report.pictures.legibility import (
    clipped_texts,
    drawn,
    overlapping_tick_labels,
    shown_texts,
    small_texts,
    tick_labels,
)

LARGE = ("mask of 200", "long example mask", "many steps of a schedule", "heads of a long sentence", "heads of a word")


@pytest.mark.first_is_quick
@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.slow] * (name in LARGE)) for name in EXAMPLES])
def test_every_text_is_whole_large_enough_and_apart_from_its_neighbours(name):
    figure = drawn(EXAMPLES[name]())
    assert clipped_texts(figure) == []
    assert overlapping_tick_labels(figure) == []
    assert small_texts(figure) == []
    assert {to_hex(text.get_color()) for text in shown_texts(figure)} == {INK}
    for axes in figure.axes:
        # A colour bar has no second axis, and rows that stand side by side are named once.
        first = axes.get_subplotspec() is None or axes.get_subplotspec().is_first_col()
        assert axes.get_xlabel() or not tick_labels(axes.xaxis)
        assert axes.get_ylabel() or not tick_labels(axes.yaxis) or not first


def test_lines_differ_in_colour_and_every_other_one_is_dashed_above_the_rest():
    styles = [line_style(number) for number in range(2 * len(COLORS))]
    assert len({(style["color"], style["linestyle"]) for style in styles}) == len(styles)
    assert len({style["color"] for style in styles[: len(COLORS)]}) == len(COLORS)
    for number in range(len(COLORS) - 1):
        solid, dashed = sorted(styles[number : number + 2], key=lambda style: style["linestyle"] != "-")
        assert (solid["linestyle"], dashed["linestyle"] != "-") == ("-", True)
        assert dashed["zorder"] > solid["zorder"]


def test_a_notebook_is_given_a_sharp_picture_of_its_natural_size():
    figure = EXAMPLES["split"]()
    png, shown = figure._repr_png_()
    width, height = struct.unpack(">II", png[16:24])  # of the header chunk
    inches = figure.get_size_inches()
    assert (shown["width"], shown["height"]) == tuple(round(CSS_DPI * side) for side in inches)
    assert (width, height) == pytest.approx((2 * shown["width"], 2 * shown["height"]), abs=2)


@pytest.mark.slow
def test_drawing_changes_no_setting_of_matplotlib():
    before = dict(mpl.rcParams)
    EXAMPLES["heads"]().to_png(dpi=20)
    to_svg(EXAMPLES["curves"](), "curves")
    assert dict(mpl.rcParams) == before
