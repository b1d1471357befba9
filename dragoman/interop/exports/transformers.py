"""Models for transformers: folders that `MarianMTModel` or `M2M100ForConditionalGeneration` loads with a tokenizer.

Needs transformers only to run what was written.
"""

import base64
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from tokenizers import processors

from dragoman.interop.exports.proof import Found, limit
from dragoman.interop.files import STYLE_FILE
from dragoman.interop.imports.huggingface import ACTIVATIONS, SHARED, SIZES, STYLE
from dragoman.interop.imports.pretrained_vocabulary import NLLB_MASK, NLLB_SPECIAL, PIECES
from dragoman.model import TransformerConfig
from dragoman.storage.model_directory import ModelDirectory
from dragoman.system.optional import load
from dragoman.text.preprocessing import SourceStyle
from dragoman.text.tokenizers.pretrained import PretrainedTokenizer
from dragoman.text.tokenizers.tokenizer import EOS_ID, SPECIAL_TOKENS, Tokenizer

LONGEST = 1_024
"""Positions that are written."""
CLASSES = {"marian": "MarianMTModel", "m2m_100": "M2M100ForConditionalGeneration"}
EPSILON = 1e-5
"""The epsilon of all norms in these classes."""


def kind(config: TransformerConfig) -> str:
    """The `model_type` that comes closest."""
    return "marian" if config.norm_order == "post" else "m2m_100"


def refusal(directory: ModelDirectory) -> str | None:
    """Why transformers has no class that computes what the model does; None if it has one."""
    config = directory.model.config
    name = CLASSES[kind(config)]
    if config.positions == "rotary":
        return f"it turns queries and keys (model.positions=rotary), and {name} adds positions; train with sinusoidal"
    if config.norm == "rms":
        return f"it has RMSNorm (model.norm=rms), and {name} has LayerNorm"
    if config.norm_eps != EPSILON:
        return f"its norms add {config.norm_eps:g} to the variance, and those of {name} {EPSILON:g}"
    if config.activation == "swiglu":
        return f"it has a gate (model.activation=swiglu), which {name} has not"
    if kind(config) == "m2m_100":
        if config.positions != "sinusoidal-fairseq":
            return f"{name}, which has its norms before each part, computes fairseq's positions and no others"
        if config.projection_bias:
            return f"it adds a bias to the logits, and {name} does not"
    elif config.positions == "sinusoidal-fairseq":
        return "its positions are fairseq's, which MarianMTModel does not have"
    # Only what they put before texts may differ.
    same = (
        len({json.dumps(json.loads(each.to_json()) | {"post_processor": None}) for each in directory.tokenizers}) == 1
    )
    if not same and not isinstance(directory.source_tokenizer, PretrainedTokenizer):
        return "a tokenizer of transformers has one vocabulary, and this model two (tokenizer.shared=false)"
    return None


@torch.no_grad()
def write(directory: ModelDirectory, folder: Path, numbers: str) -> None:
    """Write weights, config.json and the tokenizer into `folder`, which exists."""
    model, config = directory.model, directory.model.config
    weights = {STYLE.name_of(name): each.detach().clone() for name, each in model.named_parameters()}
    if config.share_embeddings:
        weights[SHARED] = weights[STYLE.name_of("encoder.embedding.table.weight")]
        if config.tie_projection:
            del weights[STYLE.name_of("encoder.embedding.table.weight")]
        else:  # transformers ties these two to each other only if the projection is tied to them
            weights[STYLE.name_of("decoder.embedding.table.weight")] = weights[SHARED].clone()
            weights[SHARED] = weights[SHARED].clone()
    for name in [name for name in weights if "norm" in name and weights[name].numel() == 1]:
        weights[name] = weights[name].expand(config.d_model).contiguous()  # a gain for all features
    if "final_logits_bias" in weights:
        weights["final_logits_bias"] = weights["final_logits_bias"][None]
    length = config.max_length or LONGEST
    if kind(config) == "marian":
        for stack in ("encoder", "decoder"):
            positions = getattr(model, stack).embedding.positions
            weights[f"model.{stack}.embed_positions.weight"] = positions(0, length).clone().contiguous()
        weights.setdefault("final_logits_bias", torch.zeros(1, config.target_vocab_size))
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    _write_json(folder / "config.json", _config(config, length))
    search = directory.decoding
    generation = {"num_beams": search.beam_size, "length_penalty": search.length_penalty, "max_length": length}
    if config.starts_with_padding:
        generation["bad_words_ids"] = [[config.pad_id]]
    if directory.target_tokenizer.language:
        generation["forced_bos_token_id"] = directory.target_tokenizer.begin_ids[0]
    ids = {key: _config(config, length)[key] for key in ("pad_token_id", "eos_token_id", "decoder_start_token_id")}
    _write_json(folder / "generation_config.json", generation | ids)
    _write_tokenizer(directory, folder)
    if directory.style != SourceStyle():
        (folder / STYLE_FILE).write_text(directory.style.model_dump_json(), encoding="utf-8")


def _config(config: TransformerConfig, length: int) -> dict[str, Any]:
    """The content of config.json, the inverse of `huggingface.architecture`."""
    values = {theirs: getattr(config, ours) for ours, theirs in SIZES.items()}
    activation = next(theirs for theirs, ours in reversed(ACTIVATIONS.items()) if ours == config.activation)
    return values | {
        "model_type": kind(config),
        "architectures": [CLASSES[kind(config)]],
        "activation_function": activation,
        "decoder_attention_heads": config.num_heads,
        "decoder_ffn_dim": config.d_ff,
        "decoder_vocab_size": config.target_vocab_size,
        "share_encoder_decoder_embeddings": config.share_embeddings,
        "max_position_embeddings": length,
        "static_position_embeddings": True,
        "is_encoder_decoder": True,
        "forced_eos_token_id": None,
        "use_cache": True,
    }


def _write_tokenizer(directory: ModelDirectory, folder: Path) -> None:
    source, target = directory.tokenizers
    languages = dict(zip(("source_lang", "target_lang"), directory.languages, strict=True))
    if not isinstance(source, PretrainedTokenizer) or not isinstance(target, PretrainedTokenizer):
        _write_own(source, folder, languages)
    elif source.content.kind == "tokenizers":
        (folder / "tokenizer.json").write_text(source.content.model, encoding="utf-8")
        _write_json(folder / "tokenizer_config.json", _nllb(source, target))
    elif source.languages and source.languages.keys() == {*source.languages.values()}:  # NLLB with SentencePiece
        (folder / PIECES).write_bytes(base64.b64decode(source.content.model))
        named = {*NLLB_SPECIAL, NLLB_MASK, *source.languages}
        known = {id_: piece for id_, piece in enumerate(source.content.pieces) if piece in named}
        added = {id_: {"content": piece, "special": True, "normalized": False} for id_, piece in known.items()}
        _write_json(folder / "tokenizer_config.json", _nllb(source, target) | {"added_tokens_decoder": added})
    elif kind(directory.model.config) == "m2m_100":
        (folder / PIECES).write_bytes(base64.b64decode(source.content.model))
        known = min(map(source.content.pieces.index, source.languages.values()))
        _write_json(folder / "vocab.json", {piece: id_ for id_, piece in enumerate(source.content.pieces[:known])})
        codes = "m2m100" if len(source.languages) > 8 else "wmt21"
        settings = {"tokenizer_class": "M2M100Tokenizer", "language_codes": codes}
        _write_json(
            folder / "tokenizer_config.json", settings | {"src_lang": source.language, "tgt_lang": target.language}
        )
    else:
        separate = source.content.pieces != target.content.pieces
        for side, tokenizer in (("source", source), ("target", target)):
            (folder / f"{side}.spm").write_bytes(base64.b64decode(tokenizer.content.model))
            name = "target_vocab.json" if separate and side == "target" else "vocab.json"
            _write_json(folder / name, {piece: id_ for id_, piece in enumerate(tokenizer.content.pieces)})
        settings = {"tokenizer_class": "MarianTokenizer", "separate_vocabs": separate}
        _write_json(folder / "tokenizer_config.json", settings | languages)


def _nllb(source: PretrainedTokenizer, target: PretrainedTokenizer) -> dict[str, Any]:
    """The tokenizer_config.json of NLLB-200."""
    settings = {"tokenizer_class": "NllbTokenizer", "src_lang": source.content.begin, "tgt_lang": target.content.begin}
    return settings | {"legacy_behaviour": source.content.legacy}


def _write_own(tokenizer: Tokenizer, folder: Path, languages: dict[str, str | None]) -> None:
    """A tokenizer that Dragoman trained, with the end of sentence after each text; read by `trained_tokenizer`."""
    backend = tokenizer.backend_copy()
    pad, unknown, begin, end = SPECIAL_TOKENS
    language = {tokenizer.spelled(id_): id_ for id_ in tokenizer.begin_ids}
    backend.post_processor = processors.TemplateProcessing(
        single=" ".join([*language, "$A", end]), special_tokens=[*language.items(), (end, EOS_ID)]
    )
    backend.save(str(folder / "tokenizer.json"))
    names = {"pad_token": pad, "unk_token": unknown, "bos_token": begin, "eos_token": end}
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": False}
    _write_json(folder / "tokenizer_config.json", settings | names | languages)


def _write_json(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


@torch.inference_mode()
def search(
    folder: Path, directory: ModelDirectory, sources: Sequence[list[int]], *, beam_size: int, length_penalty: float
) -> Found:
    """What `generate` of transformers finds for sources of token ids: ids and score of each."""
    library = load("transformers", extra="transformers", purpose="Running what was written for transformers")
    config = directory.model.config
    model = getattr(library, CLASSES[kind(config)]).from_pretrained(folder).eval()
    forced, found = directory.target_tokenizer.begin_ids, []
    for source in sources:
        output = model.generate(
            torch.tensor([[*source, directory.source_tokenizer.closing.eos]]),
            num_beams=beam_size,
            do_sample=False,
            length_penalty=length_penalty,
            max_length=None,
            max_new_tokens=limit(directory, source),
            forced_bos_token_id=forced[0] if forced else None,
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
            steps = torch.stack(output.logits).log_softmax(-1)[: length + bool(ended), 0]
            taken = steps.gather(1, ids[: len(steps), None])[len(forced) :]
            score = float(taken.sum()) / len(steps) ** length_penalty
        found.append((ids[:length].tolist(), score))
    return found
