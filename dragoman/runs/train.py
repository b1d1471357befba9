"""A training run: sentence pairs in, a model directory out. Prepares and trains; `finish` comes after it."""

import json
import math
import signal
import time
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from dragoman.config.decoding import MOST_RATIO, DecodingConfig
from dragoman.config.finetuning import FinetuneConfig
from dragoman.config.run import RunConfig
from dragoman.data.encoding import TextTools
from dragoman.data.pair_file import PairFile
from dragoman.data.preparation import TOKENIZER_PAIRS, PreparedData, prepare, relate_pairs, split_off
from dragoman.data.prepared_folder import STATES, PreparedFolder, changed_files, file_states
from dragoman.data_check import training_warnings
from dragoman.errors import DataError, Interrupted, ResourceError, command_line, reason_of
from dragoman.evaluation.agreement import best_pairs
from dragoman.evaluation.evaluate import Evaluation
from dragoman.evaluation.validation import evaluate_quickly
from dragoman.model import Transformer
from dragoman.model.transformer import linear_maps
from dragoman.runs.choices import choose_training, needs_throughput, usual_batch
from dragoman.runs.finish import describe, score_kept, seconds_to_conclude, try_eight_bits
from dragoman.runs.mirrored import mirrored
from dragoman.runs.new_language import with_language
from dragoman.runs.plan import resources
from dragoman.runs.vocabulary import weights_for_vocabulary
from dragoman.storage.beside import read_sketch, write_sketch
from dragoman.storage.checkpoints import Checkpoints
from dragoman.storage.metrics_log import MetricsFile, read_metrics
from dragoman.storage.mirror import Mirror
from dragoman.storage.model_directory import ModelDirectory, copy_weights
from dragoman.storage.run_directory import RunDirectory
from dragoman.storage.tensorboard import EventFile
from dragoman.storage.validate import decoding_defaults
from dragoman.system.atomic import write_file
from dragoman.system.device import choose_device, choose_precision, limit_kernel_caches, machine
from dragoman.system.listener import Deaf, LastSteps, Listener
from dragoman.system.ranks import ALONE, Ranks
from dragoman.system.resources import release_memory
from dragoman.system.seals import check_seal, seal
from dragoman.system.signals import stop_signals
from dragoman.text.characters import cut_label
from dragoman.text.labels import languages_in
from dragoman.text.language_codes import same_language
from dragoman.training.low_rank import adapt
from dragoman.training.progress import Progress
from dragoman.training.stability import summary_of_troubles
from dragoman.training.throughput import measure_throughput
from dragoman.training.trainer import INTERRUPTED, INTERRUPTED_UNSAVED, Trainer, TrainerCallbacks

KERNEL_CACHES = 32
"""Shapes of matrix products on a CPU for which compiled kernels are kept."""
SHORTEST = 0.6
"""Share of its usual length that the translation of a source of average length has at least."""
SCORING_ERRORS = (OSError, ImportError, MemoryError, RuntimeError)
"""Errors of the machine while a trained model is scored, such as too little memory. The model itself is kept."""


class RunContext(NamedTuple):
    """Listener, start, processes and mirror of a run."""

    listener: Listener
    started: float
    """`time.monotonic` of rank 0."""
    ranks: Ranks
    mirror: Mirror | None = None


class SharedRun(NamedTuple):
    """Folder, settings and start of a run, which rank 0 sends to the other ranks."""

    path: str
    settings: dict[str, Any]
    """The config as a tree."""
    started: float


@dataclass(frozen=True)
class TrainingOutcome:
    """Progress of a training, and the reason why it ended."""

    progress: Progress
    reason: str
    signals: list[int]
    """Numbers of the signals that asked it to stop."""


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
        _prepare_data(pairs, config, directory, listener)
        _warn_if_preparing_took_long(config, started, listener)
        context = RunContext(listener, started, ranks or ALONE)
        _choose_training(config, directory, context)
        # Written last: a directory with a config is one that can be resumed.
        write_file(directory.config, config.to_yaml().encode())
        return _train_mirrored(directory, config, context)


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
        return _train_mirrored(directory, config, RunContext(listener, started or time.monotonic(), ranks or ALONE))


def follow_run(ranks: Ranks) -> None:
    """Compute for a run that rank 0 leads, in a folder that all machines see; nothing is said or written here."""
    # What rank 0 sends: it alone calls its function, so that this one only tells the type.
    shared = ranks.once(lambda: SharedRun("", {}, 0.0))
    directory, config = RunDirectory(Path(shared.path)), RunConfig.validate(shared.settings)
    if not directory.data.is_dir():
        raise DataError(
            f"{shared.path} is not on a disk that this machine shares; choose an --output that all machines see."
        )
    limit_kernel_caches(KERNEL_CACHES)
    data = PreparedData.open(directory.data, config)
    model = _initial_model(directory, config, data).to(choose_device())
    with stop_signals(lambda: None) as signals:
        mirror = Mirror(config.training.mirror) if config.training.mirror else None
        context = RunContext(Deaf(), shared.started, ranks, mirror)
        callbacks = _callbacks(directory, config, data, context, signals)
        callbacks.first_model = partial(_initial_model, directory, config, data)
        trainer = Trainer(
            model,
            data.train,
            data.valid,
            config=config.training,
            seed=config.seed,
            callbacks=callbacks,
        )
        try:
            trainer.resume()
            trainer.train()
        finally:
            trainer.executor.close()


def _prepare_data(
    pairs: PairFile | PreparedFolder, config: RunConfig, directory: RunDirectory, listener: Listener
) -> None:
    """Fill the folder `run/data`, from pairs or from a folder in which they are prepared already."""
    base_tools = None
    with listener.status("Splitting, training the tokenizer, writing token ids") as tell:
        if isinstance(pairs, PairFile):
            pairs = best_pairs(pairs, config, near=directory.data, tell=tell)
        if config.finetune.model:
            base_tools = _copy_base_model(Path(config.finetune.model), config, directory, pairs)
        if isinstance(pairs, PreparedFolder):
            pairs.check()
            pairs.place(directory.data)
            if relate_pairs(directory.data, config, tell):
                seal(directory.data)
        else:
            prepare(pairs, config, directory.data, kept=base_tools)
            pairs.close()
            write_file(directory.data / STATES, json.dumps(file_states(config)).encode())
            seal(directory.data)


def _texts_of(code: str, pairs: PairFile, config: RunConfig) -> Iterable[str]:
    """Sentences of the training pairs in a language that is added to the base model."""
    train = split_off(pairs, config).train
    assert isinstance(train, PairFile)
    for source, target in train.sample(TOKENIZER_PAIRS):
        label, text = cut_label(source)
        languages = languages_in(label) if label else pairs.languages or (None, None)
        for language, sentence in zip(languages, (text, target), strict=True):
            if language and same_language(language, code):
                yield sentence


def _copy_base_model(
    path: Path, config: RunConfig, directory: RunDirectory, pairs: PairFile | PreparedFolder
) -> TextTools | None:
    """Copy the base model into the run, which needs it again when it is resumed, with the languages that are added.

    Returns its tokenizers and style if the run keeps them.
    """
    base = ModelDirectory.load(path)
    directions = [*base.directions]  # with a new language, the pairs say from or into which others it is trained
    for code, like in config.finetune.new_languages.items():
        texts = _texts_of(code, pairs, config) if isinstance(pairs, PairFile) else ()
        base = with_language(base, code, like, texts=texts)
    labels = pairs.counts.labels if isinstance(pairs, PairFile) else []
    if config.finetune.adapts and labels:  # each source says its languages
        base = base.open_to_labels(list(dict.fromkeys([*base.directions, *map(languages_in, labels)])))
    elif config.finetune.adapts:
        base = base.speaking(*(config.data.languages or (None, None)))
        base.require_languages(for_good=True)
    base.save(directory.base)
    if sketch := read_sketch(path):
        write_sketch(directory.base, sketch)
    if not config.finetune.adapts:
        return None
    config.tokenizer.placeholders = base.source_tokenizer.placeholders
    config.tokenizer.symbols = base.source_tokenizer.symbols
    return TextTools(*base.tokenizers, base.style, base.source_language, directions)


def _warn_if_preparing_took_long(config: RunConfig, started: float, listener: Listener) -> None:
    """Warn if more than half of the minutes of the run have passed."""
    minutes = (time.monotonic() - started) / 60
    if minutes > (config.training.max_minutes or math.inf) / 2:
        listener.warn(f"Preparing the pairs took most of the time, {minutes:.1f} minutes; give more: --max-minutes.")


def _choose_training(config: RunConfig, directory: RunDirectory, context: RunContext) -> None:
    """Fill in the settings that follow from how often the pairs will be seen, and say which.

    Where time limits that, the throughput is measured on the first rank, and the others are taken to be as fast.
    """
    limit_kernel_caches(KERNEL_CACHES)
    measured = config.model_copy(deep=True)
    measured.training.max_tokens = usual_batch(config)
    data = PreparedData.open(directory.data, measured)
    run_resources = resources(data.about.train_pairs, sum(data.train_tokens))
    if needs_throughput(config):
        with context.listener.status("Measuring the speed of a few steps"):
            model = _initial_model(directory, measured, data).to(choose_device())
            throughput = measure_throughput(model, data.train, measured.training, ranks=context.ranks.size)
        spent = time.monotonic() - context.started
        run_resources = replace(run_resources, throughput=throughput, spent=spent)
    base = ModelDirectory.load(directory.base).model.config if config.finetune.model else None
    lines_before = len(config.chosen)
    choose_training(config, run_resources, base)
    RunConfig.validate(config.model_dump(mode="json"))  # before it is written: what was chosen fits what was given
    for line in config.chosen[lines_before:]:
        context.listener.note(line)


def _train_mirrored(directory: RunDirectory, config: RunConfig, context: RunContext) -> Evaluation:
    """Train, with a copy of the run at the URL that the config may name."""

    def train(mirror: Mirror | None) -> Evaluation:
        return _train(directory, config, context._replace(mirror=mirror))

    return mirrored(config.training.mirror, directory.path, context.listener, train)


def _train(directory: RunDirectory, config: RunConfig, context: RunContext) -> Evaluation:
    """Train from the last checkpoint on, if there is one; then score the kept model and describe it."""
    listener = context.listener
    limit_kernel_caches(KERNEL_CACHES)
    path = str(directory.path.absolute())
    context.ranks.once(lambda: SharedRun(path, config.model_dump(mode="json"), context.started))
    data = PreparedData.open(directory.data, config)
    # Sentences that are far longer than any validated one are translated badly.
    longest = max(32, int(data.valid.source.lengths.max()) * 3 // 2)
    config.decoding.max_source_length = config.decoding.max_source_length or longest
    if config.decoding.min_ratio is None:
        _set_shortest(directory, config, data)
    model = _initial_model(directory, config, data)
    _announce(context, config, data, model)
    resume = command_line("train", "--resume", directory.path)
    go_on = f"Go on with:  {resume}"
    try:
        outcome = _fit(model.to(choose_device()), data, directory, config, context)
        _refuse_unfinished(outcome, directory, go_on)
        listener.note(f"Stopped after {outcome.reason}; the best model is of step {outcome.progress.best_step:,}.")
        if troubles := summary_of_troubles(outcome.progress):
            listener.warn(troubles)
        release_memory()  # of the training
        last_steps = LastSteps(listener, later=go_on)
        if model.config.is_pretrained:
            with listener.status("Trying eight bits"), last_steps("The comparison with eight bits"):
                try_eight_bits(directory, data)
        evaluation = _score(directory, config, data, listener, go_on)
        describe(directory, config, data, evaluation, last_steps)
        _log_end(outcome, directory, last_steps)
        return evaluation
    except KeyboardInterrupt as stop:
        if Checkpoints(directory.checkpoints, warn=listener.warn).steps():
            remedy = f"the last checkpoint is safe. {go_on}"
        else:
            remedy = f"no step is saved yet. Begin again with:  {resume}"
        raise Interrupted(signal_number(stop), f"Stopped at once; {remedy}") from None


def signal_number(stop: KeyboardInterrupt) -> int:
    """Number of the signal that caused a `KeyboardInterrupt`; where it names none, it was Ctrl-C."""
    return stop.args[0] if stop.args else signal.SIGINT


def _set_shortest(directory: RunDirectory, config: RunConfig, data: PreparedData) -> None:
    """Set the shortest length of translations by the lengths of the training pairs (`least_length`).

    A model that goes on from another has the rule that asks for less of an average source, of both. A model of several
    target languages has a rule for each, but for those with several source languages, which the model is not told and
    each of which has usual lengths of its own. Pretrained models of many languages have none.
    """
    decoding = config.decoding
    base = decoding_defaults(directory.base) if config.finetune.adapts else DecodingConfig()
    sources, translations = (store.epoch(0) for store in data.train_stores)
    source_lengths, target_lengths = sources.lengths, translations.lengths
    if not (data.about.directions or data.target_tokenizer.languages):
        ratio, slack = _shortest(source_lengths, target_lengths, base.least(None))
        decoding.min_ratio = ratio
        if decoding.min_slack is None:
            decoding.min_slack = slack
    elif targets := data.source_tokenizer.targets:
        begins = sources.ids[np.append(0, sources.ends[:-1])]
        decoding.min_ratios = dict(base.min_ratios)
        for target, begin in targets.items():
            of_target = begins == begin
            if of_target.any() and sum(target == other for _, other in data.about.directions) == 1:
                lengths = source_lengths[of_target], target_lengths[of_target]
                decoding.min_ratios[target] = _shortest(*lengths, base.least(target))


def _shortest(
    source_lengths: np.ndarray, target_lengths: np.ndarray, of_base: tuple[float, float] | None
) -> tuple[float, float]:
    """`min_ratio` and `min_slack` by the lengths of pairs, or those of the base model if these ask for less."""
    average = float(source_lengths.mean())
    ratio = float(target_lengths.sum()) / max(1.0, float(source_lengths.sum()))
    rules = [(ratio, (1 - SHORTEST) * ratio * math.sqrt(average)), *filter(None, [of_base])]
    ratio, slack = min(rules, key=lambda rule: rule[0] * average - rule[1] * math.sqrt(average))
    return round(min(ratio, MOST_RATIO), 3), round(slack, 3)


def _refuse_unfinished(outcome: TrainingOutcome, directory: RunDirectory, go_on: str) -> None:
    """Raise `Interrupted` after a signal, and `ResourceError` if no model could be written."""
    if outcome.reason in (INTERRUPTED, INTERRUPTED_UNSAVED):
        how = "and saved" if outcome.reason == INTERRUPTED else "without saving the last steps"
        raise Interrupted(outcome.signals[0], f"Stopped {how}. {go_on}")
    if not outcome.progress.best_step:
        raise ResourceError(f"The model could not be written. Make room on the disk of {directory.path}. {go_on}")


def _score(
    directory: RunDirectory, config: RunConfig, data: PreparedData, listener: Listener, go_on: str
) -> Evaluation:
    """Score the kept model. Raises `ResourceError` that says how to go on if the machine does not suffice."""
    try:
        return score_kept(directory, config, data, listener)
    except SCORING_ERRORS as error:
        raise ResourceError(
            f"The model is kept in {directory.path}, but was not scored: {reason_of(error)}. {go_on}"
        ) from error


def _log_end(outcome: TrainingOutcome, directory: RunDirectory, last_steps: LastSteps) -> None:
    """Write the event that ends the metrics, unless the run has to go on to keep its best model.

    It says `incomplete` if one of the last steps has failed: resuming the run then makes them again.
    """
    if outcome.progress.unkept:
        last_steps.listener.warn(f"A better model did not fit on the disk; make room. {last_steps.later}")
        return
    incomplete = {"incomplete": True} if last_steps.failed else {}
    with last_steps(f"The end of {directory.metrics}"), MetricsFile(directory.metrics) as metrics:
        metrics.write("end", {"step": outcome.progress.step, "reason": outcome.reason} | incomplete)


def _initial_model(directory: RunDirectory, config: RunConfig, data: PreparedData) -> Transformer:
    """The model before its first step: random weights by the seed, or those of the base model."""
    torch.manual_seed(config.seed)
    special = data.target_tokenizer.special_ids
    model = Transformer(
        config.transformer(
            data.source_tokenizer.vocab_size,
            data.target_tokenizer.vocab_size,
            pad_id=special.pad,
            bos_id=special.bos,
            eos_id=special.eos,
        )
    )
    if config.finetune.model:
        base = ModelDirectory.load(directory.base)
        weights: dict[str, torch.Tensor] = dict(base.model.named_parameters())
        if not config.finetune.adapts:
            weights = weights_for_vocabulary(base, model, (data.source_tokenizer, data.target_tokenizer))
        copy_weights(weights, model, origin=directory.base)
        freeze(model, config.finetune)
    return model


def freeze(model: Transformer, finetune: FinetuneConfig) -> None:
    """Exclude from training what is to stay as it is: the parts in `freeze`, and with LoRA all but changes of matrices.

    Embeddings of a new vocabulary, or with a new language, are trained with LoRA, too.
    """
    matrices = {id(linear.weight) for linear in linear_maps(model)}
    for name, parameter in model.named_parameters():
        part = "embeddings" if ".embedding." in name else name.partition(".")[0]
        has_new_rows = (not finetune.adapts or bool(finetune.new_languages)) and part in ("embeddings", "projection")
        is_learned = not finetune.lora or id(parameter) in matrices or has_new_rows
        parameter.requires_grad_(is_learned and part not in finetune.freeze)
    if finetune.lora:
        adapt(model, rank=finetune.lora)


def _fit(
    model: Transformer, data: PreparedData, directory: RunDirectory, config: RunConfig, context: RunContext
) -> TrainingOutcome:
    """Train from the last checkpoint on, and write the curves and the best model meanwhile."""
    listener, training = context.listener, config.training
    with ExitStack() as opened:
        every = training.log_every
        files: list[MetricsFile | EventFile] = [opened.enter_context(MetricsFile(directory.metrics, every=every))]
        if training.tensorboard:
            files.append(opened.enter_context(EventFile(directory.tensorboard, every=every)))
        signals = opened.enter_context(stop_signals(lambda: listener.event("stopping", {})))

        callbacks = replace(
            _callbacks(directory, config, data, context, signals),
            first_model=partial(_initial_model, directory, config, data),
            keep_best=partial(_save_model, directory=directory, config=config, data=data),
            on_event=EventWriter(files, listener),
        )
        trainer = Trainer(
            model,
            data.train,
            data.valid,
            config=training,
            seed=config.seed,
            callbacks=callbacks,
        )
        opened.callback(trainer.executor.close)
        trainer.resume()
        # Only now are the settings of a resumed run known to fit it.
        write_file(directory.config, config.to_yaml().encode())
        for file in files:
            file.forget_after(trainer.progress.step)
        past = list(read_metrics(directory.metrics))
        listener.event("begin", {"config": training, "past": past, "last_step": trainer.pacing.end})
        opened.callback(listener.event, "end", {})
        return TrainingOutcome(trainer.progress, trainer.train(), signals)


def _save_model(model: Transformer, *, directory: RunDirectory, config: RunConfig, data: PreparedData) -> None:
    """Write the model directory of a run, with tokenizers and all that translating needs."""
    tokenizers = data.source_tokenizer, data.target_tokenizer
    languages = data.about.source_language, data.about.target_language
    kept = ModelDirectory(model, *tokenizers, *languages, config.decoding, data.style, data.about.directions)
    kept.save(directory.path)


def _callbacks(
    directory: RunDirectory, config: RunConfig, data: PreparedData, context: RunContext, signals: list[int]
) -> TrainerCallbacks:
    """Callbacks that the trainer needs on every rank; rank 0 replaces those that keep models and write events."""
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
    """Tell the listener about the pairs, what may be wrong with them, and the model."""
    about, listener = data.about, context.listener
    for reason, count in about.dropped.items():
        listener.note(f"Left out {count:,} {'pair' if count == 1 else 'pairs'}: {reason}.")
    listener.note(
        f"{about.train_pairs:,} pairs to train on, {len(data.valid_pairs):,} to validate, "
        f"{len(data.test_pairs):,} to test; a vocabulary of {data.source_tokenizer.vocab_size:,}."
    )
    warnings = training_warnings(
        about.train_pairs,
        [source for source, _ in data.valid_pairs],
        [source for source, _ in data.test_pairs],
        leaked=len(about.leaked),
        twins=len(about.twins or ()),
        forgetful=config.finetune.adapts and not config.finetune.mix,
    )
    for warning in warnings:
        listener.warn(warning)
    precision = str(choose_precision(config.training.precision, choose_device())).removeprefix("torch.")
    weights = sum(parameter.numel() for parameter in model.parameters())
    times = f"{context.ranks.size} times " if context.ranks.size > 1 else ""
    kind = "fine-tuned" if config.finetune.adapts else config.size
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
