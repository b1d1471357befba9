"""Documents that a server keeps until they are fetched."""

from collections.abc import Callable
from typing import Generic, TypeVar

from dragoman.serving.limits import Limits, Refusal

T = TypeVar("T")
LATER = 10
"""Seconds after which a document that was refused may be sent again."""


class KeptDocuments(Generic[T]):
    """Documents by their numbers. The oldest that are translated make room for newer ones, as the limits say."""

    def __init__(self, limits: Limits, *, size: Callable[[T], int], is_translated: Callable[[T], bool]):
        """`size` gives the bytes that a document takes."""
        self.limits, self._size, self._is_translated = limits, size, is_translated
        self.by_number: dict[str, T] = {}

    def check_room(self, size: int) -> None:
        """Raise `Refusal` if too many documents are being translated for another one of so many bytes."""
        sizes = [self._size(document) for document in self.by_number.values() if not self._is_translated(document)]
        if sizes and (len(sizes) >= self.limits.documents or sum(sizes) + size > self.limits.kept):
            raise Refusal(503, "The server translates as many documents as it can; try again later", retry_after=LATER)

    def add(self, number: str, document: T) -> None:
        """Keep a document."""
        self.by_number[number] = document
        self.drop_oldest()

    def drop_oldest(self) -> None:
        """Drop translated documents beyond the limits, but never the newest of all."""
        size = sum(map(self._size, self.by_number.values()))
        for number, document in [*self.by_number.items()][:-1]:
            if len(self.by_number) <= self.limits.documents and size <= self.limits.kept:
                break
            if self._is_translated(document):
                size -= self._size(document)
                del self.by_number[number]
