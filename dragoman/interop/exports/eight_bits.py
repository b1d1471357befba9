"""Export to Dragoman's own format with weights in eight bits, a quarter of the size."""

from collections.abc import Sequence
from pathlib import Path

from dragoman.decoding.precision import INT8
from dragoman.engine.int8 import can_quantise
from dragoman.interop.exports.proof import EngineTranslation
from dragoman.interop.exports.proof import search as own_search
from dragoman.storage.directory import ArrayDirectory
from dragoman.storage.model_directory import ModelDirectory


def write(directory: ModelDirectory, folder: Path, numbers: str) -> None:
    """Write a model directory whose matrices are rounded to whole numbers with a scale for each row."""
    directory.save(folder, int8=numbers == INT8)


def search(
    folder: Path, directory: ModelDirectory, sources: Sequence[list[int]], *, beam_size: int, length_penalty: float
) -> list[EngineTranslation]:
    """Translate with the written model, in eight bits if this machine can, else with the rounded weights."""
    written = ArrayDirectory.load(folder).speaking(*directory.languages)
    precision = INT8 if can_quantise(written.model.config) else "float32"
    return own_search(written, sources, beam_size=beam_size, length_penalty=length_penalty, precision=precision)
