"""Export to CTranslate2: the weights in its specification of a Transformer, and its search for comparison."""

import copy
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from dragoman.interop.exports.engine_files import spelled, write_script, write_tokenizers
from dragoman.interop.exports.proof import EngineTranslation, translation_floor, translation_limit
from dragoman.model import TransformerConfig
from dragoman.model.layers import FeedForward, Norm
from dragoman.model.transformer import Decoder, Encoder
from dragoman.storage.model_directory import ModelDirectory
from dragoman.system.optional import load

LONGEST = 4_096
"""Number of positions that are written. A table is written because CTranslate2 computes another one than the paper."""
QUANTIZATIONS = ("float32", "int8", "int8_float32", "int8_bfloat16", "int16", "float16", "bfloat16")


def library() -> Any:
    """The package `ctranslate2`."""
    return load("ctranslate2", extra="ctranslate2", purpose="Exporting to CTranslate2")


def refusal(directory: ModelDirectory) -> str | None:
    """Why CTranslate2 cannot compute what the model does; None if it can."""
    if directory.model.config.decoder_feed_forward == "positions":
        return (
            "its decoder adds positions where that of CTranslate2 has feed-forward networks "
            "(model.decoder_feed_forward=positions)"
        )
    return None


@torch.no_grad()
def expressed(directory: ModelDirectory) -> ModelDirectory:
    """The model as CTranslate2 computes it: a decoder that starts with padding, as Marian's, never says padding."""
    config = directory.model.config
    if not config.starts_with_padding:
        return directory
    model = copy.deepcopy(directory.model)
    model.projection.bias[config.pad_id] = -1e9
    return replace(directory, model=model)


def write(directory: ModelDirectory, folder: Path, numbers: str) -> None:
    """Write a model, its tokenizers and a script into `folder`, which exists."""
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
    _write_stack(spec.encoder, model.encoder, config)
    _write_stack(spec.decoder, model.decoder, config)
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
    # CTranslate2 takes the attention of a step for that of the token which the step predicts.
    is_aligned = config.guided_head and config.aligned_token == "predicted"
    alignment = {"alignment_layer": config.aligning_layers[0], "alignment_heads": 1} if is_aligned else {}
    return specs.transformer_spec.TransformerSpec(
        specs.transformer_spec.TransformerEncoderSpec(config.num_encoder_layers, **options),
        specs.transformer_spec.TransformerDecoderSpec(config.num_decoder_layers, **options, **alignment),
    )


def _write_stack(spec: Any, stack: Encoder | Decoder, config: TransformerConfig) -> None:
    """Put the weights of the encoder or the decoder into its specification."""
    embeddings = spec.embeddings[0] if isinstance(stack, Encoder) else spec.embeddings
    embeddings.weight = stack.embedding.table.weight
    spec.scale_embeddings = stack.embedding.scale
    if stack.embedding.positions is not None:
        spec.position_encodings.encodings = stack.embedding.positions(0, config.max_length or LONGEST).clone()
    if config.norm_order == "pre":
        _write_norm(spec.layer_norm, stack.norm, config.d_model)
    for layer_spec, layer in zip(spec.layer, stack.layers, strict=True):
        sublayers = [layer_spec.self_attention, layer_spec.ffn]
        attention = layer.self_attention
        _write_linear(layer_spec.self_attention.linear[0], attention.query, attention.key, attention.value)
        _write_linear(layer_spec.self_attention.linear[1], attention.output)
        _write_feed_forward(layer_spec.ffn, layer.feed_forward)
        if isinstance(stack, Decoder):
            sublayers.insert(1, layer_spec.attention)
            attention = layer.cross_attention
            _write_linear(layer_spec.attention.linear[0], attention.query)
            _write_linear(layer_spec.attention.linear[1], attention.key, attention.value)
            _write_linear(layer_spec.attention.linear[2], attention.output)
        for sublayer, residual in zip(sublayers, layer.residuals, strict=True):
            _write_norm(sublayer.layer_norm, residual.norm, config.d_model)


def search(
    folder: Path, directory: ModelDirectory, sources: Sequence[list[int]], *, beam_size: int, length_penalty: float
) -> list[EngineTranslation]:
    """Translate sources of token ids with CTranslate2, within the limits of Dragoman's search."""
    source_vocabulary, target_vocabulary = map(spelled, directory.tokenizers)
    tokens = [[source_vocabulary[id_] for id_ in source] for source in sources]
    return search_tokens(
        folder, directory, tokens, target_vocabulary, beam_size=beam_size, length_penalty=length_penalty
    )


def search_tokens(
    folder: Path,
    directory: ModelDirectory,
    sources: Sequence[list[str]],
    target_vocabulary: list[str],
    *,
    beam_size: int,
    length_penalty: float,
) -> list[EngineTranslation]:
    """Translate sources of spelled tokens with the model in `folder`."""
    translator = library().Translator(str(folder), compute_type="default", intra_threads=torch.get_num_threads())
    ids = {token: id_ for id_, token in enumerate(target_vocabulary)}
    prefix = [target_vocabulary[id_] for id_ in directory.target_tokenizer.begin_ids]
    translations = []
    for source in sources:
        (result,) = translator.translate_batch(
            [source],
            target_prefix=[prefix] if prefix else None,
            beam_size=beam_size,
            length_penalty=length_penalty,
            min_decoding_length=translation_floor(directory, source),
            max_decoding_length=translation_limit(directory, source),
            max_input_length=0,
            return_scores=True,
        )
        tokens = [ids[token] for token in result.hypotheses[0]]
        translations.append(EngineTranslation(tokens, result.scores[0]))
    return translations


def _write_feed_forward(spec: Any, feed_forward: FeedForward) -> None:
    if feed_forward.gate is None:
        _write_linear(spec.linear_0, feed_forward.inner)
    else:
        _write_linear(spec.linear_0, feed_forward.gate)  # the one with the activation
        _write_linear(spec.linear_0_noact, feed_forward.inner)
    _write_linear(spec.linear_1, feed_forward.outer)


def _write_linear(spec: Any, *layers: nn.Linear) -> None:
    """Put the weights of a linear layer into its specification; several with the same input become one."""
    spec.weight = torch.cat([layer.weight for layer in layers])
    spec.bias = torch.cat([layer.bias for layer in layers])


def _write_norm(spec: Any, norm: Norm, width: int) -> None:
    """Put the weights of a norm into its specification; one gain for all features becomes one for each."""
    spec.gamma = norm.gain.expand(width).contiguous()
    if norm.bias is not None:
        spec.beta = norm.bias.expand(width).contiguous()
