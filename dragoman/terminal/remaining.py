"""Estimates how long a training will still take, from its limits and its pace."""

from typing import Any

from dragoman.config.training import TrainingConfig
from dragoman.system.figures import clock


def time_left(
    config: TrainingConfig, steps: float | None, step: dict[str, Any], validations: list[dict[str, Any]]
) -> str:
    """'1:03 left', 'at least 6:10 left' if only patience ends the training, or '' if neither is known.

    `steps` is the number of seconds that the remaining steps take, None if their number is unknown. `step` is the
    latest step, and `validations` have the `seconds` of training before each.
    """
    now = step["seconds"]
    ends = []
    if config.max_minutes:
        ends.append(60 * config.max_minutes)
    if steps is not None:
        ends.append(now + steps)
    if ends:
        return f"{clock(max(0.0, min(ends) - now))} left"
    since_gain = _since_gain(validations)
    if since_gain is None or len(validations) < 2:
        return ""
    before, latest = (validation["seconds"] for validation in validations[-2:])
    end = latest + (config.patience - since_gain) * (latest - before)
    return f"at least {clock(max(0.0, end - now))} left"


def _since_gain(validations: list[dict[str, Any]]) -> int | None:
    """Number of validations after the last one that was clearly better than those before; None if there is none."""
    for number, validation in enumerate(reversed(validations)):
        if validation.get("gain", validation["better"]):
            return number
    return None
