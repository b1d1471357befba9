"""The weights of a model: their names and shapes, which follow from its architecture, and what makes them usable."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np

from dragoman.errors import DataError
from dragoman.model.config import TransformerConfig

OF_SOURCES = "encoder.embedding.table.weight"
"""Name of the parameter with a row for each source token; where both sides share a table, that of all tokens."""
OF_TARGETS = "decoder.embedding.table.weight", "projection.weight", "projection.bias"
"""Names of those with a row for each target token."""
GREATEST = 127
"""Numbers in eight bits range from -127 to 127."""
SCALE = ".scale"
"""End of the names of scales in a file of weights."""
Shape = tuple[int, ...]


class HasShape(Protocol):
    """An array, or the description of one."""

    @property
    def shape(self) -> Shape: ...


T = TypeVar("T", bound=HasShape)


def shapes(config: TransformerConfig) -> dict[str, Shape]:
    """The shape of each weight by its name, in the order in which `Transformer.named_parameters` has them.

    A table that is shared, or that is the projection too, stands under its first name alone.
    """
    named = dict(_all_shapes(config))
    if config.share_embeddings:
        del named["decoder.embedding.table.weight"]
    if config.tie_projection:
        del named["projection.weight"]
    return named


def with_shared(config: TransformerConfig, weights: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """All weights under all their names: those of `shapes`, and what is the same as one of them."""
    named = dict(weights)
    if config.share_embeddings:
        named["decoder.embedding.table.weight"] = named["encoder.embedding.table.weight"]
    if config.tie_projection:
        named["projection.weight"] = named["decoder.embedding.table.weight"]
    return named


def are_numbers(weight: np.ndarray) -> bool:
    """Whether a weight consists of finite numbers."""
    return weight.dtype.kind == "f" and bool(np.isfinite(weight).all())


def check(
    config: TransformerConfig,
    weights: Mapping[str, Any],
    *,
    origin: Path,
    are_numbers: Callable[[Any], bool] = are_numbers,
) -> None:
    """Raise `DataError` that names a weight which is missing, superfluous, misshapen or not a finite number.

    The weights are arrays, or with another `are_numbers` something else that has a shape.
    """
    check_shapes(config, weights, origin=origin)
    for name, weight in weights.items():
        if not are_numbers(weight):
            raise DataError(f"{origin} has weights '{name}' that are no finite numbers; train or copy the model again.")


def check_shapes(config: TransformerConfig, weights: Mapping[str, Any], *, origin: Path) -> None:
    """Raise `DataError` that names a weight which is missing, superfluous or misshapen."""
    expected = shapes(config)
    if missing := sorted(expected.keys() - weights.keys()):
        raise DataError(f"{origin} lacks the weights '{missing[0]}' that config.json asks for; copy the model again.")
    if extra := sorted(weights.keys() - expected.keys()):
        raise DataError(f"{origin} has the weights '{extra[0]}' that config.json does not know; copy the model again.")
    for name, shape in expected.items():
        if tuple(weights[name].shape) != shape:
            raise DataError(
                f"{origin} has '{name}' of shape {tuple(weights[name].shape)}, but config.json describes "
                f"{shape}; the two files belong to different models."
            )


def quantised(weight: np.ndarray, greatest: int = GREATEST) -> tuple[np.ndarray, np.ndarray]:
    """A matrix (rows, columns) as eight-bit integers, and the scale of each row by which they have to be multiplied."""
    scale = np.maximum(weight.max(1), -weight.min(1)) / np.float32(greatest)
    with np.errstate(invalid="ignore"):  # NaN stays NaN in the scale
        steps = weight / np.maximum(scale, np.finfo(np.float32).tiny)[:, None]
        return np.rint(steps, out=steps).astype(np.int8), scale


def with_quantised_matrices(weights: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Weights for a file: matrices as eight-bit integers, with their scales under the name of the matrix + `SCALE`."""
    arrays = {}
    for name, weight in weights.items():
        if weight.ndim == 2:
            arrays[name], arrays[name + SCALE] = quantised(weight)
        else:
            arrays[name] = weight
    return arrays


def restored(arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Weights from a file as float32: the inverse of `with_quantised_matrices`, and numbers of other precisions.

    What is neither stays as it is, for `check` to refuse.
    """
    weights = dict(arrays)
    with np.errstate(over="ignore", invalid="ignore"):  # what is infinite or NaN then is refused
        for name, whole in arrays.items():
            scale = _scale_of(name, arrays)
            if scale is not None and whole.dtype == np.int8 and scale.dtype == np.float32:
                weights[name] = whole * weights.pop(name + SCALE)[:, None]
        for name, weight in weights.items():
            if weight.dtype.kind == "f":
                weights[name] = weight.astype(np.float32, copy=False)
    return weights


def without_scales(stored: Mapping[str, T]) -> dict[str, T]:
    """What a file stores, arrays or something else that has a shape, but for the scales of its matrices."""
    scales = {name + SCALE for name in stored if _scale_of(name, stored) is not None}
    return {name: array for name, array in stored.items() if name not in scales}


def _scale_of(name: str, stored: Mapping[str, T]) -> T | None:
    """The scale of a matrix, which has a number for each row; None: it has none, or is no matrix."""
    shape, scale = stored[name].shape, stored.get(name + SCALE)
    return scale if scale is not None and len(shape) == 2 and scale.shape == shape[:1] else None


def _all_shapes(config: TransformerConfig) -> Iterator[tuple[str, Shape]]:
    yield from _stack("encoder", config, config.source_vocab_size, config.num_encoder_layers, ("self_attention",))
    attentions = "self_attention", "cross_attention"
    yield from _stack("decoder", config, config.target_vocab_size, config.num_decoder_layers, attentions)
    yield from _linear("projection", config.d_model, config.target_vocab_size, bias=config.projection_bias)


def _stack(
    name: str, config: TransformerConfig, vocab_size: int, num_layers: int, attentions: tuple[str, ...]
) -> Iterator[tuple[str, Shape]]:
    """The weights of the encoder or of the decoder."""
    width = config.d_model
    yield f"{name}.embedding.table.weight", (vocab_size, width)
    if config.positions == "learned":
        yield f"{name}.embedding.positions.table", (config.max_positions, width)
    for layer in (f"{name}.layers.{number}" for number in range(num_layers)):
        for attention in attentions:
            for part in ("query", "key", "value", "output"):
                yield from _linear(f"{layer}.{attention}.{part}", width, width)
        if name == "encoder" or config.decoder_feed_forward == "network":
            yield from _linear(f"{layer}.feed_forward.inner", width, config.d_ff)
            if config.activation == "swiglu":
                yield from _linear(f"{layer}.feed_forward.gate", width, config.d_ff)
            yield from _linear(f"{layer}.feed_forward.outer", config.d_ff, width)
        for number in range(len(attentions) + 1):
            yield from _norm(f"{layer}.residuals.{number}.norm", config)
    if config.norm_order == "pre":
        yield from _norm(f"{name}.norm", config)


def _linear(name: str, inputs: int, outputs: int, *, bias: bool = True) -> Iterator[tuple[str, Shape]]:
    yield f"{name}.weight", (outputs, inputs)
    if bias:
        yield f"{name}.bias", (outputs,)


def _norm(name: str, config: TransformerConfig) -> Iterator[tuple[str, Shape]]:
    size = config.d_model if config.norm_gain == "feature" else 1
    yield f"{name}.gain", (size,)
    if config.norm == "layer":
        yield f"{name}.bias", (size,)
