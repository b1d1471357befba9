"""Checks the languages of the sides of a sample, as a whole and line by line. py3langid identifies them, offline."""

import random
from collections import Counter
from collections.abc import Collection, Iterator
from functools import cached_property

from dragoman.data.sampling import Sample
from dragoman.data_check.exchanged import Labels, exchanged_pairs, exchanged_stretch, turned
from dragoman.data_check.locations import Block, NumberedPair, Tally
from dragoman.data_check.result import Check, Example, Finding, PartResult, Side
from dragoman.text.characters import normalised, without_label
from dragoman.text.identification import (
    LINES_AT_ONCE,
    LONG,
    NO_LANGUAGE,
    SURE,
    identifier,
    known_languages,
    sure_language,
)
from dragoman.text.language_codes import close, known_code
from dragoman.text.respelling import Respelling, learn_respelling
from dragoman.text.scripts import script

SAMPLE = 10_000
"""Most pairs of a sample."""
MIXED = 0.4
"""If no language has a clear majority, the one with more than this share of the lines is that of a side."""
NOT_BY_CHANCE = 5
"""Least number of lines in another language that is reported: the languages of single lines are misjudged."""
SHARE = 0.02
"""Least share of such lines in those that were identified."""
ONE_SCRIPT = {"HIRAGANA": "CJK", "KATAKANA": "CJK"}
"""Scripts that are used together count as one."""


class LanguageCheck(Check):
    """Samples the pairs, and identifies their languages at the end."""

    def __init__(self, result: PartResult):
        super().__init__(result)
        self.sample = Sample[NumberedPair](SAMPLE)

    def add(self, block: Block) -> None:
        for pair in block:
            self.sample.add(pair, pair.number)

    def examples(self, count: int) -> list[Example]:
        """So many pairs of the sample, or all of it, the same ones each time."""
        pairs = list(self.sample.items)
        random.Random(0).shuffle(pairs)
        locations = self.result.locations
        return [Example(pair.source, pair.target, locations[pair.number]) for pair in pairs[:count]]

    @cached_property
    def pairs(self) -> list[NumberedPair]:
        """The pairs of the sample in their order, without those that have an empty side."""
        return sorted(pair for pair in self.sample.items if pair.source and pair.target)

    @cached_property
    def respellings(self) -> list[Respelling | None]:
        """How to write the texts of each side in one spelling; None if they are."""
        return [
            learn_respelling(map(spelled, (pair[index] for pair in self.pairs)), language=side.declared)
            for index, side in enumerate((self.result.source, self.result.target), start=1)
        ]

    def _script(self, pair: NumberedPair, index: int) -> str | None:
        """The script of a side, and that of most where a language has two."""
        text, respelling = spelled(pair[index + 1]), self.respellings[index]
        return main_script(respelling(text) if respelling else text)

    def findings(self) -> Iterator[Finding]:
        """Wrong languages of whole sides, exchanged pairs, and lines in other languages."""
        pairs = self.pairs
        sides = self.result.source, self.result.target
        labels = self._identify_sides(pairs)
        if stretch := exchanged_stretch(pairs, labels, self.result):
            yield self._exchanged_from(stretch)
            pairs = turned(pairs, stretch)
            labels = self._identify_sides(pairs)
        for index, side in enumerate(sides):
            if side.detected is None:
                labels[index] = {pair.number: self._script(pair, index) for pair in _long(pairs, index + 1)}
        yield from self._wrong_languages([pair.number for pair in pairs])
        one_language = sides[0].detected is not None and sides[0].detected == sides[1].detected
        exchanged = set() if one_language else set(exchanged_pairs(pairs))
        if exchanged:
            yield self.result.finding("exchanged", Tally.of(sorted(exchanged)), len(pairs))
        for name, side, lines in zip(("source", "target"), sides, labels, strict=True):
            in_order = {number: label for number, label in lines.items() if number not in exchanged}
            yield from self._foreign_lines(name, side, in_order)

    def _identify_sides(self, pairs: list[NumberedPair]) -> list[Labels]:
        """Sets the detected languages of both sides. Returns the languages of their lines."""
        sides = self.result.source, self.result.target
        return [self._identify_side(side, pairs, index) for index, side in enumerate(sides, start=1)]

    @staticmethod
    def _identify_side(side: Side, pairs: list[NumberedPair], index: int) -> Labels:
        """Sets the detected language of a side. Returns the languages of its lines, if they can be identified."""
        # Lines in a language that the identifier does not know would be taken for many others.
        if side.declared is not None and not known_code(side.declared, known_languages()):
            return {}
        labels = {pair.number: sure_language(pair[index]) for pair in _long(pairs, index)}
        side.detected = main_language([pair[index] for pair in pairs], list(labels.values()), expected=side.declared)
        return labels

    def _exchanged_from(self, stretch: range) -> Finding:
        locations, pairs = self.result.locations, self.result.pairs
        end = "the end" if stretch[-1] == pairs else f"about {locations[stretch[-1]].name}"
        words = {"begin": locations[stretch[0]].name, "end": end}
        return self.result.finding("exchanged from", Tally(len(stretch), [stretch[0]]), pairs, words)

    def _wrong_languages(self, numbers: list[int]) -> Iterator[Finding]:
        """A side in another language than its file name says, or both in the same."""
        sides = self.result.source, self.result.target
        detected = [side.detected for side in sides]
        declared = [side.declared for side in sides]
        known = [known_code(code, known_languages()) for code in declared]
        is_wrong = [
            bool(code and language and not close(code, language))
            for code, language in zip(known, detected, strict=True)
        ]
        name: str | None = None
        phrases: list[str] = []
        if all(is_wrong) and close(known[0], detected[1]) and close(known[1], detected[0]):
            name = "files in the wrong order"
        elif any(is_wrong):
            name = "wrong names"
            for index, side in enumerate(("source", "target")):
                if is_wrong[index]:
                    phrases.append(f"a {side} in {detected[index]}, not {declared[index]}")
        elif detected[0] and detected[0] == detected[1] and None in known:
            name = "one language"
        if name:
            words = {"detected": detected, "declared": declared, "sides": " and ".join(phrases)}
            yield self.result.finding(name, Tally.of(numbers), len(numbers), words)

    def _foreign_lines(self, name: str, side: Side, labels: Labels) -> Iterator[Finding]:
        """Lines in another language than most of their side; where that is not known, in another script."""
        main = side.detected or _most_common(labels.values())[0]
        for language in dict.fromkeys(filter(None, labels.values())):
            numbers = [number for number, label in labels.items() if label == language]
            if not close(language, main) and len(numbers) >= max(NOT_BY_CHANCE, SHARE * len(labels)):
                words = {"side": name, "language": language, "expected": main}
                yield self.result.finding("foreign", Tally.of(numbers), len(labels), words)


def spelled(text: str) -> str:
    """A text as spellings are looked for in it: without a label, and normalised."""
    return normalised(without_label(text))


def _long(pairs: list[NumberedPair], index: int) -> Iterator[NumberedPair]:
    """The pairs whose side with this index is long enough to be identified."""
    return (pair for pair in pairs if len(pair[index].encode(errors="surrogatepass")) >= LONG)


def main_language(texts: list[str], votes: list[str | None], *, expected: str | None = None) -> str | None:
    """The language of most texts, or of a large part of mixed texts; None if none is clear.

    `votes` are the languages of single lines. The language with the code `expected` is preferred if it has many votes.
    """
    code = known_code(expected, known_languages())
    if code and sum(vote is not None and close(vote, code) for vote in votes) > MIXED * len(votes):
        return code
    chunks = [" ".join(texts[start : start + LINES_AT_ONCE]) for start in range(0, len(texts), LINES_AT_ONCE)]
    language, share = _most_common([_most_likely(chunk) for chunk in chunks])
    if share <= 0.5:
        language, share = _most_common(votes)
    return language if share > MIXED else None


def _most_common(votes: Collection[str | None]) -> tuple[str | None, float]:
    """The language or script with the most votes, and the share of the votes for it or for one close to it."""
    counts = Counter(filter(None, votes))
    language = max(counts, key=counts.__getitem__, default=None)
    agreeing = sum(count for label, count in counts.items() if close(label, language))
    return language, agreeing / max(1, len(votes))


def _most_likely(text: str) -> str | None:
    """Like `sure_language`, but languages that are close count together, and the likeliest of them is returned."""
    ranked = identifier().rank(text)
    language = ranked[0][0]
    certainty = sum(probability for code, probability in ranked if close(code, language))
    return language if certainty > SURE and language != NO_LANGUAGE else None


def main_script(text: str) -> str | None:
    """The writing system of most letters, as Unicode calls it: LATIN, CYRILLIC, CJK; None if there are no letters."""
    name, _ = _most_common([script(letter) for letter in text if letter.isalpha()])
    return ONE_SCRIPT.get(name, name)
