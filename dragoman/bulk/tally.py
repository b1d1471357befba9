"""Counts what is found in a stream of any length, and keeps the first of it to be named."""

from dataclasses import dataclass, field

MOST_KEPT = 50
"""Items that are kept."""


@dataclass
class Tally:
    """The number of some items, and the first ones."""

    count: int = 0
    first: list[str] = field(default_factory=list)

    def add(self, item: str) -> None:
        """Count an item."""
        self.count += 1
        if len(self.first) < MOST_KEPT:
            self.first.append(item)

    def listed(self, *, separator: str = "; ") -> str:
        """The first items in a line, and how many more there are."""
        more = self.count - len(self.first)
        return separator.join(self.first) + (f" and {more:,} more" if more else "")
