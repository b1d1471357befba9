"""The training loop: steps, validation, checkpoints, stopping, and resuming with the same bits.

Random numbers follow from (seed, step, micro-batch), the batches from (seed, epoch, place), so that weights,
optimizer and a few counters are all there is to resume.
"""

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from torch import Tensor

from dragoman.checkpoint import Checkpoints, copy_weights
from dragoman.config import TrainingConfig
from dragoman.data.batching import Batch, Position, TokenBatches
from dragoman.device import choose_precision
from dragoman.errors import DataError, DragomanError, ResourceError
from dragoman.model import Transformer
from dragoman.training.averaging import average_weights
from dragoman.training.loss import cross_entropy
from dragoman.training.optimizer import build_optimizer, learning_rate

Metrics = dict[str, Any]


@dataclass
class Progress:
    """How far a run has come; together with weights and optimizer all that a resumed run needs."""

    step: int = 0
    position: Position = field(default_factory=Position)
    seconds: float = 0.0
    tokens: int = 0
    """Source and target tokens seen, without padding."""
    best_bleu: float = -1.0
    """Below every score, and a number that all JSON readers know."""
    best_step: int = 0
    stale: int = 0
    """Validations since the best one."""
    validated_step: int = 0
    """The last one that was validated, and saved."""
    averaged_step: int = 0
    """The last one at which snapshots were averaged."""

    def state_dict(self) -> dict[str, Any]:
        return asdict(self)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state | {"position": Position(**state["position"])})


@dataclass
class Outside:
    """What the trainer is handed by its caller."""

    evaluate: Callable[[Transformer], Metrics]
    """Scores of the model on the validation set; must have `bleu`."""
    keep_best: Callable[[Transformer], None]
    """Called with every model that is better than all before."""
    report: Callable[[str, Metrics], None]
    """Told of each `step`, `validation` and `average`."""
    checkpoints: Checkpoints
    """Everything a resumed run needs; the last two are kept."""
    snapshots: Checkpoints
    """Weights at the last validations, for the average."""
    stop_requested: Callable[[], bool] = lambda: False
    """Asked after every step; True ends the run as an interruption does."""


class Trainer:
    """Trains `model` on `batches` as `config` says, from where the checkpoints left off."""

    def __init__(
        self,
        model: Transformer,
        batches: TokenBatches,
        valid: TokenBatches,
        *,
        config: TrainingConfig,
        seed: int,
        outside: Outside,
    ):
        self.model, self.batches, self.valid = model, batches, valid
        self.config, self.seed, self.outside = config, seed, outside
        self.device = next(model.parameters()).device
        self.precision = choose_precision(config.precision, self.device)
        self.optimizer = build_optimizer(
            model, config.optimizer, betas=config.betas, eps=config.eps, weight_decay=config.weight_decay
        )
        self.progress = Progress()
        self._resumed_seconds, self._started = 0.0, time.monotonic()

    def train(self) -> str:
        """Run until something says stop, and return what it was; `interrupted` runs can be resumed."""
        self._resumed_seconds, self._started = self.progress.seconds, time.monotonic()
        while (reason := self._finished()) is None:
            metrics = self.train_step()
            self.outside.report("step", metrics)
            if self.progress.step % self.config.validate_every == 0:
                self._validate_and_save()
            if self.outside.stop_requested():
                if self.progress.validated_step != self.progress.step:
                    self._save()
                return "interrupted"
        if self.progress.validated_step != self.progress.step:
            self._validate_and_save()
        if self.config.average > 1 and not self.outside.stop_requested():
            self._try_average()
        return "interrupted" if self.outside.stop_requested() else reason

    def train_step(self) -> Metrics:
        """One optimizer step over `accumulate` batches: gradients are sums, divided once by all target tokens."""
        config, progress = self.config, self.progress
        progress.step += 1
        micro_batches = [self.batches.next(progress.position).to(self.device) for _ in range(config.accumulate)]
        num_tokens = sum(int((batch.labels != self.batches.pad_id).sum()) for batch in micro_batches)
        self.model.train()
        loss_sum = 0.0
        for index, batch in enumerate(micro_batches):
            seed_random_numbers(self.seed, progress.step, index)
            loss, _ = self._loss(batch, smoothing=config.label_smoothing)
            (loss / num_tokens).backward()
            loss_sum += loss.item()
        rate = learning_rate(progress.step, schedule=config.schedule, peak=config.learning_rate, warmup=config.warmup)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        norm = float(torch.nn.utils.clip_grad_norm_(self.model.parameters(), config.clip_norm or math.inf))
        if not math.isfinite(loss_sum + norm):
            raise DragomanError(
                f"The loss at step {progress.step} is not a number; the checkpoint before is whole: resume it with a "
                f"smaller training.learning_rate than {config.learning_rate:g}."
            )
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        progress.seconds = self._resumed_seconds + time.monotonic() - self._started
        progress.tokens += num_tokens + sum(int((b.source_ids != self.batches.pad_id).sum()) for b in micro_batches)
        return {
            "step": progress.step,
            "epoch": progress.position.epoch,
            "loss": loss_sum / num_tokens,
            "learning_rate": rate,
            "gradient_norm": norm,
            "tokens": progress.tokens,
            "seconds": progress.seconds,
        }

    @torch.no_grad()
    def validate(self) -> Metrics:
        """Loss per token without smoothing, in nats, and what `evaluate` adds."""
        self.model.eval()
        sums = [self._loss(batch.to(self.device), smoothing=0.0) for batch in self.valid.in_order()]
        loss = float(sum(loss for loss, _ in sums) / sum(count for _, count in sums))
        return {"valid_loss": loss, **self.outside.evaluate(self.model)}

    def state_dict(self) -> tuple[dict[str, dict[str, Tensor]], dict[str, Any]]:
        """The tensors and the counters of a checkpoint."""
        state = self.optimizer.state_dict()["state"]
        moments = {f"{i}.{name}": value for i, values in state.items() for name, value in values.items()}
        tensors = {"model": dict(self.model.named_parameters()), "optimizer": moments}
        return tensors, self.progress.state_dict()

    def load_state_dict(self, tensors: dict[str, dict[str, Tensor]], state: dict[str, Any]) -> None:
        """Go back to a checkpoint."""
        copy_weights(tensors["model"], self.model, origin=self.outside.checkpoints.folder)
        moments: dict[int, dict[str, Tensor]] = {}
        for name, value in tensors["optimizer"].items():
            index, _, key = name.partition(".")
            moments.setdefault(int(index), {})[key] = value
        groups = self.optimizer.state_dict()["param_groups"]
        self.optimizer.load_state_dict({"state": moments, "param_groups": groups})
        self.progress.load_state_dict(state)

    def _loss(self, batch: Batch, *, smoothing: float) -> tuple[Tensor, Tensor]:
        with torch.autocast(self.device.type, dtype=self.precision, enabled=self.precision != torch.float32):
            states = self.model.states(batch.source_ids, batch.target_ids)
            return cross_entropy(
                self.model.projection_dropout(states),
                batch.labels,
                weight=self.model.projection.weight,
                bias=self.model.projection.bias,
                pad_id=self.batches.pad_id,
                smoothing=smoothing,
            )

    def _finished(self) -> str | None:
        config, progress = self.config, self.progress
        if config.max_steps and progress.step >= config.max_steps:
            return f"{config.max_steps} steps"
        last_batch = progress.position.batch >= len(self.batches.plan(progress.position.epoch))
        if config.max_epochs and progress.position.epoch + last_batch >= config.max_epochs:
            return f"{config.max_epochs} epochs"
        if config.max_minutes and progress.seconds >= 60 * config.max_minutes:
            return f"{config.max_minutes:g} minutes"
        if progress.stale >= config.patience:
            return f"{config.patience} validations without a better BLEU"
        return None

    def _validate_and_save(self) -> None:
        metrics, progress = self.validate(), self.progress
        better = self._keep_if_better(metrics["bleu"])
        progress.stale = 0 if better else progress.stale + 1
        progress.validated_step = progress.step
        progress.seconds = self._resumed_seconds + time.monotonic() - self._started
        self.outside.report("validation", {"step": progress.step, "better": better, **metrics})
        if self.config.average > 1:
            weights, _ = self.state_dict()
            self._write(self.outside.snapshots, self.config.average, {"model": weights["model"]}, {})
        self._save()

    def _keep_if_better(self, bleu: float) -> bool:
        better = bleu > self.progress.best_bleu
        if better:
            with self._going_on("The best model was not written"):
                self.outside.keep_best(self.model)
                self.progress.best_bleu, self.progress.best_step = bleu, self.progress.step
        return better

    def _save(self) -> None:
        self._write(self.outside.checkpoints, 2, *self.state_dict())

    def _write(self, to: Checkpoints, keep: int, tensors: dict[str, dict[str, Tensor]], state: Metrics) -> None:
        with self._going_on(f"No checkpoint at step {self.progress.step}"):
            to.save(self.progress.step, tensors, state)
            to.prune(set(to.steps()[-keep:]))

    def _try_average(self) -> None:
        """Section 6.1 of the paper averages the last checkpoints; here the average is kept if it is better."""
        snapshots = self.outside.snapshots
        steps = snapshots.steps()
        if len(steps) < 2 or self.progress.averaged_step == self.progress.step:
            return
        own = {name: weight.detach().clone() for name, weight in self.model.named_parameters()}
        with self._going_on("No average"):
            weights = average_weights(snapshots.load(step)[0]["model"] for step in steps)
            copy_weights(weights, self.model, origin=snapshots.folder)
            metrics = self.validate()
            better = self._keep_if_better(metrics["bleu"])
            self.outside.report("average", {"steps": steps, "better": better, **metrics})
        # A resumed run goes on from its own weights, and knows the score that it has to beat.
        copy_weights(own, self.model, origin=snapshots.folder)
        self.progress.averaged_step = self.progress.step
        self._save()

    @contextmanager
    def _going_on(self, what: str) -> Iterator[None]:
        """A full disk or a damaged file is no reason to lose a training: what was written before is still there."""
        try:
            yield
        except (OSError, DataError, ResourceError) as error:
            self.outside.checkpoints.warn(f"{what}: {error}")


def seed_random_numbers(seed: int, step: int, micro_batch: int) -> None:
    """Make dropout a function of (seed, step, micro-batch)."""
    # Below 2**63 for torch; the factors keep neighbouring runs and steps apart.
    torch.manual_seed((seed * 1_000_000_007 + step * 10_007 + micro_batch) % 2**63)
