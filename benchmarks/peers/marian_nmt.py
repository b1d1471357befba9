"""Marian itself, from the package `pymarian`, with the weights of a Transformer of ours.

Marian starts a translation with a vector of zeros, a Transformer of ours with the embedding of a token. The weights of
the decoder are changed so that both compute the same, see `_starting_with_zeros`. One difference stays: the sines and
cosines of positions have other frequencies in Marian, 10000 ** (-2 i / (d - 2)) instead of 10000 ** (-2 i / d). It
takes the same time, but changes some translations.
"""

import json
import math
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from dragoman.interop.imports.marian import ACTIVATIONS, NEVER, OPTIONS, STYLE
from dragoman.model import Transformer, TransformerConfig
from dragoman.text.tokenizers.tokenizer import UNK_ID

if TYPE_CHECKING:
    from pymarian import Translator

VOCABULARY = "vocab.json"
ROWS = 8
"""Marian's products in eight bits need a number of target tokens that is a multiple of this."""
WIDTH = 64
"""Marian's products in eight bits need layers whose widths are multiples of this."""
FIRST = "decoder.layers.0.self_attention"


def can_quantise(config: TransformerConfig) -> bool:
    """Whether Marian has products in eight bits for a model of these sizes."""
    return config.d_model % WIDTH == 0 and config.d_ff % WIDTH == 0


def save(model: Transformer, folder: Path) -> None:
    """Write the model as Marian reads it: model.npz, the same in eight bits as model.bin, and the vocabulary."""
    config = model.config
    assert (config.norm_order, config.positions) == ("post", "sinusoidal-concatenated"), "not Marian's architecture"
    assert config.share_embeddings, "not the weights that all engines can have"
    assert config.scale_embeddings, "not Marian's architecture"
    order = [config.eos_id, UNK_ID]  # in the rows in which Marian expects them
    order += [id_ for id_ in range(config.target_vocab_size) if id_ not in order]
    vocabulary = {_token(id_, config): row for row, id_ in enumerate(order)}
    (folder / VOCABULARY).write_text(json.dumps(vocabulary), encoding="utf-8")
    arrays = {name: array.numpy() for name, array in _arrays(model, order).items()}
    options = json.dumps(_options(config, rows=len(arrays["encoder_Wemb"])))  # JSON is YAML, too
    np.savez(folder / "model.npz", **arrays, **{OPTIONS: np.frombuffer(options.encode() + b"\0", dtype=np.int8)})
    if can_quantise(config):
        convert = [sys.executable, "-m", "pymarian", "convert", "--gemm-type", "intgemm8"]
        files = ["--from", folder / "model.npz", "--to", folder / "model.bin"]
        subprocess.run([*convert, *files], check=True, capture_output=True)


def translator(folder: Path, precision: str, threads: int) -> "Translator":
    """A translator of so many threads, each with batches of its own.

    Options of `translate` need hyphens: of `max_length_factor`, Marian replaces one underscore and ignores the option.
    """
    from pymarian import Translator

    model = folder / ("model.bin" if precision == "int8" else "model.npz")
    files = f"--models {model} --vocabs {folder / VOCABULARY} {folder / VOCABULARY}"
    batches = f"--cpu-threads {threads} --maxi-batch 1000 --maxi-batch-sort src --workspace 256"
    return Translator(f"{files} {batches} --normalize 1 --allow-unk --log-level off --quiet-translation")


def written(ids: list[int], config: TransformerConfig) -> str:
    """A sentence as Marian reads it: names of tokens with spaces between them."""
    return " ".join(_token(id_, config) for id_ in ids)


def read(text: str, config: TransformerConfig) -> list[int]:
    """The inverse of `written`."""
    special = {_token(id_, config): id_ for id_ in (config.eos_id, UNK_ID)}
    return [special[name] if name in special else int(name) for name in text.split()]


def _token(id_: int, config: TransformerConfig) -> str:
    """Name of a token. Marian looks for those of the end and of the unknown token; others have their numbers."""
    return {config.eos_id: "</s>", UNK_ID: "<unk>"}.get(id_, str(id_))


def _arrays(model: Transformer, order: list[int]) -> dict[str, Tensor]:
    """The weights under Marian's names and in its layout, with the tokens in this order."""
    weights = {name: value.detach().float() for name, value in model.state_dict().items()}
    source, target = (weights[f"{side}.embedding.table.weight"] for side in ("encoder", "decoder"))
    start = target[model.config.bos_id]
    layers = {name: value for name, value in weights.items() if ".layers." in name}
    layers |= _starting_with_zeros(layers, math.sqrt(model.config.d_model) * start)
    arrays = {STYLE.name_of(name): value.T if value.dim() == 2 else value[None] for name, value in layers.items()}
    filling = (0, 0, 0, -len(order) % ROWS)
    bias = weights.get("projection.bias", torch.zeros(len(target)))
    arrays |= {
        "encoder_Wemb": pad(source[order], filling),
        "decoder_Wemb": pad((target - start)[order], filling),
        "decoder_ff_logit_out_W": pad(target[order], filling).T,
        "decoder_ff_logit_out_b": pad(bias[order], filling[2:], value=NEVER)[None],
    }
    return {name: array.contiguous() for name, array in arrays.items()}


def _starting_with_zeros(layers: dict[str, Tensor], start: Tensor) -> dict[str, Tensor]:
    """Biases of the first self-attention of the decoder that add `start` to its input.

    Marian's first token is a vector of zeros. Without the start token's vector in each row of the table, ours is, too.
    The biases add it again: to queries, keys and values by their weights, and to the residual after the attention.
    """
    biases = {
        f"{FIRST}.{part}.bias": layers[f"{FIRST}.{part}.bias"] + layers[f"{FIRST}.{part}.weight"] @ start
        for part in ("query", "key", "value")
    }
    return biases | {f"{FIRST}.output.bias": layers[f"{FIRST}.output.bias"] + start}


def _options(config: TransformerConfig, *, rows: int) -> dict[str, str | int | bool | list[int]]:
    """Marian's options for this architecture, with so many rows in its tables."""
    activations = {ours: theirs for theirs, ours in ACTIVATIONS.items()}
    return {
        "version": "v1.12.0", "type": "transformer", "dim-vocabs": [rows, rows], "dim-emb": config.d_model,
        "enc-depth": config.num_encoder_layers, "dec-depth": config.num_decoder_layers,
        "transformer-heads": config.num_heads, "transformer-dim-ffn": config.d_ff,
        "transformer-ffn-activation": activations[config.activation], "transformer-preprocess": "",
        "transformer-postprocess": "dan", "transformer-postprocess-emb": "d",
        "transformer-decoder-autoreg": "self-attention", "tied-embeddings": False, "tied-embeddings-src": False,
        "tied-embeddings-all": False, "max-length": 1000,
    }  # fmt: skip
