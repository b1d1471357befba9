"""Learning-rate schedules by name, and when a run ends.

A schedule that falls to 0 has to know the end of the run. `wsd` (warmup-stable-decay, Hu et al. 2024, 2404.06395) need
not know it before its decay begins: until then all runs are the same, however long they will be.
"""

import math
from dataclasses import dataclass, field

from dragoman.config.training import ENDING, TrainingConfig
from dragoman.data.batching import TokenBatches
from dragoman.errors import UsageError
from dragoman.metrics import METRICS


@dataclass
class Plan:
    """What is settled while a run is under way; saved with it, so that a resumed run computes the same bits."""

    validate_every: int | None = None
    """Steps between validations, if the config leaves it open; known after the first one."""
    decay_from: int | None = None
    """The last step before the decay of `wsd`."""
    last_step: int | None = None
    """The last step of that decay."""
    reason: str = ""
    """Why it ends there."""
    limits: list[float | None] = field(default_factory=list)
    """The limits that were known when the decay began."""


def learning_rate(
    step: int, config: TrainingConfig, last_step: int | None = None, *, decay_from: int | None = None
) -> float:
    """The learning rate of optimizer step `step`, counted from 1.

    It rises linearly to `config.learning_rate` at step `config.warmup`, and then follows `config.schedule`. `cosine`
    and `linear` need to know the `last_step` of the run, the one before they reach 0. `wsd` is constant without it, and
    else up to `decay_from`, by default the beginning of the last share `config.decay` of the steps.
    """
    share = 1.0  # `constant`, and `plateau`, which the trainer lowers when validations get no better
    if config.schedule == "inverse_sqrt":
        share = math.sqrt(config.warmup / step)  # equation 3 of the paper up to its constant
    elif config.schedule in ENDING:
        assert last_step is not None, "schedules that end know their last step"
        covered = _covered(step, config.warmup, last_step)
        share = 1 - covered if config.schedule == "linear" else (1 + math.cos(math.pi * covered)) / 2
    elif config.schedule == "wsd" and last_step is not None:
        start = max(config.warmup, math.ceil(last_step * (1 - config.decay))) if decay_from is None else decay_from
        share = 1 - _covered(step, start, last_step)
    return config.learning_rate * min(step / config.warmup, share)


def _covered(step: int, start: int, last_step: int) -> float:
    """The part of the way from `start` to the step after the last one."""
    return min(max(step - start, 0) / max(1, last_step + 1 - start), 1.0)


def steps_in(epochs: int, config: TrainingConfig, batches: TokenBatches) -> int:
    """Steps in this many epochs. Every epoch has as many batches, because only the order of the pairs changes."""
    return math.ceil(epochs * len(batches.plan(0)) / config.accumulate)


def last_step(config: TrainingConfig, batches: TokenBatches) -> int | None:
    """The step after which steps or epochs end the run, None if neither is limited.

    Raises `UsageError` if the schedule reaches its end there and would still be warming up.
    """
    limits = [config.max_steps] if config.max_steps else []
    if config.max_epochs:
        limits.append(steps_in(config.max_epochs, config, batches))
    last = min(limits, default=None)
    if config.schedule in ENDING and last is not None and last < config.warmup:
        raise UsageError(
            f"The run ends after {last:,} steps, so that the schedule {config.schedule} would end inside its "
            f"training.warmup of {config.warmup:,}; shorten the warm-up, or train for more epochs."
        )
    return last


def limits(config: TrainingConfig) -> list[float | None]:
    """Everything that ends a run."""
    return [config.max_steps, config.max_epochs, config.max_minutes, config.patience]


def admits_more(config: TrainingConfig, plan: Plan) -> bool:
    """Whether a limit is higher than when the decay began, or gone."""
    known = zip(limits(config), plan.limits, strict=False)
    return any((now or math.inf) > (then or math.inf) for now, then in known)


def plan_decay(
    step: int, config: TrainingConfig, *, last_step: int | None, steps_left: float, stale: int
) -> Plan | None:
    """The end of a run whose decay has to begin after `step`; None while there is time.

    `last_step` is that of a limit of steps or epochs, `steps_left` are those for which there are minutes, and `stale`
    validations were not better than one before.
    """
    decay = math.ceil(step * config.decay / (1 - config.decay))
    ends: dict[str, float] = {}
    if config.max_minutes and math.isfinite(steps_left):
        ends[by_minutes(config)] = steps_left
    if last_step is not None:
        by_steps = last_step == config.max_steps
        ends[f"{config.max_steps} steps" if by_steps else f"{config.max_epochs} epochs"] = last_step - step
    if stale >= config.patience:
        ends[no_better(config)] = decay
    reason = min(ends, key=ends.__getitem__, default=None)
    if reason is None or ends[reason] > decay:
        return None
    last = step + max(1, math.floor(ends[reason]))
    return Plan(decay_from=step, last_step=last, reason=reason, limits=limits(config))


def by_minutes(config: TrainingConfig) -> str:
    """The reason of a run whose time is over."""
    return f"{config.max_minutes:g} minutes"


def no_better(config: TrainingConfig) -> str:
    """The reason of a run that has come to the end of its patience."""
    return f"{config.patience} validations without a {METRICS[config.monitor].improvement}"
