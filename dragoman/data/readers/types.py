"""Types that all readers share: sentence pairs, entries that are none, and options."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from dragoman.text.language_codes import Languages

Pair = tuple[str, str]


@dataclass(frozen=True)
class Skipped:
    """An entry of a file that is left out, and why."""

    reason: str


Entry = Pair | Skipped
Numbered = tuple[int, Entry]
"""The line on which an entry begins, or its number where there are no lines, and the entry."""


class ReaderOptions(NamedTuple):
    """How the user wants a file to be read."""

    languages: tuple[str, str] | None = None
    """Source and target, which choose the sides in formats that name them."""
    columns: tuple[int | str, int | str] | None = None
    """Source and target column: numbers from 1, or names. None: found by what the columns hold."""
    language_column: int | str | None = None
    """The column with the target language of each pair, which becomes a label (see `dragoman.text.labels`)."""
    replace_bad_bytes: bool = False
    """Read what is not UTF-8 as U+FFFD, instead of refusing the file."""


class PairReader(NamedTuple):
    """How to read the pairs of a file, once for each pass, and the languages of their sides where they are known."""

    read: Callable[[], Iterator[Numbered]]
    languages: Languages = (None, None)
    unit: str = "line"
    """What the numbers count: lines, rows or pairs."""
    remark: str = ""
    """What a person should know about how the file is read, as a sentence that follows its name."""
