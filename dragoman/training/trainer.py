"""The training loop: steps, validation, checkpoints, stopping, and resuming with the same bits.

Random numbers follow from (seed, step, micro-batch), the batches from (seed, epoch, index), so that weights,
optimizer and a few counters are all there is to resume.
"""

import math
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch

from dragoman.config.training import TrainingConfig
from dragoman.data.batching import TokenBatches
from dragoman.errors import DataError
from dragoman.metrics import VALIDATED
from dragoman.model import Transformer
from dragoman.model.loss import LossOptions
from dragoman.storage.checkpoints import Checkpoints
from dragoman.storage.metrics_log import REQUESTED
from dragoman.storage.model_directory import copy_weights
from dragoman.system.device import choose_precision
from dragoman.system.ranks import ALONE, Ranks, whole
from dragoman.training.averaging import MovingAverage, average_weights
from dragoman.training.executors import Executor
from dragoman.training.optimizer import build_optimizer, load_moments, moments
from dragoman.training.pacing import Pacing
from dragoman.training.parallel import build_parallel_executor
from dragoman.training.progress import Progress
from dragoman.training.saving import Saver, Tensors
from dragoman.training.schedule import Plan, admits_more
from dragoman.training.stability import BAD_STEPS, after_roll_back, count_bad_step, count_memory, count_move

Metrics = dict[str, Any]
INTERRUPTED = "interrupted"
"""The reason why a run ended that was stopped and saved."""
LASTING = ("seconds", "best_scores", "best_step", "validation_seconds")
"""Fields of `Progress` that stay when a run goes back to before its decay."""


@dataclass
class TrainerCallbacks:
    """Functions and folders that the caller of a trainer provides."""

    evaluate: Callable[[Transformer], Metrics]
    """Scores of the model on the validation set; one must be that of `training.monitor`, unless it is the loss."""
    keep_best: Callable[[Transformer], None]
    """Called with every model that is better than all before."""
    on_event: Callable[[str, Metrics], None]
    """Called with each `step`, `validation`, `decay`, `average`, `roll_back` and `warning`, and its values."""
    checkpoints: Checkpoints
    """Everything a resumed run needs; the last two are kept."""
    snapshots: Checkpoints
    """Weights at the last validations, for the average."""
    stop_requested: Callable[[], bool] = lambda: False
    """Asked after every step; True ends the run as an interruption does."""
    finish_requested: Callable[[], bool] = lambda: False
    """Asked after every step; True ends the run as a limit does."""
    started: float = field(default_factory=time.monotonic)
    """When the command began, by the clock of rank 0; its time counts."""
    ranks: Ranks = ALONE
    """The processes that train this model together; rank 0 alone writes and evaluates."""
    seconds_after: Callable[[float], float] = lambda validation_seconds: 0.0
    """How long what comes after the training will take, given how long a validation does."""


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
        callbacks: TrainerCallbacks,
    ):
        self.model, self.batches, self.valid = model, batches, valid
        self.config, self.seed, self.callbacks = config, seed, callbacks
        options = LossOptions(model.config.pad_id, config.label_smoothing, config.r_drop, config.soft_targets)
        self.precision = choose_precision(config.precision, next(model.parameters()).device)
        self._first_weights = {name: p.detach().cpu().clone() for name, p in model.named_parameters()}
        self.ranks = ranks = callbacks.ranks
        self.executor = build_parallel_executor(
            model, self.precision, options, config=config, ranks=ranks, warn=self._warn
        )
        self.optimizer = build_optimizer(model, config)
        self.ema = MovingAverage(model, config.ema) if config.ema else None
        self.progress = Progress()
        after = callbacks.seconds_after
        self.pacing = Pacing(self.progress, config, batches, callbacks.started, after, ranks.clock)
        self.saver = Saver(self.progress, callbacks.checkpoints, callbacks.snapshots, ranks)
        self._is_wanted_to_finish = False

    def train(self) -> str:
        """Train until a limit is reached or a stop requested; returns the reason, such as "500 steps".

        After a stop this is `INTERRUPTED` if the last step is saved, else a text that begins with it.
        """
        progress, config = self.progress, self.config
        self.pacing.begin()
        if progress.unkept and self.pacing.why_finished():
            self._validate_and_save()
        while not (reason := self._why_finished()) or progress.validated_step != progress.step:
            if reason:
                self._validate_and_save()
                continue
            if self.pacing.plan():
                self.saver.save(*self.state_dict())
                self._report("decay", last_step=progress.plan.last_step, reason=progress.plan.reason)
            if metrics := self.train_step():
                self.callbacks.on_event("step", metrics)
                if self.pacing.validates():
                    self._validate_and_save()
            elif progress.bad_steps >= BAD_STEPS:
                self._roll_back()
            self._is_wanted_to_finish |= self.callbacks.finish_requested()
            if self.callbacks.stop_requested():
                # Bad weights are never saved: the steps since the last checkpoint will be taken again.
                if self.saver.saved_step != progress.step and all(
                    bool(w.isfinite().all()) for w in self.model.parameters()
                ):
                    self.saver.save(*self.state_dict())
                break
        if config.average > 1 and not self.callbacks.stop_requested():
            self._try_average()
        if reason and not self.callbacks.stop_requested():
            return reason
        return INTERRUPTED if self.saver.saved_step == progress.step else f"{INTERRUPTED}, not saved"

    def _why_finished(self) -> str:
        """The limit that is reached, or that somebody wants the training to end; empty before that."""
        return self.pacing.why_finished() or (REQUESTED if self._is_wanted_to_finish else "")

    def train_step(self) -> Metrics | None:
        """One optimizer step over `accumulate` batches. None if it was skipped: its loss or gradient is not finite."""
        config, progress = self.config, self.progress
        progress.step += 1
        self.model.train()
        rows = [self.batches.next_rows(progress.position) for _ in range(config.accumulate)]
        batches = [self.batches.part(each, self.ranks.index, self.ranks.size) for each in rows]
        gradient = self.executor.backward(batches, seed=partial(random_seed, self.seed, progress.step))
        self._warn(*count_memory(progress, gradient, self.executor.too_large, config))
        rate = self.pacing.learning_rate()
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        norm = float(whole(torch.nn.utils.clip_grad_norm_(self.model.parameters(), config.clip_norm or math.inf)))
        if usable := gradient.target_tokens > 0 and math.isfinite(gradient.loss + norm):
            self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        progress.seconds = self.pacing.seconds()
        if not usable:
            if gradient.target_tokens:  # else no pair fitted in memory, which is no sign of bad weights
                self._warn(count_bad_step(progress))
            return None
        if self.ema:
            self.ema.update(self.model, progress.step)
        progress.bad_steps = 0
        progress.tokens += gradient.target_tokens + gradient.source_tokens
        loss = gradient.loss / gradient.target_tokens
        progress.loss_monitor.step(loss)
        return {
            "step": progress.step,
            "epoch": progress.position.epoch,
            "loss": loss,
            "learning_rate": rate,
            "gradient_norm": norm,
            "tokens": progress.tokens,
            "seconds": progress.seconds,
        }

    def resume(self) -> None:
        """Go on from the last checkpoint, or from that before the decay if limits now admit more than was planned."""
        checkpoints, progress = self.callbacks.checkpoints, self.progress
        if latest := checkpoints.load_latest():
            self.load_state_dict(*latest)
        if (before := progress.plan.decay_from) is not None and admits_more(self.config, progress.plan):
            lasting = {name: getattr(progress, name) for name in LASTING} | {"stale": 0}
            every = progress.plan.validate_every
            try:
                tensors, state = checkpoints.load(before)
                self.load_state_dict(tensors, state | lasting)
            except DataError as error:
                self._warn(f"The decay cannot be taken back: {error}")
            progress.plan = Plan(every)
        self._warn(*count_move(progress, self.precision, self.ranks.size))

    @torch.no_grad()
    def validate(self) -> tuple[Transformer, Metrics]:
        """The model with all of its weights, and its scores: the loss per token without smoothing, in nats, and what
        `evaluate` adds.
        """
        executor = self.executor.whole()
        executor.model.eval()
        return executor.model, self.ranks.once(partial(self._validate, executor))

    def _validate(self, executor: Executor) -> Metrics:
        sums = [executor.loss(batch) for batch in self.valid.in_order()]
        loss = sum(loss for loss, _ in sums) / sum(count for _, count in sums)
        return {"valid_loss": loss, **self.callbacks.evaluate(executor.model)}

    def state_dict(self) -> tuple[Tensors, dict[str, Any]]:
        """The tensors and the counters of a checkpoint."""
        weights = {name: whole(weight) for name, weight in self.model.named_parameters()}
        tensors: Tensors = {"model": weights, "optimizer": moments(self.optimizer)}
        if self.ema:
            tensors["ema"] = {name: whole(weight) for name, weight in self.ema.weights.items()}
        return tensors, self.progress.state_dict()

    def load_state_dict(self, tensors: Tensors, state: dict[str, Any]) -> None:
        """Go back to a checkpoint; raises `UsageError` if it is of another optimizer."""
        load_moments(self.optimizer, tensors["optimizer"], name=self.config.optimizer)
        copy_weights(tensors["model"], self.model, origin=self.callbacks.checkpoints.folder)
        if self.ema:
            self.ema.load(tensors.get("ema", tensors["model"]))
        self.progress.load_state_dict(state)
        self.executor.too_large = self.progress.too_large
        self.saver.saved_step = self.progress.step

    def _validate_and_save(self) -> None:
        config, progress, started = self.config, self.progress, self.ranks.clock()
        # With an average, its weights are what is validated and kept.
        with self.ema.applied(self.model) if self.ema else nullcontext():
            model, metrics = self.validate()
            sound = math.isfinite(metrics["valid_loss"])
            better = sound and self._keep_if_better(model, metrics)
            if sound and config.average > 1:
                self.saver.save_snapshot(dict(model.named_parameters()), keep=config.average)
        if not sound:
            self._roll_back()
            return
        progress.stale = 0 if better else progress.stale + 1
        if better:
            progress.roll_backs = 0
        elif config.schedule == "plateau" and progress.stale % config.plateau_patience == 0:
            progress.rate_factor *= config.plateau_factor
        progress.validated_step = progress.step
        progress.seconds = self.pacing.seconds()
        self._report("validation", better=better, **metrics)
        self.batches.plan(progress.position.epoch)  # a run that is only finished has not opened it
        self._warn(*progress.loss_monitor.update(progress.step, metrics["valid_loss"], config, self.batches.target))
        self.pacing.validated(self.ranks.clock() - started)
        self.saver.save(*self.state_dict())

    def _keep_if_better(self, model: Transformer, metrics: Metrics) -> bool:
        """Keep a model that scores better than all before, and tell whether it does."""
        known = [metric for metric in VALIDATED if metric.validation_key in metrics]
        scores = {metric.name: metric.sort_key(metrics[metric.validation_key]) for metric in known}
        progress = self.progress
        better = progress.is_better(scores, self.config.monitor)
        if better:
            progress.unkept = not self.saver.attempt(
                "The best model was not written", lambda: self.callbacks.keep_best(model)
            )
            if not progress.unkept:
                progress.best_scores, progress.best_step = scores, progress.step
        return better

    def _roll_back(self) -> None:
        """Go back to the last validation, or to the start, and on with a smaller learning rate."""
        progress, checkpoints, bad_step = self.progress, self.callbacks.checkpoints, self.progress.step
        lasting = after_roll_back(progress, self.config)
        # An interruption may have saved a later step.
        good = {step for step in checkpoints.steps() if step <= progress.validated_step}
        self.ranks.once(lambda: checkpoints.prune(good))
        start = {"model": self._first_weights, "optimizer": {}}, Progress().state_dict()
        tensors, state = checkpoints.load_latest() or start
        self.load_state_dict(tensors, state | lasting)
        self._report("roll_back", bad_step=bad_step, rate_factor=progress.rate_factor)
        where = f"step {progress.step:,}" if progress.step else "the start"
        self._warn(f"Going back to {where}, and on with {progress.rate_factor:g} times the learning rate.")

    def _report(self, event: str, **values: Any) -> None:
        self.callbacks.on_event(event, {"step": self.progress.step, **values})

    def _warn(self, *texts: str) -> None:
        for text in texts:
            self._report("warning", text=text)

    def _try_average(self) -> None:
        """Section 6.1 of the paper averages the last checkpoints; here the average is kept if it is better."""
        snapshots = self.callbacks.snapshots
        steps = snapshots.steps()
        if len(steps) < 2 or self.progress.averaged_step == self.progress.step:
            return
        own = {name: weight.detach().clone() for name, weight in self.model.named_parameters()}
        try:
            weights = average_weights(snapshots.load(step)[0]["model"] for step in steps)
        except DataError as error:
            self._warn(f"No average: {error}")
            return
        copy_weights(weights, self.model, origin=snapshots.folder)
        model, metrics = self.validate()
        self._report("average", steps=steps, better=self._keep_if_better(model, metrics), **metrics)
        # A resumed run goes on from its own weights, and knows the score that it has to beat.
        copy_weights(own, self.model, origin=snapshots.folder)
        self.progress.averaged_step = self.progress.step
        self.saver.save(*self.state_dict())


def random_seed(seed: int, step: int, micro_batch: int) -> int:
    """The seed of the random numbers of a micro-batch."""
    # Below 2**63 for torch; the factors keep neighbouring runs and steps apart.
    return (seed * 1_000_000_007 + step * 10_007 + micro_batch) % 2**63
