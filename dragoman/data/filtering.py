"""Pairs that are left out of training: those that break a rule, and those that repeat others."""

import re
from array import array
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from dragoman.config.data import CleaningConfig
from dragoman.data.overlap import overlap
from dragoman.text.identification import is_foreign
from dragoman.text.language_codes import Languages

# Line and paragraph ends inside a sentence are odd, but no damage; \t and \r come from tables and Windows.
CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
LOST = "\N{REPLACEMENT CHARACTER}"
HELD_OUT, REPEATED = "source is in held-out data", "repeats another pair"
"""Reasons to drop a pair that do not follow from the pair alone."""
SLACK = 10
"""Characters that are added to the shorter side before lengths are compared: "Go." may be said in many ways."""


@dataclass
class CleaningReport:
    """Numbers of one pass: pairs that were read, pairs that were dropped by reason, and pairs that were kept."""

    read: int = 0
    dropped: Counter[str] = field(default_factory=Counter)
    weighted: int = 0
    """Pairs that were kept, each counted as often as the weight of its corpus says."""
    sizes: list[int] = field(default_factory=list)
    """Pairs of each corpus that were kept."""


def reason_to_drop(
    source: str, target: str, rules: CleaningConfig | None, languages: Languages = (None, None)
) -> str | None:
    """The reason to leave a normalised pair of these languages out of training, or None.

    Without `rules`, only an empty side is a reason.
    """
    if not source or not target:
        return "target is empty" if source else "source is empty"
    if rules is None:
        return None
    if _is_damaged(source) or _is_damaged(target):
        return "damaged characters (control characters, U+FFFD)"
    shorter, longer = sorted((len(source), len(target)))
    if rules.max_characters is not None and longer > rules.max_characters:
        return f"a side is longer than {rules.max_characters:,} characters"
    if rules.max_ratio is not None and longer > rules.max_ratio * (shorter + SLACK):
        return f"one side is more than {rules.max_ratio:g} times as long as the other"
    if rules.max_copied is not None and longer > rules.max_copied and source == target:
        return "both sides are the same text"
    return _translated_badly(source, target, rules, languages)


def _translated_badly(source: str, target: str, rules: CleaningConfig, languages: Languages) -> str | None:
    if rules.max_overlap is not None and overlap(source, target) > rules.max_overlap:
        return f"more than {rules.max_overlap:.0%} of the words of a side are in the other, too"
    if rules.check_languages:
        if is_foreign(source, languages[0], target):
            return f"source is in another language than {languages[0]}"
        if is_foreign(target, languages[1], source):
            return f"target is in another language than {languages[1]}"
    return None


def _is_damaged(text: str) -> bool:
    # Most text is printable, and to see that is much faster than to search a pattern.
    return LOST in text or (not text.isprintable() and CONTROL.search(text) is not None)


class Seen:
    """Remembers pairs or sentences by 64-bit hashes: 8 bytes for each of a large number, and no text.

    Of two million, two different ones have the same hash once in ten million runs.
    """

    RECENT = 1 << 19
    """Hashes that are kept in a set before they are merged into the sorted array of the others."""

    def __init__(self):
        self._recent: set[int] = set()
        self._sorted: Any = array("q")

    def add(self, hashes: Iterable[int]) -> list[bool]:
        """Remember pairs or sentences by their hashes, in order. Returns for each whether it is new."""
        hashes = array("q", hashes)
        known = [False] * len(hashes)
        if len(self._sorted):
            import numpy as np  # which takes longer to load than most corpora to read

            wanted = np.frombuffer(hashes, np.int64)
            indices = np.searchsorted(self._sorted[:-1], wanted)
            known = (self._sorted[indices] == wanted).tolist()
        new: list[bool] = []
        recent = self._recent
        for value, is_known in zip(hashes, known, strict=True):
            is_new = not is_known and value not in recent
            if is_new:
                recent.add(value)
            new.append(is_new)
        if len(self._recent) >= self.RECENT:
            import numpy as np

            added = np.sort(np.fromiter(self._recent, np.int64))
            # The stable kind merges runs that are sorted already.
            self._sorted = np.sort(np.concatenate([self._sorted, added]), kind="stable")
            self._recent.clear()
        return new
