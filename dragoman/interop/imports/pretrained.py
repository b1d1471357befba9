"""Pretrained translation models as model directories: Marian (OPUS-MT), M2M-100 and NLLB-200.

A directory of transformers is told by its config.json, one of Marian itself by its .npz file. Ids of tokens stay as
they are, so weights are copied row by row.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torch import Tensor

from dragoman.config.decoding import DecodingConfig
from dragoman.errors import DataError, DragomanError, UsageError
from dragoman.interop.files import INDEX, PRETRAINED, STYLE_FILE, read_json
from dragoman.interop.imports import marian
from dragoman.interop.imports.huggingface import architecture, from_huggingface
from dragoman.interop.imports.pretrained_vocabulary import (
    marian_vocabularies,
    multilingual_vocabulary,
    trained_tokenizer,
)
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
"""How the sources of Marian's models are written."""


@dataclass(frozen=True)
class Pretrained:
    """What the files of a pretrained model hold."""

    program: str
    """Its kind, for people."""
    config: TransformerConfig
    weights: dict[str, Tensor]
    tokenizers: tuple[Tokenizer, Tokenizer]
    languages: tuple[str | None, str | None]
    style: SourceStyle
    decoding: DecodingConfig
    """The search that its makers recommend."""


def import_pretrained(
    folder: Path, output: Path, *, languages: tuple[str | None, str | None] = (None, None), name: str | None = None
) -> ModelDirectory:
    """Write a pretrained model to `output`, a new or empty folder, which stays as it was if that fails.

    `languages` are the ones to translate between, in place of those that the files name; `name` is where the model
    came from, for its card. Raises `DataError` for files that are missing, damaged, or of a model that Dragoman does
    not compute, and `UsageError` for a language that the model does not know.
    """
    refuse_to_overwrite(output)
    try:
        found = read_pretrained(folder)
    except (DragomanError, MemoryError, KeyboardInterrupt):
        raise
    except BaseException as error:  # damaged files raise many kinds of errors, and one library panics
        raise DataError(
            f"{folder} cannot be imported: {error or type(error).__name__}; copy the model again."
        ) from None
    model = with_weights(found.config, found.weights, origin=folder)
    directory = ModelDirectory(model, *found.tokenizers, decoding=found.decoding, style=found.style)
    known = [language if isinstance(language, str) and language_of(language) else None for language in found.languages]
    wanted = [own if own is not None else theirs for own, theirs in zip(languages, known, strict=True)]
    directory = directory.speaking(*wanted)
    with new_folder(output) as new:
        directory.save(new)
        write_file(new / "README.md", _card(directory, found, name or folder.name, output.absolute().name).encode())
    return directory


def read_pretrained(folder: Path) -> Pretrained:
    """The content of a pretrained model's files."""
    if not folder.is_dir():
        raise DataError(f"{folder} is no folder; give the one with the files of a pretrained model.")
    if not (folder / "config.json").is_file() and (files := sorted(folder.glob("*.npz"))):
        config, weights, (source, target) = marian.read_npz(files, folder)
        source, target = map(PretrainedTokenizer, marian_vocabularies(folder, config, source, target))
        return Pretrained("Marian", config, weights, (source, target), (None, None), MOSES, DecodingConfig())
    values = read_json(folder / "config.json")
    tensors = read_weights(_weights_file(folder))
    config = architecture(values, tensors, str(folder / "config.json"))
    weights = from_huggingface(tensors, config, str(folder), values)
    settings = read_json(folder / "tokenizer_config.json", missing={})
    search = _search(values | read_json(folder / "generation_config.json", missing={}))
    program, tokenizers, languages, style = _text(folder, config, settings, values["model_type"])
    return Pretrained(program, config, weights, tokenizers, languages, _style(folder, style), search)


def _text(folder: Path, config: TransformerConfig, settings: dict[str, Any], kind: str) -> tuple:
    """The program, the tokenizers, the languages and the style of a folder of transformers."""
    languages = settings.get("source_lang"), settings.get("target_lang")
    if trained := trained_tokenizer(folder, config):
        return "written by `dragoman export`", (trained, trained), languages, SourceStyle()
    if kind == "marian":
        source, target = map(PretrainedTokenizer, marian_vocabularies(folder, config))
        if source.tagged:
            languages = languages[0], None  # "mul" or "roa": each text, or the user, says which
        return "Marian", (source, target), languages, MOSES
    languages = settings.get("src_lang") or "en", settings.get("tgt_lang")
    program, vocabulary = multilingual_vocabulary(folder, config, settings)
    target = replace(vocabulary, legacy=False)  # a translation begins with its language all the same
    return program, (PretrainedTokenizer(vocabulary), PretrainedTokenizer(target)), languages, SourceStyle()


def _style(folder: Path, usual: SourceStyle) -> SourceStyle:
    """How sources are written, by the file that Dragoman exports, or as is usual."""
    path = folder / STYLE_FILE
    try:
        return SourceStyle.model_validate(read_json(path)) if path.is_file() else usual
    except ValueError:
        raise DataError(f"{path} does not say how sources are written; copy the whole model again.") from None


def _search(values: dict[str, Any]) -> DecodingConfig:
    """The beams and the length penalty that generation_config.json or config.json asks for, if they make sense."""
    names = {"beam_size": "num_beams", "length_penalty": "length_penalty"}
    asked = {ours: values[theirs] for ours, theirs in names.items() if values.get(theirs) is not None}
    try:
        return DecodingConfig.validate(asked)
    except UsageError:
        return DecodingConfig()


def _weights_file(folder: Path) -> Path:
    for path in (folder / (name + ending) for name in PRETRAINED for ending in ("", INDEX)):
        if path.is_file():
            return path
    raise DataError(f"{folder} has no weights, which are called {' or '.join(PRETRAINED)}; copy the whole model.")


def _card(directory: ModelDirectory, found: Pretrained, name: str, title: str) -> str:
    """The model card of an imported model."""
    known, kind = directory.source_tokenizer.languages, directory.source_tokenizer.kind
    return render(
        "interop/imports/static/pretrained_card.md",
        title=title,
        program=found.program,
        origin=name,
        facts=sizes(found.config, sum(weight.numel() for weight in directory.model.parameters()), kind=kind),
        languages=list(known),
        direction=" to ".join(code or "?" for code in directory.languages),
        punctuation=found.style.punctuation,
        example="Hello.",
    )
