"""Finds pairs whose sides are exchanged: single ones by their words, long stretches by their languages.

The words that are typical of a side are learned from the corpus that is checked. This works for any two languages, as
long as most pairs are in order. If sides are exchanged from some line on, the languages of long lines show roughly
where, and words show the exact line.
"""

import math
from collections import Counter
from itertools import accumulate

import numpy as np

from dragoman.data_check.alignment import Stretch
from dragoman.data_check.locations import NumberedPair
from dragoman.data_check.result import PartResult
from dragoman.engine.shapes import Int64
from dragoman.text.language_codes import close
from dragoman.text.scripts import WORD

TYPICAL = 4.0
"""Logarithm of the odds above which the words of a text are typical of one side."""
FIRST = 20
"""Pairs at the beginning whose sides are taken to be in order."""
EVIDENCE = 30
"""Least number of sides in the language of the other side, less those in their own, in a stretch."""
PURE = 0.8
"""Least share of this number in all sides of the stretch whose language is one of the two."""
FROM_EACH = 5
"""Least such number on either side alone: if only one side changes its language, nothing is exchanged."""
AROUND = 5
"""Long lines before and after the first one of a stretch, between which its exact beginning is searched."""

Labels = dict[int, str | None]
"""The language or script of each line that is long enough, by pair number."""


def exchanged_pairs(pairs: list[NumberedPair]) -> list[int]:
    """Numbers of the pairs whose source has words that are typical of targets, and the reverse."""
    sources = [_words(pair.source) for pair in pairs]
    targets = [_words(pair.target) for pair in pairs]
    source_counts = Counter(word for words in sources for word in words)
    target_counts = Counter(word for words in targets for word in words)

    def is_typical_of_other(words: frozenset[str], own_counts: Counter[str], other_counts: Counter[str]) -> bool:
        # Less 1: that a word is in this very text is no evidence.
        log_odds = sum(math.log((other_counts[word] + 0.5) / (own_counts[word] - 0.5)) for word in words)
        return log_odds > TYPICAL

    return [
        pair.number
        for pair, source, target in zip(pairs, sources, targets, strict=True)
        if is_typical_of_other(source - target, source_counts, target_counts)
        and is_typical_of_other(target - source, target_counts, source_counts)
    ]


def exchanged_stretch(pairs: list[NumberedPair], labels: list[Labels], result: PartResult) -> range | None:
    """Numbers of all pairs in a stretch whose sides are in each other's languages, if there is one.

    `pairs` are a sample, and `labels` those of its sources and targets. Pairs around the first line of the stretch are
    read again.
    """
    numbers, votes = _votes(*labels)
    stretch = Stretch(distance=0, start=0)
    stretch.add(votes.sum(axis=1).astype(np.float64), 0)
    first, last = stretch.first, stretch.last
    inside = votes[first : last + 1]
    is_certain = stretch.best_gain >= max(EVIDENCE, PURE * np.abs(inside.sum(axis=1)).sum())
    if first == 0 or not is_certain or inside.sum(axis=0).min() < FROM_EACH:
        return None
    end = result.pairs if last > len(numbers) - AROUND else numbers[last]
    window = range(numbers[max(0, first - AROUND)] + 1, numbers[min(first + AROUND, last)])
    in_order = turned([pair for pair in pairs if pair.number not in window], range(window.stop, end + 1))
    return range(_first_exchanged(in_order, result.locations.between(window)), end + 1)


def _votes(sources: Labels, targets: Labels) -> tuple[list[int], Int64[np.ndarray, "lines 2"]]:
    """Numbers of the long lines in the two most frequent languages, and for each a vote of its source and its target.

    A vote is 1 for a side in the language of the other side, -1 for one in its own, and 0 for any other language.
    """
    languages = Counter(label for side in (sources, targets) for label in side.values() if label)
    first_language, second_language = [*(language for language, _ in languages.most_common(2)), "", ""][:2]
    vote_of = {label: -1 if close(label, first_language) else int(close(label, second_language)) for label in languages}
    numbers: list[int] = []
    rows: list[tuple[int, int]] = []
    for number in sorted({*sources, *targets}):
        source_vote = vote_of.get(sources.get(number), 0)
        target_vote = -vote_of.get(targets.get(number), 0)
        if source_vote + target_vote:  # both sides in one language say nothing
            numbers.append(number)
            rows.append((source_vote, target_vote))
    votes = np.array(rows, np.int64).reshape(-1, 2)
    if votes[:FIRST].sum() > 0:  # the first lines are taken to be in order
        votes = -votes
    return numbers, votes


def _first_exchanged(sample: list[NumberedPair], pairs: list[NumberedPair]) -> int:
    """The number of the first of consecutive pairs that, with all after it, has words of the other side.

    `sample` are pairs whose sides are in order.
    """
    source_counts = Counter(word for pair in sample for word in _words(pair.source))
    target_counts = Counter(word for pair in sample for word in _words(pair.target))

    def log_odds(text: str) -> float:
        """Logarithm of the odds that a text is a target."""
        return sum(math.log((target_counts[word] + 0.5) / (source_counts[word] + 0.5)) for word in _words(text))

    sums = list(accumulate((log_odds(pair.source) - log_odds(pair.target) for pair in pairs), initial=0.0))
    return pairs[0].number + sums.index(min(sums))


def _words(text: str) -> frozenset[str]:
    return frozenset(WORD.findall(text.casefold()))


def turned(pairs: list[NumberedPair], stretch: range) -> list[NumberedPair]:
    """The pairs, with the sides of those in the stretch exchanged."""
    return [NumberedPair(pair.number, pair.target, pair.source) if pair.number in stretch else pair for pair in pairs]
