"""Small models, files of pairs and training runs that many test files use."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import torch

from dragoman.config.run import RunConfig
from dragoman.config.settings import parse_settings
from dragoman.data.pair_file import PairFile
from dragoman.evaluation.evaluate import Evaluation
from dragoman.model import Transformer, TransformerConfig
from dragoman.runs.plan import plan_run
from dragoman.runs.prepared import PreparedFolder
from dragoman.runs.train import start_run
from dragoman.storage.model_directory import ModelDirectory
from dragoman.terminal import Display
from dragoman.text.tokenizers.tokenizer import Tokenizer

SIZES = {"d_model": 24, "d_ff": 40, "num_heads": 3, "num_encoder_layers": 1, "num_decoder_layers": 1}
MODEL_SETTINGS = [f"model.{name}={size}" for name, size in SIZES.items()]
"""Settings of a run whose model has these sizes."""


def small_model(vocab_size: int, *, seed: int = 3, **choices: Any) -> Transformer:
    """An untrained model with `SIZES` and both vocabularies of `vocab_size`, except for what `choices` say."""
    torch.manual_seed(seed)
    vocabularies = {"source_vocab_size": vocab_size, "target_vocab_size": vocab_size}
    return Transformer(TransformerConfig(**(SIZES | vocabularies | choices)))


def small_directory(tokenizer: Tokenizer, *, seed: int = 3, **choices: Any) -> ModelDirectory:
    """An untrained model, see `small_model`, with one tokenizer for both sides."""
    return ModelDirectory(small_model(tokenizer.vocab_size, seed=seed, **choices), tokenizer, tokenizer)


def write_pairs(path: Path, pairs: Iterable[tuple[str, str]]) -> Path:
    """Write sentence pairs, one a line with a tab between source and target. Returns the path."""
    path.write_text("".join(f"{source}\t{target}\n" for source, target in pairs), encoding="utf-8")
    return path


def plan(
    *sources: Path | str, settings: Sequence[str] = (), recipe: str | None = "tiny"
) -> tuple[RunConfig, PairFile | PreparedFolder]:
    """The configuration of a run on these sources of pairs, and the pairs. A setting is written as `name=value`."""
    return plan_run(list(map(str, sources)), recipe=recipe, settings=parse_settings(list(settings)))


def train_run(path: Path, *sources: Path | str, settings: Sequence[str], recipe: str | None = "tiny") -> Evaluation:
    """The scores of a run that is planned by `plan` and trained into the folder `path`, in silence."""
    config, pairs = plan(*sources, settings=settings, recipe=recipe)
    return start_run(pairs, config, path, listener=Display(quiet=True))
