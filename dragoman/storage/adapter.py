"""An adapter: low-rank changes of some matrices of a model, in a file of its own.

A run with `finetune.lora` writes one beside the whole model, so that one large model can serve many kinds of text. For
a matrix W (out x in), the file has up (out x rank) and down (rank x in), and the adapted matrix is W + up @ down. It
names the weights that it was made for, and is refused for others.
"""

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dragoman.errors import DataError
from dragoman.storage.validate import INT8_BLEU, is_bleu
from dragoman.storage.weights_file import opened, read_weights, sealed
from dragoman.system.atomic import write_file
from dragoman.system.seals import checksum

ADAPTER = "adapter.safetensors"
"""Name of the file, and the key of the checksum of its tensors."""
BASE = "base"
"""Key of the `identity` of the weights that it belongs to."""
INT8_SUM = f"{INT8_BLEU} checksum"
"""Key of the checksum of the BLEU in eight bits, as it is written."""
UP, DOWN = ".up", ".down"
PRECISE = 1e-5
"""Error of a product of thin matrices, as a share of the norm of the matrix that it changes."""
Weights = Mapping[str, np.ndarray]
"""Float32 arrays by name, as `dragoman.engine.parameters.shapes` has them."""


@dataclass(frozen=True)
class Adapted:
    """A model with the changes of an adapter."""

    weights: dict[str, np.ndarray]
    int8_bleu: float | None
    """BLEU in eight bits, with the translations in float32 as references; None if it was not measured."""


def identity(weights: Weights) -> str:
    """A checksum of weights by which an adapter knows its model, however a file stores them."""
    total = ""
    for name in sorted(weights):
        total = checksum(np.ascontiguousarray(weights[name]).reshape(-1).view(np.uint8).data, total)
    return total


def adapter_path(path: Path) -> Path:
    """The file of an adapter: `path` itself, or the one in the run that `path` is the folder of."""
    return path / ADAPTER if os.path.isdir(path) else path


def run_of(adapter: Path, model: Path) -> Path | None:
    """The folder of the run that wrote an adapter for a model, with its confidence and its sketch; None for a file that
    lies anywhere else, such as beside the model.
    """
    folder = adapter_path(adapter).parent
    is_run = os.path.isfile(folder / "config.json") and not os.path.samefile(folder, model)
    return folder if is_run else None


def write_adapter(path: Path, base: Weights, adapted: Weights, *, rank: int, int8_bleu: float | None = None) -> None:
    """Write what turns `base` into `adapted`, and how well that translates in eight bits, if it was measured.

    The changes are of the `rank`, or a little higher, such as those of a mean of several models. Raises `ValueError` if
    something else than matrices has changed.
    """
    from safetensors.numpy import save  # it comes with the extra `train`; reading does without

    tensors = {}
    for name, weight in adapted.items():
        if np.array_equal(weight, base[name]):
            continue
        if weight.ndim != 2:
            raise ValueError(f"an adapter changes matrices alone, not '{name}'")
        tensors[name + UP], tensors[name + DOWN] = _factors(base[name], weight, rank)
    facts = {BASE: identity(base)}
    if int8_bleu is not None:
        written = repr(int8_bleu)
        facts |= {INT8_BLEU: written, INT8_SUM: checksum(written.encode())}
    write_file(path, sealed(tensors, save, facts, name=ADAPTER))


def _factors(before: np.ndarray, after: np.ndarray, rank: int) -> tuple[np.ndarray, np.ndarray]:
    """Thin matrices whose product is the difference of two matrices.

    Products of the difference with random vectors span its columns as soon as there are as many as its rank (Halko,
    Martinsson and Tropp 2011, arXiv 0909.4061).
    """
    difference = after.astype(np.float64) - before
    rng = np.random.default_rng(0)
    rank = min(rank, *difference.shape)
    while True:
        basis, _ = np.linalg.qr(difference @ rng.standard_normal((difference.shape[1], rank)))
        down = basis.T @ difference
        if np.linalg.norm(difference - basis @ down) <= PRECISE * np.linalg.norm(before):
            return basis.astype(np.float32), down.astype(np.float32)
        rank = min(2 * rank, *difference.shape)


def check_adapter(path: Path) -> None:
    """Raise `DataError` unless there is an adapter, by its header; no weights are read."""
    with opened(_existing(path)) as (_, header):
        _check_names(header.sums, path)


def with_adapter(weights: Weights, path: Path) -> Adapted:
    """A model with the changes of an adapter. Raises `DataError` if it is damaged, or made for another model."""
    file = _existing(path)
    stored = read_weights(file)
    _check_names(stored.sums, file)
    if stored.checksum != stored.sums[ADAPTER]:
        raise DataError(f"{file} is damaged: its checksum is not that of its content; copy it again.")
    if stored.sums[BASE] != identity(weights):
        raise DataError(f"{file} belongs to another model; give it with the model that was adapted.")
    names = {name.removesuffix(UP).removesuffix(DOWN) for name in stored.arrays}
    adapted = dict(weights)
    for name in names:
        adapted[name] = _changed(name, weights, stored.arrays, file)
    return Adapted(adapted, _int8_bleu(stored.sums, file))


def _changed(name: str, weights: Weights, arrays: Weights, file: Path) -> np.ndarray:
    """A matrix with its change. Raises `DataError` if the two do not fit."""
    nothing = np.zeros(0, np.float32)
    matrix, up, down = weights.get(name, nothing), arrays.get(name + UP, nothing), arrays.get(name + DOWN, nothing)
    are_matrices = matrix.ndim == up.ndim == down.ndim == 2 and up.dtype == down.dtype == np.float32
    if not are_matrices or up.shape[1] != down.shape[0] or (up.shape[0], down.shape[1]) != matrix.shape:
        raise DataError(f"{file} has changes of '{name}' that do not fit the model; copy it again.")
    changed = matrix + up @ down
    if not np.isfinite(changed).all():
        raise DataError(f"{file} has changes of '{name}' that are no finite numbers; copy it again.")
    return changed


def _int8_bleu(facts: Mapping[str, str], file: Path) -> float | None:
    """The BLEU in eight bits that an adapter names; None if it names none. Raises `DataError` if that is damaged."""
    written = facts.get(INT8_BLEU)
    if written is None:
        return None
    with suppress(ValueError):
        if facts.get(INT8_SUM) == checksum(written.encode()) and is_bleu(float(written)):
            return float(written)
    raise DataError(f"{file} is damaged: its {INT8_BLEU} is not what was written; copy it again.")


def _existing(path: Path) -> Path:
    file = adapter_path(path)
    if not os.path.isfile(file):
        raise _no_adapter(file)
    return file


def _check_names(sums: Mapping[str, str], file: Path) -> None:
    if not {BASE, ADAPTER} <= sums.keys():
        raise _no_adapter(file)


def _no_adapter(file: Path) -> DataError:
    return DataError(f"{file} is no adapter; a run with finetune.lora writes one, {ADAPTER}.")
