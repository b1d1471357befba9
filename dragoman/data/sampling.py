"""A sample of a stream, of fixed size."""

import random
from collections.abc import Iterable
from typing import Generic, TypeVar

Item = TypeVar("Item")


class Sample(Generic[Item]):
    """At most so many of the items that are added, all equally likely, the same ones each time."""

    def __init__(self, most: int) -> None:
        self.items: list[Item] = []
        self._most = most
        self.random = random.Random(0)

    def add(self, item: Item, number: int) -> None:
        """Add the item with this number, counted from 1; a later one replaces another with falling probability."""
        if len(self.items) < self._most:
            self.items.append(item)
            return
        index = int(self.random.random() * number)
        if index < self._most:
            self.items[index] = item


def sampled(items: Iterable[Item], most: int) -> list[Item]:
    """The sample of all `items`, which are read once."""
    sample = Sample[Item](most)
    for number, item in enumerate(items, start=1):
        sample.add(item, number)
    return sample.items
