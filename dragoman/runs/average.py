"""Averages the last snapshots of a run into a new model."""

from pathlib import Path

from dragoman.errors import DataError
from dragoman.storage.beside import read_sketch, write_sketch
from dragoman.storage.checkpoints import Checkpoints
from dragoman.storage.model_directory import ModelDirectory, copy_weights
from dragoman.storage.run_directory import RunDirectory, refuse_to_overwrite
from dragoman.system.atomic import new_folder
from dragoman.training.averaging import average_weights


def average_snapshots(directory: Path, output: Path, *, last: int) -> list[int]:
    """Write a model whose weights are the mean of the last snapshots of a run; returns their steps."""
    refuse_to_overwrite(output)
    snapshots = Checkpoints(RunDirectory(directory).snapshots, warn=lambda _: None)
    steps = snapshots.steps()[-last:]
    if len(steps) < 2:
        raise DataError(
            f"{snapshots.folder} has {len(steps)} snapshots; an average needs two or more: give a model whose run/ is "
            "still there, trained longer, with training.average above 1, or with a smaller training.validate_every."
        )
    averaged = ModelDirectory.load(directory)
    weights = average_weights(snapshots.load(step)[0]["model"] for step in steps)
    copy_weights(weights, averaged.model, origin=snapshots.folder)
    averaged.int8_bleu = None  # measured on other weights
    with new_folder(output) as folder:
        averaged.save(folder)
        if sketch := read_sketch(directory):
            write_sketch(folder, sketch)
    return steps
