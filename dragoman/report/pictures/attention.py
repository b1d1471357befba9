"""Attention as heat maps: one matrix, or a large one beside small ones of all layers and heads."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import SubFigure

from dragoman.errors import UsageError
from dragoman.report.attention import Maps, Weights
from dragoman.report.inspection import Inspection
from dragoman.report.pictures import style
from dragoman.report.pictures.picture import Picture

AXES = {
    "cross": ("Cross-attention", "target word", "source word"),
    "encoder": ("Encoder self-attention", "source word that looks", "source word"),
    "decoder": ("Decoder self-attention", "target word to be predicted", "target word so far"),
}
"""Titles of the three attentions of the paper (section 3.2.3), and labels of their rows and columns."""
COLUMN, ROW = 0.5, 0.36  # inches
MOST_WORDS = 80
"""Most words of a text that a picture has room for."""


def plot_attention(weights: Weights, source_words: Sequence[str], target_words: Sequence[str]) -> Picture:
    """A heat map with a row for each target word and a column for each source word."""
    figure = style.new_figure(*_size(source_words, target_words))
    _draw(figure.subplots(), weights, rows=target_words, columns=source_words)
    return figure


def plot_heads(
    inspection: Inspection, kind: str = "cross", *, layer: int | None = None, head: int | None = None
) -> Picture:
    """A large picture of one attention of a sentence, beside small pictures of all layers and heads.

    `kind` is a key of `AXES`. Layer and head count from 1. By default the layer is the one that distinguishes best
    between words, and the mean of its heads is shown. Raises `UsageError` for a layer or head that the model does not
    have, and for more words than `MOST_WORDS`.
    """
    if kind not in AXES:
        raise UsageError(f"There is no attention '{kind}'; choose one of {', '.join(AXES)}.")
    maps = inspection.word_maps(kind)
    rows, columns = (axis.labels for axis in inspection.axes(kind))
    for name, number, count in (("layer", layer, len(maps)), ("head", head, maps.shape[1])):
        if number is not None and not 1 <= number <= count:
            raise UsageError(f"There is no {name} {number} in this attention; give --{name} from 1 to {count}.")
    layer = inspection.clearest_layer(kind) + 1 if layer is None else layer
    shown = maps[layer - 1].mean(0) if head is None else maps[layer - 1, head - 1]
    if max(len(rows), len(columns)) > MOST_WORDS:
        raise UsageError(f"The picture has room for {MOST_WORDS} words of a text; give a shorter one.")
    width, height = _size(columns, rows)
    width = max(width, 5.4)  # for the title
    height = max(height, 0.45 * len(maps) + 1)
    # Small pictures of the same proportions, together at most as wide as the large one.
    proportional = 0.6 * (height - 1) / len(maps) * (COLUMN * len(columns)) / (ROW * len(rows))
    beside = min(maps.shape[1] * max(0.6, proportional), max(width, 0.4 * maps.shape[1])) + 0.8
    figure = style.new_figure(width + beside, height)
    large, small = figure.subfigures(1, 2, width_ratios=(width, beside))
    heads = "mean of its heads" if head is None else f"head {head} of {maps.shape[1]}"
    title = f"{AXES[kind][0]}, layer {layer} of {len(maps)}, {heads}"
    _draw(large.subplots(), shown, rows=rows, columns=columns, kind=kind, title=title)
    _draw_small(small, maps, layer, head)
    return figure


def _draw(
    axes: Axes, weights: Weights, *, rows: Sequence[str], columns: Sequence[str], kind: str = "cross", title: str = ""
) -> None:
    image = axes.imshow(weights, style.WEIGHTS, vmin=0, aspect="auto", interpolation="none")
    _, ylabel, xlabel = AXES[kind]
    style.dress(axes, title=title, xlabel=xlabel, ylabel=ylabel)
    style.frameless(axes)
    style.name_rows_and_columns(axes, rows, columns)
    style.add_colorbar(image, axes, label="share of attention", shrink=min(1, 2 / (ROW * len(rows))))


def _draw_small(figure: SubFigure, maps: Maps, layer: int, head: int | None) -> None:
    """A matrix for each layer and head, all on one scale; those shown at large have a frame."""
    label = {"color": style.INK, "fontsize": style.LABEL}
    for (i, j), axes in np.ndenumerate(figure.subplots(*maps.shape[:2], squeeze=False)):
        axes.imshow(maps[i, j], style.WEIGHTS, vmin=0, vmax=1, aspect="auto", interpolation="none")
        axes.set(xticks=[], yticks=[])
        axes.spines[:].set(color=style.SECOND, linewidth=2, visible=i + 1 == layer and head in (None, j + 1))
        axes.set_xlabel(str(j + 1) if i == len(maps) - 1 else "", **label)
        axes.set_ylabel("" if j else str(i + 1), rotation=0, ha="right", va="center", **label)
    figure.suptitle("All heads, from 0 to 1", color=style.INK, fontsize=style.TITLE)
    figure.supxlabel("head", **label)
    figure.supylabel("layer", **label)


def _size(columns: Sequence[str], rows: Sequence[str]) -> tuple[float, float]:
    """Width and height in inches: room for each column and row, and for the words around them."""
    columns, rows = [style.short(word) for word in columns], [style.short(word) for word in rows]
    longest_row, longest_column = max(map(len, rows)), max(map(len, columns))  # in characters
    slanted = 0.07 * style.is_slanted(columns) * longest_column
    return COLUMN * len(columns) + 0.08 * longest_row + 1.6, ROW * len(rows) + 0.9 + slanted
