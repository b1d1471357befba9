"""Estimates how long a training will still take, from its limits and its pace."""

from typing import Any

from dragoman.config.training import TrainingConfig
from dragoman.system.figures import clock


def time_left(
    config: TrainingConfig, steps: float | None, step: dict[str, Any], validations: list[dict[str, Any]]
) -> str:
    """'1:03 left', 'at least 6:10 left' if only patience ends the training, or '' if neither is known.

    `steps` are the seconds that the remaining ones take, if their number is known, and `step` is the latest one.
    `validations` have the `seconds` of training before each.
    """
    words = "{} left"
    ends = [60 * config.max_minutes] if config.max_minutes else []
    if steps is not None:
        ends.append(step["seconds"] + steps)
    since_best = next((number for number, each in enumerate(reversed(validations)) if each["better"]), None)
    if not ends and since_best is not None and len(validations) > 1:
        before, latest = (each["seconds"] for each in validations[-2:])
        words, ends = "at least {} left", [latest + (config.patience - since_best) * (latest - before)]
    return words.format(clock(max(0.0, min(ends) - step["seconds"]))) if ends else ""
