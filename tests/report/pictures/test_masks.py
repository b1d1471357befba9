"""Masks: each cell is what the model's own mask says."""

import numpy as np
import pytest

from dragoman.errors import UsageError
from dragoman.model.attention import causal_mask
from dragoman.report.pictures import plot_causal_mask, plot_example_mask
from dragoman.report.pictures.masks import MOST_WORDS


def cells(axes) -> np.ndarray:
    return axes.collections[0].get_array().astype(bool)


@pytest.mark.parametrize("length", [1, 7, 53])
def test_the_look_ahead_mask_is_that_of_the_model_with_row_0_on_top(length):
    (axes,) = plot_causal_mask(length).axes
    np.testing.assert_array_equal(cells(axes), causal_mask(length).numpy())
    bottom, top = axes.get_ylim()
    assert bottom > top


def test_true_has_the_colour_that_the_legend_gives_it():
    figure = plot_causal_mask(2)
    (mesh,) = figure.axes[0].collections
    mesh.update_scalarmappable()
    shown = mesh.get_facecolors().reshape(2, 2, 4)
    colors = {text.get_text()[:4]: patch.get_facecolor() for text, patch in legend(figure)}
    assert tuple(shown[1, 0]) == colors["True"]
    assert tuple(shown[0, 1]) == colors["Fals"]
    assert colors["True"] != colors["Fals"]


def legend(figure):
    (only,) = figure.legends
    return zip(only.get_texts(), only.get_patches(), strict=True)


def test_a_sentence_with_padding_may_see_neither_the_future_nor_padding():
    figure = plot_example_mask(["I", "see"], length=5)
    ahead, padding, both = map(cells, figure.axes)
    for query in range(5):
        for key in range(5):
            assert ahead[query, key] == (key <= query)
            assert padding[query, key] == (key < 3)
            assert both[query, key] == (key <= query and key < 3)
    for axes in figure.axes:
        assert [label.get_text() for label in axes.get_xticklabels()] == ["<s>", "I", "see", "<pad>", "<pad>"]


def test_without_a_length_three_positions_are_padding():
    assert cells(plot_example_mask(["I", "see"]).axes[0]).shape == (6, 6)


@pytest.mark.parametrize(("count", "length"), [(3, 3), (MOST_WORDS, None), (3, MOST_WORDS + 1)])
def test_a_sentence_that_does_not_fit_is_refused(count, length):
    with pytest.raises(UsageError, match=rf"from {count + 1} to {MOST_WORDS}"):
        plot_example_mask(["x"] * count, length=length)
