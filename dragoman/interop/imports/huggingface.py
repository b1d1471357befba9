"""Marian, M2M-100 and NLLB-200 as transformers keeps them: translates config.json and the names of weights.

Keys that a config.json leaves out have the defaults of `MarianConfig` and `M2M100Config`, as in transformers. Checked
against transformers 5.23.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from dragoman.errors import DataError
from dragoman.interop.imports.styles import Style, read_table
from dragoman.model import Transformer, TransformerConfig
from dragoman.model.layers import SinusoidalPositions

STYLE = Style(**read_table("pretrained.toml")["styles"]["transformers"])
SHARED = "model.shared.weight"
"""The table that source and target share. Files may have it under other names as well."""
COPIES = (SHARED, "model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight", "lm_head.weight")
"""All names of the shared table."""
COMPUTED = ("embed_positions.weight", "embed_positions.weights")
"""Endings of names under which tables of sines are saved, which Dragoman computes."""
ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "silu": "silu", "swish": "silu"}
"""Activations in transformers, and in Dragoman."""
SIZES = {
    "d_model": "d_model",
    "num_encoder_layers": "encoder_layers",
    "num_decoder_layers": "decoder_layers",
    "d_ff": "encoder_ffn_dim",
    "num_heads": "encoder_attention_heads",
    "source_vocab_size": "vocab_size",
    "scale_embeddings": "scale_embedding",
    "dropout": "dropout",
    "attention_dropout": "attention_dropout",
    "activation_dropout": "activation_dropout",
    "tie_projection": "tie_word_embeddings",
    "pad_id": "pad_token_id",
    "bos_id": "decoder_start_token_id",
    "eos_id": "eos_token_id",
}
"""Fields of `TransformerConfig`, and the keys of config.json with the same meaning."""

_BOTH = {
    "encoder_layers": 12, "decoder_layers": 12, "encoder_ffn_dim": 4096, "decoder_ffn_dim": 4096,
    "encoder_attention_heads": 16, "decoder_attention_heads": 16, "d_model": 1024, "dropout": 0.1,
    "activation_dropout": 0.0, "tie_word_embeddings": True,
}  # fmt: skip
DEFAULTS: dict[str, dict[str, Any]] = {
    "marian": _BOTH | {
        "vocab_size": 58101, "activation_function": "gelu", "attention_dropout": 0.0, "scale_embedding": False,
        "share_encoder_decoder_embeddings": True, "pad_token_id": 58100, "eos_token_id": 0,
        "decoder_start_token_id": 58100,
    },
    "m2m_100": _BOTH | {
        "vocab_size": 128112, "activation_function": "relu", "attention_dropout": 0.1, "scale_embedding": True,
        "pad_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 2,
    },
}  # fmt: skip
FORMULAS: dict[str, dict[str, Any]] = {
    "marian": {"norm_order": "post", "positions": "sinusoidal-concatenated", "projection_bias": True},
    "m2m_100": {"norm_order": "pre", "positions": "sinusoidal-fairseq", "projection_bias": False},
}
"""Formulas of each kind of model, as fields of `TransformerConfig`."""
GUIDED_HEAD, ALIGNED_TOKEN = "guided_head", "aligned_token"
"""Keys of config.json that only Dragoman writes and reads."""
REFUSED = ("normalize_before", "normalize_embedding", "add_final_layer_norm")
"""Keys of Marian's config.json that transformers writes, but does not compute if they are true."""
SAME = 2e-3
"""Largest difference between a table of positions and its formula. Half precision rounds by less."""


def with_defaults(values: Mapping[str, Any]) -> dict[str, Any]:
    """The content of a config.json with what transformers takes where nothing is said."""
    return DEFAULTS[values["model_type"]] | {key: value for key, value in values.items() if value is not None}


def architecture(values: Mapping[str, Any], weights: Mapping[str, Tensor], origin: str) -> TransformerConfig:
    """The architecture that a config.json describes, with `weights` beside it.

    Raises `DataError`, which begins with `origin`, for a model that Dragoman does not compute, and for sizes that no
    model has.
    """
    kind = values.get("model_type")
    if kind not in DEFAULTS:
        raise DataError(
            f"{origin} is of the type {kind!r}; Dragoman imports {' and '.join(DEFAULTS)} (NLLB is m2m_100)."
        )
    values = with_defaults(values)
    activation = values["activation_function"]
    if activation not in ACTIVATIONS:
        raise DataError(f"{origin}: the activation is {activation!r}; Dragoman has {', '.join(ACTIVATIONS)}.")
    if values["encoder_attention_heads"] != values["decoder_attention_heads"]:
        raise DataError(f"{origin}: the decoder has another number of heads than the encoder, which Dragoman has not.")
    if kind == "marian":
        for key in REFUSED:
            if values.get(key):
                raise DataError(f"{origin}: `{key}` is true, which transformers does not compute, nor does Dragoman.")
    fields = {ours: values[theirs] for ours, theirs in SIZES.items()}
    fields["d_ff"] = max(values["encoder_ffn_dim"], values["decoder_ffn_dim"])
    shared = values.get("share_encoder_decoder_embeddings", True)
    fields["target_vocab_size"] = values["vocab_size"]
    fields["guided_head"] = values.get(GUIDED_HEAD) is True
    if fields["guided_head"] and values.get(ALIGNED_TOKEN) == "read":
        fields["aligned_token"] = "read"
    if not shared:
        fields["target_vocab_size"] = values.get("decoder_vocab_size", values["vocab_size"])
    # Tables that are not tied to the projection are not tied to each other either, if the file has them.
    fields["share_embeddings"] = shared and (values["tie_word_embeddings"] or COPIES[1] not in weights)
    try:
        config = TransformerConfig(**fields, activation=ACTIVATIONS[activation], **FORMULAS[kind])
        return _with_positions(config, weights) if kind == "marian" else config
    except (TypeError, ValueError) as error:
        raise DataError(f"{origin} does not describe a model: {error}") from None


def _with_positions(config: TransformerConfig, weights: Mapping[str, Tensor]) -> TransformerConfig:
    """The architecture of Marian with the kind of positions that its saved tables hold. Transformers reads the tables,
    so they count, whatever they hold."""
    tables = [table for name, table in sorted(weights.items()) if name.endswith(COMPUTED[0])]
    for kind in ("sinusoidal-concatenated", "sinusoidal"):
        candidate = replace(config, positions=kind)
        formula = SinusoidalPositions(candidate)(0, max(map(len, tables), default=0))
        if all(_agree(table, formula[: len(table)]) for table in tables):
            return candidate
    return replace(config, positions="learned", max_positions=len(tables[0]))


def _agree(table: Tensor, formula: Tensor) -> bool:
    """Whether a table of positions holds the values of a formula, up to rounding."""
    return table.shape == formula.shape and torch.allclose(table, formula, rtol=0, atol=SAME)


def from_huggingface(
    weights: Mapping[str, Tensor], config: TransformerConfig, origin: str, values: Mapping[str, Any]
) -> dict[str, Tensor]:
    """The weights under Dragoman's names. Raises `DataError` for one that is missing, unknown or of another shape.

    If encoder and decoder have feed-forward networks of different widths, by the `values` of config.json, the narrower
    ones are padded with zeros, which add nothing.
    """
    converted, used = {}, set(COPIES)
    for name, parameter in _parameters(config).items():
        theirs = _name_in_file(name, config, weights)
        if theirs is None and name == "projection.bias":
            converted[name] = torch.zeros(config.target_vocab_size)
            continue
        if theirs is None:
            raise DataError(f"{origin} lacks `{STYLE.name_of(name)}`; copy the whole model again.")
        weight = weights[theirs].flatten() if name == "projection.bias" else weights[theirs]
        width = values.get(f"{name.partition('.')[0]}_ffn_dim", config.d_ff)
        weight = _widened(weight, name, parameter, width=width, d_ff=config.d_ff)
        if weight.shape != parameter.shape:
            shapes = f"{tuple(weights[theirs].shape)}, not {tuple(parameter.shape)}"
            raise DataError(f"{origin}: `{theirs}` is of shape {shapes}, as config.json says; copy the model again.")
        converted[name] = weight
        used.add(theirs)
    if unknown := sorted(name for name in weights.keys() - used if not name.endswith(COMPUTED)):
        raise DataError(f"{origin} has the weights `{unknown[0]}`, which no such model has.")
    return converted


HIDDEN = {"feed_forward.inner.weight": 0, "feed_forward.inner.bias": 0, "feed_forward.outer.weight": 1}
"""Dimension of the hidden features in the weights of a feed-forward network."""


def _widened(weight: Tensor, name: str, parameter: Tensor, *, width: int, d_ff: int) -> Tensor:
    """The weight of a feed-forward network with `width` hidden features, padded to `d_ff`; others as they are."""
    for ending, axis in HIDDEN.items():
        if name.endswith(ending) and weight.dim() == parameter.dim() and weight.size(axis) == width < d_ff:
            return pad(weight, [0, 0] * (weight.dim() - 1 - axis) + [0, d_ff - width])
    return weight


def _parameters(config: TransformerConfig) -> dict[str, Tensor]:
    """The parameters of a model by name, with their shapes and without memory."""
    with torch.device("meta"):
        return dict(Transformer(config).named_parameters())


def _name_in_file(parameter: str, config: TransformerConfig, weights: Mapping[str, Tensor]) -> str | None:
    """The name under which the file has a parameter, the first one if there are several; None if it lacks it."""
    names = [STYLE.name_of(parameter)]
    if parameter == "encoder.embedding.table.weight" and config.share_embeddings:
        names = [*COPIES] if config.tie_projection else [*COPIES[:3]]
    elif parameter == "decoder.embedding.table.weight" and config.tie_projection:
        names.append("lm_head.weight")
    for name in names:
        if name in weights:
            return name
    return None
