"""Documents that a server keeps until they are fetched."""

from collections.abc import Callable
from typing import Generic, TypeVar

from dragoman.serving.limits import Limits, Refusal

T = TypeVar("T")
LATER = 10
"""Seconds after which a document that was refused may be sent again."""


class KeptDocuments(Generic[T]):
    """Documents by their numbers. When there are too many, the oldest translated ones are dropped."""

    def __init__(self, limits: Limits, *, size: Callable[[T], int], is_translated: Callable[[T], bool]):
        """`size` returns the bytes that a document takes in memory."""
        self.limits = limits
        self._size = size
        self._is_translated = is_translated
        self.by_number: dict[str, T] = {}

    def check_room(self, size: int) -> None:
        """Raise `Refusal` if so many documents are being translated that there is no room for one of `size` bytes."""
        sizes = [self._size(document) for document in self.by_number.values() if not self._is_translated(document)]
        if sizes and (len(sizes) >= self.limits.documents or sum(sizes) + size > self.limits.kept):
            raise Refusal(503, "The server translates as many documents as it can; try again later", retry_after=LATER)

    def add(self, number: str, document: T) -> None:
        """Keep a document, and drop others if there are too many."""
        self.by_number[number] = document
        self.drop_oldest()

    def drop_oldest(self) -> None:
        """Drop the oldest translated documents until the rest is within the limits, but never the newest document."""
        size = sum(map(self._size, self.by_number.values()))
        for number, document in list(self.by_number.items())[:-1]:
            if len(self.by_number) <= self.limits.documents and size <= self.limits.kept:
                break
            if self._is_translated(document):
                size -= self._size(document)
                del self.by_number[number]
