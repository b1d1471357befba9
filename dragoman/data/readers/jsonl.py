"""JSON lines: an object on each line, with two sides that `fields` finds by their names."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dragoman.data.readers.fields import record_reader
from dragoman.data.readers.text_io import read_file
from dragoman.data.readers.types import PairReader, ReaderOptions
from dragoman.errors import DataError


def open_jsonl(path: Path, options: ReaderOptions) -> PairReader:
    """A reader of a file of JSON lines."""
    return record_reader(lambda: _records(path, options), options, str(path), "line")


def _records(path: Path, options: ReaderOptions) -> Iterator[tuple[int, dict[str, Any]]]:
    """Line number and object of each line that is not blank."""
    record = None
    for number, line in enumerate(read_file(path, replace=options.replace_bad_bytes), start=1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise DataError(f"{path}, line {number} is not JSON ({error}); write an object on each line.") from None
        if not isinstance(record, dict):
            raise DataError(f"{path}, line {number} is JSON but no object; write {{...}} with named fields.")
        yield number, record
    if record is None:
        raise DataError(f"{path} has blank lines only; give a file with a JSON object on each line.")
