"""Pictures of learning-rate schedules (section 5.3 of the paper)."""

from collections.abc import Mapping
from typing import get_args

import numpy as np
from jaxtyping import Int

from dragoman.config.run import load_config
from dragoman.config.settings import parse_settings
from dragoman.config.training import TrainingConfig
from dragoman.errors import UsageError
from dragoman.report.pictures import style
from dragoman.report.pictures.picture import Picture
from dragoman.training.schedule import learning_rate

Curves = Mapping[str, TrainingConfig]
"""Labels of lines, and the settings that each line follows."""

SCHEDULES = get_args(TrainingConfig.model_fields["schedule"].annotation)
KEYS = ("schedule", "learning_rate", "d_model", "warmup", "decay", "max_steps")
"""Settings that the text of a curve may have."""
POINTS = 500  # of a line


def paper_peak(d_model: int, warmup: int) -> float:
    """The highest learning rate of equation 3, reached at step `warmup`."""
    return (d_model * warmup) ** -0.5


def plot_schedules(panels: Mapping[str, Curves], *, steps: int) -> Picture:
    """Learning rates over `steps` steps, in a panel for each title.

    A schedule that ends does so at its `max_steps`, or else at the last step shown.
    """
    figure = style.new_figure(4.8 * len(panels), 3.6)
    parts = figure.subfigures(1, len(panels), squeeze=False)[0]
    for part, (title, curves) in zip(parts, panels.items(), strict=True):
        axes = part.subplots()
        for number, (label, config) in enumerate(curves.items()):
            shown = _shown_steps(steps, config.warmup)
            rates = [learning_rate(int(step), config, last_step=config.max_steps or steps) for step in shown]
            style.draw_line(axes, shown, np.array(rates), label=label, **style.line_style(number))
        style.dress_curves(axes, title=title, xlabel="step", ylabel="rate")
        axes.set_xlim(0, 1.03 * steps)
        style.start_at_zero(axes)
        style.add_legend_below(part, axes.lines)
    return figure


def example_schedules(steps: int) -> dict[str, Curves]:
    """The paper's schedule for several models and warm-ups, and all schedules with the same peak."""
    paper = {
        f"d_model {d_model}, warm-up {warmup:,}": TrainingConfig(
            schedule="inverse_sqrt", learning_rate=paper_peak(d_model, warmup), warmup=warmup
        )
        for d_model, warmup in ((512, 4000), (512, 8000), (256, 4000))
    }
    all_schedules = {
        name: TrainingConfig(schedule=name, warmup=max(1, steps // 10), max_steps=steps) for name in SCHEDULES
    }
    return {"The paper's, equation 3": paper, "All, with the same peak and warm-up": all_schedules}


def read_curve(text: str, *, steps: int) -> TrainingConfig:
    """The schedule that a text such as "schedule=inverse_sqrt,warmup=4000,d_model=512" describes, over `steps` steps.

    With `d_model` instead of `learning_rate` the peak is that of the paper. Raises `UsageError`.
    """
    settings = {"max_steps": str(steps)}
    for part in text.split(","):
        key, _, value = part.partition("=")
        if key.strip() not in KEYS or not value:
            raise UsageError(f"`{part}` in `{text}` is no setting of a schedule; give KEY=VALUE of {', '.join(KEYS)}.")
        settings[key.strip()] = value
    d_model = settings.pop("d_model", None)
    if d_model:
        settings.setdefault("schedule", "inverse_sqrt")
    config = load_config({}, {"training": parse_settings(f"{key}={value}" for key, value in settings.items())}).training
    if d_model is None:
        return config
    if "learning_rate" in settings or not d_model.isdecimal() or not int(d_model):
        raise UsageError(
            f"`{text}`: `d_model` is a whole number from 1 and stands for `learning_rate`; give one of them."
        )
    return config.model_copy(update={"learning_rate": paper_peak(int(d_model), config.warmup)})


def _shown_steps(steps: int, warmup: int) -> Int[np.ndarray, " shown"]:
    """Evenly spaced steps for a line; always includes the step of the peak learning rate."""
    even = np.linspace(1, steps, min(steps, POINTS)).round().astype(int)
    return np.unique([*even, min(warmup, steps)])
