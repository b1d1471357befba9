"""Reads JSON, an object on each line or an array of objects; `fields` finds the two sides by their names."""

import json
import re
from collections.abc import Iterator
from io import TextIOWrapper
from pathlib import Path
from typing import Any

from dragoman.data.readers.fields import record_reader
from dragoman.data.readers.types import PairReader, ReaderOptions
from dragoman.errors import DataError
from dragoman.formats.text_files import MAX_LINE, open_input, read_file, read_head, unpacking_errors

CHUNK = 1 << 16
"""Characters of an array that are read at a time."""
_ARRAY = re.compile(rb"(\xef\xbb\xbf)?\s*\[")
_BETWEEN = re.compile(r"[\s,]*")
"""The text between two items of an array."""


def open_json(path: Path, options: ReaderOptions) -> PairReader:
    """A reader of a JSON file: an array if it begins with a bracket, else lines."""
    read_values, unit = (_items, "item") if _ARRAY.match(read_head(path)) else (_lines, "line")

    def records() -> Iterator[tuple[int, dict[str, Any]]]:
        value = None
        for number, value in read_values(path, options.replace_bad_bytes):
            if not isinstance(value, dict):
                raise DataError(f"{path}, {unit} {number} is JSON but no object; write {{...}} with named fields.")
            yield number, value
        if value is None:
            raise DataError(f"{path} has blank lines only, or an empty array; give a file with JSON objects.")

    return record_reader(records, options, str(path), unit)


def _lines(path: Path, replace: bool) -> Iterator[tuple[int, Any]]:
    """Line number and value of each line that is not blank."""
    for number, line in enumerate(read_file(path, replace=replace), start=1):
        if line.strip():
            try:
                value = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise DataError(f"{path}, line {number} is not JSON ({error}); write an object on each line.") from None
            yield number, value


def _items(path: Path, replace: bool) -> Iterator[tuple[int, Any]]:
    """Number and value of each item of an array, whose text is never in memory as a whole."""
    decode = json.JSONDecoder().raw_decode
    number = 0
    try:
        with open_input(path) as stream:
            file = TextIOWrapper(stream, "utf-8-sig", "replace" if replace else "strict")
            text = file.read(CHUNK).lstrip().removeprefix("[")
            position = _BETWEEN.match(text).end()
            while not text.startswith("]", position):
                try:
                    value, position = decode(text, position)
                    number += 1
                    yield number, value
                except (ValueError, RecursionError) as error:
                    more = file.read(CHUNK)
                    if not more or len(text) - position > MAX_LINE:
                        raise DataError(f"{path}, item {number + 1} is not JSON ({error}); repair the file.") from None
                    text, position = text[position:] + more, 0
                position = _BETWEEN.match(text, position).end()
    except (UnicodeDecodeError, *unpacking_errors()) as error:
        raise DataError(f"{path} cannot be read after item {number} ({error}); save it anew, as UTF-8.") from None
