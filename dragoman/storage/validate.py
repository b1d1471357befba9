"""Reads and checks the files beside the weights of a model directory. Needs neither torch nor the model itself."""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from dragoman.config.decoding import DecodingConfig
from dragoman.engine import parameters
from dragoman.errors import DataError, UsageError, shortened, shown
from dragoman.model.config import TransformerConfig
from dragoman.storage.weights_file import opened
from dragoman.system.seals import checksum
from dragoman.text.labels import only, several_languages
from dragoman.text.language_codes import Languages, known_language

FORMAT = 1
"""Format of model directories. It is increased by changes that older versions cannot read."""
LANGUAGES = ("source_language", "target_language")
"""Keys in config.json of the two languages."""
TOKENIZERS = ("source_tokenizer", "target_tokenizer")
"""Keys in config.json of the names of the two tokenizer files."""
DIRECTIONS = "directions"
"""Key in config.json of the [source, target] languages of a model that was trained on several pairs of languages."""
STYLE = "source_style"
"""Key in config.json of the name of the file that describes how sources are written. Version 0.1.0 had none."""
INT8_BLEU = "int8_bleu"
"""Key in config.json of the BLEU of a pretrained model in eight bits against itself in float32, if that is known."""
WEIGHTS = "model.safetensors"
LARGEST_CONFIG = 1 << 20
"""Most bytes of a config.json."""
LARGEST_TEXT = 1 << 25
"""Most bytes of a tokenizer; that of NLLB-200 has 24 MB."""


def check_files(path: Path) -> tuple[dict[str, Any], TransformerConfig]:
    """Check the files of a model directory; returns its parsed config.json and the architecture that this describes.

    Raises `DataError` for a folder that is no model, is of another version, or has a missing or truncated file, or
    weights of other names or shapes than the architecture has. No weights are read.
    """
    config = read_config(path)
    architecture = _read_architecture(path, config)
    for name in (*_text_files(config), WEIGHTS):
        _check_file(path / name, None if name == WEIGHTS else LARGEST_TEXT)
    with opened(path / WEIGHTS) as (_, header):
        stored = {tensor.name: tensor for tensor in header.tensors}
    # Before memory is allocated: a sparse file of a terabyte is quickly sent.
    parameters.check_shapes(architecture, parameters.without_scales(stored), origin=path / WEIGHTS)
    return config, architecture


def file_state(path: Path) -> set[tuple[str, int, int]]:
    """(name, inode, time of the last change) of the files in a folder, which differ after a file is replaced."""
    if not os.path.isdir(path):
        return set()
    with os.scandir(path) as entries:
        return {(entry.name, entry.inode(), entry.stat().st_mtime_ns) for entry in entries if entry.name[0] != "."}


def _check_file(file: Path, most: int | None) -> None:
    """Raise `DataError` unless there is a regular file, of at most so many bytes."""
    # A pipe or a device may have no end. os.path answers False where pathlib raises, for a name that is too long.
    if not os.path.isfile(file):
        raise DataError(f"{file} is {'no file' if os.path.exists(file) else 'missing'}; copy the whole folder again.")
    if most and os.path.getsize(file) > most:
        raise DataError(f"{file} has more than {most >> 20} MiB, which no such file has; copy the whole folder again.")


def read_config(path: Path) -> dict[str, Any]:
    """The parsed config.json of a model directory, with None or {} for keys that it lacks.

    Raises `DataError` if it is of another format, if a value is not of its type, or if it names a file elsewhere.
    """
    config, file = _read_json(path), path / "config.json"
    if not isinstance(config, dict):
        raise DataError(
            f"{file} does not describe a model: it is {shortened(shown(config))}, not an object {{...}}; copy it again."
        )
    version = config.get("format")
    if version != FORMAT:
        named = "names no format" if version is None else f"is of format {shortened(shown(version))}"
        raise DataError(
            f"{file} {named}, but this version of Dragoman reads format {FORMAT}; "
            "use the version that wrote it, or train again."
        )
    for key in (*TOKENIZERS, STYLE):
        name = config.setdefault(key, None)
        is_absent = name is None and key not in TOKENIZERS
        if not is_absent and not _is_file_name(name):
            raise DataError(
                f"{file}: `{key}` is {shortened(shown(name))}, not a file in the same folder; copy the model again."
            )
    for key in LANGUAGES:
        language = config.setdefault(key, None)
        if not isinstance(language, str | None):
            raise DataError(f"{file}: `{key}` is {shortened(shown(language))}, not a language; copy the model again.")
    pairs = config.get(DIRECTIONS, [])
    if not isinstance(pairs, list) or not all(map(_is_direction, pairs)):
        raise DataError(
            f"{file}: `{DIRECTIONS}` is {shortened(shown(pairs))}, no list of [source, target]; copy the model again."
        )
    bleu = config.get(INT8_BLEU)
    if bleu is not None and not is_bleu(bleu):
        raise DataError(f"{file}: `{INT8_BLEU}` is {shortened(shown(bleu))}, not from 0 to 100; copy the model again.")
    for key in ("model", "decoding"):
        section = config.setdefault(key, {})
        if not isinstance(section, dict):
            raise DataError(
                f"{file} does not describe a model: `{key}` is {shortened(shown(section))}, not an object {{...}}; "
                "copy it again."
            )
    return config


def is_bleu(value: Any) -> bool:
    """Whether a value is a BLEU: a number from 0 to 100."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 100


def _is_file_name(name: Any) -> bool:
    """Whether a value is the name of a file, without any folder."""
    return isinstance(name, str) and name != "" and Path(name).name == name


def _is_direction(value: Any) -> bool:
    """Whether a value is a list of a source language, which may be None, and a target language."""
    if not isinstance(value, list) or len(value) != 2:
        return False
    source, target = value
    return isinstance(source, str | None) and isinstance(target, str)


def directions(path: Path) -> list[tuple[str | None, str]]:
    """(source, target) languages of a model that was trained on several pairs of languages; empty for other models."""
    return [(source, target) for source, target in read_config(path).get(DIRECTIONS, [])]


def languages(path: Path) -> tuple[str, str] | None:
    """Source and target language of a model, if it knows both; None for other models."""
    config = read_config(path)
    source, target = (config[key] for key in LANGUAGES)
    return (source, target) if source and target else None


def decoding_defaults(path: Path, config: dict[str, Any] | None = None) -> DecodingConfig:
    """The search that a model was scored with; the general defaults for models that do not name one.

    `config` is the result of `read_config`, if it was called already.
    """
    try:
        return DecodingConfig.validate((config or read_config(path))["decoding"])
    except UsageError as error:
        raise DataError(f"{path / 'config.json'}, `decoding`: {error}") from None


def _read_architecture(path: Path, config: dict[str, Any]) -> TransformerConfig:
    """The architecture that `config`, read from `path`, describes."""
    try:
        return TransformerConfig.from_dict(config["model"])
    except ValueError as error:
        raise DataError(f"{path / 'config.json'} does not describe a model: {error}") from None


def config_checksum(config: dict[str, Any]) -> dict[str, str]:
    """Checksum of the values in config.json, however they are formatted, by the name of the file."""
    return {"config.json": checksum(json.dumps(config, sort_keys=True).encode())}


def _text_files(config: dict[str, Any]) -> list[str]:
    """Names of the tokenizer files, one if both sides share it, and of the source style, if there is one."""
    return list(dict.fromkeys(config[key] for key in (*TOKENIZERS, STYLE) if config[key]))


@dataclass(frozen=True)
class TextFiles:
    """The files beside the weights. Each is read once, so that the bytes that are verified are those that are used."""

    config: dict[str, Any]
    contents: dict[str, bytes]
    """Content of the tokenizers and of the source style, by file name."""

    @classmethod
    def read(cls, path: Path, config: dict[str, Any]) -> Self:
        """Read the files that a config names. Raises `DataError` for a file that cannot be read, or is too large."""
        contents = {}
        for name in _text_files(config):
            _check_file(path / name, LARGEST_TEXT)
            try:
                with open(path / name, "rb") as file:
                    contents[name] = file.read(LARGEST_TEXT)
            except OSError as error:
                raise DataError(f"{path / name} cannot be read ({error}); copy the whole folder again.") from None
        return cls(config, contents)

    @property
    def sums(self) -> dict[str, str]:
        """Checksum of each file by its name, config.json included."""
        return {name: checksum(content) for name, content in self.contents.items()} | config_checksum(self.config)


def verify(path: Path, computed: dict[str, str], expected: dict[str, str]) -> None:
    """Raise `DataError` that names the first file of a model directory whose computed checksum differs."""
    for name, sum_ in expected.items():
        if computed.get(name) != sum_:
            raise DataError(
                f"{path / name} is damaged or belongs to another model than {WEIGHTS}: its checksum differs; "
                "copy the whole folder again."
            )


def _read_json(path: Path) -> Any:
    """The content of config.json. Raises `DataError` if `path` has none that can be read."""
    # os.path answers False where pathlib raises, for a name that is too long.
    if not os.path.isdir(path):
        what = "is a file, not a model directory" if os.path.exists(path) else "does not exist"
        raise DataError(f"{path} {what}; give the folder that `dragoman train` wrote.")
    file = path / "config.json"
    if os.path.lexists(file):
        _check_file(file, LARGEST_CONFIG)
    try:
        return json.loads(file.read_bytes())
    except FileNotFoundError:
        raise DataError(
            f"{path} is not a model directory: it has no config.json; give the folder that `dragoman train` wrote."
        ) from None
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"{file} cannot be read as JSON ({error}); copy the model again.") from None


def check_languages(model: Path, source: str | None, target: str | None, *, required: bool = True) -> Languages:
    """The requested languages in the spelling of a model that was trained on several pairs of languages.

    A language that is left open is the only one of its side, or stays None. Other models take languages as they are.
    Raises `UsageError` for a language that the model does not know, and for an open target language, if it is required.
    """
    known = directions(model)
    if not known:
        return source, target
    source = _known_or_only(source, [code for code, _ in known if code])
    target = _known_or_only(target, [code for _, code in known if code])
    if required and not target:
        raise UsageError(several_languages(known))
    return source, target


def _known_or_only(language: str | None, codes: list[str]) -> str | None:
    """A language as one of the codes of a model; None: the only code, if there is just one."""
    if not language:
        return only(codes)
    return known_language(language, codes) if codes else language
