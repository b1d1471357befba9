"""Models in the format of Marian itself: an .npz file that holds its options as YAML, and vocabularies in .yml."""

import math
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml
from torch import Tensor
from torch.nn.functional import pad

from dragoman.config.recipes import parse_yaml
from dragoman.errors import DataError, DragomanError
from dragoman.interop.files import LARGEST, check_promise, read_bytes
from dragoman.interop.imports.styles import Style, read_table
from dragoman.interop.imports.weights import read_limited
from dragoman.model import Transformer, TransformerConfig

STYLE = Style(**read_table("pretrained.toml")["styles"]["npz"])
OPTIONS = "special:model.yml"
"""Name of the array with the options of the training."""
SINGLE_TABLE = "Wemb"
"""The table that both sides and the projection share."""
NEVER = -1e9
"""Logit of a token that the smaller of two vocabularies does not have."""
MOST_OPTIONS = 2**16
"""Bytes of the options, which have some five thousand."""
ACTIVATIONS = {"relu": "relu", "swish": "silu", "gelu": "gelu"}
EXPECTED = {"type": ("transformer",), "transformer-preprocess": ("",), "transformer-postprocess": ("dan",),
             "transformer-postprocess-emb": ("d", ""), "transformer-ffn-depth": (2,),
             "transformer-decoder-autoreg": ("self-attention",), "transformer-train-position-embeddings": (False,),
             "lemma-dim-emb": (0,)}  # fmt: skip
"""What options must be for the model to be the one that Dragoman computes."""


def read_npz(files: Sequence[Path], folder: Path) -> tuple[TransformerConfig, dict[str, Tensor], list[dict[str, int]]]:
    """Architecture, weights under Dragoman's names, and both vocabularies of the model in `folder`.

    Padding, for which Marian has no row, becomes the last row of the tables: zeros, with which the decoder starts.
    """
    if len(files) > 1:
        raise DataError(f"{folder} has {len(files)} models ({', '.join(each.name for each in files[:3])}); leave one.")
    origin = str(files[0])
    arrays = _arrays(files[0])
    options = _options(arrays.pop(OPTIONS, None), origin)
    if shared := SINGLE_TABLE in arrays:
        arrays["encoder_Wemb"] = arrays["decoder_Wemb"] = arrays.pop(SINGLE_TABLE)
    tables = [arrays.get("encoder_Wemb"), arrays.get("decoder_Wemb")]
    if any(table is None or table.ndim != 2 for table in tables):
        raise DataError(f"{origin} has no tables `{SINGLE_TABLE}`, or `encoder_Wemb` and `decoder_Wemb`.")
    config = _architecture(options, max(map(len, tables)) + 1, shared, "decoder_ff_logit_out_W" not in arrays, origin)
    with torch.device("meta"):
        parameters = dict(Transformer(config).named_parameters())
    names = {name: STYLE.name_of(name) for name in parameters}
    if missing := [theirs for theirs in names.values() if theirs not in arrays]:
        raise DataError(f"{origin} lacks `{missing[0]}`; copy the whole model again.")
    unknown = sorted(arrays.keys() - names.values() - {"decoder_Wemb"})
    if unknown := [name for name in unknown if not name.startswith("special:")]:
        raise DataError(f"{origin} has `{unknown[0]}`, which Dragoman's Transformer does not have.")
    weights = {name: _weight(arrays[theirs], parameters[name], name) for name, theirs in names.items()}
    vocabularies = _vocabularies(folder)
    for ids in vocabularies:
        ids["<pad>"] = config.pad_id
    return config, weights, vocabularies


def _arrays(path: Path) -> dict[str, Tensor]:
    try:
        return read_limited(path, _read_arrays)
    except (DragomanError, MemoryError):
        raise
    except Exception as error:  # a damaged file raises zlib.error, KeyError and many others
        raise DataError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}; copy it again.") from None


def _read_arrays(path: Path, folder: Path) -> dict[str, Tensor]:
    """The arrays of an .npz file. Raises `ValueError` for one that says that it is larger than it can be."""
    with zipfile.ZipFile(path) as archive:
        check_promise(path, sum(member.file_size for member in archive.infolist()))
        for member in archive.infolist():
            with archive.open(member) as file:
                version = np.lib.format.read_magic(file)
                read_header = getattr(np.lib.format, f"read_array_header_{version[0]}_{version[1]}")
                shape, _, dtype = read_header(file)
            if math.prod(shape) * dtype.itemsize > member.file_size:
                raise ValueError(f"`{member.filename}` says that it is larger than it is")
    with np.load(path, allow_pickle=False) as file:
        return {
            name: torch.from_numpy(np.ascontiguousarray(array)).reshape(array.shape) for name, array in file.items()
        }


def _options(array: Tensor | None, origin: str) -> dict[str, Any]:
    """The options that the file holds, all of which Dragoman computes."""
    try:
        text = array.numpy().tobytes().rstrip(b"\0").decode()
        options = parse_yaml(text) if len(text) <= MOST_OPTIONS else None
        found = {key: options.get(key, known[0]) for key, known in EXPECTED.items()}
    except (AttributeError, ValueError, yaml.YAMLError, RecursionError):
        raise DataError(f"{origin} holds no options under `{OPTIONS}`; is it a model of Marian?") from None
    for key, known in EXPECTED.items():
        if found[key] not in known:
            raise DataError(f"{origin} has `{key}: {found[key]}`; Dragoman computes {known[0]!r} alone.")
    return options


def _architecture(options: dict[str, Any], rows: int, shared: bool, tied: bool, origin: str) -> TransformerConfig:
    try:
        return TransformerConfig(
            source_vocab_size=rows,
            target_vocab_size=rows,
            d_model=options["dim-emb"],
            d_ff=options["transformer-dim-ffn"],
            num_heads=options["transformer-heads"],
            num_encoder_layers=options["enc-depth"],
            num_decoder_layers=options["dec-depth"],
            norm_order="post",
            positions="sinusoidal-concatenated",
            activation=ACTIVATIONS[options["transformer-ffn-activation"]],
            share_embeddings=shared,
            tie_projection=tied,
            projection_bias=True,
            pad_id=rows - 1,
            bos_id=rows - 1,
            eos_id=0,
        )
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(f"{origin} does not describe a model: {error}") from None


def _weight(array: Tensor, parameter: Tensor, name: str) -> Tensor:
    """An array in Dragoman's layout; tables get the rows that they lack, of tokens that are never said."""
    weight = array.float()
    if parameter.dim() == 1:
        weight = weight.flatten()
    elif weight.dim() == 2 and "embedding" not in name:
        weight = weight.T
    missing = [size - own for size, own in zip(parameter.shape, weight.shape, strict=False)]
    is_table = name.startswith(("encoder.embedding", "decoder.embedding", "projection"))
    if is_table and missing[0] > 0 and not any(missing[1:]):
        filled = pad(weight, [0, 0] * (weight.dim() - 1) + [0, missing[0]])
        if name == "projection.bias":
            filled[len(weight) : -1] = NEVER  # the last row is that of padding, which no search says
        return filled
    return weight


def _vocabularies(folder: Path) -> list[dict[str, int]]:
    """Source and target vocabulary from .yml files: one for both, or two, of which one names its side."""
    files = sorted(path for path in folder.glob("*.yml") if "vocab" in path.name)
    if not files:
        raise DataError(f"{folder} has no vocabulary; copy its .vocab.yml as well.")
    if len(files) > 2:
        raise DataError(f"{folder} has {len(files)} vocabularies; leave those of one model.")
    target = [path for path in files if ".trg." in path.name or "target" in path.name]
    if len(files) == 2 and len(target) != 1:
        raise DataError(f"{folder} has two vocabularies; name that of the target with `.trg.`, as in `vocab.trg.yml`.")
    sides = [path for path in files if path not in target] + target
    return [_vocabulary(path) for path in (sides * 2)[:2]]


def _vocabulary(path: Path) -> dict[str, int]:
    try:
        return _numbered(read_bytes(path, LARGEST).decode())
    except (OSError, ValueError, TypeError, AttributeError, yaml.YAMLError, RecursionError) as error:
        raise DataError(f"{path} is no vocabulary of tokens and their numbers: {error}; copy it again.") from None


def _numbered(text: str) -> dict[str, int]:
    """Tokens and their numbers from YAML. Raises `ValueError` for anything else inside of it.

    It is read event by event: what composes nested YAML in C ends the program where it is nested too deep, and what
    resolves types takes the token `no` for false.
    """
    words = []
    for event in yaml.parse(text, getattr(yaml, "CBaseLoader", yaml.BaseLoader)):
        if isinstance(event, yaml.ScalarEvent):
            words.append(event.value)
        elif isinstance(event, yaml.AliasEvent | yaml.SequenceStartEvent) or (
            isinstance(event, yaml.MappingStartEvent) and words
        ):
            raise ValueError(f"there is more than a token and its number in line {event.start_mark.line + 1}")
    return {token: int(id_) for token, id_ in zip(words[::2], words[1::2], strict=True)}
