"""Attention as heat maps: one matrix, or those of all layers and heads with one of them at large."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from dragoman.report.attention import Maps, Weights
from dragoman.report.pictures.style import (
    INK,
    LABEL,
    SECOND,
    TITLE,
    WEIGHTS,
    add_colorbar,
    dress,
    frameless,
    is_slanted,
    name_rows_and_columns,
    new_figure,
    short,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def plot_attention(
    weights: Weights,
    source_words: Sequence[str],
    target_words: Sequence[str],
) -> "Figure":
    """A heat map with a row for each target word and a column for each source word."""
    figure = new_figure(*_size(source_words, target_words))
    _draw_large(figure.subplots(), weights, source_words, target_words)
    return figure
