"""Several models of one vocabulary as one: the mean of their probabilities, step by step or of given targets."""

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from dragoman.decoding.search import Stepper
from dragoman.errors import DataError
from dragoman.model import Transformer
from dragoman.storage.model_directory import ModelDirectory
from dragoman.system.device import choose_device

_SLICE_ELEMENTS = 2**22  # 16 MB of float32 logits at a time


class EnsembleStepper:
    """Takes each step with all `steppers`; returns the mean of their probabilities."""

    def __init__(self, steppers: Sequence[Stepper]):
        self.steppers = steppers

    def step(self, tokens: Int[Tensor, " rows"]) -> Float[Tensor, "rows vocab"]:
        return mean_of_probabilities([stepper.step(tokens) for stepper in self.steppers])

    def reorder(self, rows: Int[Tensor, " kept"]) -> None:
        for stepper in self.steppers:
            stepper.reorder(rows)


class Predictions(NamedTuple):
    """Predictions of given tokens, each from the tokens before it; row after row, without padding."""

    log_probs: Float[Tensor, " tokens"]
    likeliest: Bool[Tensor, " tokens"]
    """Whether the token is the most probable one."""


def predictions(
    models: Sequence[Transformer],
    source_ids: Int[Tensor, "batch src_len"],
    target_ids: Int[Tensor, "batch tgt_len"],
    labels: Int[Tensor, "batch tgt_len"],
) -> Predictions:
    """How `models` together predict `labels`; holds the logits of some thousand tokens at most, whatever the batch."""
    log_probs, likeliest = [], []
    for found, label in distributions(models, source_ids, target_ids, labels):
        log_probs.append(found.gather(1, label[:, None])[:, 0])
        likeliest.append(found.argmax(-1) == label)
    return Predictions(torch.cat(log_probs), torch.cat(likeliest))


def distributions(
    models: Sequence[Transformer], source_ids: Tensor, target_ids: Tensor, labels: Tensor
) -> Iterator[tuple[Tensor, Tensor]]:
    """Log-probabilities of all tokens in the place of some labels, and these labels, row after row."""
    counted = labels != models[0].config.pad_id
    rows = max(1, _SLICE_ELEMENTS // models[0].config.target_vocab_size)
    states = [model.states(source_ids, target_ids)[counted].split(rows) for model in models]
    for *parts, label in zip(*states, labels[counted].split(rows), strict=True):
        logits = [model.project(part) for model, part in zip(models, parts, strict=True)]
        yield mean_of_probabilities([each.log_softmax(-1, dtype=torch.float32) for each in logits]), label


def mean_of_probabilities(log_probs: Sequence[Float[Tensor, "*shape"]]) -> Float[Tensor, "*shape"]:
    """log of the mean of exp; of a single tensor that tensor itself."""
    if len(log_probs) == 1:
        return log_probs[0]
    return torch.stack(list(log_probs)).logsumexp(0) - math.log(len(log_probs))


def load_ensemble(
    paths: Sequence[str | Path],
    *,
    device: torch.device | str | None = None,
    languages: tuple[str | None, str | None] = (None, None),
) -> list[ModelDirectory]:
    """One model directory, or several that can translate together, for these languages; None: those of the model.

    Raises `DataError` if they cannot, and `UsageError` for languages that they do not know.
    """
    loaded = [ModelDirectory.load(Path(path), device=device or choose_device()).speaking(*languages) for path in paths]
    first, *others = [[each.source_tokenizer.to_json(), each.target_tokenizer.to_json()] for each in loaded]
    for path, tokenizers in zip(paths[1:], others, strict=True):
        if tokenizers != first:
            raise DataError(
                f"{path} has another vocabulary than {paths[0]}, so they cannot translate together; an ensemble needs "
                "models that were trained on the same data with the same tokenizer."
            )
    return loaded
