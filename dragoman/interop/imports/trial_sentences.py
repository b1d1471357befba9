"""Sentences on which an imported model is tried in eight bits."""

from itertools import islice
from pathlib import Path

from dragoman.errors import DataError
from dragoman.formats.text_files import open_input, read_lines
from dragoman.storage.model_directory import ModelDirectory
from dragoman.text.language_codes import same_language

SENTENCES = Path(__file__).parent / "static" / "sentences.en.txt"
"""English sentences of many kinds, for models that translate from English."""
MOST_SENTENCES = 1_000
"""Sentences of a file that are read; more would take long and show little."""


def sentences_for(directory: ModelDirectory, file: Path | None) -> list[str]:
    """The first sentences of a file, in the source language; without one, those of the package for English.

    Raises `DataError` for a file without any.
    """
    if file:
        with open_input(file) as stream:
            lines = (line.strip() for line in read_lines(stream, str(file)))
            sentences = list(islice(filter(None, lines), MOST_SENTENCES))
        if not sentences:
            raise DataError(f"{file} is empty; give a file with a sentence on each line.")
        return sentences
    language = directory.source_language
    is_english = language is not None and same_language(language, "en")
    return SENTENCES.read_text(encoding="utf-8").strip().split("\n") if is_english else []
