"""The masks of the decoder (section 3.2.3 of the paper): who may attend to whom."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Bool

from dragoman.data.tokenizers.tokenizer import BOS_ID, PAD_ID, SPECIAL_TOKENS
from dragoman.errors import UsageError
from dragoman.model.attention import causal_mask
from dragoman.report.pictures.style import (
    FAINT,
    FIRST,
    add_colors_below,
    dress,
    frameless,
    name_rows_and_columns,
    new_figure,
    short,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Mask = Bool[np.ndarray, "queries keys"]
LOOKS, LOOKED_AT = "position that looks", "position that is looked at"
MEANINGS = {"True: may be attended to": FIRST, "False: hidden": FAINT}
MOST_WORDS = 40
MOST_NUMBERED = 24  # positions that all have room for their number


def plot_causal_mask(length: int) -> "Figure":
    """The look-ahead mask of `length` positions, True where row may attend to column."""
    side = min(max(0.26 * length, 2.2), 6.0)
    figure = new_figure(side + 0.8, side + 1.1)
    axes = figure.subplots()
    _draw(axes, causal_mask(length).numpy())
    dress(axes, title="Look-ahead mask", xlabel=LOOKED_AT, ylabel=LOOKS)
    frameless(axes)
    if length <= MOST_NUMBERED:
        axes.set(xticks=range(length), yticks=range(length))
    else:
        axes.locator_params(integer=True)
    add_colors_below(figure, MEANINGS)
    return figure


def plot_example_mask(words: Sequence[str], *, length: int | None = None) -> "Figure":
    """What the decoder may attend to in a batch: no future, no padding, and neither.

    The row of `words` begins with the begin of sentence and is filled with padding to `length` positions, three more
    than it has if none is given. Raises `UsageError` if it does not fit.
    """
    tokens = [SPECIAL_TOKENS[BOS_ID], *words]
    length = len(tokens) + 3 if length is None else length
    if not len(tokens) <= length <= MOST_WORDS:
        raise UsageError(
            f"The sentence has {len(tokens)} positions with its begin, and {length} are to be drawn; "
            f"give a --length from {len(tokens)} to {MOST_WORDS}, or a shorter sentence."
        )
    tokens += [SPECIAL_TOKENS[PAD_ID]] * (length - len(tokens))
    ahead = causal_mask(len(tokens)).numpy()
    padding = np.tile([token != SPECIAL_TOKENS[PAD_ID] for token in tokens], (len(tokens), 1))
    masks = {"Look-ahead": ahead, "Padding": padding, "Both: look-ahead and padding": ahead & padding}
    side, words_side = max(0.27 * len(tokens), 2.2), 0.085 * max(map(len, map(short, tokens)))
    figure = new_figure(3 * side + words_side + 1.1, side + words_side + 1.3)
    for axes, (title, mask) in zip(figure.subplots(1, 3, sharey=True), masks.items(), strict=True):
        _draw(axes, mask)
        dress(axes, title=title, xlabel=LOOKED_AT, ylabel=LOOKS if mask is ahead else "")
        frameless(axes)
        name_rows_and_columns(axes, tokens, tokens, upright=True)
    add_colors_below(figure, MEANINGS)
    return figure


def _draw(axes: "Axes", mask: Mask) -> None:
    from matplotlib.colors import ListedColormap

    cells = ListedColormap([FAINT, FIRST])
    edge = min(1.0, 20 / len(mask))  # points; many cells leave no room between them
    rows, columns = map(np.arange, mask.shape)
    axes.pcolormesh(columns, rows, mask, cmap=cells, vmin=0, vmax=1, edgecolors="white", linewidth=edge)
    axes.set_aspect("equal")
    axes.invert_yaxis()  # row 0 is on top, as in a printed matrix
