"""Models for CTranslate2: the same weights as its specification of a Transformer, and its searches beside ours."""

import copy
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from dragoman.interop.exports.engine_files import spelled, write_script, write_tokenizers
from dragoman.interop.exports.proof import Found, limit
from dragoman.model import TransformerConfig
from dragoman.model.layers import FeedForward, Norm
from dragoman.model.transformer import Decoder, Encoder
from dragoman.storage.model_directory import ModelDirectory
from dragoman.system.optional import load

LONGEST = 4_096
"""Positions that are written, since CTranslate2 computes another table than the paper's."""
QUANTIZATIONS = ("float32", "int8", "int8_float32", "int8_bfloat16", "int16", "float16", "bfloat16")


def library() -> Any:
    """The package `ctranslate2`."""
    return load("ctranslate2", extra="ctranslate2", purpose="Exporting to CTranslate2")


@torch.no_grad()
def expressed(directory: ModelDirectory) -> ModelDirectory:
    """The model as CTranslate2 computes it: of Marian, whose decoder starts with padding, that is never a token."""
    config = directory.model.config
    if not config.starts_with_padding:
        return directory
    model = copy.deepcopy(directory.model)
    model.projection.bias[config.pad_id] = -1e9
    return replace(directory, model=model)


def write(directory: ModelDirectory, folder: Path, numbers: str) -> None:
    """Write a model, and what cuts text into tokens, into `folder`, which exists."""
    source, target = map(spelled, directory.tokenizers)
    write_model(directory, folder, numbers, (source, target))
    write_tokenizers(directory, folder)
    write_script(directory, folder, "ctranslate2")


@torch.no_grad()
def write_model(
    directory: ModelDirectory, folder: Path, numbers: str, vocabularies: tuple[list[str], list[str]]
) -> None:
    """Write config.json, model.bin and the vocabularies of source and target into `folder`, which exists."""
    config = directory.model.config
    spec = _specification(config)
    # A copy, since rounding writes into the arrays that it is given.
    model = copy.deepcopy(expressed(directory).model)
    for own, stack in ((spec.encoder, model.encoder), (spec.decoder, model.decoder)):
        _stack(own, stack, config)
    spec.decoder.projection.weight = model.projection.weight
    if model.projection.bias is not None:
        spec.decoder.projection.bias = model.projection.bias
    source, target = vocabularies
    spec.register_source_vocabulary(source)
    spec.register_target_vocabulary(target)
    special = directory.target_tokenizer.special_ids
    spec.config.bos_token = spec.config.decoder_start_token = target[special.bos]
    spec.config.eos_token, spec.config.unk_token = target[special.eos], target[special.unk]
    spec.config.add_source_eos = True
    spec.config.layer_norm_epsilon = config.norm_eps
    spec.validate()
    spec.optimize(quantization=None if numbers == "float32" else numbers)
    spec.save(str(folder))


def _specification(config: TransformerConfig) -> Any:
    """The architecture in the words of CTranslate2, without weights."""
    specs = library().specs
    silu = specs.Activation.SWISH
    activation = {"relu": specs.Activation.RELU, "gelu": specs.Activation.GELU, "silu": silu, "swiglu": silu}
    options = {
        "num_heads": config.num_heads,
        "pre_norm": config.norm_order == "pre",
        "activation": activation[config.activation],
        "ffn_glu": config.activation == "swiglu",
        "rms_norm": config.norm == "rms",
        "rotary_dim": 0 if config.positions == "rotary" else None,
        "rotary_interleave": True,
    }
    return specs.transformer_spec.TransformerSpec(
        specs.transformer_spec.TransformerEncoderSpec(config.num_encoder_layers, **options),
        specs.transformer_spec.TransformerDecoderSpec(config.num_decoder_layers, **options),
    )


def _stack(spec: Any, stack: Encoder | Decoder, config: TransformerConfig) -> None:
    embeddings = spec.embeddings[0] if isinstance(stack, Encoder) else spec.embeddings
    embeddings.weight = stack.embedding.table.weight
    spec.scale_embeddings = stack.embedding.scale
    if stack.embedding.positions is not None:
        spec.position_encodings.encodings = stack.embedding.positions(0, config.max_length or LONGEST).clone()
    if config.norm_order == "pre":
        _norm(spec.layer_norm, stack.norm, config.d_model)
    for place, layer in zip(spec.layer, stack.layers, strict=True):
        parts = [place.self_attention, place.ffn]
        own = layer.self_attention
        _linear(place.self_attention.linear[0], own.query, own.key, own.value)
        _linear(place.self_attention.linear[1], own.output)
        _feed_forward(place.ffn, layer.feed_forward)
        if isinstance(stack, Decoder):
            parts.insert(1, place.attention)
            cross = layer.cross_attention
            _linear(place.attention.linear[0], cross.query)
            _linear(place.attention.linear[1], cross.key, cross.value)
            _linear(place.attention.linear[2], cross.output)
        for part, residual in zip(parts, layer.residuals, strict=True):
            _norm(part.layer_norm, residual.norm, config.d_model)


def search(
    folder: Path, directory: ModelDirectory, sources: Sequence[list[int]], *, beam_size: int, length_penalty: float
) -> Found:
    """What CTranslate2 finds for sources of token ids: ids and score of each; with the limits of Dragoman's search."""
    source_tokens, target = map(spelled, directory.tokenizers)
    tokens = [[source_tokens[id_] for id_ in source] for source in sources]
    return translations(folder, directory, tokens, target, beam_size=beam_size, length_penalty=length_penalty)


def translations(
    folder: Path,
    directory: ModelDirectory,
    sources: Sequence[list[str]],
    target: list[str],
    *,
    beam_size: int,
    length_penalty: float,
) -> Found:
    """The same for sources of tokens, and the vocabulary of the target."""
    translator = library().Translator(str(folder), compute_type="default", intra_threads=torch.get_num_threads())
    ids = {token: id_ for id_, token in enumerate(target)}
    prefix = [target[id_] for id_ in directory.target_tokenizer.begin_ids]
    found = []
    for source in sources:
        (result,) = translator.translate_batch(
            [source],
            target_prefix=[prefix] if prefix else None,
            beam_size=beam_size,
            length_penalty=length_penalty,
            min_decoding_length=0,
            max_decoding_length=limit(directory, source),
            max_input_length=0,
            return_scores=True,
        )
        found.append(([ids[token] for token in result.hypotheses[0]], result.scores[0]))
    return found


def _feed_forward(spec: Any, feed_forward: FeedForward) -> None:
    if feed_forward.gate is None:
        _linear(spec.linear_0, feed_forward.inner)
    else:
        _linear(spec.linear_0, feed_forward.gate)  # the one with the activation
        _linear(spec.linear_0_noact, feed_forward.inner)
    _linear(spec.linear_1, feed_forward.outer)


def _linear(spec: Any, *maps: nn.Linear) -> None:
    """One map, or several with the same input as one."""
    spec.weight = torch.cat([each.weight for each in maps])
    spec.bias = torch.cat([each.bias for each in maps])


def _norm(spec: Any, norm: Norm, width: int) -> None:
    """A gain for all features becomes one for each."""
    spec.gamma = norm.gain.expand(width).contiguous()
    if norm.bias is not None:
        spec.beta = norm.bias.expand(width).contiguous()
