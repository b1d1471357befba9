"""Several models of one vocabulary as one: the mean of their probabilities, step by step or of given targets."""

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from dragoman.decoding.log_probs import LogProbs
from dragoman.decoding.search import Stepper
from dragoman.decoding.stepper import log_probs_of, tensor_of
from dragoman.errors import DataError
from dragoman.model import Transformer
from dragoman.storage.model_directory import ModelDirectory
from dragoman.system.device import choose_device

_SLICE_ELEMENTS = 2**22  # 16 MB of float32 logits at a time


class EnsembleStepper:
    """Takes each step with all `steppers`; returns the mean of their probabilities."""

    def __init__(self, steppers: Sequence[Stepper]):
        self.steppers = steppers

    def step(self, tokens: Int[np.ndarray, " rows"]) -> LogProbs:
        return log_probs_of(mean_of_probabilities([tensor_of(stepper.step(tokens)) for stepper in self.steppers]))

    def reorder(self, rows: Int[np.ndarray, " kept"]) -> None:
        for stepper in self.steppers:
            stepper.reorder(rows)


class Predictions(NamedTuple):
    """Predictions of given tokens, each from the tokens before it, row after row without padding."""

    log_probs: Float[Tensor, " tokens"]
    likeliest: Bool[Tensor, " tokens"]
    """Whether the token is the most probable one."""


def predictions(
    models: Sequence[Transformer],
    source_ids: Int[Tensor, "batch src_len"],
    target_ids: Int[Tensor, "batch tgt_len"],
    labels: Int[Tensor, "batch tgt_len"],
) -> Predictions:
    """Log-probabilities of `labels` under the mean of `models`, given the target tokens before each.

    Holds the logits of some thousand tokens at most, whatever the batch.
    """
    log_probs, likeliest = [], []
    for distribution, label in distributions(models, source_ids, target_ids, labels):
        log_probs.append(distribution.gather(1, label[:, None])[:, 0])
        likeliest.append(distribution.argmax(-1) == label)
    return Predictions(torch.cat(log_probs), torch.cat(likeliest))


def distributions(
    models: Sequence[Transformer], source_ids: Tensor, target_ids: Tensor, labels: Tensor
) -> Iterator[tuple[Tensor, Tensor]]:
    """Slices of the labels, row after row without padding: log-probabilities (labels, vocab), and the labels."""
    is_label = labels != models[0].config.pad_id
    size = max(1, _SLICE_ELEMENTS // models[0].config.target_vocab_size)
    states = [model.states(source_ids, target_ids)[is_label].split(size) for model in models]
    for *states_of_models, label in zip(*states, labels[is_label].split(size), strict=True):
        logits = [model.project(part) for model, part in zip(models, states_of_models, strict=True)]
        yield mean_of_probabilities([part.log_softmax(-1, dtype=torch.float32) for part in logits]), label


def mean_of_probabilities(log_probs: Sequence[Float[Tensor, "*shape"]]) -> Float[Tensor, "*shape"]:
    """The logarithm of the mean of the probabilities; a single tensor is returned as it is."""
    if len(log_probs) == 1:
        return log_probs[0]
    return torch.stack(list(log_probs)).logsumexp(0) - math.log(len(log_probs))


def load_ensemble(
    paths: Sequence[str | Path],
    *,
    device: torch.device | str | None = None,
    languages: tuple[str | None, str | None] = (None, None),
) -> list[ModelDirectory]:
    """One model directory, or several that can translate together, for these languages; None means the model's own.

    Raises `DataError` if they cannot, and `UsageError` for languages that they do not know.
    """
    loaded = [ModelDirectory.load(Path(path), device=device or choose_device()).speaking(*languages) for path in paths]
    tokenizers = [(directory.source_tokenizer.to_json(), directory.target_tokenizer.to_json()) for directory in loaded]
    for path, others in zip(paths[1:], tokenizers[1:], strict=True):
        if others != tokenizers[0]:
            raise DataError(
                f"{path} has another vocabulary than {paths[0]}, so they cannot translate together; an ensemble needs "
                "models that were trained on the same data with the same tokenizer."
            )
    return loaded
