"""Estimates how long a training will still take, from its limits and its pace."""

from dataclasses import dataclass
from typing import Any

from dragoman.terminal.figures import clock


@dataclass(frozen=True)
class Limits:
    """Limits that end a training; None: no limit."""

    max_seconds: float | None = None
    max_steps: int | None = None
    max_epochs: int | None = None
    patience: int | None = None
    """Validations in a row without a better score."""


class Remaining:
    """Estimates the time that is left from steps and validations."""

    def __init__(self, limits: Limits):
        self.limits = limits
        self.last: dict[str, Any] = {}
        self._epoch_tokens: float | None = None
        self._validations: list[float] = []  # the seconds of training before each
        self._stale: int | None = None  # validations since the best one, once there was one

    def step(self, metrics: dict[str, Any]) -> None:
        """A step was made."""
        if metrics["epoch"] > self.last.get("epoch", 0):
            self._epoch_tokens = metrics["tokens"] / metrics["epoch"]
        self.last = metrics

    def validation(self, *, better: bool) -> None:
        """The model was validated after the last step."""
        self._validations.append(self.last.get("seconds", 0.0))
        self._stale = 0 if better else None if self._stale is None else self._stale + 1

    def text(self) -> str:
        """'1:03 left', 'at least 6:10 left' if only patience ends the training, or '' if neither is known."""
        if not self.last:
            return ""
        if ends := self._limits_in_seconds():
            return f"{clock(max(0.0, min(ends) - self.last['seconds']))} left"
        earliest = self._earliest_end()
        return f"at least {clock(max(0.0, earliest - self.last['seconds']))} left" if earliest else ""

    def _limits_in_seconds(self) -> list[float]:
        """Seconds of training at which each limit will be reached, at the present pace."""
        limits, last, ends = self.limits, self.last, []
        if limits.max_seconds:
            ends.append(limits.max_seconds)
        if limits.max_steps:
            ends.append(limits.max_steps * last["seconds"] / last["step"])
        if limits.max_epochs and self._epoch_tokens:
            ends.append(limits.max_epochs * self._epoch_tokens * last["seconds"] / last["tokens"])
        return ends

    def _earliest_end(self) -> float | None:
        """Seconds of training at which patience ends it, if no further validation is better."""
        if self.limits.max_epochs or not self.limits.patience or self._stale is None or len(self._validations) < 2:
            return None
        before, latest = self._validations[-2:]
        return latest + (self.limits.patience - self._stale) * (latest - before)
