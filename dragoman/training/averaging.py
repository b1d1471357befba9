"""The mean of several models of one run, which is often better than each (section 6.1 of the paper)."""

from collections.abc import Iterable
from pathlib import Path

from torch import Tensor

from dragoman.checkpoint import Checkpoints, ModelDirectory, copy_weights
from dragoman.errors import DataError
from dragoman.run_directory import RunDirectory, refuse_to_overwrite


def average_weights(models: Iterable[dict[str, Tensor]]) -> dict[str, Tensor]:
    """The mean of each weight over several models of one architecture."""
    total: dict[str, Tensor] = {}
    count = 0
    for model in models:
        count += 1
        for name, value in model.items():
            total[name] = total[name] + value.double() if name in total else value.double()
    return {name: (value / count).float() for name, value in total.items()}


def average_snapshots(directory: Path, output: Path, *, last: int) -> list[int]:
    """Write a model whose weights are the mean of the last snapshots of a run; returns their steps."""
    refuse_to_overwrite(output)
    snapshots = Checkpoints(RunDirectory(directory).snapshots, warn=lambda _: None)
    steps = snapshots.steps()[-last:]
    if len(steps) < 2:
        raise DataError(
            f"{snapshots.folder} has {len(steps)} snapshots; an average needs two or more: train longer, or with a "
            "smaller training.validate_every."
        )
    averaged = ModelDirectory.load(directory)
    weights = average_weights(snapshots.load(step)[0]["model"] for step in steps)
    copy_weights(weights, averaged.model, origin=snapshots.folder)
    averaged.save(output)
    return steps
