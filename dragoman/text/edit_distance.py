"""Edit distance (Levenshtein 1966) between sequences of tokens, and the similarity that follows from it.

All rows of the usual table are computed as the bits of whole numbers (Myers 1999, in the form of Hyyrö 2003): a column
takes a dozen operations, however long the other sequence is.
"""

from collections.abc import Hashable, Sequence

LEAST_SIMILAR = 0.5
"""Similarity from which the translation of a sentence helps with another one, in training and in translating."""


class Compared:
    """A sequence that others are compared with."""

    def __init__(self, items: Sequence[Hashable]):
        self.items = items
        self._rows: dict[Hashable, int] = {}
        """For each item the rows of the table, as bits, at which it stands."""
        for row, item in enumerate(items):
            self._rows[item] = self._rows.get(item, 0) | 1 << row

    def distance(self, others: Sequence[Hashable]) -> int:
        """Fewest items to insert, delete or replace to turn one sequence into the other."""
        size = len(self.items)
        if not size:
            return len(others)
        every, last = (1 << size) - 1, 1 << (size - 1)
        # Rows at which the table rises, and falls, by 1 from one row to the next.
        rises, falls = every, 0
        distance = size
        for item in others:
            equal = self._rows.get(item, 0)
            diagonal = (((equal & rises) + rises) ^ rises) | equal | falls
            # The same from the last column to this one.
            right_rises, right_falls = falls | ~(diagonal | rises) & every, rises & diagonal
            distance += bool(right_rises & last) - bool(right_falls & last)
            right_rises, right_falls = right_rises << 1 | 1, right_falls << 1
            rises = (right_falls | ~(equal | falls | right_rises)) & every
            falls = right_rises & (equal | falls) & every
        return distance

    def similarity(self, others: Sequence[Hashable]) -> float:
        """Share of the longer sequence that need not be edited, from 0 to 1."""
        longer = max(len(self.items), len(others))
        return 1 - self.distance(others) / longer if longer else 1.0
