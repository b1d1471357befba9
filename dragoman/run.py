"""A training run: sentence pairs in, a model directory out. Configures, prepares, trains; then comes `conclusion`."""

import json
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Self

import torch

from dragoman.checkpoint import Checkpoints, ModelDirectory, write_file
from dragoman.conclusion import conclude
from dragoman.config import RunConfig, read_recipe, resolve
from dragoman.data.bitext import GRAMMAR, Bitext, CleanedBitext, default_held_out
from dragoman.data.check import training_warnings
from dragoman.data.preparation import PreparedData, prepare
from dragoman.decoding.translator import Translator
from dragoman.device import choose_device, choose_precision, limit_kernel_caches, machine
from dragoman.errors import Interrupted, UsageError
from dragoman.evaluation import Evaluation, score
from dragoman.model import Transformer
from dragoman.run_directory import MetricsFile, RunDirectory, refuse_to_overwrite
from dragoman.terminal import Display, command
from dragoman.training.trainer import Outside, Trainer

SHOWN_SAMPLES = 3


def choose_size(num_pairs: int, *, gpu: bool) -> str:
    """The largest size that this many pairs can fill, and this machine can train in hours."""
    if num_pairs < 200_000:
        return "tiny"
    if num_pairs < 2_000_000 or not gpu:
        return "small"
    return "base"


def choose_vocab_size(num_pairs: int) -> int:
    """Fewer pairs show fewer words often enough to learn them whole."""
    return 8_000 if num_pairs < 200_000 else 16_000 if num_pairs < 2_000_000 else 32_000


def configure(paths: list[str], *, recipe: str | None, settings: list[str]) -> tuple[RunConfig, CleanedBitext]:
    """The run that one or two files, a recipe (None: by the amount of data) and `key=value` settings ask for."""
    bitext = Bitext.open(*paths).cleaned()
    num_pairs = sum(1 for _ in bitext)
    if paths[0].startswith(GRAMMAR):
        # The grammar holds out whole combinations of words, which no split by sentence could.
        held_out = {name: [f"{GRAMMAR}:500:{name}"] for name in ("valid", "test")}
        settings = [f"data.{name}={json.dumps(pairs)}" for name, pairs in held_out.items()] + settings
    recipe = recipe or choose_size(num_pairs, gpu=torch.cuda.is_available())
    config = resolve(read_recipe(recipe), settings)
    config.data.source, config.data.target = [*paths, None][:2]
    config.tokenizer.vocab_size = config.tokenizer.vocab_size or choose_vocab_size(num_pairs)
    if not (config.data.valid and config.data.test):
        config.data.held_out = config.data.held_out or default_held_out(num_pairs)
    return config, bitext


def start(bitext: CleanedBitext, config: RunConfig, path: Path, *, display: Display) -> Evaluation:
    """Train a new model into `path`; returns its scores. Raises `Interrupted` if it was stopped."""
    directory = RunDirectory(path)
    if directory.config.exists():
        go_on = command("train", "--resume", str(path))
        raise UsageError(f"{path} holds a run already; go on with `{go_on}`, or choose another --output.")
    # A folder with a run/ alone is one that a start left half prepared.
    refuse_to_overwrite(path, but="run")
    directory.data.mkdir(parents=True, exist_ok=True)
    with display.status("Splitting, training the tokenizer, writing token ids"):
        prepare(bitext, config, directory.data)
    # Written last: a directory with a config is one that can be resumed.
    write_file(directory.config, config.to_yaml().encode())
    return _train(directory, config, display)


def resume(path: Path, settings: list[str], *, display: Display) -> Evaluation:
    """Go on with a run from its last checkpoint; `settings` may change keys of `training` and `decoding`."""
    directory = RunDirectory(path)
    if not directory.config.is_file():
        raise UsageError(f"{path} holds no run to go on with; start one with `dragoman train DATA --output {path}`.")
    if fixed := [s for s in settings if not s.startswith(("training.", "decoding."))]:
        raise UsageError(f"`{fixed[0]}` cannot change in a resumed run; start a new one with another --output.")
    config = resolve(read_recipe(str(directory.config)), settings)
    write_file(directory.config, config.to_yaml().encode())
    return _train(directory, config, display)


def _train(directory: RunDirectory, config: RunConfig, display: Display) -> Evaluation:
    limit_kernel_caches(32)
    data = PreparedData.open(directory.data, config)
    torch.manual_seed(config.seed)
    model = Transformer(config.transformer(data.source_tokenizer.vocab_size, data.target_tokenizer.vocab_size))
    _announce(display, config, data, model)
    go_on = f"Go on with:  {command('train', '--resume', str(directory.path))}"
    try:
        trainer, reason, signal_number = _fit(model.to(choose_device()), data, directory, config, display)
        if reason == "interrupted":
            raise Interrupted(signal_number, f"Stopped and saved. {go_on}")
        display.note(f"Stopped after {reason}; the best model is of step {trainer.progress.best_step:,}.")
        return conclude(directory, config, data, display)
    except KeyboardInterrupt:
        raise Interrupted(signal.SIGINT, f"Stopped at once; the last checkpoint is safe. {go_on}") from None


def _fit(
    model: Transformer, data: PreparedData, directory: RunDirectory, config: RunConfig, display: Display
) -> tuple[Trainer, str, int | None]:
    """Train from the last checkpoint on; returns the trainer, why it stopped, and the signal if it was one."""
    languages = data.about.source_language, data.about.target_language
    kept = ModelDirectory(model, data.source_tokenizer, data.target_tokenizer, *languages)
    training = config.training
    limits = {"max_seconds": training.max_minutes and 60 * training.max_minutes, "max_steps": training.max_steps}
    with (
        display.training(**limits) as view,
        MetricsFile(directory.metrics) as metrics,
        StopSignal(view.stopping) as stop,
    ):
        outside = Outside(
            evaluate=partial(_evaluate_quickly, data=data, config=config),
            keep_best=lambda _: kept.save(directory.path),
            report=lambda event, values: (metrics.write(event, values), view.report(event, values)),
            checkpoints=Checkpoints(directory.checkpoints, warn=display.warn),
            snapshots=Checkpoints(directory.snapshots, warn=display.warn),
            stop_requested=stop,
        )
        trainer = Trainer(model, data.train, data.valid, config=training, seed=config.seed, outside=outside)
        if checkpoint := outside.checkpoints.load_latest():
            trainer.load_state_dict(*checkpoint)
        metrics.forget_after(trainer.progress.step)
        return trainer, trainer.train(), stop.received


def _announce(display: Display, config: RunConfig, data: PreparedData, model: Transformer) -> None:
    about = data.about
    for reason, count in about.dropped.items():
        display.note(f"Left out {count:,} pairs: {reason}.")
    display.note(
        f"{about.train_pairs:,} pairs to train on, {len(data.valid_pairs):,} to validate, "
        f"{len(data.test_pairs):,} to test; a vocabulary of {data.source_tokenizer.vocab_size:,}."
    )
    held_out = ([source for source, _ in pairs] for pairs in (data.valid_pairs, data.test_pairs))
    for warning in training_warnings(about.train_pairs, *held_out):
        display.warn(warning)
    precision = str(choose_precision(config.training.precision, choose_device())).removeprefix("torch.")
    weights = sum(parameter.numel() for parameter in model.parameters())
    display.note(f"A {config.size} Transformer of {weights / 1e6:.1f} M weights, {precision}, on {machine()}.")


def _evaluate_quickly(model: Transformer, *, data: PreparedData, config: RunConfig) -> dict[str, Any]:
    """BLEU and chrF of greedy translations of the first validation pairs, and some of them to look at."""
    translator = Translator(model, data.source_tokenizer, data.target_tokenizer, precision=config.training.precision)
    sources, references = zip(*data.valid_pairs[: config.training.validate_sentences], strict=True)
    texts = [t.text for t in translator.translate(sources, beam_size=1)]
    shown = [round(i * (len(sources) - 1) / SHOWN_SAMPLES) for i in range(min(SHOWN_SAMPLES, len(sources)))]
    samples = [{"source": sources[i], "translation": texts[i], "reference": references[i]} for i in shown]
    scores = score(texts, references, with_ter=False)
    return {"bleu": scores.bleu, "chrf": scores.chrf, "samples": samples}


class StopSignal:
    """Ctrl-C or SIGTERM: asks the training to stop after the step; a second one stops at once."""

    def __init__(self, announce: Callable[[], None]):
        """`announce` is called when the first signal comes."""
        self.received: int | None = None
        self.announce = announce

    def __call__(self) -> bool:
        return self.received is not None

    def __enter__(self) -> Self:
        self._previous = {s: signal.signal(s, self._receive) for s in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(self, *exception) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def _receive(self, number: int, frame: object) -> None:
        if self.received is not None:
            raise KeyboardInterrupt
        self.received = number
        self.announce()
