"""What the readers of all formats give: sentence pairs, and entries of a file that are none; and what they are told."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

Pair = tuple[str, str]
Languages = tuple[str | None, str | None]


@dataclass(frozen=True)
class Skipped:
    """An entry of a file that is no pair to learn from, and why."""

    reason: str


Entry = Pair | Skipped
Numbered = tuple[int, Entry]
"""An entry after the line on which it begins."""


class ReaderOptions(NamedTuple):
    """What the user wants of a file beside its pairs."""

    languages: tuple[str, str] | None = None
    """Source and target, which choose the sides in formats that name them."""
    replace_bad_bytes: bool = False
    """Read what is not UTF-8 as U+FFFD, instead of refusing the file."""


class PairReader(NamedTuple):
    """How to read the pairs of a file, once for each pass, and the languages of their sides where they are known."""

    read: Callable[[], Iterator[Numbered]]
    languages: Languages = (None, None)
    unit: str = "line"
    """What the numbers count."""
