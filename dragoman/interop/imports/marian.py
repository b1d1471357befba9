"""Models in the format of Marian itself: an .npz file that holds its options as YAML, and vocabularies in .yml."""

import math
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
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
"""Table of embeddings that both sides and the projection share."""
NEVER = -1e9
"""Logit of a token that the smaller of two vocabularies does not have."""
MOST_OPTIONS = 2**16
"""Most bytes of the options. Usual ones have some five thousand."""
ACTIVATIONS = {"relu": "relu", "swish": "silu", "gelu": "gelu"}
EXPECTED = {"type": ("transformer",), "transformer-preprocess": ("",), "transformer-postprocess": ("dan",),
             "transformer-postprocess-emb": ("d", ""), "transformer-ffn-depth": (2,),
             "transformer-decoder-autoreg": ("self-attention",), "transformer-train-position-embeddings": (False,),
             "lemma-dim-emb": (0,), "right-left": (False,)}  # fmt: skip
"""Values of options with which Marian computes what Dragoman does; the first one is Marian's default."""


@dataclass(frozen=True)
class MarianModel:
    """A model that Marian saved, with the names and the layout of Dragoman."""

    config: TransformerConfig
    weights: dict[str, Tensor]
    source_ids: dict[str, int]
    """Ids of the tokens of the source, padding included."""
    target_ids: dict[str, int]


def read_npz(files: Sequence[Path], folder: Path) -> MarianModel:
    """Read the model in `folder`, whose .npz files are `files`. Raises `DataError` unless there is exactly one.

    Padding, for which Marian has no row, becomes the last row of the tables: zeros, with which the decoder starts.
    """
    if len(files) > 1:
        names = ", ".join(path.name for path in files[:3])
        raise DataError(f"{folder} has {len(files)} models ({names}); leave one.")
    origin = str(files[0])
    arrays = _arrays(files[0])
    options = _options(arrays.pop(OPTIONS, None), origin)
    is_shared = SINGLE_TABLE in arrays
    if is_shared:
        arrays["encoder_Wemb"] = arrays["decoder_Wemb"] = arrays.pop(SINGLE_TABLE)
    tables = [arrays.get("encoder_Wemb"), arrays.get("decoder_Wemb")]
    if any(table is None or table.ndim != 2 for table in tables):
        raise DataError(f"{origin} has no tables `{SINGLE_TABLE}`, or `encoder_Wemb` and `decoder_Wemb`.")
    config = _architecture(
        options,
        rows=max(map(len, tables)) + 1,
        share_embeddings=is_shared,
        tie_projection="decoder_ff_logit_out_W" not in arrays,
        origin=origin,
    )
    weights = _weights(arrays, config, origin)
    source_ids, target_ids = _vocabularies(folder)
    return MarianModel(config, weights, source_ids | {"<pad>": config.pad_id}, target_ids | {"<pad>": config.pad_id})


def _weights(arrays: dict[str, Tensor], config: TransformerConfig, origin: str) -> dict[str, Tensor]:
    """The arrays under Dragoman's names and in its layout. Raises `DataError` for one that is missing or unknown."""
    with torch.device("meta"):
        parameters = dict(Transformer(config).named_parameters())
    names = {name: STYLE.name_of(name) for name in parameters}
    for theirs in names.values():
        if theirs not in arrays:
            raise DataError(f"{origin} lacks `{theirs}`; copy the whole model again.")
    for theirs in sorted(arrays.keys() - names.values() - {"decoder_Wemb"}):
        if not theirs.startswith("special:"):
            raise DataError(f"{origin} has `{theirs}`, which Dragoman's Transformer does not have.")
    return {name: _weight(arrays[theirs], parameters[name], name) for name, theirs in names.items()}


def _arrays(path: Path) -> dict[str, Tensor]:
    """The arrays of an .npz file. Raises `DataError` for one that is damaged."""
    try:
        return read_limited(path, _read_arrays)
    except (DragomanError, MemoryError):
        raise
    except Exception as error:  # a damaged file raises zlib.error, KeyError and many others
        raise DataError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}; copy it again.") from None


def _read_arrays(path: Path, folder: Path) -> dict[str, Tensor]:
    """The arrays of an .npz file. Raises `ValueError` for an array that promises more numbers than the file holds."""
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
    """The options of the training, from the array `OPTIONS`. Raises `DataError` if Dragoman does not compute them."""
    try:
        text = array.numpy().tobytes().rstrip(b"\0").decode()
        options = parse_yaml(text) if len(text) <= MOST_OPTIONS else None
        values = {key: options.get(key, allowed[0]) for key, allowed in EXPECTED.items()}
    except (AttributeError, ValueError, yaml.YAMLError, RecursionError):
        raise DataError(f"{origin} holds no options under `{OPTIONS}`; is it a model of Marian?") from None
    for key, allowed in EXPECTED.items():
        if values[key] not in allowed:
            raise DataError(f"{origin} has `{key}: {values[key]}`; Dragoman computes {allowed[0]!r} alone.")
    return options


def _architecture(
    options: dict[str, Any], *, rows: int, share_embeddings: bool, tie_projection: bool, origin: str
) -> TransformerConfig:
    """The architecture that the options describe, with `rows` in each table."""
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
            share_embeddings=share_embeddings,
            tie_projection=tie_projection,
            projection_bias=True,
            pad_id=rows - 1,
            bos_id=rows - 1,
            eos_id=0,
        )
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(f"{origin} does not describe a model: {error}") from None


def _weight(array: Tensor, parameter: Tensor, name: str) -> Tensor:
    """An array in Dragoman's layout. Tables get the rows that they lack, for tokens that are never predicted."""
    weight = array.float()
    if parameter.dim() == 1:
        weight = weight.flatten()
    elif weight.dim() == 2 and "embedding" not in name:
        weight = weight.T
    missing = [wanted - size for wanted, size in zip(parameter.shape, weight.shape, strict=False)]
    is_table = name.startswith(("encoder.embedding", "decoder.embedding", "projection"))
    if is_table and missing[0] > 0 and not any(missing[1:]):
        filled = pad(weight, [0, 0] * (weight.dim() - 1) + [0, missing[0]])
        if name == "projection.bias":
            filled[len(weight) : -1] = NEVER  # the last row is that of padding, which no search predicts
        return filled
    return weight


def _vocabularies(folder: Path) -> list[dict[str, int]]:
    """Source and target vocabulary from .yml files: one for both, or two, of which one has "target" in its name."""
    files = sorted(path for path in folder.glob("*.yml") if "vocab" in path.name)
    if not files:
        raise DataError(f"{folder} has no vocabulary; copy its .vocab.yml as well.")
    if len(files) > 2:
        raise DataError(f"{folder} has {len(files)} vocabularies; leave those of one model.")
    target = [path for path in files if ".trg." in path.name or "target" in path.name]
    if len(files) == 2 and len(target) != 1:
        raise DataError(f"{folder} has two vocabularies; name that of the target with `.trg.`, as in `vocab.trg.yml`.")
    sides = [path for path in files if path not in target] + target
    return [_vocabulary(path) for path in (sides[0], sides[-1])]


def _vocabulary(path: Path) -> dict[str, int]:
    """The ids of tokens in a .yml file. Raises `DataError` for anything else."""
    try:
        return _parsed_vocabulary(read_bytes(path, LARGEST).decode())
    except (OSError, ValueError, TypeError, AttributeError, yaml.YAMLError, RecursionError) as error:
        raise DataError(f"{path} is no vocabulary of tokens and their numbers: {error}; copy it again.") from None


def _parsed_vocabulary(text: str) -> dict[str, int]:
    """Tokens and their ids from YAML. Raises `ValueError` for anything else.

    The YAML is read event by event. The composer in C ends the program if YAML is nested too deep, and the resolver of
    types takes the token `no` for false.
    """
    scalars = []
    for event in yaml.parse(text, getattr(yaml, "CBaseLoader", yaml.BaseLoader)):
        if isinstance(event, yaml.ScalarEvent):
            scalars.append(event.value)
        elif isinstance(event, yaml.AliasEvent | yaml.SequenceStartEvent) or (
            isinstance(event, yaml.MappingStartEvent) and scalars
        ):
            raise ValueError(f"there is more than a token and its number in line {event.start_mark.line + 1}")
    return {token: int(id_) for token, id_ in zip(scalars[::2], scalars[1::2], strict=True)}
