"""The files of a model directory, as far as they can be judged without loading the model, or torch."""

import json
import os
from pathlib import Path
from typing import Any

from dragoman.errors import DataError
from dragoman.model.config import TransformerConfig

FORMAT = 1
"""Counts up when a model directory changes in a way that older versions cannot read."""
LANGUAGES = ("source_language", "target_language")
TOKENIZERS = ("source_tokenizer", "target_tokenizer")


def check_files(path: Path) -> None:
    """Raise `DataError` for a folder that is no model, is of another version, or lacks a file or the end of one."""
    config = read_config(path)
    read_architecture(path, config)
    for name in {config[key] for key in TOKENIZERS}:
        if not (path / name).is_file():
            raise DataError(f"{path / name} is missing; copy the whole folder again.")
    weights = path / "model.safetensors"
    if fault := _fault(weights):
        raise DataError(f"{weights} {fault}; copy the model again.")


def read_config(path: Path) -> dict[str, Any]:
    """The config.json of a model directory, with names of files and languages that can be used as such."""
    config, file = _read_json(path), path / "config.json"
    if not isinstance(config, dict) or config.get("format") != FORMAT:
        found = config.get("format") if isinstance(config, dict) else None
        raise DataError(
            f"{file} is of format {found!r}, but this version of Dragoman reads format {FORMAT}; "
            "use the version that wrote it, or train again."
        )
    for key in (*TOKENIZERS, *LANGUAGES):
        text, is_file = config.setdefault(key, None), key in TOKENIZERS
        if not isinstance(text, str if is_file else str | None) or (is_file and Path(text).name != text):
            what = "a file in the same folder" if is_file else "a language"
            raise DataError(f"{file}: `{key}` is {text!r}, not {what}; copy the model again.")
    return config


def languages(path: Path) -> tuple[str, str] | None:
    """Those of a model, if it knows both: they choose the sides of files that name theirs."""
    config = read_config(path)
    source, target = (config[key] for key in LANGUAGES)
    return (source, target) if source and target else None


def read_architecture(path: Path, config: dict[str, Any]) -> TransformerConfig:
    """The architecture that `config`, read from `path`, describes."""
    try:
        return TransformerConfig.from_dict(config["model"])
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise DataError(f"{path / 'config.json'} does not describe a model: {error}") from None


def _read_json(path: Path) -> Any:
    # os.path answers False where pathlib raises, for a name that is too long.
    if not os.path.isdir(path):
        what = "is a file, not a model directory" if os.path.exists(path) else "does not exist"
        raise DataError(f"{path} {what}; give the folder that `dragoman train` wrote.")
    file = path / "config.json"
    try:
        return json.loads(file.read_bytes())
    except FileNotFoundError:
        raise DataError(
            f"{path} is not a model directory: it has no config.json; give the folder that `dragoman train` wrote."
        ) from None
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"{file} cannot be read as JSON ({error}); copy the model again.") from None


def _fault(weights: Path) -> str | None:
    """What a safetensors file does not keep of its own promise: 8 bytes of length, a header of JSON, the tensors."""
    try:
        with weights.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            found = os.fstat(file.fileno()).st_size
            if length > found:
                return "is cut short or damaged"
            header = json.loads(file.read(length))
        ends = [tensor["data_offsets"][1] for name, tensor in header.items() if name != "__metadata__"]
        promised = 8 + length + max(ends, default=0)
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    except (ValueError, RecursionError, AttributeError, KeyError, IndexError, TypeError):
        return "is damaged: its header cannot be read"
    return None if found == promised else f"is cut short or damaged: {found:,} bytes instead of {promised:,}"
