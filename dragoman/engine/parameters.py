"""The weights of a model: their names and shapes, which follow from its architecture, and what makes them usable."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from dragoman.errors import DataError
from dragoman.model.config import TransformerConfig

Shape = tuple[int, ...]


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


def check(config: TransformerConfig, weights: Mapping[str, np.ndarray], *, origin: Path) -> None:
    """Raise `DataError` that names a weight which is missing, superfluous, misshapen or not a finite number."""
    expected = shapes(config)
    if missing := sorted(expected.keys() - weights.keys()):
        raise DataError(f"{origin} lacks the weights '{missing[0]}' that config.json asks for; copy the model again.")
    if extra := sorted(weights.keys() - expected.keys()):
        raise DataError(f"{origin} has the weights '{extra[0]}' that config.json does not know; copy the model again.")
    for name, shape in expected.items():
        if weights[name].shape != shape:
            raise DataError(
                f"{origin} has '{name}' of shape {weights[name].shape}, but config.json describes "
                f"{shape}; the two files belong to different models."
            )
        if weights[name].dtype.kind != "f" or not np.isfinite(weights[name]).all():
            raise DataError(f"{origin} has weights '{name}' that are no finite numbers; train or copy the model again.")


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
