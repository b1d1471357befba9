"""How far the translations of a bilingual document can be trusted, and where they are from, for its readers."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dragoman.documents.document import Segment


@dataclass(frozen=True)
class Verdict:
    """What is known about the translation of a message."""

    confidence: float | None = None
    """The lowest confidence of its texts; None if nobody asked for it."""
    is_untranslated: bool = False
    """Whether it is to be left without a translation."""
    is_trusted: bool = False
    """Whether it is above the limit that a person has set, so that it needs no review."""
    is_remembered: bool = False
    """Whether the translation memory had all of its texts."""

    @property
    def percent(self) -> int | None:
        """The confidence as a whole number from 0 to 100."""
        return None if self.confidence is None else round(100 * self.confidence)


Review = Callable[[Sequence[Segment]], Verdict]
"""Gives the verdict on the translations of the segments of a message."""


def unknown(segments: Sequence[Segment]) -> Verdict:
    """The review of a document whose translations are not made yet, or have no confidence."""
    return Verdict()
