"""The masks of the decoder (section 3.2.3 of the paper): which positions may attend to which."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap

from dragoman.errors import UsageError
from dragoman.model.attention import causal_mask
from dragoman.report.pictures import style
from dragoman.report.pictures.picture import Picture
from dragoman.text.tokenizers.tokenizer import BOS_ID, PAD_ID, SPECIAL_TOKENS

Mask = Bool[np.ndarray, "queries keys"]
LOOKS, LOOKED_AT = "position that looks", "position that is looked at"
MEANINGS = {"True: may be attended to": style.FIRST, "False: hidden": style.FAINT}
MOST_WORDS = 40  # of an example
MOST_NUMBERED = 24  # positions that all have room for their number


def plot_causal_mask(length: int) -> Picture:
    """The look-ahead mask of `length` positions, True where row may attend to column."""
    side = min(max(0.26 * length, 2.2), 6.0)
    figure = style.new_figure(side + 0.8, side + 1.1)
    axes = figure.subplots()
    _draw(axes, causal_mask(length).numpy(), title="Look-ahead mask", ylabel=LOOKS)
    if length <= MOST_NUMBERED:
        axes.set(xticks=range(length), yticks=range(length))
    else:
        axes.locator_params(integer=True)
    style.add_colors_below(figure, MEANINGS)
    return figure


def plot_example_mask(words: Sequence[str], *, length: int | None = None) -> Picture:
    """The masks of a sentence in a batch, as the decoder uses them: look-ahead, padding, and both.

    The sentence is the begin of sentence, `words`, and padding up to `length` positions, by default three of padding.
    Raises `UsageError` if it does not fit.
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
    side, words_side = max(0.27 * len(tokens), 2.2), 0.085 * max(map(len, map(style.short, tokens)))
    figure = style.new_figure(3 * side + words_side + 1.1, side + words_side + 1.3)
    for axes, (title, mask) in zip(figure.subplots(1, 3, sharey=True), masks.items(), strict=True):
        _draw(axes, mask, title=title, ylabel=LOOKS if mask is ahead else "")
        style.name_rows_and_columns(axes, tokens, tokens, upright=True)
    style.add_colors_below(figure, MEANINGS)
    return figure


def _draw(axes: Axes, mask: Mask, *, title: str, ylabel: str) -> None:
    cells = ListedColormap([style.FAINT, style.FIRST])
    edge = min(1.0, 20 / len(mask))  # points; many cells leave no room between them
    rows, columns = map(np.arange, mask.shape)
    axes.pcolormesh(columns, rows, mask, cmap=cells, vmin=0, vmax=1, edgecolors="white", linewidth=edge)
    axes.set_aspect("equal")
    axes.invert_yaxis()  # row 0 is on top, as in a printed matrix
    style.dress(axes, title=title, xlabel=LOOKED_AT, ylabel=ylabel)
    style.frameless(axes)
