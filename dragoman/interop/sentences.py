"""Sentences that a user gives to try a model on."""

from itertools import islice
from pathlib import Path

from dragoman.errors import DataError
from dragoman.formats.text_files import open_input, read_lines

MOST_SENTENCES = 1_000
"""Sentences of a file that are read; more would take long and show little."""


def first_sentences(file: Path) -> list[str]:
    """The first lines of a file that are not blank. Raises `DataError` if there are none."""
    with open_input(file) as stream:
        lines = (line.strip() for line in read_lines(stream, str(file)))
        sentences = list(islice(filter(None, lines), MOST_SENTENCES))
    if not sentences:
        raise DataError(f"{file} is empty; give a file with a sentence on each line.")
    return sentences
