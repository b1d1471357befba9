"""Checks of a model directory that need neither the model nor torch."""

import json
import os
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from dragoman.config.decoding import DecodingConfig
from dragoman.errors import DataError, UsageError, shortened, shown
from dragoman.model.config import TransformerConfig
from dragoman.storage.weights_file import opened
from dragoman.text.labels import only, several_targets
from dragoman.text.language_codes import Languages, known_language

FORMAT = 1
"""Counts up when a model directory changes in a way that older versions cannot read."""
LANGUAGES = ("source_language", "target_language")
TOKENIZERS = ("source_tokenizer", "target_tokenizer")
DIRECTIONS = "directions"
"""Key in config.json: source and target languages of a model that was trained on several pairs of them."""
STYLE = "source_style"
"""Key in config.json: the file that says how sources are written; models of version 0.1.0 have none."""
WEIGHTS = "model.safetensors"
LARGEST_CONFIG, LARGEST_TEXT = 1 << 20, 1 << 25
"""Bytes of a config.json, and of a tokenizer: that of NLLB-200 has 24 MB."""


def check_files(path: Path) -> tuple[dict[str, Any], TransformerConfig]:
    """The content of config.json, and the architecture that it describes.

    Raises `DataError` for a folder that is no model, is of another version, or has a missing or truncated file.
    """
    config = read_config(path)
    architecture = _read_architecture(path, config)
    for name in (*_text_files(config), WEIGHTS):
        _check_file(path / name, None if name == WEIGHTS else LARGEST_TEXT)
    with opened(path / WEIGHTS):
        return config, architecture


def file_state(path: Path) -> set[tuple[str, int, int]]:
    """What changes when a file of a folder is replaced."""
    if not os.path.isdir(path):
        return set()
    with os.scandir(path) as entries:
        return {(each.name, each.inode(), each.stat().st_mtime_ns) for each in entries if each.name[0] != "."}


def _check_file(file: Path, most: int | None) -> None:
    # A pipe or a device may have no end. os.path answers False where pathlib raises, for a name that is too long.
    if not os.path.isfile(file):
        raise DataError(f"{file} is {'no file' if os.path.exists(file) else 'missing'}; copy the whole folder again.")
    if most and os.path.getsize(file) > most:
        raise DataError(f"{file} has more than {most >> 20} MiB, which no such file has; copy the whole folder again.")


def read_config(path: Path) -> dict[str, Any]:
    """The config.json of a model directory, with names of files and languages that can be used as such."""
    config, file = _read_json(path), path / "config.json"
    if not isinstance(config, dict):
        raise DataError(
            f"{file} does not describe a model: it is {shortened(shown(config))}, not an object {{...}}; copy it again."
        )
    if (found := config.get("format")) != FORMAT:
        named = "names no format" if found is None else f"is of format {shortened(shown(found))}"
        raise DataError(
            f"{file} {named}, but this version of Dragoman reads format {FORMAT}; "
            "use the version that wrote it, or train again."
        )
    for key in (*TOKENIZERS, STYLE, *LANGUAGES):
        text, is_file = config.setdefault(key, None), key not in LANGUAGES
        known = isinstance(text, str) or (text is None and key not in TOKENIZERS)
        if not known or (is_file and text is not None and (not text or Path(text).name != text)):
            what = "a file in the same folder" if is_file else "a language"
            raise DataError(f"{file}: `{key}` is {shortened(shown(text))}, not {what}; copy the model again.")
    known = config.get(DIRECTIONS, [])
    if not (isinstance(known, list) and all(map(_is_direction, known))):
        raise DataError(
            f"{file}: `{DIRECTIONS}` is {shortened(shown(known))}, no list of [source, target]; copy the model again."
        )
    for key in ("model", "decoding"):
        if not isinstance(config.setdefault(key, {}), dict):
            told = shortened(shown(config[key]))
            raise DataError(
                f"{file} does not describe a model: `{key}` is {told}, not an object {{...}}; copy it again."
            )
    return config


def _is_direction(value: Any) -> bool:
    return (
        isinstance(value, list) and len(value) == 2 and isinstance(value[1], str) and isinstance(value[0], str | None)
    )


def directions(path: Path) -> list[tuple[str | None, str]]:
    """Source and target languages of a model that was trained on several pairs of them."""
    return [*map(tuple, read_config(path).get(DIRECTIONS, []))]


def languages(path: Path) -> tuple[str, str] | None:
    """Source and target language of a model, if it knows both: they choose the sides of files that name theirs."""
    config = read_config(path)
    source, target = (config[key] for key in LANGUAGES)
    return (source, target) if source and target else None


def decoding_defaults(path: Path, config: dict[str, Any] | None = None) -> DecodingConfig:
    """The search that a model was scored with; the general defaults for models that do not say.

    `config` is what `read_config` gave, if it was called already.
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


def checksum(content: bytes | memoryview) -> str:
    """CRC-32 as eight hexadecimal digits. It finds damage, not malice; 100 MB take some 25 ms."""
    return f"{zlib.crc32(content):08x}"


def config_checksum(config: dict[str, Any]) -> dict[str, str]:
    """The checksum of what config.json says, by the name of the file."""
    return {"config.json": checksum(json.dumps(config, sort_keys=True).encode())}


def _text_files(config: dict[str, Any]) -> list[str]:
    """The tokenizers, one if both sides share it, and what else prepares texts, if there is any."""
    return [*dict.fromkeys(config[key] for key in (*TOKENIZERS, STYLE) if config[key])]


@dataclass(frozen=True)
class TextFiles:
    """What stands beside the weights, each file read once: it is verified, and then used."""

    config: dict[str, Any]
    contents: dict[str, bytes]
    """The tokenizers and what else prepares texts, by the names of the files."""

    @classmethod
    def read(cls, path: Path, config: dict[str, Any]) -> Self:
        """Read the files that a config names. Raises `DataError` for one that cannot be read, or is too large."""
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
        """The checksum of each file, by its name, config.json included."""
        return {name: checksum(content) for name, content in self.contents.items()} | config_checksum(self.config)


def verify(path: Path, found: dict[str, str], wanted: dict[str, str]) -> None:
    """Raise `DataError` that names the first file of a model directory whose checksum differs."""
    for name, checksum_ in wanted.items():
        if found.get(name) != checksum_:
            raise DataError(
                f"{path / name} is damaged or belongs to another model than {WEIGHTS}: its checksum differs; "
                "copy the whole folder again."
            )


def _read_json(path: Path) -> Any:
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
    """The languages that are asked for, of a model that was trained on several, as it knows them, or else its only one.

    Raises `UsageError` for others, and unless it may be left open if the target is not known. Of other models, the
    languages as they were given.
    """
    if not (known := directions(model)):
        return source, target
    sides = [[*filter(None, side)] for side in zip(*known, strict=True)]
    source, target = (
        known_language(asked, codes) if asked and codes else asked or only(codes)
        for asked, codes in zip((source, target), sides, strict=True)
    )
    if required and not target:
        raise UsageError(several_targets(known))
    return source, target
