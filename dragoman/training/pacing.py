"""When a run validates, when its learning rate falls, and when it ends: in steps, or by a clock.

What a clock decides is decided once and saved with the run (`Plan`), so that a resumed run computes the same bits.
"""

import math
import sys
from collections.abc import Callable
from dataclasses import replace

from dragoman.config.training import ENDING, TrainingConfig
from dragoman.data.batching import TokenBatches
from dragoman.training.progress import Progress
from dragoman.training.schedule import by_minutes, last_step, learning_rate, no_better, plan_decay, steps_in

FIRST_VALIDATION = 50, 200
"""The step of the first validation, if the config leaves it open: two epochs, but not before or after these."""
VALIDATION_SHARE = 0.05
"""Share of the time of training that validations may take."""
FEWEST_STEPS = 10
"""Steps that tell how long others take; the first ones are slow."""
AMISS = 1.1
"""A decay that would take so many times the time that is left is made shorter, and one that would leave it longer."""
WINDOW = 30, 200
"""Fewest and most steps that tell how long they take at present."""


class Pacing:
    """The clock of a run. `seconds_after` tells how long what follows the training takes, if a validation does so.

    Every rank asks `clock` equally often, so that all of them decide the same.
    """

    def __init__(
        self,
        progress: Progress,
        config: TrainingConfig,
        batches: TokenBatches,
        started: float,
        seconds_after: Callable[[float], float],
        clock: Callable[[], float],
    ):
        self.progress, self.config, self.batches = progress, config, batches
        self.last_step = last_step(config, batches)
        self._seconds_after = seconds_after
        self._started, self._clock = started, clock
        self._first = self._latest = started, 0

    def begin(self) -> None:
        """The next step is the first one of this command."""
        self._started -= self.progress.seconds
        self._first = self._latest = self._clock(), self.progress.step

    @property
    def end(self) -> int | None:
        """The last step of the run, as far as it is known."""
        return self.progress.plan.last_step or self.last_step

    def seconds(self) -> float:
        """Seconds of the run, with those of earlier commands."""
        return self._clock() - self._started

    def learning_rate(self) -> float:
        """The learning rate of the present step."""
        progress, plan = self.progress, self.progress.plan
        last = self.last_step if self.config.schedule in ENDING else plan.last_step
        rate = learning_rate(progress.step, self.config, last, decay_from=plan.decay_from)
        return progress.rate_factor * rate

    def validates(self) -> bool:
        """Whether to validate after the present step."""
        return self.progress.step % self._validate_every() == 0

    def validated(self, seconds: float) -> None:
        """Take in how long a validation has taken; the first one settles how often to validate."""
        progress, every = self.progress, self._validate_every()
        affordable = self._steps_in(seconds / VALIDATION_SHARE, self._first)
        if self.config.validate_every is None and progress.plan.validate_every is None and affordable < math.inf:
            progress.plan.validate_every = every * max(1, math.ceil(affordable / every))
        progress.validation_seconds = seconds
        then, step = self._latest
        self._latest = then + seconds, step

    def plan(self) -> bool:
        """Begin the decay of `wsd` in time, or move its end if the speed has changed; returns whether it did."""
        progress, plan, left = self.progress, self.progress.plan, self._seconds_left()
        if self.config.schedule != "wsd":
            return False
        if plan.last_step is None:
            steps, stale = self._steps_in(left, self._first), progress.stale
            decay = plan_decay(progress.step, self.config, last_step=self.last_step, steps_left=steps, stale=stale)
            progress.plan = replace(decay, validate_every=plan.validate_every) if decay else plan
            self._latest = self._clock(), progress.step
            return decay is not None
        fewest, most = WINDOW
        steps, planned = self._steps_in(left, self._latest, fewest=fewest), plan.last_step - progress.step
        early = AMISS * planned + fewest < steps < math.inf and plan.reason == by_minutes(self.config)
        if moved := planned > AMISS * steps or early:
            plan.last_step = min(progress.step + max(1, int(steps)), self.last_step or sys.maxsize)
        if moved or progress.step - self._latest[1] >= most:
            self._latest = self._clock(), progress.step
        return moved

    def why_finished(self) -> str | None:
        """The limit that the run has reached, or None. A decay that has begun goes to its end."""
        progress, config, plan = self.progress, self.config, self.progress.plan
        if plan.last_step is not None:
            return plan.reason if progress.step >= plan.last_step else None
        if config.max_steps and progress.step >= config.max_steps:
            return f"{config.max_steps} steps"
        last_batch = progress.position.batch >= len(self.batches.plan(progress.position.epoch))
        if config.max_epochs and progress.position.epoch + last_batch >= config.max_epochs:
            return f"{config.max_epochs} epochs"
        if progress.step and self._seconds_left() <= 0:  # there is no model without a step
            return by_minutes(config)
        if progress.stale >= config.patience and config.schedule != "wsd":
            return no_better(config)
        return None

    def _validate_every(self) -> int:
        every = self.config.validate_every
        if every == "epoch":
            return steps_in(1, self.config, self.batches)
        earliest, latest = FIRST_VALIDATION
        first = min(latest, max(earliest, steps_in(2, self.config, self.batches)))
        return every or self.progress.plan.validate_every or first

    def _seconds_left(self) -> float:
        """Seconds for steps, less those that a last validation and what follows it will take."""
        if not self.config.max_minutes:
            return math.inf
        known = self.progress.validation_seconds
        return 60 * self.config.max_minutes - self.seconds() - known - self._seconds_after(known)

    def _steps_in(self, seconds: float, since: tuple[float, int], *, fewest: int = FEWEST_STEPS) -> float:
        """How many steps take so many seconds, by those since a time and step; infinity if these are too few."""
        then, step = since
        taken = self.progress.step - step
        return math.inf if taken < fewest else max(0.0, seconds) * taken / max(1e-9, self._clock() - then)
