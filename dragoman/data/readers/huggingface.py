"""Reads data sets with the library `datasets`: `hf:NAME[:CONFIG[:SPLIT]]`, from the Hugging Face Hub or a folder."""

from collections.abc import Iterator
from typing import Any

from dragoman.data.readers.fields import record_reader
from dragoman.data.readers.types import PairReader, ReaderOptions
from dragoman.errors import DataError
from dragoman.system.optional import load

HUB = "hf:"
ROWS = 1_000
"""Rows that are decoded at a time."""


def open_dataset(name: str, options: ReaderOptions) -> PairReader:
    """A reader of a data set, which is downloaded first if it is not on this machine yet."""
    dataset_name, config, split, *more = [*name.removeprefix(HUB).split(":"), "", ""]
    if not dataset_name or any(more):
        raise DataError(f"{name} names no data set; write {HUB}NAME, {HUB}NAME:CONFIG or {HUB}NAME:CONFIG:SPLIT.")
    datasets = load("datasets", extra="hf", purpose=f"Reading {name}")
    split = split or "train"
    try:
        dataset = datasets.load_dataset(dataset_name, config or None, split=split)
    # The library raises a different error for each of network, name, file and format.
    except Exception as error:
        reason = str(error).partition("\n")[0].rstrip(".") or type(error).__name__
        raise DataError(f"{name} (split {split}) cannot be loaded: {reason}; check the name or the network.") from None
    if not len(dataset):
        raise DataError(f"{name} (split {split}) has no rows; choose another split.")
    return record_reader(lambda: enumerate(_rows(dataset), start=1), options, name, "row")


def _rows(dataset: Any) -> Iterator[dict[str, Any]]:
    """The rows of a data set as records."""
    for columns in dataset.iter(ROWS):
        for values in zip(*columns.values(), strict=True):
            yield dict(zip(columns, values, strict=True))
