"""Counters of a training run, which its checkpoints store."""

import math
from dataclasses import asdict, dataclass, field
from typing import Any

from dragoman.data.batching import Position
from dragoman.training.advice import LossMonitor
from dragoman.training.ending import Plan


@dataclass
class Progress:
    """Counters of a run. With weights and optimizer they are all that a resumed run needs."""

    step: int = 0
    position: Position = field(default_factory=Position)
    seconds: float = 0.0
    """Time of the run, in this command and those before."""
    validation_seconds: float = 5.0
    """Duration of the last validation; before the first one a guess."""
    tokens: int = 0
    """Source and target tokens seen, without padding."""
    best_scores: dict[str, float] = field(default_factory=dict)
    """`Metric.sort_key` of each score of the best validation, by name; empty before the first one."""
    best_step: int = 0
    """The step of the best validation whose model could be written."""
    unkept: bool = False
    """Whether a better model than that of `best_step` could not be written."""
    stale: int = 0
    """Validations since the last one that was better by more than chance explains."""
    gained: list[list[float]] = field(default_factory=list)
    """What the monitored metric counted in each sentence of that validation; empty if it looks at no translations."""
    validated_step: int = 0
    """The last step that was validated and saved."""
    averaged_step: int = 0
    """The last step at which snapshots were averaged."""
    rate_factor: float = 1.0
    """Factor of the learning rate, lowered by plateaus and roll-backs."""
    bad_steps: int = 0
    """Steps in a row whose loss or gradient was not finite."""
    skipped_steps: int = 0
    """All steps of the run whose loss or gradient was not finite."""
    roll_backs: int = 0
    """Roll-backs since the best validation."""
    too_large: int | None = None
    """Tokens, padding included, of the smallest batch that did not fit in memory."""
    left_out: int = 0
    """Pairs that did not fit in memory even alone, counted each time."""
    computed_with: str = ""
    """Machine, precision and version of torch, on which the last bits of the weights depend."""
    plan: Plan = field(default_factory=Plan)
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
        """Restore a `state_dict`. Fields that an older version did not have get their defaults."""
        if "best_bleu" in state:  # version 0.1.0
            state = state | {"best_scores": {"bleu": state["best_bleu"]}}
        fields = Progress().__dict__
        fields |= {name: value for name, value in state.items() if name in fields}
        fields["position"] = Position(**state.get("position", {}))
        fields["plan"] = Plan(**state.get("plan", {}))
        fields["loss_monitor"] = LossMonitor(**state.get("loss_monitor", {}))
        self.__dict__.update(fields)
