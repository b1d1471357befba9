"""Export to transformers: a folder that `MarianMTModel` or `M2M100ForConditionalGeneration` loads with a tokenizer.

The library itself is only needed to run what was written.
"""

import base64
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from tokenizers import processors
from torch import Tensor

from dragoman.interop.exports.engine_files import LONGEST
from dragoman.interop.exports.proof import EngineTranslation, translation_floor, translation_limit
from dragoman.interop.files import STYLE_FILE
from dragoman.interop.imports.huggingface import ACTIVATIONS, ALIGNED_TOKEN, GUIDED_HEAD, SHARED, SIZES, STYLE
from dragoman.interop.imports.pretrained_vocabulary import NLLB_MASK, NLLB_SPECIAL, PIECES
from dragoman.model import Transformer, TransformerConfig
from dragoman.storage.model_directory import ModelDirectory
from dragoman.system.optional import load
from dragoman.text.preprocessing import SourceStyle
from dragoman.text.tokenizers.pretrained import PretrainedTokenizer
from dragoman.text.tokenizers.tokenizer import EOS_ID, SPECIAL_TOKENS, Tokenizer

CLASSES = {"marian": "MarianMTModel", "m2m_100": "M2M100ForConditionalGeneration"}
"""Classes of transformers by the `model_type` of config.json."""
EPSILON = 1e-5
"""The epsilon of all norms in these classes."""


def model_type(config: TransformerConfig) -> str:
    """The `model_type` of the class that comes closest to the architecture."""
    return "marian" if config.norm_order == "post" else "m2m_100"


def refusal(directory: ModelDirectory) -> str | None:
    """Why transformers has no class that computes what the model does; None if it has one."""
    config = directory.model.config
    name = CLASSES[model_type(config)]
    if config.positions == "rotary":
        return f"it turns queries and keys (model.positions=rotary), and {name} adds positions; train with sinusoidal"
    if config.norm == "rms":
        return f"it has RMSNorm (model.norm=rms), and {name} has LayerNorm"
    if config.norm_eps != EPSILON:
        return f"its norms add {config.norm_eps:g} to the variance, and those of {name} {EPSILON:g}"
    if config.activation == "swiglu":
        return f"it has a gate (model.activation=swiglu), which {name} has not"
    if config.decoder_feed_forward == "positions":
        return f"its decoder adds positions (model.decoder_feed_forward=positions), where {name} has networks"
    if model_type(config) == "m2m_100":
        if config.positions != "sinusoidal-fairseq":
            return f"{name}, which has its norms before each part, computes fairseq's positions and no others"
        if config.projection_bias:
            return f"it adds a bias to the logits, and {name} does not"
    elif config.positions == "sinusoidal-fairseq":
        return "its positions are fairseq's, which MarianMTModel does not have"
    source, target = (_without_post_processor(tokenizer) for tokenizer in directory.tokenizers)
    if source != target and not isinstance(directory.source_tokenizer, PretrainedTokenizer):
        return "a tokenizer of transformers has one vocabulary, and this model two (tokenizer.shared=false)"
    return None


def _without_post_processor(tokenizer: Tokenizer) -> dict[str, Any]:
    """The JSON of a tokenizer but for the tokens that it puts before texts, which may differ."""
    return json.loads(tokenizer.to_json()) | {"post_processor": None}


@torch.no_grad()
def write(directory: ModelDirectory, folder: Path, numbers: str) -> None:
    """Write weights, config.json and the tokenizer into `folder`, which exists."""
    config = directory.model.config
    length = config.max_length or LONGEST
    save_file(_weights(directory.model, length), folder / "model.safetensors", metadata={"format": "pt"})
    _write_json(folder / "config.json", _config(config, length))
    _write_json(folder / "generation_config.json", _generation_config(directory, length))
    _write_tokenizer(directory, folder)
    if directory.style != SourceStyle():
        (folder / STYLE_FILE).write_text(directory.style.model_dump_json(), encoding="utf-8")


def _weights(model: Transformer, length: int) -> dict[str, Tensor]:
    """The weights under the names and in the shapes of transformers, with `length` positions."""
    config = model.config
    weights = {STYLE.name_of(name): parameter.detach().clone() for name, parameter in model.named_parameters()}
    if config.share_embeddings:
        source_table = STYLE.name_of("encoder.embedding.table.weight")
        weights[SHARED] = weights[source_table]
        if config.tie_projection:
            del weights[source_table]
        else:  # transformers ties these two to each other only if the projection is tied to them
            weights[STYLE.name_of("decoder.embedding.table.weight")] = weights[SHARED].clone()
            weights[SHARED] = weights[SHARED].clone()
    for name, weight in weights.items():
        if "norm" in name and weight.numel() == 1:
            weights[name] = weight.expand(config.d_model).contiguous()  # a gain for all features
    if "final_logits_bias" in weights:
        weights["final_logits_bias"] = weights["final_logits_bias"][None]
    if model_type(config) == "marian":
        for stack in ("encoder", "decoder"):
            positions = getattr(model, stack).embedding.positions
            weights[f"model.{stack}.embed_positions.weight"] = positions(0, length).clone().contiguous()
        weights.setdefault("final_logits_bias", torch.zeros(1, config.target_vocab_size))
    return weights


def _config(config: TransformerConfig, length: int) -> dict[str, Any]:
    """The content of config.json, the inverse of `huggingface.architecture`."""
    values = {theirs: getattr(config, ours) for ours, theirs in SIZES.items()}
    # silu is written as swish, the later one of its two names.
    activations = {ours: theirs for theirs, ours in ACTIVATIONS.items()}
    return values | {
        "model_type": model_type(config),
        "architectures": [CLASSES[model_type(config)]],
        "activation_function": activations[config.activation],
        "decoder_attention_heads": config.num_heads,
        "decoder_ffn_dim": config.d_ff,
        "decoder_vocab_size": config.target_vocab_size,
        "share_encoder_decoder_embeddings": config.share_embeddings,
        "max_position_embeddings": length,
        "static_position_embeddings": True,
        "is_encoder_decoder": True,
        "forced_eos_token_id": None,
        "use_cache": True,
        **({GUIDED_HEAD: True, ALIGNED_TOKEN: config.aligned_token} if config.guided_head else {}),
    }


def _generation_config(directory: ModelDirectory, length: int) -> dict[str, Any]:
    """The content of generation_config.json: how `generate` searches by default."""
    config, search = directory.model.config, directory.decoding
    values: dict[str, Any] = {
        "num_beams": search.beam_size,
        "length_penalty": search.length_penalty,
        "max_length": length,
    }
    if config.never_pads:
        values["bad_words_ids"] = [[config.pad_id]]
    if directory.target_tokenizer.language:
        values["forced_bos_token_id"] = directory.target_tokenizer.begin_ids[0]
    return values | {
        "pad_token_id": config.pad_id,
        "eos_token_id": config.eos_id,
        "decoder_start_token_id": config.bos_id,
    }


def _write_tokenizer(directory: ModelDirectory, folder: Path) -> None:
    source, target = directory.tokenizers
    source_language, target_language = directory.languages
    languages = {"source_lang": source_language, "target_lang": target_language}
    if not isinstance(source, PretrainedTokenizer) or not isinstance(target, PretrainedTokenizer):
        _write_trained_tokenizer(source, folder, languages)
    elif source.content.kind == "tokenizers":
        (folder / "tokenizer.json").write_text(source.content.model, encoding="utf-8")
        _write_json(folder / "tokenizer_config.json", _nllb_settings(source, target))
    elif source.languages and source.languages.keys() == {*source.languages.values()}:  # NLLB with SentencePiece
        _write_nllb_tokenizer(source, target, folder)
    elif model_type(directory.model.config) == "m2m_100":
        _write_m2m_tokenizer(source, target, folder)
    else:
        _write_marian_tokenizers(source, target, folder, languages)


def _write_trained_tokenizer(tokenizer: Tokenizer, folder: Path, languages: dict[str, str | None]) -> None:
    """Write a tokenizer that Dragoman trained, with the end of sentence after texts; `trained_tokenizer` reads it."""
    backend = tokenizer.backend_copy()
    pad, unknown, begin, end = SPECIAL_TOKENS
    language_ids = {tokenizer.spelled(id_): id_ for id_ in tokenizer.begin_ids}
    backend.post_processor = processors.TemplateProcessing(
        single=" ".join([*language_ids, "$A", end]), special_tokens=[*language_ids.items(), (end, EOS_ID)]
    )
    backend.save(str(folder / "tokenizer.json"))
    names = {"pad_token": pad, "unk_token": unknown, "bos_token": begin, "eos_token": end}
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": False}
    _write_json(folder / "tokenizer_config.json", settings | names | languages)


def _write_nllb_tokenizer(source: PretrainedTokenizer, target: PretrainedTokenizer, folder: Path) -> None:
    """Write the SentencePiece model of NLLB-200, and the ids of its special tokens and languages."""
    _write_pieces(source, folder / PIECES)
    special = {*NLLB_SPECIAL, NLLB_MASK, *source.languages}
    added = {
        id_: {"content": piece, "special": True, "normalized": False}
        for id_, piece in enumerate(source.content.pieces)
        if piece in special
    }
    settings = _nllb_settings(source, target) | {"added_tokens_decoder": added}
    _write_json(folder / "tokenizer_config.json", settings)


def _nllb_settings(source: PretrainedTokenizer, target: PretrainedTokenizer) -> dict[str, Any]:
    """The content of NLLB-200's tokenizer_config.json."""
    return {
        "tokenizer_class": "NllbTokenizer",
        "src_lang": source.content.begin,
        "tgt_lang": target.content.begin,
        "legacy_behaviour": source.content.legacy,
    }


def _write_m2m_tokenizer(source: PretrainedTokenizer, target: PretrainedTokenizer, folder: Path) -> None:
    """Write the SentencePiece model of M2M-100, and its vocabulary without the languages, which transformers adds."""
    _write_pieces(source, folder / PIECES)
    pieces = source.content.pieces
    first_language = min(map(pieces.index, source.languages.values()))
    _write_vocabulary(folder / "vocab.json", pieces[:first_language])
    settings = {
        "tokenizer_class": "M2M100Tokenizer",
        "language_codes": "m2m100" if len(source.languages) > 8 else "wmt21",
        "src_lang": source.language,
        "tgt_lang": target.language,
    }
    _write_json(folder / "tokenizer_config.json", settings)


def _write_marian_tokenizers(
    source: PretrainedTokenizer, target: PretrainedTokenizer, folder: Path, languages: dict[str, str | None]
) -> None:
    """Write the SentencePiece models of both sides, and their vocabularies, or one if both are the same."""
    _write_pieces(source, folder / "source.spm")
    _write_pieces(target, folder / "target.spm")
    separate = source.content.pieces != target.content.pieces
    _write_vocabulary(folder / "vocab.json", source.content.pieces)
    if separate:
        _write_vocabulary(folder / "target_vocab.json", target.content.pieces)
    settings = {"tokenizer_class": "MarianTokenizer", "separate_vocabs": separate}
    _write_json(folder / "tokenizer_config.json", settings | languages)


def _write_pieces(tokenizer: PretrainedTokenizer, path: Path) -> None:
    """Write the SentencePiece model of a tokenizer."""
    path.write_bytes(base64.b64decode(tokenizer.content.model))


def _write_vocabulary(path: Path, pieces: Sequence[str]) -> None:
    """Write pieces and their ids."""
    _write_json(path, {piece: id_ for id_, piece in enumerate(pieces)})


def _write_json(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


@torch.inference_mode()
def search(
    folder: Path, directory: ModelDirectory, sources: Sequence[list[int]], *, beam_size: int, length_penalty: float
) -> list[EngineTranslation]:
    """Translate sources of token ids with `generate` of transformers."""
    library = load("transformers", extra="transformers", purpose="Running what was written for transformers")
    config = directory.model.config
    model = getattr(library, CLASSES[model_type(config)]).from_pretrained(folder).eval()
    begin_ids = directory.target_tokenizer.begin_ids
    translations = []
    for source in sources:
        output = model.generate(
            torch.tensor([[*source, directory.source_tokenizer.closing.eos]]),
            num_beams=beam_size,
            do_sample=False,
            length_penalty=length_penalty,
            max_length=None,
            min_new_tokens=translation_floor(directory, source),
            max_new_tokens=translation_limit(directory, source),
            forced_bos_token_id=begin_ids[0] if begin_ids else None,
            output_scores=True,
            output_logits=True,
            return_dict_in_generate=True,
        )
        ids = output.sequences[0, 1:]
        ended = (ids == config.eos_id).nonzero().flatten().tolist()
        length = ended[0] if ended else len(ids)
        if beam_size > 1:
            score = float(output.sequences_scores[0])
        else:
            log_probs = torch.stack(output.logits).log_softmax(-1)[: length + bool(ended), 0]
            chosen = log_probs.gather(1, ids[: len(log_probs), None])[len(begin_ids) :]
            score = float(chosen.sum()) / len(log_probs) ** length_penalty
        translations.append(EngineTranslation(ids[:length].tolist(), score))
    return translations
