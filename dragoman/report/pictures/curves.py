"""Curves of training runs: all of one run, or several runs over each other."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from dragoman.metrics import LOSS, MAIN, VALIDATED, VALIDATED_TEXT_METRICS
from dragoman.report.pictures import style
from dragoman.report.pictures.picture import Picture

Metrics = Sequence[dict[str, Any]]
"""The events of a run."""
MAX_POINTS = 150
"""Most points of a curve."""


def plot_curves(metrics: Metrics, panels: Sequence[str] = ()) -> Picture:
    """Curves of one run over its steps; `panels` names some of `PANELS`, empty means all.

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
            style.add_legend(axes)
    return figure


def plot_runs(runs: Mapping[str, Metrics], panels: Sequence[str] = ()) -> Picture:
    """Curves of several runs, a line for each name; `panels` names some of `OVERLAYS`, empty means `LEARNING`."""
    panels = panels or LEARNING
    figure = _panels(len(panels))
    for axes, name in zip(figure.axes, panels, strict=True):
        overlay = OVERLAYS[name]
        for number, metrics in enumerate(runs.values()):
            x, y = _curve(metrics, overlay.event, overlay.key)
            if overlay.over == "minutes":
                x = _minutes(metrics, x)
            style.draw_line(axes, x, y[: len(x)], **style.line_style(number))
            if overlay.event == "validation":
                low, high = _band(metrics, overlay.key)
                style.draw_band(axes, x, low[: len(x)], high[: len(x)], color=style.line_style(number)["color"])
        _dress_panel(axes, name, xlabel=overlay.over, ylabel=overlay.unit)
        axes.set_xlim(0, None)
        if overlay.unit != LOSS.unit:
            style.start_at_zero(axes)
    handles = [Line2D([], [], label=style.short(run), **style.line_style(i)) for i, run in enumerate(runs)]
    style.add_legend_below(figure, handles)
    return figure


def _panels(count: int) -> Picture:
    """A figure with `count` axes, two in a row."""
    columns = min(2, count)
    rows = -(-count // columns)
    figure = style.new_figure(4.8 * columns, 2.9 * rows)
    for axes in figure.subplots(rows, columns, squeeze=False).flat[count:]:
        axes.remove()
    return figure


def _dress_panel(axes: Axes, name: str, *, xlabel: str, ylabel: str) -> None:
    style.dress_curves(axes, title=name[0].upper() + name[1:], xlabel=xlabel, ylabel=ylabel)
    if not axes.lines:
        axes.set(xticks=[], yticks=[])
        axes.text(0.5, 0.5, "none yet", color=style.INK, ha="center", transform=axes.transAxes)


def _draw_loss(axes: Axes, metrics: Metrics) -> None:
    style.draw_line(axes, *_curve(metrics, "step", "loss"), color=style.FIRST, label="training")
    style.draw_line(axes, *_curve(metrics, "validation", LOSS.validation_key), color=style.SECOND, label="validation")


def _draw_scores(axes: Axes, metrics: Metrics) -> None:
    colors = dict(zip([metric.name for metric in VALIDATED_TEXT_METRICS], style.COLORS, strict=False))
    for metric in reversed(VALIDATED_TEXT_METRICS):  # the main one lies above the others
        x, y = _curve(metrics, "validation", metric.validation_key)
        style.draw_line(axes, x, y, color=colors[metric.name], label=metric.label)
        style.draw_band(axes, x, *_band(metrics, metric.name), color=colors[metric.name])
    for name, color in (("train", style.FIRST), ("valid", style.SECOND)):
        x, y = _curve(metrics, "validation", f"{name}_accuracy")
        if np.isfinite(y).any():
            style.draw_line(axes, x, 100 * y, color=color, label=f"accuracy, {name}, %", ls=":")
    averages = _events(metrics, "average")
    if averages:
        last_steps = [max(event["steps"]) for event in averages]
        scores = _column(averages, MAIN.validation_key)
        mark = {"color": colors[MAIN.name], "mfc": "none", "ls": ""}
        axes.plot(last_steps, scores, "D", label=f"{MAIN.label}, averaged", **mark)
    style.start_at_zero(axes)


def _draw_rate(axes: Axes, metrics: Metrics) -> None:
    style.draw_line(axes, *_curve(metrics, "step", "learning_rate"), color=style.FIRST)
    style.start_at_zero(axes)


def _draw_speed(axes: Axes, metrics: Metrics) -> None:
    steps = _events(metrics, "step")
    seconds, tokens = np.diff(_column(steps, "seconds")), np.diff(_column(steps, "tokens"))
    speed = np.divide(tokens, seconds, out=np.full(len(seconds), np.nan), where=seconds > 0)
    # The median of five, since a step after a validation takes the time of both.
    x, y = _binned(_column(steps, "step")[1:], at_least=5), _binned(speed, np.median, at_least=5)
    style.draw_line(axes, x, y, color=style.FIRST)
    axes.yaxis.set_major_formatter("{x:,.0f}")
    style.start_at_zero(axes)


PANELS: dict[str, tuple[str, Callable[[Axes, Metrics], None]]] = {
    "loss": (LOSS.unit, _draw_loss),
    "validation scores": ("score", _draw_scores),
    "learning rate": ("rate", _draw_rate),
    "training speed": ("tokens per second", _draw_speed),
}
"""Panels of `plot_curves`: the label of the y-axis, and the function that draws the curves."""


class Overlay(NamedTuple):
    """A panel with the same curve of several runs."""

    event: str
    """Kind of event that has the values."""
    key: str
    """Key of the values in the event."""
    over: Literal["step", "minutes"]
    """Unit of the x-axis."""
    unit: str
    """Label of the y-axis."""


OVERLAYS = {
    "training loss": Overlay("step", "loss", "step", LOSS.unit),
    **{
        f"validation {metric.label}": Overlay("validation", metric.validation_key, "step", metric.unit)
        for metric in VALIDATED
    },
    f"validation {MAIN.label} in time": Overlay("validation", MAIN.validation_key, "minutes", MAIN.unit),
    "learning rate": Overlay("step", "learning_rate", "step", "rate"),
}
"""Panels of `plot_runs`."""
LEARNING = ("training loss", "validation loss", f"validation {MAIN.label}", f"validation {MAIN.label} in time")
"""Panels that `plot_runs` draws by default."""


def _events(metrics: Metrics, kind: str) -> Metrics:
    return [event for event in metrics if event["event"] == kind]


def _column(events: Metrics, key: str) -> Float[np.ndarray, " events"]:
    return np.array([event.get(key) for event in events], float)  # None becomes nan


def _curve(metrics: Metrics, kind: str, key: str) -> tuple[np.ndarray, np.ndarray]:
    """Steps and values of a curve, at most `MAX_POINTS` of each."""
    events = _events(metrics, kind)
    return _binned(_column(events, "step")), _binned(_column(events, key))


def _band(metrics: Metrics, name: str) -> tuple[np.ndarray, np.ndarray]:
    """The ends of the intervals of a validation score, at the steps of its curve; nan where there is none."""
    ends = [event.get("intervals", {}).get(name, (np.nan, np.nan)) for event in _events(metrics, "validation")]
    low, high = np.array(ends, float).reshape(-1, 2).T
    return _binned(low), _binned(high)


def _minutes(metrics: Metrics, steps: np.ndarray) -> np.ndarray:
    """Minutes of training at which these steps were done; empty if no step was recorded."""
    timed = _events(metrics, "step")
    if not timed:
        return steps[:0]
    return np.interp(steps, _column(timed, "step"), _column(timed, "seconds")) / 60


def _binned(values: np.ndarray, centre: Callable[[np.ndarray], float] = np.mean, *, at_least: int = 1) -> np.ndarray:
    """At most `MAX_POINTS` values, each the centre of a bin of about `at_least` or more neighbours."""
    count = min(MAX_POINTS, -(-len(values) // at_least))
    bins = np.array_split(values, count) if count else []
    return np.array([centre(part) for part in bins])
