"""Variants of sentence pairs: the same text as people type it, in capitals, with typos, without a final mark and so on.

A model is scored on variants of its test pairs (`evaluate --variants`).
"""

import random
import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dragoman.text.characters import cut_label

Pair = tuple[str, str]

LETTERS_PER_TYPO = 30
"""A text has a typo for so many letters, and at least one."""
SHORTEST = 4
"""Fewest letters of a word with a typo; shorter ones might become other words."""
KEYBOARD = ("qwertyuiop", "asdfghjkl", "zxcvbnm")
"""Rows of a keyboard, each moved to the right by half a key."""
EMOJI = "🙂", "😂", "👍", "🎉", "😢", "❤️"
ADDRESSES = "https://example.org/a7", "www.example.com/en/12", "info@example.org"
JOINED, MOST_JOINED = "joined", 4
"""Name of the variant with several pairs in one line, and the most of them."""
_WORD = re.compile(r"[^\W\d_]+")
_APOSTROPHED = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")
_FINAL_MARK = re.compile(r"(?<!\s)\s*[.!?。！？।…]+$")
_QUESTION_MARKS = "?？"
_MARKS = {"'": "’", " - ": " – ", "...": "…"}


@dataclass(frozen=True)
class Variant:
    """A way of writing pairs."""

    name: str
    description: str
    change: Callable[[str, str, random.Random], Pair]
    """The pair in this variant, with its translation as it should then be; the same pair if nothing differs."""
    ignores_case: bool = False
    """Whether nobody can say which case a translation should have."""


@dataclass(frozen=True)
class VariedPairs:
    """The pairs of a list that a variant changes."""

    name: str
    rows: list[tuple[int, ...]]
    """Indices of the pairs from which each changed one is made; several if they are joined."""
    pairs: list[Pair]
    ignores_case: bool

    @property
    def targets(self) -> dict[tuple[int, ...], str]:
        """The changed targets by `rows`."""
        return {rows: target for rows, (_, target) in zip(self.rows, self.pairs, strict=True)}


def varied(pairs: Sequence[Pair], *, seed: int = 1, space: str = " ") -> list[VariedPairs]:
    """All variants of the pairs, each with the pairs that it changes. `space` stands between joined translations."""
    variants = []
    for variant in VARIANTS:
        rng = random.Random(f"{seed} {variant.name}")
        changed, rows = [], []
        for row, (source, target) in enumerate(pairs):
            label, text = cut_label(source)
            new_text, new_target = variant.change(text, target, rng)
            if new_text != text:
                changed.append((label + new_text, new_target))
                rows.append((row,))
        variants.append(VariedPairs(variant.name, rows, changed, variant.ignores_case))
    variants.append(_joined(pairs, random.Random(f"{seed} joined"), space))
    return [variant for variant in variants if variant.pairs]


def _joined(pairs: Sequence[Pair], rng: random.Random, space: str) -> VariedPairs:
    """Neighbouring pairs in one line, two to four of them, as long as all have the same label."""
    rows: list[tuple[int, ...]] = []
    joined: list[Pair] = []
    row = 0
    while row < len(pairs):
        count = rng.randint(2, MOST_JOINED)
        parts = list(range(row, min(row + count, len(pairs))))
        row += count
        labels = {cut_label(pairs[part][0])[0] for part in parts}
        if len(parts) == 1 or len(labels) > 1:
            continue
        texts = [cut_label(pairs[part][0])[1] for part in parts]
        rows.append(tuple(parts))
        joined.append((labels.pop() + " ".join(texts), space.join(pairs[part][1] for part in parts)))
    return VariedPairs(JOINED, rows, joined, ignores_case=False)


def capitals(source: str, target: str, rng: random.Random) -> Pair:
    """BOTH IN CAPITALS."""
    return source.upper(), target.upper()


def title(source: str, target: str, rng: random.Random) -> Pair:
    """The First Letter Of Each Word in Capitals."""
    return _APOSTROPHED.sub(_capitalised, source), _APOSTROPHED.sub(_capitalised, target)


def lower(source: str, target: str, rng: random.Random) -> Pair:
    """the source without capitals."""
    return source.lower(), target


def typos(source: str, target: str, rng: random.Random) -> Pair:
    """Some letters exchanged, left out, doubled or replaced by one beside them on the keyboard."""
    words = [match for match in _WORD.finditer(source) if len(match[0]) >= SHORTEST and _has_plain_letters(match[0])]
    letters = sum(len(match[0]) for match in words)
    if not words:
        return source, target
    count = min(len(words), max(1, letters // LETTERS_PER_TYPO))
    for match in sorted(rng.sample(words, count), key=lambda match: -match.start()):
        source = source[: match.start()] + _misspelled(match[0], rng) + source[match.end() :]
    return source, target


def no_final_mark(source: str, target: str, rng: random.Random) -> Pair:
    """Neither side with its final mark, but for question marks of the target: it is a question still."""
    short_source, short_target = _FINAL_MARK.sub("", source), _FINAL_MARK.sub("", target)
    if not short_source or not short_target or short_source == source or short_target == target:
        return source, target
    is_question = any(mark in target[len(short_target) :] for mark in _QUESTION_MARKS)
    return short_source, target if is_question else short_target


def marks(source: str, target: str, rng: random.Random) -> Pair:
    """Quotes, dashes and a space as word processors write them."""
    for plain, typeset in _MARKS.items():
        source = source.replace(plain, typeset)
    source = re.sub(r'"([^"]*)"', r"“\1”", source)
    spaces = [match.start() for match in re.finditer(" ", source)]
    if spaces:
        at = rng.choice(spaces)
        source = f"{source[:at]}\N{NO-BREAK SPACE}{source[at + 1 :]}"
    return source, target


def emoji(source: str, target: str, rng: random.Random) -> Pair:
    """An emoji at the end."""
    sign = rng.choice(EMOJI)
    return f"{source} {sign}", f"{target} {sign}"


def address(source: str, target: str, rng: random.Random) -> Pair:
    """An address at the end."""
    place = rng.choice(ADDRESSES)
    return f"{source} {place}", f"{target} {place}"


VARIANTS = (
    Variant("capitals", "sentences in capitals", capitals),
    Variant("title", "sentences Whose Words Begin With Capitals", title, ignores_case=True),
    Variant("lower", "sentences without capitals", lower, ignores_case=True),
    Variant("typos", "sentences with typos", typos),
    Variant("no-final-mark", "sentences without a final mark", no_final_mark),
    Variant("marks", "sentences with typeset quotes, dashes or spaces", marks),
    Variant("emoji", "sentences with an emoji at the end", emoji),
    Variant("address", "sentences with an address at the end", address),
)
DESCRIPTIONS = {variant.name: variant.description for variant in VARIANTS} | {JOINED: "lines of two to four sentences"}
"""What sentences are like, by the name of the variant."""


def _capitalised(match: re.Match[str]) -> str:
    return match[0][0].upper() + match[0][1:]


def _has_plain_letters(word: str) -> bool:
    """Whether each character is a letter of its own, of an alphabet in which people mistype letters."""
    return all(unicodedata.category(letter) in ("Ll", "Lu") for letter in word)


def _misspelled(word: str, rng: random.Random) -> str:
    """The word with one mistake, never in its first letter."""
    at = rng.randrange(1, len(word) - 1)
    mistakes = [
        word[:at] + word[at + 1] + word[at] + word[at + 2 :],
        word[:at] + word[at + 1 :],
        word[:at] + word[at] + word[at:],
    ]
    if beside := NEIGHBOURS.get(word[at]):
        mistakes.append(word[:at] + rng.choice(beside) + word[at + 1 :])
    return rng.choice([mistake for mistake in mistakes if mistake != word])


def _neighbours() -> dict[str, str]:
    """The letters beside each one on the keyboard."""
    places = {
        letter: (row, column + row / 2) for row, keys in enumerate(KEYBOARD) for column, letter in enumerate(keys)
    }
    neighbours = {}
    for letter, (row, column) in places.items():
        close = [
            other
            for other, (other_row, other_column) in places.items()
            if other != letter and abs(other_row - row) <= 1 and abs(other_column - column) <= 1
        ]
        neighbours[letter] = "".join(close)
    return neighbours


NEIGHBOURS = _neighbours()
"""The letters beside each one on the keyboard."""
