"""How far a run has come, and when it is over."""

import math
from dataclasses import asdict, dataclass, field
from typing import Any

from dragoman.config.training import ENDING, TrainingConfig
from dragoman.data.batching import Position, TokenBatches
from dragoman.errors import UsageError
from dragoman.metrics import METRICS
from dragoman.training.advice import LossMonitor


@dataclass
class Progress:
    """Counters of a run. With weights and optimizer they are all that a resumed run needs."""

    step: int = 0
    position: Position = field(default_factory=Position)
    seconds: float = 0.0
    tokens: int = 0
    """Source and target tokens seen, without padding."""
    best_scores: dict[str, float] = field(default_factory=dict)
    """`Metric.sort_key` of each score of the best validation, by name; empty: there was no validation yet."""
    best_step: int = 0
    stale: int = 0
    """Validations since the best one."""
    validated_step: int = 0
    """The last step that was validated and saved."""
    averaged_step: int = 0
    """The last step at which snapshots were averaged."""
    rate_factor: float = 1.0
    """Factor of the learning rate, lowered by plateaus and roll-backs."""
    bad_steps: int = 0
    """Steps in a row whose loss or gradient was not finite."""
    skipped_steps: int = 0
    """All such steps of the run."""
    roll_backs: int = 0
    """Roll-backs since the best validation."""
    too_large: int | None = None
    """Tokens, padding included, of the smallest batch that did not fit in memory."""
    left_out: int = 0
    """Pairs that did not fit in memory even alone, counted each time."""
    loss_monitor: LossMonitor = field(default_factory=LossMonitor)

    def is_better(self, scores: dict[str, float], monitor: str) -> bool:
        """Whether a validation is better than the best one; the loss decides between equal scores."""
        best = self.best_scores
        # Version 0.1.0 did not store the loss: among equal scores its best validation stays the best.
        best_rank = best.get(monitor, -math.inf), best.get("loss", math.inf)
        return (scores[monitor], scores["loss"]) > best_rank

    def state_dict(self) -> dict[str, Any]:
        return asdict(self)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go back to a `state_dict`. Fields that an older version did not have get their defaults."""
        if "best_bleu" in state:  # version 0.1.0
            state = state | {"best_scores": {"bleu": state["best_bleu"]}}
        position, monitor = Position(**state["position"]), LossMonitor(**state.get("loss_monitor", {}))
        known = {name: value for name, value in state.items() if name in self.__dict__}
        self.__dict__.update(Progress().__dict__ | known | {"position": position, "loss_monitor": monitor})


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


def why_finished(progress: Progress, config: TrainingConfig, batches: TokenBatches) -> str | None:
    """Which limit the run has reached, or None."""
    if config.max_steps and progress.step >= config.max_steps:
        return f"{config.max_steps} steps"
    last_batch = progress.position.batch >= len(batches.plan(progress.position.epoch))
    if config.max_epochs and progress.position.epoch + last_batch >= config.max_epochs:
        return f"{config.max_epochs} epochs"
    if config.max_minutes and progress.seconds >= 60 * config.max_minutes:
        return f"{config.max_minutes:g} minutes"
    if progress.stale >= config.patience:
        return f"{config.patience} validations without a {METRICS[config.monitor].improvement}"
    return None
