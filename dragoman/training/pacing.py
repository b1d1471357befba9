"""Decides when a run validates, when its learning rate falls, and when it ends: by steps, or by a clock.

Each decision that depends on the clock is made once and saved with the run (`Plan`), so that a resumed run computes the
same bits.
"""

import math
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from typing import NamedTuple

from dragoman.config.training import ENDING, TrainingConfig
from dragoman.data.batching import TokenBatches
from dragoman.training.ending import last_step, limits, minutes_limit, patience_limit, plan_decay, steps_in
from dragoman.training.progress import Progress
from dragoman.training.schedule import learning_rate

FIRST_VALIDATION = 50, 200
"""Earliest and latest step of the first validation, if the config leaves it open; within these it is after two
epochs."""
VALIDATION_SHARE = 0.05
"""Share of the time of training that validations may take."""
SINCE_VALIDATION = 0.2
"""Share of the steps so far that may have passed since the last validation when a decay begins."""
FEWEST_STEPS = 10
"""Fewest steps from which the speed is estimated; the first ones of a command are slow."""
TOLERANCE = 1.1
"""The end of a decay stays as long as the steps planned and those for which there is time differ by less than this
factor."""
WINDOW = 30, 200
"""Fewest and most steps from which the speed during a decay is estimated."""


class Moment(NamedTuple):
    """A step and the time at which it ended."""

    seconds: float
    step: int


class Pacing:
    """Compares the steps and the time of a run with its limits.

    `seconds_after` estimates the seconds of the work after training from the seconds of a validation. Every rank calls
    `clock` equally often, so that all of them decide the same.
    """

    def __init__(
        self,
        progress: Progress,
        config: TrainingConfig,
        batches: TokenBatches,
        *,
        started: float,
        seconds_after: Callable[[float], float],
        clock: Callable[[], float],
    ):
        self.progress, self.config, self.batches = progress, config, batches
        self.step_limit = last_step(config, batches)
        """The last step by the limits of steps and epochs; None if there are none. A decay may end the run before."""
        self._seconds_after = seconds_after
        self._started, self._clock = started, clock
        # Beginnings of the steps from which the speed is estimated: of this command, and of the present window.
        self._first = self._latest = Moment(started, 0)

    def begin(self) -> None:
        """Start the clock before the first step of this command; earlier commands of the run count too."""
        self._started -= self.progress.seconds
        self._first = self._latest = self._now()

    @property
    def end(self) -> int | None:
        """The last step of the run; None if it is not known yet."""
        return self.progress.plan.last_step or self.step_limit

    def seconds(self) -> float:
        """Seconds of the run, with those of earlier commands."""
        return self._clock() - self._started

    def learning_rate(self) -> float:
        """The learning rate of the present step."""
        progress, plan = self.progress, self.progress.plan
        last = self.step_limit if self.config.schedule in ENDING else plan.last_step
        rate = learning_rate(progress.step, self.config, last, decay_from=plan.decay_from)
        return progress.rate_factor * rate

    def validates(self) -> bool:
        """Whether to validate after the present step."""
        return self.progress.step % self._validate_every() == 0

    def validates_before_decay(self) -> bool:
        """Whether to validate when the decay begins, where the config leaves it open and the last one is long ago.

        Halfway through a short run, this tells what the second half of its time has brought.
        """
        progress = self.progress
        is_due = progress.step - progress.validated_step > SINCE_VALIDATION * progress.step
        return self.config.validate_every is None and progress.plan.decay_from == progress.step and is_due

    def validated(self, seconds: float) -> None:
        """Record the duration of a validation; the first one settles how often to validate."""
        progress, plan = self.progress, self.progress.plan
        interval = self._validate_every()
        affordable = self._steps_in(seconds / VALIDATION_SHARE, self._first)
        if self.config.validate_every is None and plan.validate_every is None and affordable < math.inf:
            plan.validate_every = interval * max(1, math.ceil(affordable / interval))
        progress.validation_seconds = seconds
        # The time of validations does not count as that of steps.
        self._latest = Moment(self._latest.seconds + seconds, self._latest.step)
        if plan.last_step and plan.decay_from == progress.step:
            # The decay was planned before there was this validation.
            since = Moment(self._first.seconds + seconds, self._first.step)
            possible = self._steps_in(self._seconds_left(), since)
            if math.isfinite(possible):
                plan.last_step = min(plan.last_step, progress.step + max(1, int(possible)))

    def ends_r_drop(self) -> bool:
        """End R-Drop if the run will come to too few epochs for it; returns whether it ends now.

        To be asked after a validation, whose checkpoint remembers it.
        """
        progress, config, plan = self.progress, self.config, self.progress.plan
        if not config.r_drop or plan.r_drop_until is not None or not progress.step:
            return False
        # The time of the validation does not count as that of steps.
        since = Moment(self._first.seconds + progress.validation_seconds, self._first.step)
        steps_left = self._steps_in(self._seconds_left(), since)
        if steps_left < FEWEST_STEPS:
            return False
        position = progress.position
        epochs = position.epoch + position.batch / len(self.batches.plan(position.epoch))
        if epochs * (1 + steps_left / progress.step) >= config.r_drop_epochs:
            return False
        plan.r_drop_until, plan.limits = progress.step, limits(config)
        # From now on steps take less time; those so far say nothing about it.
        self._first = self._latest = self._now()
        return True

    def update_plan(self) -> bool:
        """Begin the decay of `wsd` in time, or move its end if the speed has changed; returns whether it did."""
        if self.config.schedule != "wsd":
            return False
        seconds_left = self._seconds_left()
        if self.progress.plan.last_step is None:
            return self._begin_decay(seconds_left)
        return self._move_end(seconds_left, self.progress.plan.last_step)

    def _begin_decay(self, seconds_left: float) -> bool:
        """Plan the decay if it has to begin now; returns whether it does."""
        progress = self.progress
        decay = plan_decay(
            progress.step,
            self.config,
            last_step=self.step_limit,
            steps_left=self._steps_in(seconds_left, self._first),
            stale=progress.stale,
        )
        if decay is not None:
            before = progress.plan
            progress.plan = replace(decay, validate_every=before.validate_every, r_drop_until=before.r_drop_until)
        self._latest = self._now()
        return decay is not None

    def _move_end(self, seconds_left: float, last_step: int) -> bool:
        """Move the end of the decay, now `last_step`, if the speed of the last steps has changed; whether it did."""
        progress, plan = self.progress, self.progress.plan
        fewest, most = WINDOW
        planned = last_step - progress.step
        possible = self._steps_in(seconds_left, self._latest, fewest=fewest)
        is_too_late = planned > TOLERANCE * possible
        is_too_early = TOLERANCE * planned + fewest < possible < math.inf and plan.reason == minutes_limit(self.config)
        is_moved = is_too_late or is_too_early
        if is_moved:
            plan.last_step = min(progress.step + max(1, int(possible)), self.step_limit or sys.maxsize)
        if is_moved or progress.step - self._latest.step >= most:
            self._latest = self._now()
        return is_moved

    def shorten(self) -> None:
        """End a decay that has begun sooner if a resumed run has a lower limit of steps or epochs than before."""
        progress, plan = self.progress, self.progress.plan
        if plan.last_step is not None and self.step_limit is not None and self.step_limit < plan.last_step:
            plan.last_step, plan.limits = max(progress.step, self.step_limit), limits(self.config)
            is_of_steps = self.step_limit == self.config.max_steps
            plan.reason = f"{self.config.max_steps} steps" if is_of_steps else f"{self.config.max_epochs} epochs"

    def why_finished(self) -> str | None:
        """The limit that the run has reached, or None. A decay that has begun goes to its end."""
        progress, config, plan = self.progress, self.config, self.progress.plan
        if plan.last_step is not None:
            return plan.reason if progress.step >= plan.last_step else None
        if config.max_steps and progress.step >= config.max_steps:
            return f"{config.max_steps} steps"
        position = progress.position
        is_epoch_over = position.batch >= len(self.batches.plan(position.epoch))
        if config.max_epochs and position.epoch + is_epoch_over >= config.max_epochs:
            return f"{config.max_epochs} epochs"
        if progress.step and self._seconds_left() <= 0:  # there is no model without a step
            return minutes_limit(config)
        if progress.stale >= config.patience and config.schedule != "wsd":
            return patience_limit(config)
        return None

    def _validate_every(self) -> int:
        """Steps between two validations."""
        settled = self.progress.plan.validate_every
        if self.config.validate_every is None and settled is not None:
            return settled
        return self._first_validation

    @cached_property
    def _first_validation(self) -> int:
        """Step of the first validation, and the interval of the others until the duration of one settles another."""
        # Counted once: this plans epoch 0, and in a later epoch all of its batches would have to be planned again.
        config = self.config
        if config.validate_every == "epoch":
            return steps_in(1, config, self.batches)
        if config.validate_every is not None:
            return config.validate_every
        earliest, latest = FIRST_VALIDATION
        return min(latest, max(earliest, steps_in(2, config, self.batches)))

    def _seconds_left(self) -> float:
        """Seconds left for steps, after subtracting those of a last validation and of the work after training."""
        if not self.config.max_minutes:
            return math.inf
        validation_seconds = self.progress.validation_seconds
        seconds_after = self._seconds_after(validation_seconds)
        return 60 * self.config.max_minutes - self.seconds() - validation_seconds - seconds_after

    def _steps_in(self, seconds: float, since: Moment, *, fewest: int = FEWEST_STEPS) -> float:
        """Steps that fit in `seconds` at the speed since a moment; infinity if fewer than `fewest` were taken since."""
        taken = self.progress.step - since.step
        if taken < fewest:
            return math.inf
        return max(0.0, seconds) * taken / max(1e-9, self._clock() - since.seconds)

    def _now(self) -> Moment:
        return Moment(self._clock(), self.progress.step)
