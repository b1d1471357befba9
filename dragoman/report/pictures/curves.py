"""Curves of runs: what one reported, and several over each other."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from dragoman.report.pictures.style import (
    FIRST,
    INK,
    SECOND,
    add_grid,
    add_legend,
    add_legend_below,
    draw_line,
    dress,
    line_style,
    new_figure,
    short,
    start_at_zero,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Metrics = Sequence[dict[str, Any]]
MAX_POINTS = 150
LEARNING = ("training loss", "validation loss", "validation BLEU", "validation BLEU in time")


def plot_curves(metrics: Metrics, panels: Sequence[str] = ()) -> "Figure":
    """What a run reported, over its steps; `panels` names some of `PANELS`, empty means all.

    There may be any number of events, none included.
    """
    panels = panels or list(PANELS)
    last_step = max((event["step"] for event in metrics if "step" in event), default=1)
    figure = _panels(len(panels))
    for axes, name in zip(figure.axes, panels, strict=True):
        ylabel, draw = PANELS[name]
        draw(axes, metrics)
        _dress_panel(axes, name, xlabel="step", ylabel=ylabel)
        axes.set_xlim(0, 1.03 * last_step)
        if len(axes.lines) > 1:
            add_legend(axes)
    return figure


def plot_runs(runs: Mapping[str, Metrics], panels: Sequence[str] = LEARNING) -> "Figure":
    """What several runs reported, a line for each name; `panels` names some of `OVERLAYS`."""
    from matplotlib.lines import Line2D

    figure = _panels(len(panels))
    for axes, name in zip(figure.axes, panels, strict=True):
        kind, key, over, ylabel = OVERLAYS[name]
        for number, metrics in enumerate(runs.values()):
            events = _events(metrics, kind)
            x = _column(events, "step")
            if over == "minutes":
                x = _minutes(metrics, x)
            y = _binned(_column(events, key)[: len(x)], np.mean)
            draw_line(axes, _binned(x, np.mean), y, **line_style(number))
        _dress_panel(axes, name, xlabel=over, ylabel=ylabel)
        axes.set_xlim(0, None)
        if not key.endswith("loss"):
            start_at_zero(axes)
    names = (short(name) for name in runs)
    add_legend_below(figure, [Line2D([], [], label=name, **line_style(i)) for i, name in enumerate(names)])
    return figure


def _panels(count: int) -> "Figure":
    """A figure with so many axes, two in a row."""
    columns = min(2, count)
    rows = -(-count // columns)
    figure = new_figure(4.8 * columns, 2.9 * rows)
    grid = figure.subplots(rows, columns, squeeze=False)
    for axes in grid.flat[count:]:
        axes.remove()
    return figure


def _dress_panel(axes: "Axes", name: str, *, xlabel: str, ylabel: str) -> None:
    dress(axes, title=name[0].upper() + name[1:], xlabel=xlabel, ylabel=ylabel)
    add_grid(axes)
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.locator_params("x", nbins=5, integer=True)
    if not axes.lines:
        axes.set(xticks=[], yticks=[])
        axes.text(0.5, 0.5, "none yet", color=INK, ha="center", transform=axes.transAxes)


def _minutes(metrics: Metrics, steps: np.ndarray) -> np.ndarray:
    """When these steps were done, from the times of those that were recorded; empty if none was."""
    timed = _events(metrics, "step")
    return np.interp(steps, _column(timed, "step"), _column(timed, "seconds")) / 60 if timed else steps[:0]


def _draw_loss(axes: "Axes", metrics: Metrics) -> None:
    steps, validations = _events(metrics, "step"), _events(metrics, "validation")
    losses = _binned(_column(steps, "loss"), np.mean)
    draw_line(axes, _binned(_column(steps, "step"), np.mean), losses, color=FIRST, label="training")
    draw_line(
        axes,
        _column(validations, "step"),
        _column(validations, "valid_loss"),
        color=SECOND,
        label="validation",
    )


def _draw_scores(axes: "Axes", metrics: Metrics) -> None:
    validations = _events(metrics, "validation")
    steps = _column(validations, "step")
    draw_line(axes, steps, _column(validations, "chrf"), color=SECOND, label="chrF++")
    draw_line(axes, steps, _column(validations, "bleu"), color=FIRST, label="BLEU")
    averages = _events(metrics, "average")
    if averages:
        last = [max(average["steps"]) for average in averages]
        axes.plot(last, _column(averages, "bleu"), "D", color=FIRST, mfc="none", ls="", label="BLEU, averaged")
    start_at_zero(axes)


def _draw_rate(axes: "Axes", metrics: Metrics) -> None:
    steps = _events(metrics, "step")
    rates = _binned(_column(steps, "learning_rate"), np.mean)
    draw_line(axes, _binned(_column(steps, "step"), np.mean), rates, color=FIRST)
    start_at_zero(axes)


def _draw_speed(axes: "Axes", metrics: Metrics) -> None:
    steps = _events(metrics, "step")
    seconds, tokens = np.diff(_column(steps, "seconds")), np.diff(_column(steps, "tokens"))
    speed = np.divide(tokens, seconds, out=np.full(len(seconds), np.nan), where=seconds > 0)
    # The median of some, as a step after a validation bears the time of both.
    places = _binned(_column(steps, "step")[1:], np.mean, at_least=5)
    draw_line(axes, places, _binned(speed, np.median, at_least=5), color=FIRST)
    axes.yaxis.set_major_formatter("{x:,.0f}")
    start_at_zero(axes)


PANELS: dict[str, tuple[str, Callable[["Axes", Metrics], None]]] = {
    "loss": ("nats per token", _draw_loss),
    "validation scores": ("score", _draw_scores),
    "learning rate": ("rate", _draw_rate),
    "training speed": ("tokens per second", _draw_speed),
}
"""What `plot_curves` can draw: for each panel the label of its axis, and how."""

OVERLAYS = {
    "training loss": ("step", "loss", "step", "nats per token"),
    "validation loss": ("validation", "valid_loss", "step", "nats per token"),
    "validation BLEU": ("validation", "bleu", "step", "score"),
    "validation BLEU in time": ("validation", "bleu", "minutes", "score"),
    "learning rate": ("step", "learning_rate", "step", "rate"),
}
"""What `plot_runs` can draw: for each panel the event, its value, over what, and the label of the axis."""


def _events(metrics: Metrics, kind: str) -> Metrics:
    return [event for event in metrics if event["event"] == kind]


def _column(events: Metrics, key: str) -> Float[np.ndarray, " events"]:
    return np.array([event.get(key) for event in events], float)  # None becomes nan


def _binned(values: np.ndarray, centre: Callable[[np.ndarray], float], *, at_least: int = 1) -> np.ndarray:
    """At most `MAX_POINTS` values, each the centre of as many neighbours, `at_least` so many."""
    count = min(MAX_POINTS, -(-len(values) // at_least))
    return np.array([centre(part) for part in np.array_split(values, count)] if count else [])
