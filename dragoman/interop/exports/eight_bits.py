"""Model directories in eight bits: the format of Dragoman itself, in a quarter of the room."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from dragoman.decoding.precision import INT8, ready
from dragoman.interop.exports.proof import Found
from dragoman.interop.exports.proof import search as own_search
from dragoman.model.fast.int8 import can_quantise
from dragoman.storage.model_directory import ModelDirectory


def write(directory: ModelDirectory, folder: Path, numbers: str) -> None:
    """Write a model directory whose matrices are rounded to whole numbers with a scale for each row."""
    directory.save(folder, int8=numbers == INT8)


def search(
    folder: Path, directory: ModelDirectory, sources: Sequence[list[int]], *, beam_size: int, length_penalty: float
) -> Found:
    """What the written model finds, computed in eight bits where this machine can, else with its rounded weights."""
    written = ModelDirectory.load(folder)
    translates_in = INT8 if can_quantise(written.model.config) else "float32"
    written.model = ready(written.model, translates_in)
    find = partial(own_search, written.speaking(*directory.languages))
    return find(sources, beam_size=beam_size, length_penalty=length_penalty)
