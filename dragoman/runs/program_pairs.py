"""Sentence pairs as a program has them: paths, lists, iterators, dicts, a DataFrame, or a Dataset of Hugging Face.

What is no path is written into a file, which is then read as any other.
"""

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

from dragoman.errors import DataError, UsageError, shortened
from dragoman.storage.run_directory import RunDirectory
from dragoman.system.atomic import new_file


def paths_of(pairs: Any) -> list[str]:
    """The paths that were given instead of pairs; none if these are pairs."""
    if isinstance(pairs, str | os.PathLike):
        return [os.fspath(pairs)]
    if isinstance(pairs, list | tuple) and pairs and all(isinstance(part, str | os.PathLike) for part in pairs):
        if len(pairs) > 2:
            raise UsageError(f"There are {len(pairs)} files of pairs; give one, or two aligned ones, or the pairs.")
        return [os.fspath(path) for path in pairs]
    return []


def files_of(pairs: Any, directory: RunDirectory, name: str) -> list[str]:
    """Files of pairs: those that were given, or one in the folder of the run into which the pairs are written."""
    if paths := paths_of(pairs):
        return paths
    return [str(write_pairs_of(pairs, directory.given / f"{name}.jsonl"))]


def write_pairs_of(pairs: Any, path: Path) -> Path:
    """A file into which the pairs are written. Raises `DataError` if there are none."""
    rows = _rows_of(pairs)
    first = next(rows, None)  # before there is a folder for it
    if first is None:
        raise DataError("There are no pairs; give at least some thousands.")
    path.parent.mkdir(parents=True, exist_ok=True)
    with new_file(path) as file:
        for row in chain([first], rows):
            # Columns beside the two texts may hold what JSON does not know.
            file.write(json.dumps(row, ensure_ascii=False, default=str).encode(errors="surrogatepass") + b"\n")
    return path


def _rows_of(pairs: Any) -> Iterator[dict[str, Any]]:
    """A dict for each pair, to be written as a line of JSON. Raises `DataError` for an item that is no pair."""
    for number, row in enumerate(_items_of(pairs)):
        if isinstance(row, Mapping):
            yield dict(row)
        elif isinstance(row, list | tuple) and len(row) == 2 and all(isinstance(side, str) for side in row):
            yield {"source": row[0], "target": row[1]}
        else:
            raise DataError(
                f"Pair {number} is {shortened(repr(row))}; give two texts, (source, target), or a dict with two."
            )


def _items_of(pairs: Any) -> Iterable[Any]:
    """The pairs one by one; a table has a dict for each row. Raises `DataError` for a dict and for what is no list."""
    if isinstance(pairs, Mapping):
        raise DataError("The pairs are a dict; give a list of pairs, or of dicts, each with a source and a target.")
    columns = getattr(pairs, "columns", None)
    if columns is not None and hasattr(pairs, "__getitem__"):  # a DataFrame of pandas or polars
        names = list(columns)
        return (dict(zip(names, values, strict=True)) for values in zip(*(pairs[name] for name in names), strict=True))
    if not isinstance(pairs, Iterable):
        raise DataError(f"The pairs are {shortened(repr(pairs))}; give the path of a file, or pairs of texts.")
    return pairs
