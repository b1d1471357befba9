"""Data sets through the library `datasets`: `hf:NAME[:CONFIG[:SPLIT]]`, from the Hugging Face Hub or a folder."""

from collections.abc import Iterator
from typing import Any

from dragoman.data.readers.fields import find_sides
from dragoman.data.readers.types import Numbered, PairReader, ReaderOptions
from dragoman.errors import DataError
from dragoman.system.optional import load

HUB = "hf:"
ROWS = 1_000
"""Rows that are decoded at a time."""


def open_dataset(name: str, options: ReaderOptions) -> PairReader:
    """How to read a data set, which is fetched first if it is not on this machine yet."""
    dataset_name, config, split, *more = [*name.removeprefix(HUB).split(":"), "", ""]
    if not dataset_name or any(more):
        raise DataError(f"{name} names no data set; write {HUB}NAME, {HUB}NAME:CONFIG or {HUB}NAME:CONFIG:SPLIT.")
    datasets = load("datasets", extra="hf", purpose=f"Reading {name}")
    split = split or "train"
    try:
        dataset = datasets.load_dataset(dataset_name, config or None, split=split)
    # What is wrong may be the network, the name, a file or the format: the library has an error for each.
    except Exception as error:
        reason = str(error).partition("\n")[0].rstrip(".") or type(error).__name__
        raise DataError(f"{name} (split {split}) cannot be loaded: {reason}; check the name or the network.") from None
    if not len(dataset):
        raise DataError(f"{name} (split {split}) has no rows; choose another split.")
    sides = find_sides(dataset[0], options.languages, name)

    def read() -> Iterator[Numbered]:
        for number, row in enumerate(_rows(dataset), start=1):
            pair = sides.pair(row)
            if pair is None:
                raise DataError(f"{name}, row {number} has no text in `{sides.source}` and `{sides.target}`.")
            yield number, pair

    return PairReader(read, sides.languages or (None, None), unit="row")


def _rows(dataset: Any) -> Iterator[dict[str, Any]]:
    for columns in dataset.iter(ROWS):
        for values in zip(*columns.values(), strict=True):
            yield dict(zip(columns, values, strict=True))
