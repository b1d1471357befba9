"""Several engines of one vocabulary as one: the mean of their probabilities, step by step or of given targets."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from dragoman.engine.engine import Engine, SourceIds, Stepper, TargetIds
from dragoman.engine.log_probs import LogProbs
from dragoman.engine.shapes import Float, Int
from dragoman.errors import DataError, UsageError
from dragoman.storage.directory import Directory

D = TypeVar("D", bound=Directory[Any])


class EnsembleStepper:
    """Takes each step with all `steppers`; returns the mean of their probabilities."""

    def __init__(self, steppers: Sequence[Stepper]):
        self.steppers = steppers

    def step(self, tokens: Int[np.ndarray, " rows"]) -> LogProbs:
        return mean_of_probabilities([stepper.step(tokens) for stepper in self.steppers])

    def reorder(self, rows: Int[np.ndarray, " kept"]) -> None:
        for stepper in self.steppers:
            stepper.reorder(rows)


def mean_of_probabilities(log_probs: Sequence[LogProbs]) -> LogProbs:
    """The logarithm of the mean of the probabilities; what is alone is returned as it is."""
    first, *others = log_probs
    return first.averaged(others) if others else first


def label_log_probs(
    engines: Sequence[Engine],
    source_ids: SourceIds,
    target_ids: TargetIds,
    labels: TargetIds,
    lengths: Sequence[int],
) -> Float[np.ndarray, " labels"]:
    """Log-probabilities of the first labels of each row, as many as `lengths` says, given the tokens before each.

    Holds some thousand distributions at most, whatever the batch.
    """
    # A label may be padding, too: some models predict it.
    is_label = np.arange(labels.shape[1]) < np.array(lengths)[:, None]
    remaining, parts = labels[is_label], []
    slices = [engine.distributions(source_ids, target_ids, is_label) for engine in engines]
    for log_probs in map(mean_of_probabilities, zip(*slices, strict=True)):
        part, remaining = remaining[: len(log_probs)], remaining[len(log_probs) :]
        parts.append(log_probs.at(np.arange(len(part)), part))
    return np.concatenate(parts)


def load_ensemble(
    paths: Sequence[str | Path],
    load: Callable[..., D],
    *,
    languages: tuple[str | None, str | None] = (None, None),
    adapter: Path | None = None,
) -> list[D]:
    """One model directory, or several that can translate together, for these languages; None means the model's own.

    `load` reads each, and an adapter with it. Raises `DataError` if they cannot, and `UsageError` for languages that
    they do not know, or for an adapter of several models.
    """
    if adapter and len(paths) > 1:
        raise UsageError("An adapter belongs to a single model; leave it out, or the ensemble.")
    load = partial(load, adapter=adapter) if adapter else load
    loaded = [load(Path(path)).speaking(*languages) for path in paths]
    for path, other in zip(paths[1:], loaded[1:], strict=True):
        if any(
            ours.to_json() != its.to_json() for ours, its in zip(loaded[0].tokenizers, other.tokenizers, strict=True)
        ):
            raise DataError(
                f"{path} has another vocabulary than {paths[0]}, so they cannot translate together; an ensemble needs "
                "models that were trained on the same data with the same tokenizer."
            )
    return loaded
