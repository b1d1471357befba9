"""When a run ends: its limits of steps, epochs, minutes and patience, and when a decay has to begin to end there."""

import math
from dataclasses import dataclass, field

from dragoman.config.training import ENDING, TrainingConfig
from dragoman.data.batching import TokenBatches
from dragoman.errors import UsageError
from dragoman.metrics import METRICS


@dataclass
class Plan:
    """Decisions made while a run is under way. Stored in checkpoints, so that a resumed run computes the same bits."""

    validate_every: int | None = None
    """Steps between validations, if the config leaves them open; known after the first validation."""
    decay_from: int | None = None
    """The last step before the decay of `wsd`."""
    last_step: int | None = None
    """The last step of that decay."""
    reason: str = ""
    """The limit that ends the run at `last_step`, such as "90 minutes"."""
    limits: list[float | None] = field(default_factory=list)
    """All limits of the run (`limits`) when R-Drop ended or the decay began, whichever was later."""
    r_drop_until: int | None = None
    """The last step with R-Drop, if the run is too slow for it."""


def steps_in(epochs: int, config: TrainingConfig, batches: TokenBatches) -> int:
    """Steps in this many epochs. Every epoch has as many batches, or nearly so where its tokens differ."""
    return math.ceil(epochs * len(batches.plan(0)) / config.accumulate)


def last_step(config: TrainingConfig, batches: TokenBatches) -> int | None:
    """The step after which steps or epochs end the run, None if neither is limited.

    Raises `UsageError` if the schedule reaches its end there and would still be warming up.
    """
    ends = []
    if config.max_steps:
        ends.append(config.max_steps)
    if config.max_epochs:
        ends.append(steps_in(config.max_epochs, config, batches))
    last = min(ends, default=None)
    if config.schedule in ENDING and last is not None and last < config.warmup:
        raise UsageError(
            f"The run ends after {last:,} steps, so that the schedule {config.schedule} would end inside its "
            f"training.warmup of {config.warmup:,}; shorten the warm-up, or train for more epochs."
        )
    return last


def limits(config: TrainingConfig) -> list[float | None]:
    """All limits that can end a run; None and 0 mean no limit."""
    return [config.max_steps, config.max_epochs, config.max_minutes, config.patience]


def admits_more(config: TrainingConfig, plan: Plan) -> bool:
    """Whether a limit is higher than when R-Drop ended or the decay began, or gone."""
    now_and_then = zip(limits(config), plan.limits, strict=False)
    return any((now or math.inf) > (then or math.inf) for now, then in now_and_then)


def plan_decay(
    step: int, config: TrainingConfig, *, last_step: int | None, steps_left: float, stale: int
) -> Plan | None:
    """The plan of a run whose decay has to begin after `step`; None while there is time.

    `last_step` is that of a limit of steps or epochs, `steps_left` are those for which there are minutes, and `stale`
    validations were not better than one before.
    """
    decay_steps = math.ceil(step * config.decay / (1 - config.decay))
    steps_until: dict[str, float] = {}
    """Steps until each limit ends the run."""
    if config.max_minutes and math.isfinite(steps_left):
        steps_until[minutes_limit(config)] = steps_left
    if last_step is not None:
        limit = f"{config.max_steps} steps" if last_step == config.max_steps else f"{config.max_epochs} epochs"
        steps_until[limit] = last_step - step
    if stale >= config.patience:
        steps_until[patience_limit(config)] = decay_steps
    if not steps_until:
        return None
    reason = min(steps_until, key=steps_until.__getitem__)
    if steps_until[reason] > decay_steps:
        return None
    last = step + max(1, math.floor(steps_until[reason]))
    return Plan(decay_from=step, last_step=last, reason=reason, limits=limits(config))


def minutes_limit(config: TrainingConfig) -> str:
    """The limit of minutes in words, such as "90 minutes": the reason why a run ends."""
    return f"{config.max_minutes:g} minutes"


def patience_limit(config: TrainingConfig) -> str:
    """The limit of validations in words, such as "12 validations without a better BLEU": the reason why a run ends."""
    return f"{config.patience} validations without a {METRICS[config.monitor].improvement}"
