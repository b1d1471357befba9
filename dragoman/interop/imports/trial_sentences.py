"""Sentences on which an imported model is tried in eight bits."""

from pathlib import Path

from dragoman.interop.sentences import first_sentences
from dragoman.storage.model_directory import ModelDirectory
from dragoman.text.language_codes import same_language

SENTENCES = Path(__file__).parent / "static" / "sentences.en.txt"
"""English sentences of many kinds, for models that translate from English."""


def sentences_for(directory: ModelDirectory, file: Path | None) -> list[str]:
    """The first sentences of a file, in the source language; without one, those of the package for English.

    Raises `DataError` for a file without any.
    """
    if file:
        return first_sentences(file)
    language = directory.source_language
    is_english = language is not None and same_language(language, "en")
    return SENTENCES.read_text(encoding="utf-8").strip().split("\n") if is_english else []
