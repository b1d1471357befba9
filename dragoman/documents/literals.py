"""Placeholders in a translation: those that it has too often, and those that it lacks."""

from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping
from itertools import accumulate

from dragoman.decoding.alignment import Alignment, word_spans
from dragoman.documents.inline import MOST_STAND_INS
from dragoman.text.tokenizers.placeholders import literal_spans


def without_surplus(target: str, alignment: Alignment, expected: Mapping[str, int]) -> tuple[str, Alignment]:
    """A translation and its alignment without the placeholders that it has more often than `expected`.

    Later ones are left out. Those that are not expected at all may be text, such as "50 %d".
    """
    surplus: list[tuple[int, int]] = []
    counts = Counter[str]()
    for start, end in literal_spans(target):
        value = target[start:end]
        counts[value] += 1
        if counts[value] > expected.get(value, len(target)):
            surplus.append((start, end))
    if not surplus:
        return target, alignment
    parts, position = [], 0
    is_kept = [True] * len(target)
    for start, end in surplus:
        if target[start - 1 : start] in ("", " ") and target[end : end + 1] == " ":
            end += 1
        parts.append(target[position:start])
        is_kept[start:end] = [False] * (end - start)
        position = end
    shorter = "".join([*parts, target[position:]])
    positions = [0, *accumulate(is_kept)]
    starts = [start for start, _ in word_spans(shorter)]
    words: dict[int, int] = {}  # from the words of the target to those of the shorter text
    for number, (start, end) in enumerate(word_spans(target)):
        if any(is_kept[start:end]):
            words[number] = bisect_right(starts, positions[start]) - 1
    return shorter, [(source_word, words[word]) for source_word, word in alignment if word in words]


def lacking(target: str, literals: Mapping[int, str]) -> list[tuple[int, str]]:
    """The placeholders that a translation lacks, with their positions in the source: the keys of `literals`."""
    present = Counter(target[start:end] for start, end in literal_spans(target))
    missing: list[tuple[int, str]] = []
    for start, value in literals.items():
        if present[value]:
            present[value] -= 1
        else:
            missing.append((start, value))
    if len(missing) > MOST_STAND_INS:
        return missing
    # One that stands beside other characters than in the source may be there all the same.
    needed = Counter(literals.values())
    return [(start, value) for start, value in missing if target.count(value) < needed[value]]
