"""Pretrained translation models as model directories: Marian (OPUS-MT), M2M-100 and NLLB-200.

A folder of transformers has a config.json, one of Marian itself an .npz file. Token ids stay as they are, and so do the
rows of the tables.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from torch import Tensor

from dragoman.config.decoding import DecodingConfig
from dragoman.decoding.precision import LEAST_BLEU
from dragoman.errors import DataError, DragomanError, UsageError, command_line
from dragoman.evaluation.eight_bits import bleu_in_eight_bits
from dragoman.interop.files import INDEX, PRETRAINED, STYLE_FILE, read_json
from dragoman.interop.imports import marian
from dragoman.interop.imports.huggingface import architecture, from_huggingface, with_defaults
from dragoman.interop.imports.pretrained_vocabulary import (
    marian_vocabularies,
    multilingual_vocabulary,
    trained_tokenizer,
)
from dragoman.interop.imports.trimming import trimmed
from dragoman.interop.imports.weights import read_weights
from dragoman.model import TransformerConfig
from dragoman.report.summary import sizes
from dragoman.storage.model_directory import ModelDirectory, with_weights
from dragoman.storage.run_directory import refuse_to_overwrite
from dragoman.system.atomic import new_folder, write_file
from dragoman.system.templates import render
from dragoman.text.language_codes import language_of
from dragoman.text.preprocessing import SourceStyle
from dragoman.text.tokenizers.pretrained import PretrainedTokenizer
from dragoman.text.tokenizers.tokenizer import Tokenizer

MOSES = SourceStyle(punctuation="moses")
"""Style of the sources of Marian's models."""


@dataclass(frozen=True)
class Pretrained:
    """Content of the files of a pretrained model."""

    program: str
    """Program that wrote the model, or its kind, for the model card."""
    config: TransformerConfig
    weights: dict[str, Tensor]
    tokenizers: tuple[Tokenizer, Tokenizer]
    languages: tuple[str | None, str | None]
    style: SourceStyle
    decoding: DecodingConfig
    """The search that its makers recommend."""


@dataclass(frozen=True)
class _TextFiles:
    """Content of the files that say how a model of transformers reads and writes text."""

    program: str
    tokenizers: tuple[Tokenizer, Tokenizer]
    languages: tuple[str | None, str | None]
    style: SourceStyle = field(default_factory=SourceStyle)


def import_pretrained(
    folder: Path,
    output: Path,
    *,
    languages: tuple[str | None, str | None] = (None, None),
    name: str | None = None,
    sentences: Callable[[ModelDirectory], Sequence[str]] = lambda directory: (),
    trim_to: Iterable[str] | None = None,
) -> ModelDirectory:
    """Write a pretrained model to `output`, a new or empty folder, which stays as it was if that fails.

    `languages` are the source and target language; those that are None are taken from the files. `name` is the origin
    of the model, for its card. `sentences` gives sentences of its source language, on which it is tried in eight bits:
    where these hold, it translates in them, and its card says so. With `trim_to`, pieces that these texts never use are
    dropped (`dragoman.interop.imports.trimming`). Raises `DataError` for files that are missing,
    damaged, or of a model that Dragoman does not compute, and `UsageError` for a language that the model does not know.
    """
    refuse_to_overwrite(output)
    try:
        pretrained = read_pretrained(folder)
    except (DragomanError, MemoryError, KeyboardInterrupt):
        raise
    except BaseException as error:  # damaged files raise many kinds of errors, and one library panics
        raise DataError(
            f"{folder} cannot be imported: {error or type(error).__name__}; copy the model again."
        ) from None
    model = with_weights(pretrained.config, pretrained.weights, origin=folder)
    directory = ModelDirectory(model, *pretrained.tokenizers, decoding=pretrained.decoding, style=pretrained.style)
    wanted = [
        _known_language(named) if given is None else given
        for given, named in zip(languages, pretrained.languages, strict=True)
    ]
    directory = directory.speaking(*wanted)
    if trim_to is not None:
        directory = trimmed(directory, trim_to)
    tried_on = sentences(directory)
    directory = replace(directory, int8_bleu=bleu_in_eight_bits(directory, tried_on))
    card = _card(
        directory, pretrained, origin=name or folder.name, title=output.absolute().name, tried_on=len(tried_on)
    )
    with new_folder(output) as new:
        directory.save(new)
        write_file(new / "README.md", card.encode())
    return directory


def _known_language(language: Any) -> str | None:
    """The language that a file names, if it is one; files of strangers may hold anything there."""
    return language if isinstance(language, str) and language_of(language) else None


def read_pretrained(folder: Path) -> Pretrained:
    """Read the files of a pretrained model. Raises many kinds of errors for damaged ones."""
    if not folder.is_dir():
        raise DataError(f"{folder} is no folder; give the one with the files of a pretrained model.")
    if not (folder / "config.json").is_file():
        npz_files = sorted(folder.glob("*.npz"))
        if npz_files:
            return _read_marian(npz_files, folder)
    return _read_transformers(folder)


def _read_marian(npz_files: Sequence[Path], folder: Path) -> Pretrained:
    """Read a model that Marian itself saved."""
    model = marian.read_npz(npz_files, folder)
    source, target = marian_vocabularies(folder, model.config, model.source_ids, model.target_ids)
    return Pretrained(
        program="Marian",
        config=model.config,
        weights=model.weights,
        tokenizers=(PretrainedTokenizer(source), PretrainedTokenizer(target)),
        languages=(None, None),
        style=MOSES,
        decoding=DecodingConfig(),
    )


def _read_transformers(folder: Path) -> Pretrained:
    """Read a model that transformers saved."""
    values = read_json(folder / "config.json")
    if {"format", "source_tokenizer"} <= values.keys():
        raise DataError(
            f"{folder} is a model of Dragoman already; use it as it is:  {command_line('translate', folder, '...')}"
        )
    tensors = read_weights(_weights_file(folder))
    config = architecture(values, tensors, str(folder / "config.json"))
    weights = from_huggingface(tensors, config, str(folder), with_defaults(values))
    settings = read_json(folder / "tokenizer_config.json", missing={})
    search = _search(values | read_json(folder / "generation_config.json", missing={}))
    text = _read_text_files(folder, config, settings, values["model_type"])
    return Pretrained(
        program=text.program,
        config=config,
        weights=weights,
        tokenizers=text.tokenizers,
        languages=text.languages,
        style=_style(folder, text.style),
        decoding=search,
    )


def _read_text_files(folder: Path, config: TransformerConfig, settings: dict[str, Any], model_type: str) -> _TextFiles:
    """Read the tokenizers of a folder of transformers; `settings` is the content of its tokenizer_config.json."""
    languages = settings.get("source_lang"), settings.get("target_lang")
    if trained := trained_tokenizer(folder, config):
        return _TextFiles("written by `dragoman export`", (trained, trained), languages)
    if model_type == "marian":
        source, target = map(PretrainedTokenizer, marian_vocabularies(folder, config))
        if source.tagged:
            languages = languages[0], None  # "mul" or "roa": each text, or the user, says which
        return _TextFiles("Marian", (source, target), languages, MOSES)
    languages = settings.get("src_lang") or "en", settings.get("tgt_lang")
    program, vocabulary = multilingual_vocabulary(folder, config, settings)
    source = PretrainedTokenizer(vocabulary)
    # A translation begins with its language even if sources, by the legacy behaviour, end with theirs.
    target = PretrainedTokenizer(replace(vocabulary, legacy=False))
    return _TextFiles(program, (source, target), languages)


def _style(folder: Path, usual: SourceStyle) -> SourceStyle:
    """The style of sources in the file that Dragoman exports, or else the `usual` one."""
    path = folder / STYLE_FILE
    try:
        return SourceStyle.model_validate(read_json(path)) if path.is_file() else usual
    except ValueError:
        raise DataError(f"{path} does not say how sources are written; copy the whole model again.") from None


def _search(values: dict[str, Any]) -> DecodingConfig:
    """The beam size and the length penalty of generation_config.json or config.json, if they make sense."""
    names = {"beam_size": "num_beams", "length_penalty": "length_penalty"}
    settings = {ours: values[theirs] for ours, theirs in names.items() if values.get(theirs) is not None}
    try:
        return DecodingConfig.validate(settings)
    except UsageError:
        return DecodingConfig()


def _weights_file(folder: Path) -> Path:
    """The file of the weights, or of their index. Raises `DataError` if there is none."""
    for name in PRETRAINED:
        for path in (folder / name, folder / (name + INDEX)):
            if path.is_file():
                return path
    raise DataError(f"{folder} has no weights, which are called {' or '.join(PRETRAINED)}; copy the whole model.")


def _card(directory: ModelDirectory, pretrained: Pretrained, *, origin: str, title: str, tried_on: int) -> str:
    """The model card of an imported model, which was tried in eight bits on `tried_on` sentences."""
    tokenizer = directory.source_tokenizer
    num_weights = sum(weight.numel() for weight in directory.model.parameters())
    return render(
        "interop/imports/static/pretrained_card.md",
        title=title,
        program=pretrained.program,
        origin=origin,
        facts=sizes(directory.model.config, num_weights, kind=tokenizer.kind),
        languages=list(tokenizer.languages),
        direction=" to ".join(code or "?" for code in directory.languages),
        punctuation=pretrained.style.punctuation,
        int8_bleu=directory.int8_bleu,
        least_bleu=LEAST_BLEU,
        tried_on=tried_on,
        example="Hello.",
    )
