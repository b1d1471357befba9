"""A training run: sentence pairs in, a model directory out. Prepares and trains; `finish` comes after it."""

import json
import math
import signal
import time
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch

from dragoman.config.run import RunConfig
from dragoman.data.encoding import TextTools
from dragoman.data.pair_file import PairFile
from dragoman.data.preparation import PreparedData, prepare
from dragoman.data.prepared_folder import STATES, PreparedFolder, changed_files, file_states
from dragoman.data_check import training_warnings
from dragoman.errors import DataError, Interrupted, ResourceError, command_line, reason_of
from dragoman.evaluation.agreement import keep_best
from dragoman.evaluation.evaluate import Evaluation
from dragoman.evaluation.validation import evaluate_quickly
from dragoman.model import Transformer
from dragoman.runs.finish import describe, score_kept, seconds_to_conclude
from dragoman.runs.mirrored import mirrored
from dragoman.storage.checkpoints import Checkpoints
from dragoman.storage.metrics_log import MetricsFile, read_metrics
from dragoman.storage.mirror import Mirror
from dragoman.storage.model_directory import ModelDirectory, copy_weights
from dragoman.storage.run_directory import RunDirectory
from dragoman.storage.tensorboard import EventFile
from dragoman.system.atomic import write_file
from dragoman.system.device import choose_device, choose_precision, limit_kernel_caches, machine
from dragoman.system.listener import Deaf, Listener, last_step
from dragoman.system.ranks import ALONE, Ranks
from dragoman.system.resources import release_memory
from dragoman.system.seals import check_seal, seal
from dragoman.system.signals import stop_signals
from dragoman.training.progress import Progress
from dragoman.training.stability import account
from dragoman.training.trainer import INTERRUPTED, Trainer, TrainerCallbacks

UNSCORED = (OSError, ImportError, MemoryError, RuntimeError)
"""What may happen to a model that is trained while it is scored: the machine lacks something."""


class RunContext(NamedTuple):
    """Where a run takes place, and since when; it is led by rank 0."""

    listener: Listener
    started: float
    ranks: Ranks
    mirror: Mirror | None = None


def start_run(
    pairs: PairFile | PreparedFolder,
    config: RunConfig,
    path: Path,
    *,
    listener: Listener,
    started: float | None = None,
    ranks: Ranks | None = None,
) -> Evaluation:
    """Train a new model into `path`; returns its scores. Raises `Interrupted` if it was stopped.

    The minutes of the config count from `started`, a `time.monotonic`; None: now. Other ranks call `follow_run`.
    """
    started = started or time.monotonic()
    directory = RunDirectory(path)
    directory.refuse_if_used()
    with directory.locked():
        directory.clear()
        directory.data.mkdir(parents=True)
        for line in config.chosen:
            listener.note(line)
        kept = _adopt(config, directory) if config.finetune.model else None
        if config.data.cleaning.models and isinstance(pairs, PairFile):
            with listener.status("Scoring pairs with two models") as tell:
                pairs = keep_best(pairs, config, near=directory.data, tell=tell)
        with listener.status("Splitting, training the tokenizer, writing token ids"):
            if isinstance(pairs, PreparedFolder):
                pairs.check()
                pairs.place(directory.data)
            else:
                prepare(pairs, config, directory.data, kept=kept)
                pairs.close()
                write_file(directory.data / STATES, json.dumps(file_states(config)).encode())
                seal(directory.data)
        if (minutes := (time.monotonic() - started) / 60) > (config.training.max_minutes or math.inf) / 2:
            listener.warn(
                f"Preparing the pairs took most of the time, {minutes:.1f} minutes; give more: --max-minutes."
            )
        # Written last: a directory with a config is one that can be resumed.
        write_file(directory.config, config.to_yaml().encode())
        return _mirrored(directory, config, RunContext(listener, started, ranks or ALONE))


def resume_run(
    path: Path, config: RunConfig, *, listener: Listener, started: float | None = None, ranks: Ranks | None = None
) -> Evaluation:
    """Go on with a run from its last checkpoint, as `plan_resume` has planned it."""
    directory = RunDirectory(path)
    with directory.locked():
        with listener.status("Checking what was prepared"):
            check_seal(directory.data)
        for name in changed_files(directory.data):
            listener.warn(
                f"{name} has changed since this run began. The run goes on with the pairs that it read then; to train "
                "on what is there now, start another one."
            )
        return _mirrored(directory, config, RunContext(listener, started or time.monotonic(), ranks or ALONE))


def follow_run(ranks: Ranks) -> None:
    """Compute for a run that rank 0 leads, in a folder that all machines see; nothing is said or written here."""
    unknown: tuple[str, dict[str, Any], float] = "", {}, 0.0
    path, settings, started = ranks.once(lambda: unknown)
    directory, config = RunDirectory(Path(path)), RunConfig.validate(settings)
    if not directory.data.is_dir():
        raise DataError(f"{path} is not on a disk that this machine shares; choose an --output that all machines see.")
    limit_kernel_caches(32)
    data = PreparedData.open(directory.data, config)
    model = _first_model(directory, config, data).to(choose_device())
    with stop_signals(lambda: None) as signals:
        mirror = Mirror(config.training.mirror) if config.training.mirror else None
        context = RunContext(Deaf(), started, ranks, mirror)
        callbacks = _callbacks(directory, config, data, context, signals)
        trainer = Trainer(model, data.train, data.valid, config=config.training, seed=config.seed, callbacks=callbacks)
        try:
            trainer.resume()
            trainer.train()
        finally:
            trainer.executor.close()


def _adopt(config: RunConfig, directory: RunDirectory) -> TextTools:
    """Copy the model to go on from into the run, which needs it again if it is resumed; returns what it reads with."""
    base = ModelDirectory.load(Path(config.finetune.model or ""))
    if not base.directions:  # of several, each source is labelled with its own
        base = base.speaking(*(config.data.languages or (None, None)))
        base.require_languages(for_good=True)
    base.save(directory.base)
    config.tokenizer.placeholders = base.source_tokenizer.placeholders
    config.tokenizer.symbols = base.source_tokenizer.symbols
    return TextTools(*base.tokenizers, base.style, base.source_language, [*base.directions])


def freeze(model: Transformer, parts: Iterable[str]) -> None:
    """Leave the weights of these parts, as `FinetuneConfig.freeze` names them, as they are."""
    for name, parameter in model.named_parameters():
        part = "embeddings" if ".embedding." in name else name.partition(".")[0]
        parameter.requires_grad_(part not in parts)


def _mirrored(directory: RunDirectory, config: RunConfig, context: RunContext) -> Evaluation:
    """Train, with a copy of the run at the URL that the config may name."""
    url, listener = config.training.mirror, context.listener
    return mirrored(url, directory.path, listener, lambda to: _train(directory, config, context._replace(mirror=to)))


def _train(directory: RunDirectory, config: RunConfig, context: RunContext) -> Evaluation:
    listener = context.listener
    limit_kernel_caches(32)
    context.ranks.once(lambda: (str(directory.path.absolute()), config.model_dump(mode="json"), context.started))
    data = PreparedData.open(directory.data, config)
    # Sentences that are far longer than any validated one are translated badly.
    longest = max(32, int(data.valid.source.lengths.max()) * 3 // 2)
    config.decoding.max_source_length = config.decoding.max_source_length or longest
    model = _first_model(directory, config, data)
    _announce(context, config, data, model)
    resume = command_line("train", "--resume", directory.path)
    go_on = f"Go on with:  {resume}"
    try:
        progress, reason, signals = _fit(model.to(choose_device()), data, directory, config, context)
        if reason.startswith(INTERRUPTED):
            what = "and saved" if reason == INTERRUPTED else "without saving the last steps"
            raise Interrupted(signals[0], f"Stopped {what}. {go_on}")
        if not progress.best_step:
            raise ResourceError(f"The model could not be written. Make room on the disk of {directory.path}. {go_on}")
        listener.note(f"Stopped after {reason}; the best model is of step {progress.best_step:,}.")
        if troubles := account(progress):
            listener.warn(troubles)
        release_memory()  # of the training
        try:
            evaluation = score_kept(directory, config, data, listener)
        except UNSCORED as error:
            raise ResourceError(
                f"The model is kept in {directory.path}, but was not scored: {reason_of(error)}. {go_on}"
            ) from error
        describe(directory, config, data, evaluation, listener, later=go_on)
        if progress.unkept:
            listener.warn(f"A better model did not fit on the disk; make room. {go_on}")
        else:
            with (
                last_step(listener, f"The end of {directory.metrics}", later=go_on),
                MetricsFile(directory.metrics) as metrics,
            ):
                metrics.write("end", {"step": progress.step, "reason": reason})
        return evaluation
    except KeyboardInterrupt as stop:
        saved = Checkpoints(directory.checkpoints, warn=listener.warn).steps()
        what = (
            f"the last checkpoint is safe. {go_on}" if saved else f"no step is saved yet. Begin again with:  {resume}"
        )
        raise Interrupted((*stop.args, signal.SIGINT)[0], f"Stopped at once; {what}") from None


def _first_model(directory: RunDirectory, config: RunConfig, data: PreparedData) -> Transformer:
    torch.manual_seed(config.seed)
    pad, _, bos, eos = data.target_tokenizer.special_ids
    sizes = data.source_tokenizer.vocab_size, data.target_tokenizer.vocab_size
    model = Transformer(config.transformer(*sizes, pad_id=pad, bos_id=bos, eos_id=eos))
    if config.finetune.model:
        base = ModelDirectory.load(directory.base).model
        copy_weights(dict(base.named_parameters()), model, origin=directory.base)
        freeze(model, config.finetune.freeze)
    return model


def _fit(
    model: Transformer, data: PreparedData, directory: RunDirectory, config: RunConfig, context: RunContext
) -> tuple[Progress, str, list[int]]:
    """Train from the last checkpoint on; returns how far it came, why it stopped, and the signals that came."""
    listener, training = context.listener, config.training
    languages = data.about.source_language, data.about.target_language
    tokenizers = data.source_tokenizer, data.target_tokenizer
    kept = ModelDirectory(model, *tokenizers, *languages, config.decoding, data.style, data.about.directions)
    with ExitStack() as opened:
        every = training.log_every
        files: list[MetricsFile | EventFile] = [opened.enter_context(MetricsFile(directory.metrics, every=every))]
        if training.tensorboard:
            files.append(opened.enter_context(EventFile(directory.tensorboard, every=every)))
        signals = opened.enter_context(stop_signals(lambda: listener.event("stopping", {})))

        callbacks = replace(
            _callbacks(directory, config, data, context, signals),
            keep_best=lambda model: replace(kept, model=model).save(directory.path),
            on_event=EventWriter(files, listener),
        )
        trainer = Trainer(model, data.train, data.valid, config=training, seed=config.seed, callbacks=callbacks)
        opened.callback(trainer.executor.close)
        trainer.resume()
        # Only now are the settings of a resumed run known to fit it.
        write_file(directory.config, config.to_yaml().encode())
        for file in files:
            file.forget_after(trainer.progress.step)
        past = list(read_metrics(directory.metrics))
        listener.event("begin", {"config": training, "past": past, "last_step": trainer.pacing.end})
        opened.callback(listener.event, "end", {})
        return trainer.progress, trainer.train(), signals


def _callbacks(
    directory: RunDirectory, config: RunConfig, data: PreparedData, context: RunContext, signals: list[int]
) -> TrainerCallbacks:
    """What a trainer needs on every rank; models and events are rank 0's."""
    warn = context.listener.warn if context.ranks.index == 0 else lambda _: None
    mirror = partial(context.mirror.save, directory.path) if context.mirror else None
    return TrainerCallbacks(
        evaluate=partial(evaluate_quickly, data=data, config=config),
        keep_best=lambda _: None,
        on_event=lambda *_: None,
        checkpoints=Checkpoints(directory.checkpoints, warn=warn, mirror=mirror),
        snapshots=Checkpoints(directory.snapshots, warn=warn),
        stop_requested=lambda: context.ranks.any(bool(signals)),
        finish_requested=lambda: context.ranks.any(context.listener.wants_to_stop()),
        started=context.started,
        seconds_after=partial(seconds_to_conclude, data, config),
        ranks=context.ranks,
    )


def _announce(context: RunContext, config: RunConfig, data: PreparedData, model: Transformer) -> None:
    about, listener = data.about, context.listener
    for reason, count in about.dropped.items():
        listener.note(f"Left out {count:,} {'pair' if count == 1 else 'pairs'}: {reason}.")
    listener.note(
        f"{about.train_pairs:,} pairs to train on, {len(data.valid_pairs):,} to validate, "
        f"{len(data.test_pairs):,} to test; a vocabulary of {data.source_tokenizer.vocab_size:,}."
    )
    held_out = ([source for source, _ in pairs] for pairs in (data.valid_pairs, data.test_pairs))
    forgetful = bool(config.finetune.model) and not config.finetune.mix
    for warning in training_warnings(about.train_pairs, *held_out, leaked=len(about.leaked), forgetful=forgetful):
        listener.warn(warning)
    precision = str(choose_precision(config.training.precision, choose_device())).removeprefix("torch.")
    weights = sum(parameter.numel() for parameter in model.parameters())
    times = f"{context.ranks.size} times " if context.ranks.size > 1 else ""
    kind = "fine-tuned" if config.finetune.model else config.size
    listener.note(f"A {kind} Transformer of {weights / 1e6:.1f} M weights, {precision}, on {times}{machine()}.")


class EventWriter:
    """Hands the trainer's events to the files and the listener."""

    def __init__(self, files: list[MetricsFile | EventFile], listener: Listener):
        self.files, self.listener = files, listener
        self.failed: set[MetricsFile | EventFile] = set()

    def __call__(self, event: str, values: dict[str, Any]) -> None:
        for file in self.files:
            try:
                if event == "roll_back":
                    file.forget_after(values["step"])
                file.write(event, values)
            except Exception as error:
                # Neither a full disk nor a library is a reason to lose a training, or to say so at each step.
                if file not in self.failed:
                    self.failed.add(file)
                    self.listener.warn(f"The curves lack what comes now: {reason_of(error)}")
        if event == "warning":
            self.listener.warn(values["text"])
        self.listener.event(event, values)
