"""Small pretrained models in the folders that transformers writes: random weights, real SentencePiece models."""

import io
import json
import shutil
from collections.abc import Container, Iterable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sentencepiece
import torch
import transformers
import yaml
from safetensors.torch import load_file

from dragoman.data.bitext import Bitext

LANGUAGES = ("en", "fr")
SENTENCES = ["The red house is old.", "A cat (and a dog) sees the bird!", "Snow 雪 and 1,234.5 km", "x", "THE OLD MEN"]


def some_slow(names: Iterable[str], *, quick: Container[str]) -> list[Any]:
    """The names as parameters of a test; those that are not `quick` are slow tests."""
    return [pytest.param(name, marks=[pytest.mark.slow] * (name not in quick)) for name in names]


def pieces(folder: Path, name: str, texts: list[str], size: int, **options: Any) -> Path:
    """A SentencePiece model in `folder`."""
    (folder / f"{name}.model").write_bytes(_learned_pieces(tuple(texts), size, tuple(options.items())))
    return folder / f"{name}.model"


@cache
def _learned_pieces(texts: tuple[str, ...], size: int, options: tuple[tuple[str, Any], ...]) -> bytes:
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts), model_writer=model, vocab_size=size, hard_vocab_limit=False,
        minloglevel=2, num_threads=1, **dict(options),
    )  # fmt: skip
    return model.getvalue()


def texts() -> tuple[list[str], list[str]]:
    source, target = zip(*Bitext.open("builtin:grammar:600"), strict=True)
    return list(source), list(target)


def spm_pieces(path: Path) -> list[str]:
    model = sentencepiece.SentencePieceProcessor(model_file=str(path))
    return [model.id_to_piece(i) for i in range(model.vocab_size())]


def randomise(model: torch.nn.Module, *, end: int, seed: int) -> None:
    """Weights with which translations differ and come to an end."""
    torch.manual_seed(seed)
    for name, weight in model.named_parameters():
        if "layer_norm" in name:
            weight.data += 0.1 * torch.randn_like(weight)
        elif weight.dim() == 2 and "embed_positions" not in name:
            weight.data = torch.randn_like(weight) * weight.size(1) ** -0.5
        else:
            weight.data += 0.1 * torch.randn_like(weight)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "shared" in name or "embed_tokens" in name:
                weight *= 0.7
    if getattr(model, "final_logits_bias", None) is not None:
        model.final_logits_bias = torch.randn_like(model.final_logits_bias)
        model.final_logits_bias[0, end] += 3


def marian(folder: Path, *, seed: int = 1, tags: tuple[str, ...] = (), separate: bool = False, **config: Any) -> Path:
    """A Marian model; `config` holds fields of `MarianConfig`."""
    folder.mkdir(parents=True)
    source, target = texts()
    shutil.move(pieces(folder, "source", source, 220), folder / "source.spm")
    shutil.move(pieces(folder, "target", target, 240), folder / "target.spm")
    sides = [spm_pieces(folder / f"{side}.spm") for side in ("source", "target")]
    if separate:
        size = max(map(len, sides)) + 10
        vocabularies = [_numbered(side, size) for side in sides]
    else:
        vocabularies = [_numbered([*tags, *sides[0], *sides[1]], None)] * 2
    names = ("vocab.json", "target_vocab.json") if separate else ("vocab.json",)
    for name, ids in zip(names, vocabularies, strict=False):
        (folder / name).write_text(json.dumps(ids), encoding="utf-8")
    pad = vocabularies[0]["<pad>"]
    settings = {"source_lang": LANGUAGES[0], "target_lang": LANGUAGES[1], "separate_vocabs": separate}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings | {"tokenizer_class": "MarianTokenizer"}))
    sizes = {
        "d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
        "decoder_attention_heads": 4, "encoder_ffn_dim": 48, "decoder_ffn_dim": 48, "activation_function": "swish",
        "scale_embedding": True, "max_position_embeddings": 64, "vocab_size": pad + 1, "pad_token_id": pad,
        "eos_token_id": 0, "decoder_start_token_id": pad, "forced_eos_token_id": None,
        "share_encoder_decoder_embeddings": not separate,
    }  # fmt: skip
    model = transformers.MarianMTModel(transformers.MarianConfig(**(sizes | config))).eval()
    randomise(model, end=0, seed=seed)
    for table in {model.get_encoder().embed_tokens.weight, model.get_decoder().embed_tokens.weight}:
        table.data[pad] = 0
    model.final_logits_bias[0, pad] = 0
    model.save_pretrained(folder)
    return folder


def _numbered(pieces: list[str], size: int | None) -> dict[str, int]:
    """Ids as Marian gives them: the end of sentence first, padding last."""
    ordered = dict.fromkeys(["</s>", "<unk>", *(piece for piece in pieces if piece not in ("<s>", "</s>", "<unk>"))])
    names = [*ordered, *(f"<extra{i}>" for i in range(len(ordered), size or 0)), "<pad>"]
    return {name: id_ for id_, name in enumerate(names)}


def m2m(folder: Path, *, seed: int = 1, **config: Any) -> Path:
    """An M2M-100 model; `config` holds fields of `M2M100Config`."""
    folder.mkdir(parents=True)
    source, target = texts()
    shutil.move(pieces(folder, "both", source + target, 300), folder / "sentencepiece.bpe.model")
    others = [
        piece for piece in spm_pieces(folder / "sentencepiece.bpe.model") if piece not in ("<s>", "</s>", "<unk>")
    ]
    ids = {piece: id_ for id_, piece in enumerate(["<s>", "<pad>", "</s>", "<unk>", *others])}
    (folder / "vocab.json").write_text(json.dumps(ids), encoding="utf-8")
    settings = {"src_lang": "en", "tgt_lang": None, "language_codes": "m2m100", "num_madeup_words": 8}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings | {"tokenizer_class": "M2M100Tokenizer"}))
    return _multilingual(folder, len(ids) + 108, seed, config)


def nllb(folder: Path, *, seed: int = 1, legacy: bool = False, **config: Any) -> Path:
    """An NLLB-200 model with its tokenizer.json; `legacy` ones put the language behind the source."""
    folder.mkdir(parents=True)
    source, target = texts()
    model = sentencepiece.SentencePieceProcessor(
        model_file=str(pieces(folder, "both", source + target, 300, model_type="bpe"))
    )
    others = [model.id_to_piece(i) for i in range(3, model.vocab_size())]
    (folder / "both.model").unlink()
    vocab = {piece: id_ for id_, piece in enumerate(["<s>", "<pad>", "</s>", "<unk>", *others])}
    ranks = {piece: rank for rank, piece in enumerate(others)}
    merges = sorted(
        (ranks[piece], (piece[:cut], piece[cut:]))
        for piece in others
        for cut in range(1, len(piece))
        if piece[:cut] in ranks and piece[cut:] in ranks
    )
    tokenizer = transformers.NllbTokenizer(vocab=vocab, merges=[merge for _, merge in merges], src_lang="eng_Latn")
    tokenizer.legacy_behaviour = tokenizer.init_kwargs["legacy_behaviour"] = legacy
    tokenizer.save_pretrained(folder)
    return _multilingual(folder, len(tokenizer) + 3, seed, config)


def nllb_pieces(folder: Path, *, seed: int = 1, **config: Any) -> Path:
    """An NLLB-200 model with the SentencePiece model alone, whose ids transformers reads from tokenizer_config.json."""
    from transformers.models.nllb import tokenization_nllb as nllb  # takes seconds

    folder.mkdir(parents=True)
    source, target = texts()
    path = folder / "sentencepiece.bpe.model"
    shutil.move(pieces(folder, "both", source + target, 300, model_type="bpe"), path)
    first = len(spm_pieces(path)) + 1  # without <unk>, <s> and </s>, and after fairseq's four
    tokens = {0: "<s>", 1: "<pad>", 2: "</s>", 3: "<unk>"}
    tokens |= dict(enumerate([*nllb.FAIRSEQ_LANGUAGE_CODES, "<mask>"], start=first))
    added = {id_: {"content": token, "special": True, "normalized": False} for id_, token in tokens.items()}
    settings = {"tokenizer_class": "NllbTokenizer", "src_lang": "eng_Latn", "added_tokens_decoder": added}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return _multilingual(folder, first + 205, seed, config)


def _multilingual(folder: Path, rows: int, seed: int, config: dict[str, Any]) -> Path:
    sizes = {
        "d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
        "decoder_attention_heads": 4, "encoder_ffn_dim": 48, "decoder_ffn_dim": 48, "max_position_embeddings": 64,
        "vocab_size": rows,
    }  # fmt: skip
    model = transformers.M2M100ForConditionalGeneration(transformers.M2M100Config(**(sizes | config))).eval()
    randomise(model, end=2, seed=seed)
    model.save_pretrained(folder)
    return folder


def as_npz(folder: Path, output: Path, *, exchanged: bool = False) -> None:
    """A Marian model of transformers in the files that Marian itself writes: one table, or two of different sizes.

    `exchanged` ones have each other's table and vocabulary.
    """
    weights = {name: weight.numpy() for name, weight in load_file(folder / "model.safetensors").items()}
    config = json.loads((folder / "config.json").read_text())
    letters = {"q_proj": "q", "k_proj": "k", "v_proj": "v", "out_proj": "o"}
    files = [folder / name for name in ("vocab.json", "target_vocab.json") if (folder / name).is_file()]
    vocabularies = [json.loads(file.read_text(encoding="utf-8")) for file in files]
    vocabularies = [[token for token in ids if token != "<pad>" and token[:6] != "<extra"] for ids in vocabularies]
    sides = ("decoder", "encoder") if exchanged else ("encoder", "decoder")
    names = ["model.shared"] if len(files) == 1 else [f"model.{side}.embed_tokens" for side in sides]
    tables = [weights[f"{name}.weight"] for name in names]
    if exchanged:
        vocabularies = vocabularies[::-1]
    # Without the rows of padding.
    kept = [table[: len(tokens)] for table, tokens in zip(tables, vocabularies, strict=True)]
    arrays = dict(zip(["Wemb"] if len(files) == 1 else ["encoder_Wemb", "decoder_Wemb"], kept, strict=True))
    arrays["decoder_ff_logit_out_b"] = weights["final_logits_bias"][:, : len(vocabularies[-1])]
    for stack in ("encoder", "decoder"):
        for layer in range(config[f"{stack}_layers"]):
            theirs, ours = f"{stack}_l{layer + 1}_", f"model.{stack}.layers.{layer}."
            kinds = {"self": "self_attn", "context": "encoder_attn"}
            for kind, name in list(kinds.items())[: 1 + (stack == "decoder")]:
                for part, letter in letters.items():
                    arrays[f"{theirs}{kind}_W{letter}"] = weights[f"{ours}{name}.{part}.weight"].T
                    arrays[f"{theirs}{kind}_b{letter}"] = weights[f"{ours}{name}.{part}.bias"][None]
                norm = f"{ours}{name}_layer_norm"
                arrays[f"{theirs}{kind}_Wo_ln_scale"] = weights[f"{norm}.weight"][None]
                arrays[f"{theirs}{kind}_Wo_ln_bias"] = weights[f"{norm}.bias"][None]
            for number in (1, 2):
                arrays[f"{theirs}ffn_W{number}"] = weights[f"{ours}fc{number}.weight"].T
                arrays[f"{theirs}ffn_b{number}"] = weights[f"{ours}fc{number}.bias"][None]
            arrays[f"{theirs}ffn_ffn_ln_scale"] = weights[f"{ours}final_layer_norm.weight"][None]
            arrays[f"{theirs}ffn_ffn_ln_bias"] = weights[f"{ours}final_layer_norm.bias"][None]
    options = {
        "type": "transformer", "dim-emb": config["d_model"], "enc-depth": config["encoder_layers"],
        "dec-depth": config["decoder_layers"], "transformer-heads": config["encoder_attention_heads"],
        "transformer-dim-ffn": config["encoder_ffn_dim"], "transformer-ffn-activation": "swish",
        "transformer-preprocess": "", "transformer-postprocess": "dan", "transformer-postprocess-emb": "d",
        "transformer-ffn-depth": 2, "tied-embeddings-all": len(files) == 1,
    }  # fmt: skip
    arrays["special:model.yml"] = np.frombuffer(yaml.safe_dump(options).encode() + b"\0", np.int8)
    np.savez(output / "model.npz", **arrays)
    names = ["opus.vocab.yml"] if len(files) == 1 else ["vocab.src.yml", "vocab.trg.yml"]
    for name, tokens in zip(names, vocabularies, strict=True):
        lines = (f"{json.dumps(token)}: {id_}\n" for id_, token in enumerate(tokens))
        (output / name).write_text("".join(lines), encoding="utf-8")
    for side in ("source", "target"):
        given = {"source": "target", "target": "source"}[side] if exchanged else side
        shutil.copy(folder / f"{given}.spm", output / f"{side}.spm")
