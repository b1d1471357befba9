"""Which languages the sides are in: as a whole and line by line; and pairs whose sides are exchanged.

Works on a sample. Identification is by py3langid, offline. Exchanged sides are found without it, by words that are
typical of a side in this very corpus, and so for any two languages.
"""

import math
import random
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from dragoman.data.check.places import NUM_EXAMPLES, Block, Tally
from dragoman.data.check.report import Finding, PartReport, Side, severity
from dragoman.data.readers.language_codes import close, known_code

if TYPE_CHECKING:
    from py3langid.langid import LanguageIdentifier

SAMPLE = 10_000
LINES_AT_ONCE = 20
"""Lines that are identified together, to learn what a side is in: the longer the text, the surer."""
ENOUGH_BYTES = 36
"""Bytes of UTF-8 below which a single line is not identified: 30 letters and spaces, or a dozen Chinese characters."""
SURE = 0.95
"""Probability from which on a single line counts as another language."""
MIXED = 0.4
"""Share of the lines that a language needs to be that of a side without clear majority."""
NOT_BY_CHANCE = 5
"""Lines, and SHARE of those looked at, that must be in another language: single ones are misjudged."""
SHARE = 0.02
WORD = re.compile(r"[\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff]|[^\W\d_]+")
"""A word, or a character of scripts that do not separate words."""
TYPICAL = 4.0
"""Logarithm of the odds from which on the words of a text are typical of one side."""
NO_LANGUAGE = "zxx"
ONE_SCRIPT = {"HIRAGANA": "CJK", "KATAKANA": "CJK"}


class Sampled(NamedTuple):
    """A pair and its number."""

    number: int
    source: str
    target: str


class Labelled(NamedTuple):
    """The language or script of a line."""

    number: int
    label: str | None


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
        labels = [self._label(side, pairs, index) for index, side in enumerate(sides, start=1)]
        if wrong := self._wrong_names(*sides):
            what, advice = wrong
            yield self._finding("language", what, [pair.number for pair in pairs], advice, looked_at=len(pairs))
        exchanged = set()
        if sides[0].detected is None or sides[0].detected != sides[1].detected:
            exchanged = set(exchanged_pairs(pairs))
        if exchanged:
            what, advice = "pairs with source and target exchanged", "exchange their sides and check again"
            yield self._finding("exchanged", what, sorted(exchanged), advice, looked_at=len(pairs), above=0.005)
        for name, side, labelled in zip(("source", "target"), sides, labels, strict=True):
            yield from self._foreign_lines(name, side, [line for line in labelled if line.number not in exchanged])

    @staticmethod
    def _label(side: Side, pairs: list[Sampled], index: int) -> list[Labelled]:
        """Learn the language of a side; returns those of lines that are long enough, or scripts if it is unclear."""
        long = [pair for pair in pairs if len(pair[index].encode(errors="surrogatepass")) >= ENOUGH_BYTES]
        # Of a language that it does not know, the identification gives now this one, now that.
        if side.declared is None or known_code(side.declared, known_languages()):
            labels = [sure_language(pair[index]) for pair in long]
            side.detected = main_language([pair[index] for pair in pairs], labels, expected=side.declared)
        if side.detected is None:
            labels = [script(pair[index]) for pair in long]
        return [Labelled(pair.number, label) for pair, label in zip(long, labels, strict=True)]

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

    def _foreign_lines(self, name: str, side: Side, lines: list[Labelled]) -> Iterator[Finding]:
        """Lines in another language than most of their side; where that is not known, in another script."""
        counts = Counter(line.label for line in lines if line.label)
        main = side.detected or max(counts, key=counts.__getitem__, default=None)
        for other, count in counts.items():
            if not close(other, main) and count >= max(NOT_BY_CHANCE, SHARE * len(lines)):
                numbers = [line.number for line in lines if line.label == other]
                what, advice = f"{name} lines in {other}, not {main}", "put the right text there, or remove them"
                yield self._finding("foreign", what, numbers, advice, looked_at=len(lines))

    def _finding(
        self, kind: str, what: str, numbers: list[int], advice: str, *, looked_at: int, above: float = 0.0
    ) -> Finding:
        tally, serious = Tally(len(numbers), numbers[:NUM_EXAMPLES]), severity(len(numbers), looked_at, above=above)
        return self.report.finding(kind, serious, what, tally, looked_at, advice)


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


def main_language(texts: list[str], votes: list[str | None], *, expected: str | None = None) -> str | None:
    """The language of most texts; where they are mixed, of a large part; None where it is not clear.

    `votes` are the languages of single lines. The one that the code `expected` means is preferred if many are for it.
    """
    code = known_code(expected, known_languages())
    if code and sum(vote is not None and close(vote, code) for vote in votes) > MIXED * len(votes):
        return code
    chunks = [" ".join(texts[start : start + LINES_AT_ONCE]) for start in range(0, len(texts), LINES_AT_ONCE)]
    language, share = _most_common([_most_likely(chunk) for chunk in chunks])
    if share <= 0.5:
        language, share = _most_common(votes)
    return language if share > MIXED else None


def _most_common(votes: list[str | None]) -> tuple[str | None, float]:
    """The language that most votes are for, and the share of the votes for it or for one close to it."""
    counts = Counter(vote for vote in votes if vote)
    language = max(counts, key=counts.__getitem__, default=None)
    agreeing = sum(count for other, count in counts.items() if language and close(other, language))
    return language, agreeing / max(1, len(votes))


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
