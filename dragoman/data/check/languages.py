"""Which languages the sides are in: as a whole and line by line; and pairs whose sides are exchanged.

Works on a sample. Identification is by py3langid, offline. Exchanged sides are found without it, by words that are
typical of a side in this very corpus, and so for any two languages.
"""

import math
import random
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from dragoman.data.check.codes import close, known_code
from dragoman.data.check.report import NUM_EXAMPLES, Block, Finding, PartReport, Side, Tally

if TYPE_CHECKING:
    from py3langid.langid import LanguageIdentifier

SAMPLE = 10_000
LINES_AT_ONCE = 20
"""Lines that are identified together, to learn what a side is in: the longer the text, the surer."""
LETTERS = 30
"""Letters below which a single line is not identified."""
SURE = 0.95
"""Probability from which on a single line counts as another language."""
NOT_BY_CHANCE = 5
"""Lines, and SHARE of those looked at, that must be in another language: single ones are misjudged."""
SHARE = 0.02
WORD = re.compile(r"[\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff]|[^\W\d_]{2,}")
"""A word, or a character of scripts that do not separate words; single letters are lists, not language."""
TYPICAL = 4.0
"""Logarithm of the odds from which on the words of a text are typical of one side."""
NO_LANGUAGE = "zxx"
ONE_SCRIPT = {"HIRAGANA": "CJK", "KATAKANA": "CJK"}

Line = tuple[int, str]


class Sampled(NamedTuple):
    """A pair and its number."""

    number: int
    source: str
    target: str


class Languages:
    """Draws the sample, and looks at it in the end."""

    def __init__(self, report: PartReport):
        self.report = report
        self.sample: list[Sampled] = []
        self._random = random.Random(0)

    def add(self, block: Block) -> None:
        """Draw from a block: a later pair replaces another with falling probability, so that all are equally likely."""
        for pair in map(Sampled._make, block.numbered()):
            if len(self.sample) < SAMPLE:
                self.sample.append(pair)
            elif (place := int(self._random.random() * pair.number)) < SAMPLE:
                self.sample[place] = pair

    def findings(self) -> Iterator[Finding]:
        """Sides that are exchanged, and languages that are not what they say."""
        pairs = sorted(pair for pair in self.sample if pair.source and pair.target)
        sides = self.report.source, self.report.target
        for index, side in enumerate(sides, start=1):
            # Of a language that it does not know, the identification gives now this one, now that.
            if side.declared is None or known_code(side.declared, known_languages()):
                side.detected = main_language([pair[index] for pair in pairs])
        if wrong := self._wrong_names(*sides):
            what, advice = wrong
            yield self._finding("language", what, [pair.number for pair in pairs], advice, looked_at=len(pairs))
        numbers = set()
        if sides[0].detected is None or sides[0].detected != sides[1].detected:
            numbers = set(exchanged_pairs(pairs))
        if numbers:
            what, advice = "pairs with source and target exchanged", "exchange their sides"
            yield self._finding("exchanged", what, sorted(numbers), advice, looked_at=len(pairs), above=0.005)
        for name, index, side in zip(("source", "target"), (1, 2), sides, strict=True):
            yield from self._foreign_lines(name, side, [(p.number, p[index]) for p in pairs if p.number not in numbers])

    def _wrong_names(self, source: Side, target: Side) -> tuple[str, str] | None:
        """What is wrong, and what to do, if a side is in another language than its file name says, or than expected."""
        said = [known_code(side.declared, known_languages()) for side in (source, target)]
        seen = [source.detected, target.detected]
        wrong = [bool(s and d and not close(s, d)) for s, d in zip(said, seen, strict=True)]
        if all(wrong) and close(said[0], seen[1]) and close(said[1], seen[0]):
            what = f"pairs from {seen[0]} to {seen[1]}, not from {source.declared} to {target.declared}"
            return what, "give the two files in the other order"
        named = zip(("source", "target"), (source, target), wrong, strict=True)
        if phrases := [f"a {name} in {side.detected}, not {side.declared}" for name, side, bad in named if bad]:
            what = f"pairs with {' and '.join(phrases)}"
            return what, "see whether these are the right files, under the right names"
        if seen[0] and seen[0] == seen[1] and None in said:
            what = f"pairs with both sides in {seen[0]}"
            return what, "see whether these are the right files: there is nothing to translate"
        return None

    def _foreign_lines(self, name: str, side: Side, lines: list[Line]) -> Iterator[Finding]:
        """Lines in another language than most of their side; where that is not known, in another script."""
        label: Callable[[str], str | None] = script if side.detected is None else sure_language
        long = [(number, text) for number, text in lines if sum(map(str.isalpha, text)) >= LETTERS]
        labelled = [(number, label(text)) for number, text in long]
        counts = Counter(found for _, found in labelled if found)
        main = side.detected or max(counts, key=counts.__getitem__, default=None)
        for other, count in counts.items():
            if not close(other, main) and count >= max(NOT_BY_CHANCE, SHARE * len(long)):
                numbers = [number for number, found in labelled if found == other]
                what, advice = f"{name} lines in {other}, not {main}", "put the right text there, or remove them"
                yield self._finding("foreign", what, numbers, advice, looked_at=len(long))

    def _finding(
        self, kind: str, what: str, numbers: list[int], advice: str, *, looked_at: int, above: float = 0.0
    ) -> Finding:
        tally = Tally(len(numbers), numbers[:NUM_EXAMPLES])
        severity = tally.serious(looked_at, above=above)
        return Finding(kind, severity, what, tally, looked_at, advice, self.report.part)


def exchanged_pairs(pairs: list[Sampled]) -> list[int]:
    """Numbers of the pairs with a source of words that are typical of targets, and the reverse."""
    words = [[frozenset(WORD.findall(text.casefold())) for text in pair[1:]] for pair in pairs]
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


@cache
def _identifier() -> "LanguageIdentifier":
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)


@cache
def known_languages() -> frozenset[str]:
    """The codes that the identification can give: ISO 639, of two letters where there is one."""
    return frozenset(_identifier().labels) - {NO_LANGUAGE}


def sure_language(text: str) -> str | None:
    """The language of a text, or None where that is not clear."""
    language, probability = _identifier().classify(text)
    return language if probability > SURE and language != NO_LANGUAGE else None


def main_language(texts: list[str]) -> str | None:
    """The language of most texts; None where most are not clear."""
    chunks = [" ".join(texts[start : start + LINES_AT_ONCE]) for start in range(0, len(texts), LINES_AT_ONCE)]
    votes = Counter(_most_likely(chunk) for chunk in chunks)
    language = max(votes, key=votes.__getitem__, default=None)
    count = sum(n for other, n in votes.items() if other and language and close(other, language))
    return language if 2 * count > len(chunks) else None


def _most_likely(text: str) -> str | None:
    """Like `sure_language`, but languages that are close count together, and the first of them is given."""
    ranked = _identifier().rank(text)
    language = ranked[0][0]
    certainty = sum(probability for other, probability in ranked if close(other, language))
    return language if certainty > SURE and language != NO_LANGUAGE else None


def script(text: str) -> str | None:
    """The writing system of most letters, as Unicode calls it: LATIN, CYRILLIC, CJK; None if there are no letters."""
    names = Counter(unicodedata.name(letter, "").partition(" ")[0] for letter in text if letter.isalpha())
    name = max(names, key=names.__getitem__, default=None)
    return ONE_SCRIPT.get(name, name)
