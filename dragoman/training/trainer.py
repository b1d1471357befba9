"""The training loop: steps, validation, checkpoints, stopping, and resuming with the same bits.

Random numbers follow from (seed, step, micro-batch), and batches from (seed, epoch, index). So a checkpoint needs only
the weights, the state of the optimizer and a few counters (`Progress`).
"""

import math
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dragoman.config.training import TrainingConfig
from dragoman.data.batching import TokenBatches
from dragoman.errors import DataError
from dragoman.metrics import VALIDATED
from dragoman.metrics.resampling import Statistics, is_clearly_better
from dragoman.model import Transformer
from dragoman.storage.checkpoints import Checkpoints
from dragoman.storage.metrics_log import REQUESTED
from dragoman.storage.model_directory import copy_weights
from dragoman.system.device import choose_precision
from dragoman.system.ranks import ALONE, Ranks, unsharded
from dragoman.training.averaging import MovingAverage, average_weights
from dragoman.training.ending import Plan, admits_more
from dragoman.training.executors import Executor
from dragoman.training.loss import loss_options
from dragoman.training.low_rank import all_weights, copy_factors, low_rank_maps, named_factors
from dragoman.training.optimizer import LORA, build_optimizer, load_moments, moments
from dragoman.training.pacing import Pacing
from dragoman.training.parallel import build_parallel_executor
from dragoman.training.progress import Progress
from dragoman.training.saving import Saver, Tensors
from dragoman.training.stability import (
    BAD_STEPS,
    count_bad_step,
    count_memory_errors,
    fields_after_roll_back,
    remember_machine,
)

Metrics = dict[str, Any]
INTERRUPTED = "interrupted"
"""Result of `Trainer.train` when a run was stopped and its last step is saved."""
INTERRUPTED_UNSAVED = "interrupted, not saved"
"""Result of `Trainer.train` when a run was stopped and the steps since the last checkpoint are lost."""
LASTING = ("seconds", "best_scores", "best_step", "gained", "validation_seconds")
"""Fields of `Progress` that keep their values when a run goes back to the step before its decay."""


@dataclass
class TrainerCallbacks:
    """Functions and folders that the caller of a trainer provides."""

    evaluate: Callable[[Transformer], Metrics]
    """Returns the scores of a model on the validation set. They include `training.monitor`, unless that is the loss.

    If they have `statistics` of the monitored metric (`Statistics`), differences by chance are no gain.
    """
    keep_best: Callable[[Transformer], None]
    """Called with every model that is better than all before."""
    on_event: Callable[[str, Metrics], None]
    """Called with the name of each event (`step`, `validation`, `decay`, `average`, `roll_back`, `warning`) and its
    values."""
    checkpoints: Checkpoints
    """Everything that a resumed run needs; the last two steps stay."""
    snapshots: Checkpoints
    """Weights at the last validations, for the average."""
    stop_requested: Callable[[], bool] = lambda: False
    """Called after every step; True interrupts the run, which can be resumed."""
    finish_requested: Callable[[], bool] = lambda: False
    """Called after every step; True ends the run as if it had reached a limit."""
    started: float = field(default_factory=time.monotonic)
    """Time at which the command began, by the clock of rank 0. `training.max_minutes` counts from here."""
    first_model: Callable[[], Transformer] | None = None
    """Makes the model anew as it was before the first step, for a run that has to go back to its start.

    None: the trainer keeps a copy of its first weights.
    """
    ranks: Ranks = ALONE
    """The processes that train this model together; rank 0 alone writes and evaluates."""
    seconds_after: Callable[[float], float] = lambda validation_seconds: 0.0
    """Estimates the seconds of the work after training from the seconds of a validation."""


@dataclass
class Validation:
    """The result of a validation."""

    metrics: Metrics
    counted: list[list[float]]
    """What the monitored metric counted in each sentence; empty if it looks at no translations."""
    is_clear_gain: bool | None
    """Whether it is better than the last clear gain by more than chance explains.

    None if there is nothing to compare, or if the scores are the same, as when BLEU is 0 throughout.
    """


class Trainer:
    """Trains `model` on `batches` as `config` says; `resume` continues from the last checkpoint."""

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
        self.precision = choose_precision(config.precision, next(model.parameters()).device)
        self.ranks = callbacks.ranks
        self._start = None if callbacks.first_model else _first_tensors(model)
        options = loss_options(config, model.config.pad_id)
        self.executor = build_parallel_executor(
            model, self.precision, options, config=config, ranks=self.ranks, warn=self._warn
        )
        self.optimizer = build_optimizer(model, config)
        self._optimizer_name = LORA if low_rank_maps(model) else config.optimizer
        self.ema = MovingAverage(model, config.ema) if config.ema else None
        self.progress = Progress()
        self.pacing = Pacing(
            self.progress,
            config,
            batches,
            started=callbacks.started,
            seconds_after=callbacks.seconds_after,
            clock=self.ranks.clock,
        )
        self.saver = Saver(self.progress, callbacks.checkpoints, callbacks.snapshots, self.ranks)
        self._is_wanted_to_finish = False

    def train(self) -> str:
        """Train until a limit is reached or a stop requested; returns the reason, such as "500 steps".

        After a stop it returns `INTERRUPTED` if the last step is saved, else `INTERRUPTED_UNSAVED`.
        """
        self.pacing.begin()
        if self.progress.unkept and self.pacing.why_finished():
            # The best model could not be written, and no step is left after which that would be tried again.
            self._validate_and_save()
        reason = self._take_steps()
        if self.config.average > 1 and not self.callbacks.stop_requested():
            self._try_average()
        if reason and not self.callbacks.stop_requested():
            return reason
        is_saved = self.saver.saved_step == self.progress.step
        return INTERRUPTED if is_saved else INTERRUPTED_UNSAVED

    def _take_steps(self) -> str:
        """Take steps and validate until a limit is reached, which is returned, or a stop requested; then "" is."""
        progress = self.progress
        while True:
            reason = self._why_finished()
            if reason and progress.validated_step == progress.step:
                return reason
            if reason:
                self._validate_and_save()  # this may roll back, and then steps are left
                continue
            if self.pacing.update_plan():
                if self.pacing.validates_before_decay():
                    self._validate_and_save()  # this may roll back, and then nothing is planned any more
                else:
                    self.saver.save(*self.state_dict())
                if progress.plan.last_step:
                    self._report("decay", last_step=progress.plan.last_step, reason=progress.plan.reason)
            metrics = self.train_step()
            if metrics:
                self.callbacks.on_event("step", metrics)
                if self.pacing.validates():
                    self._validate_and_save()
            elif progress.bad_steps >= BAD_STEPS:
                self._roll_back()
            if self.callbacks.finish_requested():
                self._is_wanted_to_finish = True
            if self.callbacks.stop_requested():
                self._save_before_stop()
                return ""

    def _why_finished(self) -> str:
        """The limit that is reached, or `REQUESTED` if the run shall end; empty while it goes on."""
        limit = self.pacing.why_finished()
        if limit:
            return limit
        return REQUESTED if self._is_wanted_to_finish else ""

    def _save_before_stop(self) -> None:
        """Write a checkpoint of the last step, unless it is written already or its weights are not finite.

        Without one, a resumed run takes the steps since the checkpoint before again.
        """
        if self.saver.saved_step == self.progress.step:
            return
        if all(bool(weight.isfinite().all()) for weight in self.model.parameters()):
            self.saver.save(*self.state_dict())

    def train_step(self) -> Metrics | None:
        """Take one optimizer step over `accumulate` batches; returns what it reports.

        If the loss or the gradient is not finite, or nothing fitted in memory, the weights stay and None is returned.
        """
        config, progress = self.config, self.progress
        progress.step += 1
        self.model.train()
        # All rows first: a step that reaches into a new epoch collates all of its batches in that one.
        row_lists = [self.batches.next_rows(progress.position) for _ in range(config.accumulate)]
        batches = [self.batches.part(rows, self.ranks.index, self.ranks.size) for rows in row_lists]
        gradient = self.executor.backward(batches, seed=partial(random_seed, self.seed, progress.step))
        self._warn(*count_memory_errors(progress, gradient, self.executor.too_large, config))

        norm = float(unsharded(torch.nn.utils.clip_grad_norm_(all_weights(self.model), config.clip_norm or math.inf)))
        rate = self.pacing.learning_rate()
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        is_usable = gradient.target_tokens > 0 and math.isfinite(gradient.loss + norm)
        if is_usable:
            self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        progress.seconds = self.pacing.seconds()
        if not is_usable:
            if gradient.target_tokens:  # else no pair fitted in memory, which is no sign of bad weights
                self._warn(count_bad_step(progress))
            return None

        if self.ema:
            self.ema.update(self.model, progress.step)
        loss = gradient.loss / gradient.target_tokens
        progress.bad_steps = 0
        progress.tokens += gradient.target_tokens + gradient.source_tokens
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
        """Continue from the last checkpoint, or from that before the decay if the limits now admit more steps."""
        progress = self.progress
        latest = self.callbacks.checkpoints.load_latest()
        if latest:
            self.load_state_dict(*latest)
        if admits_more(self.config, progress.plan):
            if progress.plan.decay_from is not None:
                self._take_back_decay(progress.plan.decay_from)
            progress.plan.r_drop_until = None  # whether there is time for R-Drop is seen anew
            self._follow_plan()
        self.pacing.shorten()
        self._warn(*remember_machine(progress, self.precision, self.ranks.size))

    def _take_back_decay(self, step_before: int) -> None:
        """Go back to `step_before` the decay; the time that has passed and the best model so far still count."""
        progress = self.progress
        lasting = {name: getattr(progress, name) for name in LASTING}
        validate_every = progress.plan.validate_every
        try:
            tensors, state = self.callbacks.checkpoints.load(step_before)
            self.load_state_dict(tensors, state | lasting | {"stale": 0})
        except DataError as error:
            self._warn(f"The decay cannot be taken back: {error}")
        progress.plan = Plan(validate_every)

    @torch.no_grad()
    def validate(self) -> tuple[Transformer, Validation]:
        """The model with all of its weights, and how well it does.

        The metrics are the loss per token without smoothing, in nats, and the scores of `TrainerCallbacks.evaluate`.
        """
        executor = self.executor.whole()
        executor.model.eval()
        return executor.model, self.ranks.once(partial(self._validate, executor))

    def _validate(self, executor: Executor) -> Validation:
        losses_and_counts = [executor.loss(batch) for batch in self.valid.in_order()]
        loss = sum(loss for loss, _ in losses_and_counts) / sum(count for _, count in losses_and_counts)
        metrics = {"valid_loss": loss, **self.callbacks.evaluate(executor.model)}
        statistics: Statistics | None = metrics.pop("statistics", None)
        if statistics is None:
            return Validation(metrics, counted=[], is_clear_gain=None)
        is_clear_gain = None
        before = replace(statistics, rows=np.array(self.progress.gained))
        if before.rows.shape == statistics.rows.shape and before.value() != statistics.value():
            is_clear_gain = is_clearly_better(before, statistics)
        return Validation(metrics, statistics.rows.tolist(), is_clear_gain)

    def state_dict(self) -> tuple[Tensors, dict[str, Any]]:
        """The tensors and the counters of a checkpoint."""
        weights = {name: unsharded(weight) for name, weight in self.model.named_parameters()}
        tensors: Tensors = {"model": weights, "optimizer": moments(self.optimizer)}
        if factors := dict(named_factors(self.model)):
            tensors["factors"] = {name: factor.detach() for name, factor in factors.items()}
        if self.ema:
            tensors["ema"] = {name: unsharded(weight) for name, weight in self.ema.weights.items()}
        return tensors, self.progress.state_dict()

    def load_state_dict(self, tensors: Tensors, state: dict[str, Any]) -> None:
        """Restore a checkpoint; raises `UsageError` if another optimizer wrote it."""
        load_moments(self.optimizer, tensors["optimizer"], name=self._optimizer_name)
        copy_weights(tensors["model"], self.model, origin=self.callbacks.checkpoints.folder)
        copy_factors(tensors.get("factors", {}), self.model)
        if self.ema:
            self.ema.load(tensors.get("ema", tensors["model"]))
        self.progress.load_state_dict(state)
        self.executor.too_large = self.progress.too_large
        self._follow_plan()
        self.saver.saved_step = self.progress.step

    def _validate_and_save(self) -> None:
        """Validate, keep the model if it is the best, and write a checkpoint; roll back if its loss is not finite."""
        config, progress, started = self.config, self.progress, self.ranks.clock()
        # With a moving average, its weights are validated and kept.
        with self.ema.applied(self.model) if self.ema else nullcontext():
            model, validation = self.validate()
            metrics = validation.metrics
            is_finite = math.isfinite(metrics["valid_loss"])
            is_better = is_finite and self._keep_if_better(model, metrics)
            if is_finite and config.average > 1:
                self.saver.save_snapshot(dict(model.named_parameters()), keep=config.average)
        if not is_finite:
            self._roll_back()
            return
        is_gain = is_better if validation.is_clear_gain is None else validation.is_clear_gain
        if is_gain:
            progress.gained = validation.counted
        self._count_validation(is_better=is_better, is_gain=is_gain)
        self._report("validation", better=is_better, gain=is_gain, **metrics)
        self.batches.plan(progress.position.epoch)  # opens the epoch, which a run without steps has not done yet
        advice = progress.loss_monitor.update(progress.step, metrics["valid_loss"], config, self.batches.target)
        self._warn(*advice)
        self.pacing.validated(self.ranks.clock() - started)
        if self.pacing.ends_r_drop():
            self._follow_plan()
            self._warn(
                f"The run is too slow for {config.r_drop_epochs:g} epochs, so R-Drop ends at step {progress.step:,}."
            )
        self.saver.save(*self.state_dict())

    def _follow_plan(self) -> None:
        """Train with R-Drop or without, as the plan says."""
        is_over = self.progress.plan.r_drop_until is not None
        self.executor.use_r_drop(0.0 if is_over else self.config.r_drop)

    def _count_validation(self, *, is_better: bool, is_gain: bool) -> None:
        """Update the counters after a validation; the schedule `plateau` may lower the learning rate."""
        config, progress = self.config, self.progress
        if is_better:
            progress.roll_backs = 0
        if is_gain:
            progress.stale = 0
        else:
            progress.stale += 1
            if config.schedule == "plateau" and progress.stale % config.plateau_patience == 0:
                progress.rate_factor *= config.plateau_factor
        progress.validated_step = progress.step
        progress.seconds = self.pacing.seconds()

    def _keep_if_better(self, model: Transformer, metrics: Metrics) -> bool:
        """Keep a model that scores better than all before; returns whether it does."""
        progress = self.progress
        scores = {}
        for metric in VALIDATED:
            if metric.validation_key in metrics:
                scores[metric.name] = metric.sort_key(metrics[metric.validation_key])
        if not progress.is_better(scores, self.config.monitor):
            return False
        is_kept = self.saver.attempt("The best model was not written", lambda: self.callbacks.keep_best(model))
        progress.unkept = not is_kept
        if is_kept:
            progress.best_scores, progress.best_step = scores, progress.step
        return True

    def _roll_back(self) -> None:
        """Go back to the last validation, or to the start, and continue with a smaller learning rate."""
        progress, checkpoints, bad_step = self.progress, self.callbacks.checkpoints, self.progress.step
        lasting = fields_after_roll_back(progress, self.config)
        # An interruption may have saved a later step.
        good_steps = {step for step in checkpoints.steps() if step <= progress.validated_step}
        self.ranks.once(lambda: checkpoints.prune(good_steps))
        tensors, state = checkpoints.load_latest() or (self._at_the_start(), Progress().state_dict())
        self.load_state_dict(tensors, state | lasting)
        self._report("roll_back", bad_step=bad_step, rate_factor=progress.rate_factor)
        where = f"step {progress.step:,}" if progress.step else "the start"
        self._warn(f"Going back to {where}, and on with {progress.rate_factor:g} times the learning rate.")

    def _at_the_start(self) -> Tensors:
        """The tensors of a checkpoint before the first step."""
        if self._start is None:
            assert self.callbacks.first_model
            return _first_tensors(self.callbacks.first_model())
        return self._start

    def _report(self, event: str, **values: Any) -> None:
        self.callbacks.on_event(event, {"step": self.progress.step, **values})

    def _warn(self, *texts: str) -> None:
        for text in texts:
            self._report("warning", text=text)

    def _try_average(self) -> None:
        """Average the snapshots, as section 6.1 of the paper does checkpoints, and keep the mean if it is better."""
        snapshots = self.callbacks.snapshots
        steps = snapshots.steps()
        if len(steps) < 2 or self.progress.averaged_step == self.progress.step:
            return
        last_weights = {name: weight.detach().clone() for name, weight in self.model.named_parameters()}
        try:
            mean_weights = average_weights(snapshots.load(step)[0]["model"] for step in steps)
        except DataError as error:
            self._warn(f"No average: {error}")
            return
        copy_weights(mean_weights, self.model, origin=snapshots.folder)
        model, validation = self.validate()
        is_better = self._keep_if_better(model, validation.metrics)
        self._report("average", steps=steps, better=is_better, **validation.metrics)
        # A resumed run continues from the weights of the last step, and knows the score that it has to beat.
        copy_weights(last_weights, self.model, origin=snapshots.folder)
        self.progress.averaged_step = self.progress.step
        self.saver.save(*self.state_dict())


def _first_tensors(model: Transformer) -> Tensors:
    """The tensors of a checkpoint before the first step. Weights that never change are not copied."""
    changing = {id(weight) for weight in all_weights(model) if weight.requires_grad}
    changing |= {id(low_rank.weight) for low_rank in low_rank_maps(model)}

    def first(weight: Tensor) -> Tensor:
        return weight.detach().cpu().clone() if id(weight) in changing else weight.detach()

    return {
        "model": {name: first(weight) for name, weight in model.named_parameters()},
        "factors": {name: first(factor) for name, factor in named_factors(model)},
        "optimizer": {},
    }


def random_seed(seed: int, step: int, micro_batch: int) -> int:
    """The seed of the random numbers of a micro-batch."""
    # Below 2**63 for torch; the factors keep neighbouring runs and steps apart.
    return (seed * 1_000_000_007 + step * 10_007 + micro_batch) % 2**63
