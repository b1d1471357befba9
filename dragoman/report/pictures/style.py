"""The one style of all pictures: their sizes, colours, letters and axes.

A figure is an object of its own, without pyplot: drawing one changes nothing else in the process. Sizes are in inches.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import FigureBase
from matplotlib.font_manager import get_font_names
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.patches import Patch

from dragoman.report.pictures.picture import Picture
from dragoman.text.characters import well_formed

# By Okabe and Ito, for all kinds of colour vision, on white and on black: blue, vermilion, and four more.
FIRST, SECOND = "#0072b2", "#d55e00"
COLORS = (FIRST, SECOND, "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
INK = "#2b2b2c"  # of text and axes; used for nothing else, since a page replaces it by its own colour
FAINT = "#e4e4e6"  # of what is hidden or behind
WEIGHTS = "viridis"  # for numbers from 0 up: its lightness rises evenly, so that it can be printed in grey
SIGNED = "RdBu_r"  # for numbers around 0
TITLE, LABEL = 11, 9  # points
LONGEST_WORD = 20  # characters of a label
SCRIPT_FONTS = (
    "Noto Sans CJK SC", "Noto Sans Devanagari", "Noto Sans Thai", "Microsoft YaHei",
    "Malgun Gothic", "Nirmala UI", "Leelawadee UI", "WenQuanYi Micro Hei", "Arial Unicode MS",
)  # fmt: skip


def new_figure(width: float, height: float) -> Picture:
    """An empty figure that leaves its labels the room they need."""
    return Picture(figsize=(width, height), layout=ConstrainedLayoutEngine(compress=True, w_pad=0.08, h_pad=0.08))


def dress(axes: Axes, *, title: str = "", xlabel: str = "", ylabel: str = "") -> None:
    """Write title and labels around the axes, in ink."""
    axes.set_title(title, color=INK, fontsize=TITLE, loc="left")
    axes.set_xlabel(xlabel, color=INK, fontsize=LABEL)
    axes.set_ylabel(ylabel, color=INK, fontsize=LABEL)
    axes.tick_params(colors=INK, labelsize=LABEL, length=2)
    axes.spines[:].set_color(INK)
    axes.spines[["top", "right"]].set_visible(False)


def dress_curves(axes: Axes, *, title: str, xlabel: str, ylabel: str) -> None:
    """Write title and labels around the axes of curves, with a grid and few ticks, if possible at whole numbers."""
    dress(axes, title=title, xlabel=xlabel, ylabel=ylabel)
    axes.grid(color=INK, alpha=0.15, linewidth=0.6)
    axes.xaxis.set_major_formatter("{x:,.12g}")
    axes.locator_params("x", nbins=5, integer=True)


def add_legend(parent: Axes | FigureBase, **options: object) -> None:
    """Add a legend with the names of lines or colours, in some axes or for a whole figure."""
    parent.legend(**({"frameon": False, "labelcolor": INK, "fontsize": LABEL} | options))


def add_legend_below(figure: FigureBase, handles: Sequence[Artist], **options: object) -> None:
    """Add one legend for all axes of a figure or of a part of it, with as many entries side by side as have room."""
    width = 0.066 * max(len(handle.get_label()) for handle in handles) + 0.65  # inches of an entry
    columns = max(1, int(figure.bbox.width / figure.dpi / width))
    add_legend(figure, handles=handles, loc="outside lower left", ncols=columns, **options)


def add_colors_below(figure: Picture, meanings: Mapping[str, str]) -> None:
    """Add a legend of colours: a square for each text."""
    patches = [Patch(color=color, label=text) for text, color in meanings.items()]
    add_legend_below(figure, patches, handlelength=1, handleheight=1)


def add_colorbar(image: object, axes: Axes | Sequence[Axes], *, label: str, shrink: float = 1.0) -> None:
    """Add the scale of the colours of `image`."""
    figure = (axes[0] if isinstance(axes, Sequence) else axes).figure
    bar = figure.colorbar(image, ax=axes, aspect=30, shrink=shrink, pad=0.02)
    bar.outline.set_visible(False)
    dress(bar.ax, ylabel=label)


def frameless(axes: Axes) -> None:
    """Remove the lines around a matrix and the ticks at it, and put the names of columns above it."""
    axes.tick_params(length=0, top=True, labeltop=True, bottom=False, labelbottom=False)
    axes.xaxis.set_label_position("top")
    axes.spines[:].set_visible(False)


def name_rows_and_columns(axes: Axes, rows: Sequence[str], columns: Sequence[str], *, upright: bool = False) -> None:
    """Write a word beside each row and above each column.

    Words above columns are turned by 90 degrees if they are to be `upright`, else by 45 degrees unless all are short.
    """
    rows, columns = [short(word) for word in rows], [short(word) for word in columns]
    # "$" in a word is no formula.
    text = {"parse_math": False, "fontfamily": font_families(), "fontsize": TITLE - 1}
    turned = {}
    if upright:
        turned = {"rotation": 90}
    elif is_slanted(columns):
        turned = {"rotation": 45, "ha": "left", "rotation_mode": "anchor"}
    axes.set_xticks(range(len(columns)), columns, **text, **turned)
    axes.set_yticks(range(len(rows)), rows, **text)


def is_slanted(columns: Sequence[str]) -> bool:
    """Whether these words above columns have no room side by side."""
    return max(map(len, columns)) > 4


def short(word: str) -> str:
    """The word, truncated if it would squeeze the picture; labels of ticks do not pass `Picture.draw`."""
    word = well_formed(word)
    return word if len(word) <= LONGEST_WORD else word[: LONGEST_WORD - 1] + "…"


def line_style(number: int) -> dict[str, Any]:
    """Style of line `number`, counted from 0: colours take turns, and every other line is dashed.

    A dashed line lies above the others, so that two equal lines are both visible.
    """
    dashed = (number + number // len(COLORS)) % 2
    return {"color": COLORS[number % len(COLORS)], "linestyle": (0, (4, 2)) if dashed else "-", "zorder": 2 + dashed}


def draw_line(axes: Axes, x: np.ndarray, y: np.ndarray, **style: object) -> None:
    """Plot a curve, with markers if there are few points, so that a single point is visible."""
    if len(x):
        marker = "o" if len(x) <= 30 else ""
        axes.plot(x, y, **({"marker": marker, "markersize": 3.5, "linewidth": 1.6} | style))


def draw_band(axes: Axes, x: np.ndarray, low: np.ndarray, high: np.ndarray, *, color: str) -> None:
    """Shade what is between two curves. Where one of them is nan, nothing is shaded."""
    if np.isfinite(high - low).any():
        axes.fill_between(x, low, high, color=color, alpha=0.15, linewidth=0)


def start_at_zero(axes: Axes) -> None:
    """Let the y-axis begin at 0, so that heights can be compared by eye."""
    top = axes.dataLim.y1  # -inf without data
    axes.set_ylim(0, 1.08 * top if top > 0 else 1)


def font_families() -> list[str]:
    """Matplotlib's own font, then those of this machine for the scripts that it lacks."""
    return ["DejaVu Sans", *(name for name in SCRIPT_FONTS if name in get_font_names())]
