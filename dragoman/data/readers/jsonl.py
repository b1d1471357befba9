"""JSON lines: an object on each line, with the two sides under the names that `records` knows."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dragoman.data.readers.fields import find_sides
from dragoman.data.readers.text_io import read_file
from dragoman.data.readers.types import Numbered, PairReader, ReaderOptions
from dragoman.errors import DataError


def open_jsonl(path: Path, options: ReaderOptions) -> PairReader:
    """How to read a file of JSON lines; the first one decides which fields are the sides."""
    first = next(_records(path, options.replace_bad_bytes), None)
    if first is None:
        raise DataError(f"{path} has blank lines only; give a file with a JSON object on each line.")
    sides = find_sides(first[1], options.languages, f"{path}, line {first[0]}")

    def read() -> Iterator[Numbered]:
        for number, record in _records(path, options.replace_bad_bytes):
            pair = sides.pair(record)
            if pair is None:
                raise DataError(
                    f"{path}, line {number} has no text in `{sides.source}` and `{sides.target}`; "
                    "write every record like the first one."
                )
            yield number, pair

    return PairReader(read, sides.languages or (None, None))


def _records(path: Path, replace: bool) -> Iterator[tuple[int, dict[str, Any]]]:
    """Line number and object of each line that is not blank."""
    for number, line in enumerate(read_file(path, replace=replace), start=1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise DataError(f"{path}, line {number} is not JSON ({error}); write an object on each line.") from None
        if not isinstance(record, dict):
            raise DataError(f"{path}, line {number} is JSON but no object; write {{...}} with named fields.")
        yield number, record
