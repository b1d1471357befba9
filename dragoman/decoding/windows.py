"""Streams of texts in windows: how many texts are read before they are translated together."""

import time
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from dragoman.errors import UsageError

WINDOW = 2048
"""Most texts of a window."""
WINDOW_CHARACTERS = 2**20
"""Most characters of the texts that a window buffers. A longer text is translated by itself."""
Result = TypeVar("Result")


def check_window(window: int) -> None:
    if window < 1:
        raise UsageError(f"`window` is {window}; give at least 1 text.")


def windows(texts: Iterable[str | None], window: int) -> Iterator[list[str]]:
    """The texts, `window` of them together, or fewer if they are long.

    None among the texts means that there are no more for now, and ends a window.
    """
    waiting: list[str] = []
    characters = 0
    for text in texts:
        if text is not None:
            waiting.append(text)
            characters += len(text)
        if waiting and (text is None or len(waiting) == window or characters > WINDOW_CHARACTERS):
            yield waiting
            waiting, characters = [], 0
    if waiting:
        yield waiting


def in_growing_windows(
    texts: Iterable[str], window: int, translated: Callable[[list[str], int], list[Result]]
) -> Iterator[Result]:
    """`translated(texts, index of the first)` for windows of texts, each twice as large as the one before.

    So the first text is translated at once. A window is one text if reading it takes longer than translating it.
    """
    waiting: list[str] = []
    characters, num_done, group_size = 0, 0, 1
    begun = time.monotonic()
    for text in texts:
        waiting.append(text)
        characters += len(text)
        if len(waiting) < group_size and characters <= WINDOW_CHARACTERS:
            continue
        read = time.monotonic()
        results = translated(waiting, num_done)
        is_read_slowly = read - begun > time.monotonic() - read
        group_size = 1 if is_read_slowly else min(2 * group_size, window)
        num_done += len(waiting)
        waiting, characters = [], 0
        yield from results
        begun = time.monotonic()
    if waiting:
        yield from translated(waiting, num_done)
