"""Figures of a run: its curves, and its attention as a heat map.

A figure is an object of its own, without pyplot: drawing one changes nothing else in the process.
"""

import html
import io
import re
import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from dragoman.report.attention import Weights

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Metrics = Sequence[dict[str, Any]]

# Blue and vermilion of Okabe and Ito: all eyes tell them apart, on white and on black.
FIRST, SECOND = "#0072b2", "#d55e00"
INK = "#2b2b2c"  # of text and axes; a colour of no other use, as a page puts its own in its place
MAX_POINTS = 150
LONGEST_WORD = 20  # characters of a label
SCRIPT_FONTS = (
    "Noto Sans CJK SC", "Noto Sans Devanagari", "Noto Sans Thai", "Microsoft YaHei",
    "Malgun Gothic", "Nirmala UI", "Leelawadee UI", "Arial Unicode MS",
)  # fmt: skip


def plot_attention(weights: Weights, source_words: list[str], target_words: list[str], *, title: str = "") -> "Figure":
    """A heat map with a row for each target word and a column for each source word."""
    columns, rows = [_short(word) for word in source_words], [_short(word) for word in target_words]
    widest, tallest = max(map(len, rows)), max(map(len, columns))  # in characters
    slanted = tallest > 4
    # In inches: half of one for each column, a third for each row, and the words around them.
    height = 0.36 * len(rows)
    figure = _figure(0.5 * len(columns) + 0.08 * widest + 1.6, height + 0.9 + 0.07 * slanted * tallest)
    axes = figure.subplots()
    image = axes.imshow(weights, "viridis", vmin=0, aspect="auto", interpolation="none")
    _dress(axes, title=title, xlabel="source word", ylabel="target word")
    # "$" in a word is no formula.
    text = {"parse_math": False, "fontfamily": _families(), "fontsize": 10}
    turned = {"rotation": 45, "ha": "left", "rotation_mode": "anchor"} if slanted else {}
    axes.set_xticks(range(len(columns)), columns, **text, **turned)
    axes.set_yticks(range(len(rows)), rows, **text)
    axes.tick_params(length=0, top=True, labeltop=True, bottom=False, labelbottom=False)
    axes.xaxis.set_label_position("top")
    axes.spines[:].set_visible(False)
    bar = figure.colorbar(image, ax=axes, aspect=30, shrink=min(1, 2 / height))
    bar.outline.set_visible(False)
    _dress(bar.ax, title="", xlabel="", ylabel="share of attention")
    return figure


def plot_curves(metrics: Metrics, panels: Sequence[str] = ()) -> "Figure":
    """What a run reported, over its steps; `panels` names some of `PANELS`, empty means all.

    There may be any number of events, none included.
    """
    panels = panels or list(PANELS)
    columns = min(2, len(panels))
    rows = -(-len(panels) // columns)
    figure = _figure(4.8 * columns, 2.9 * rows)
    grid = figure.subplots(rows, columns, squeeze=False)
    last_step = max((event["step"] for event in metrics if "step" in event), default=1)
    for axes, name in zip(grid.flat, panels, strict=False):
        ylabel, draw = PANELS[name]
        draw(axes, metrics)
        _dress(axes, title=name.capitalize(), xlabel="step", ylabel=ylabel)
        axes.grid(color=INK, alpha=0.15, linewidth=0.6)
        axes.xaxis.set_major_formatter("{x:,.0f}")
        axes.locator_params("x", nbins=5, integer=True)
        axes.set_xlim(0, 1.03 * last_step)
        if not axes.lines:
            axes.set(xticks=[], yticks=[])
            axes.text(0.5, 0.5, "none yet", color=INK, ha="center", transform=axes.transAxes)
        elif len(axes.lines) > 1:
            axes.legend(frameon=False, labelcolor=INK, fontsize=9)
    for axes in grid.flat[len(panels) :]:
        axes.set_axis_off()
    return figure


def _draw_loss(axes: "Axes", metrics: Metrics) -> None:
    steps, validations = _events(metrics, "step"), _events(metrics, "validation")
    losses = _binned(_column(steps, "loss"), np.mean)
    _line(axes, _binned(_column(steps, "step"), np.mean), losses, color=FIRST, label="training")
    _line(
        axes,
        _column(validations, "step"),
        _column(validations, "valid_loss"),
        color=SECOND,
        label="validation",
    )


def _draw_scores(axes: "Axes", metrics: Metrics) -> None:
    validations = _events(metrics, "validation")
    steps = _column(validations, "step")
    _line(axes, steps, _column(validations, "chrf"), color=SECOND, label="chrF++")
    _line(axes, steps, _column(validations, "bleu"), color=FIRST, label="BLEU")
    for average in _events(metrics, "average"):
        last = max(average["steps"])
        axes.plot(last, average["bleu"], "D", color=FIRST, mfc="none", label="BLEU, averaged")
    _start_at_zero(axes)


def _draw_rate(axes: "Axes", metrics: Metrics) -> None:
    steps = _events(metrics, "step")
    rates = _binned(_column(steps, "learning_rate"), np.mean)
    _line(axes, _binned(_column(steps, "step"), np.mean), rates, color=FIRST)
    _start_at_zero(axes)


def _draw_speed(axes: "Axes", metrics: Metrics) -> None:
    steps = _events(metrics, "step")
    seconds, tokens = np.diff(_column(steps, "seconds")), np.diff(_column(steps, "tokens"))
    speed = np.divide(tokens, seconds, out=np.full(len(seconds), np.nan), where=seconds > 0)
    # The median of some, as a step after a validation bears the time of both.
    places = _binned(_column(steps, "step")[1:], np.mean, at_least=5)
    _line(axes, places, _binned(speed, np.median, at_least=5), color=FIRST)
    axes.yaxis.set_major_formatter("{x:,.0f}")
    _start_at_zero(axes)


PANELS: dict[str, tuple[str, Callable[["Axes", Metrics], None]]] = {
    "loss": ("nats per token", _draw_loss),
    "validation scores": ("score", _draw_scores),
    "learning rate": ("", _draw_rate),
    "training speed": ("tokens per second", _draw_speed),
}
"""What `plot_curves` can draw: for each panel the label of its axis, and how."""


def to_svg(figure: "Figure", label: str) -> str:
    """The figure as an element of an HTML page, whose font and text colour it takes on.

    `label` is read out where the picture cannot be seen, and must be unlike others on the page.
    A page with a dark background can lighten the blue lines by a CSS variable `--accent`.
    """
    import matplotlib as mpl

    file = io.StringIO()
    # A salt instead of random ids, and no date: the same figure gives the same bytes.
    settings = {"svg.fonttype": "none", "svg.hashsalt": label}
    no_metadata = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    with warnings.catch_warnings(), mpl.rc_context(settings):
        warnings.filterwarnings("ignore", "Glyph .* missing")  # the reader's browser has more fonts
        figure.savefig(file, format="svg", transparent=True, metadata=no_metadata)
    svg = file.getvalue()
    svg = svg[svg.index("<svg") :].replace(INK, "currentColor")
    svg = svg.replace(FIRST, f"var(--accent, {FIRST})")
    # HTML needs no namespaces; ids such as axes_1 are those of the next figure too.
    svg = re.sub(r' xmlns(:xlink)?="[^"]*"| id="[\w.]+_\d+"', "", svg)
    return svg.replace("<svg ", f'<svg role="img" aria-label="{html.escape(label)}" ', 1)


def to_png(figure: "Figure") -> bytes:
    """The figure as a PNG file on white."""
    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")  # drawn as a box
        figure.savefig(file, format="png", dpi=160)
    return file.getvalue()


def _figure(width: float, height: float) -> "Figure":
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def _dress(axes: "Axes", *, title: str, xlabel: str, ylabel: str) -> None:
    """The one style of all pictures."""
    axes.set_title(title, color=INK, fontsize=11, loc="left")
    axes.set_xlabel(xlabel, color=INK, fontsize=9)
    axes.set_ylabel(ylabel, color=INK, fontsize=9)
    axes.tick_params(colors=INK, labelsize=9, length=2)
    axes.spines[:].set_color(INK)
    axes.spines[["top", "right"]].set_visible(False)


def _short(word: str) -> str:
    return word if len(word) <= LONGEST_WORD else word[: LONGEST_WORD - 1] + "…"


def _line(axes: "Axes", x: np.ndarray, y: np.ndarray, *, color: str, label: str = "") -> None:
    if len(x):
        marker = "o" if len(x) <= 30 else ""  # a single point is no line
        axes.plot(x, y, color=color, label=label, marker=marker, markersize=3.5, linewidth=1.6)


def _start_at_zero(axes: "Axes") -> None:
    top = axes.dataLim.y1  # -inf without data
    axes.set_ylim(0, 1.08 * top if top > 0 else 1)


def _families() -> list[str]:
    """Matplotlib's own font, then what this machine has for the scripts that it lacks."""
    from matplotlib.font_manager import get_font_names

    return ["DejaVu Sans", *(name for name in SCRIPT_FONTS if name in get_font_names())]


def _events(metrics: Metrics, kind: str) -> Metrics:
    return [event for event in metrics if event["event"] == kind]


def _column(events: Metrics, key: str) -> Float[np.ndarray, " events"]:
    return np.array([event.get(key) for event in events], float)  # None becomes nan


def _binned(values: np.ndarray, centre: Callable[[np.ndarray], float], *, at_least: int = 1) -> np.ndarray:
    """At most `MAX_POINTS` values, each the centre of as many neighbours, `at_least` so many."""
    count = min(MAX_POINTS, -(-len(values) // at_least))
    return np.array([centre(part) for part in np.array_split(values, count)] if count else [])
