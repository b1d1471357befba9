"""Pairs whose sides are exchanged: single ones by their words, long stretches by their languages.

Words that are typical of a side are learned from this very corpus, which works for any two languages as long as most
pairs are in order. Where the sides are exchanged from some line on, the languages of long lines tell about where, and
words the very line.
"""

import math
from collections import Counter
from itertools import accumulate

import numpy as np

from dragoman.data_check.alignment import Stretch
from dragoman.data_check.locations import NumberedPair
from dragoman.data_check.result import PartResult
from dragoman.text.language_codes import close
from dragoman.text.scripts import WORD

TYPICAL = 4.0
"""Logarithm of the odds above which the words of a text are typical of one side."""
FIRST = 20
"""Pairs at the beginning whose sides are taken to be in order."""
EVIDENCE, PURE = 30, 0.8
"""Sides that must be in the language of the other side, less those in their own, and their least share of both."""
FROM_EACH = 5
"""Such lines that either side must have: where one changes alone, nothing is exchanged."""
AROUND = 5
"""Long lines on either side of the first one of a stretch between which it must be."""

Labels = dict[int, str | None]
"""The language or script of each line that is long enough, by pair number."""


def exchanged_pairs(pairs: list[NumberedPair]) -> list[int]:
    """Numbers of the pairs whose source has words that are typical of targets, and the reverse."""
    words = [[_words(text) for text in pair[1:]] for pair in pairs]
    seen = [Counter(word for pair in words for word in pair[side]) for side in (0, 1)]

    def exchanged(side: int, text: frozenset[str]) -> bool:
        own, other = seen[side], seen[1 - side]
        # Less 1: that a word is in this very text is no evidence.
        return sum(math.log((other[word] + 0.5) / (own[word] - 0.5)) for word in text) > TYPICAL

    return [
        pair.number
        for pair, (source, target) in zip(pairs, words, strict=True)
        if exchanged(0, source - target) and exchanged(1, target - source)
    ]


def exchanged_stretch(pairs: list[NumberedPair], labels: list[Labels], result: PartResult) -> range | None:
    """Numbers of all pairs in a stretch whose sides are in each other's languages, if there is one.

    `pairs` are a sample, and `labels` those of its sources and targets. Pairs around the first line of the stretch are
    read again.
    """
    languages = Counter(label for side in labels for label in side.values() if label)
    (own, _), (other, _) = [*languages.most_common(2), ("", 0), ("", 0)][:2]
    vote = {label: -1 if close(label, own) else int(close(label, other)) for label in languages}
    lines = ((n, vote.get(labels[0].get(n), 0), -vote.get(labels[1].get(n), 0)) for n in {*labels[0], *labels[1]})
    rows = sorted(row for row in lines if row[1] + row[2])
    votes = np.array(rows, np.int64).reshape(-1, 3)[:, 1:]
    votes *= -1 if votes[:FIRST].sum() > 0 else 1
    stretch = Stretch(distance=0, start=0)
    stretch.add(votes.sum(axis=1).astype(np.float64), 0)
    first, last = stretch.first, stretch.last
    inside = votes[first : last + 1]
    certain = stretch.best_gain >= max(EVIDENCE, PURE * np.abs(inside.sum(axis=1)).sum())
    if not (first and certain and inside.sum(axis=0).min() >= FROM_EACH):
        return None
    end = result.pairs if last > len(rows) - AROUND else rows[last][0]
    window = range(rows[max(0, first - AROUND)][0] + 1, rows[min(first + AROUND, last)][0])
    sample = [pair for pair in pairs if pair.number not in window]
    return range(
        _first_exchanged(turned(sample, range(window.stop, end + 1)), result.locations.between(window)), end + 1
    )


def _first_exchanged(sample: list[NumberedPair], pairs: list[NumberedPair]) -> int:
    """The number of the first of consecutive pairs that, with all after it, has words of the other side.

    `sample` are pairs whose sides are in order.
    """
    seen = [Counter(word for pair in sample for word in _words(pair[side])) for side in (1, 2)]

    def exchange(text: str) -> float:
        """Logarithm of the odds that a text is a target."""
        return sum(math.log((seen[1][word] + 0.5) / (seen[0][word] + 0.5)) for word in _words(text))

    sums = list(accumulate((exchange(pair.source) - exchange(pair.target) for pair in pairs), initial=0.0))
    return pairs[0].number + sums.index(min(sums))


def _words(text: str) -> frozenset[str]:
    return frozenset(WORD.findall(text.casefold()))


def turned(pairs: list[NumberedPair], stretch: range) -> list[NumberedPair]:
    """The pairs, with the sides of those in the stretch exchanged."""
    return [NumberedPair(pair.number, *pair[:0:-1]) if pair.number in stretch else pair for pair in pairs]
