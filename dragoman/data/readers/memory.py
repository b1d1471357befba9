"""Reads translation memories that a server keeps, so that a model learns from translations that people corrected."""

from collections.abc import Iterator
from pathlib import Path

from dragoman.data.readers.types import Numbered, PairReader, ReaderOptions, Skipped
from dragoman.storage.memory import stored_entries
from dragoman.text.language_codes import choose_languages, same_language

DAMAGED = Skipped("is damaged")


def open_memory(path: Path, options: ReaderOptions) -> PairReader:
    """A reader of the entries in the languages of the options, or in the only two languages that a memory has."""
    codes = (code for entry in stored_entries(path) if entry for code in entry[:2])
    languages = choose_languages(codes, options.languages, str(path))

    def read() -> Iterator[Numbered]:
        for number, entry in enumerate(stored_entries(path), start=1):
            if not entry:
                yield number, DAMAGED
            elif all(map(same_language, entry[:2], languages)):
                yield number, (entry.source, entry.target)
            else:
                yield number, Skipped("in other languages")

    return PairReader(read, languages)
