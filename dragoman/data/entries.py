"""What the readers of all formats give: sentence pairs, and entries of a file that are none."""

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


class Reading(NamedTuple):
    """How to read the pairs of a file, once for each pass, and the languages of their sides where they are known."""

    read: Callable[[], Iterator[Entry]]
    languages: Languages = (None, None)
