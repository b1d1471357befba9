"""Attention: the weights between words as they are, of the layer and head that the title names."""

import html

import numpy as np
import pytest

from dragoman.errors import UsageError
from dragoman.report import Inspection
from dragoman.report.pictures import attention as pictures
from dragoman.report.pictures import plot_attention, plot_heads, to_svg
from dragoman.report.pictures.attention import AXES
from dragoman.report.pictures.style import SECOND
from tests.report.models import HEADS, LAYERS
from tests.report.pictures.examples import inspected
from tests.report.runs import attention_of

WORD = "</g><script>\"'&"


@pytest.fixture
def inspection() -> Inspection:
    return inspected("the unbelievably red house")


def large(figure):
    return figure.subfigs[0].axes[0]


def small(figure) -> np.ndarray:
    """The axes of the small pictures, by layer and head."""
    return np.array(figure.subfigs[1].axes).reshape(-1, HEADS)


@pytest.mark.slow
@pytest.mark.parametrize("kind", AXES)
def test_every_head_is_shown_and_the_mean_of_a_layer_at_large(inspection, kind):
    figure, maps = plot_heads(inspection, kind, layer=2), inspection.word_maps(kind)
    rows, columns = inspection.axes(kind)
    np.testing.assert_array_equal(large(figure).images[0].get_array(), maps[1].mean(0))
    assert [label.get_text() for label in large(figure).get_yticklabels()] == rows.labels
    assert [label.get_text() for label in large(figure).get_xticklabels()] == columns.labels
    assert f"layer 2 of {len(maps)}, mean of its heads" in large(figure).get_title(loc="left")
    assert len(maps) == LAYERS[f"num_{'encoder' if kind == 'encoder' else 'decoder'}_layers"]
    for (layer, head), axes in np.ndenumerate(small(figure)):
        np.testing.assert_array_equal(axes.images[0].get_array(), maps[layer, head])
        assert axes.images[0].get_clim() == (0, 1)
        assert axes.spines["top"].get_visible() == (layer == 1)


def test_one_head_is_shown_at_large_and_framed(inspection):
    figure, maps = plot_heads(inspection, layer=3, head=1), inspection.word_maps("cross")
    np.testing.assert_array_equal(large(figure).images[0].get_array(), maps[2, 0])
    assert large(figure).get_title(loc="left") == "Cross-attention, layer 3 of 3, head 1 of 3"
    framed = [index for index, axes in np.ndenumerate(small(figure)) if axes.spines["left"].get_visible()]
    assert framed == [(2, 0)]
    assert small(figure)[2, 0].spines["left"].get_edgecolor()[:3] == pytest.approx(
        [int(SECOND[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    )


def test_without_a_layer_the_clearest_is_shown(inspection):
    shown = large(plot_heads(inspection)).images[0].get_array()
    np.testing.assert_array_equal(shown, inspection.word_maps("cross")[inspection.clearest_layer()].mean(0))


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"layer": 4}, "There is no layer 4 in this attention; give --layer from 1 to 3."),
        ({"layer": 0}, "give --layer from 1 to 3."),
        ({"head": 5}, "There is no head 5 in this attention; give --head from 1 to 3."),
        ({"kind": "self"}, "There is no attention 'self'; choose one of cross, encoder, decoder."),
    ],
)
def test_what_the_model_has_not_is_refused(inspection, options, problem):
    with pytest.raises(UsageError) as caught:
        plot_heads(inspection, **options)
    assert problem in str(caught.value)


def test_a_text_beyond_the_edge_of_any_picture_is_refused(inspection, monkeypatch):
    count = len(inspection.source.labels)
    monkeypatch.setattr(pictures, "MOST_WORDS", count)
    plot_heads(inspection)
    monkeypatch.setattr(pictures, "MOST_WORDS", count - 1)
    with pytest.raises(UsageError, match=f"{count - 1} words"):
        plot_heads(inspection)


def test_words_are_drawn_as_they_are_and_not_as_formulas():
    source, target = ["$x^$", "5$", WORD, "</s>"], ["猫", "है", "\\frac", "</s>"]
    figure = plot_attention(attention_of([1, 0, 2, 3]), source, target)
    svg = html.unescape(to_svg(figure, "picture"))
    assert "<script" not in to_svg(figure, "picture")
    for word in source + target:
        assert word in svg
    assert figure.to_png(dpi=50).startswith(b"\x89PNG")


def test_an_endless_word_is_cut_instead_of_squeezing_the_picture():
    picture = to_svg(plot_attention(attention_of([1, 0]), ["x" * 101, "</s>"], ["y", "z"]), "a")
    assert "xxx…" in picture
    assert "x" * 21 not in picture
