"""Types that all readers share: sentence pairs, entries that are none, and options."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from dragoman.text.language_codes import Languages

Pair = tuple[str, str]


@dataclass(frozen=True)
class Skipped:
    """An entry of a file that is no pair, and the reason why it is left out."""

    reason: str


Entry = Pair | Skipped
Numbered = tuple[int, Entry]
"""The number of the line on which an entry begins, or of the entry where there are no lines, and the entry."""


class ReaderOptions(NamedTuple):
    """Options of the user for how a file is read."""

    languages: tuple[str, str] | None = None
    """Source and target language, which choose the sides in formats that name languages."""
    columns: tuple[int | str, int | str] | None = None
    """Source and target column: numbers from 1, or names. None: found by what the columns hold."""
    language_column: int | str | None = None
    """The column with the target language of each pair, which becomes a label (see `dragoman.text.labels`)."""
    replace_bad_bytes: bool = False
    """Read what is not UTF-8 as U+FFFD, instead of refusing the file."""


class PairReader(NamedTuple):
    """A function that reads the pairs of a file, and facts about them."""

    read: Callable[[], Iterator[Numbered]]
    """Called once for each pass."""
    languages: Languages = (None, None)
    """Source and target language, where they are known."""
    unit: str = "line"
    """The thing that is numbered: line, row or pair."""
    remark: str = ""
    """A sentence for the user on how the file is read, to follow its name; or nothing."""
