"""Spells a text by the longest of known parts."""

from collections.abc import Container, Iterator
from typing import TypeVar

T = TypeVar("T", str, bytes)
LONGEST_PART = 64
"""Most characters or bytes of a part."""


def longest_parts(text: T, known: Container[T]) -> Iterator[T]:
    """The longest known parts of a text, from left to right; what begins no known part stands alone."""
    position = 0
    while position < len(text):
        ends = range(min(len(text), position + LONGEST_PART), position, -1)
        end = next((end for end in ends if text[position:end] in known), position + 1)
        yield text[position:end]
        position = end
