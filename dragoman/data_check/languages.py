"""The languages of the sides, as a whole and line by line, of a sample. Identification is by py3langid, offline."""

import random
from collections import Counter
from collections.abc import Collection, Iterator

from dragoman.data_check.exchanged import Labels, exchanged_pairs, exchanged_stretch, turned
from dragoman.data_check.locations import Block, NumberedPair, Tally
from dragoman.data_check.result import Check, Finding, PartResult, Side
from dragoman.text.identification import NO_LANGUAGE, SURE, identifier, known_languages, sure_language
from dragoman.text.language_codes import close, known_code
from dragoman.text.scripts import script

SAMPLE = 10_000
LINES_AT_ONCE = 20
"""Lines that are identified together to find the language of a side: the longer the text, the surer."""
ENOUGH_BYTES = 36
"""Bytes of UTF-8 below which a single line is not identified: 30 letters and spaces, or a dozen Chinese characters."""
MIXED = 0.4
"""Share of the lines above which a language is that of a side without a clear majority."""
NOT_BY_CHANCE = 5
"""Lines, and SHARE of those looked at, that must be in another language: single ones are misjudged."""
SHARE = 0.02
ONE_SCRIPT = {"HIRAGANA": "CJK", "KATAKANA": "CJK"}


class LanguageCheck(Check):
    """Samples the pairs, and identifies their languages at the end."""

    def __init__(self, result: PartResult):
        super().__init__(result)
        self.sample: list[NumberedPair] = []
        self._random = random.Random(0)

    def add(self, block: Block) -> None:
        # A later pair replaces another with falling probability, so that all are equally likely.
        for pair in block:
            if len(self.sample) < SAMPLE:
                self.sample.append(pair)
            elif (index := int(self._random.random() * pair.number)) < SAMPLE:
                self.sample[index] = pair

    def findings(self) -> Iterator[Finding]:
        """Wrong languages of whole sides, exchanged pairs, and lines in other languages."""
        pairs = sorted(pair for pair in self.sample if pair.source and pair.target)
        sides = self.result.source, self.result.target
        labels = [self._label(side, pairs, index) for index, side in enumerate(sides, start=1)]
        if stretch := exchanged_stretch(pairs, labels, self.result):
            yield self._exchanged_from(stretch)
            pairs = turned(pairs, stretch)
            labels = [self._label(side, pairs, index) for index, side in enumerate(sides, start=1)]
        for index, side in enumerate(sides):
            if side.detected is None:
                labels[index] = {pair.number: main_script(pair[index + 1]) for pair in _long(pairs, index + 1)}
        yield from self._wrong_languages([pair.number for pair in pairs])
        one_language = sides[0].detected is not None and sides[0].detected == sides[1].detected
        exchanged = set() if one_language else set(exchanged_pairs(pairs))
        if exchanged:
            yield self.result.finding("exchanged", Tally.of(sorted(exchanged)), len(pairs))
        for name, side, lines in zip(("source", "target"), sides, labels, strict=True):
            own = {number: label for number, label in lines.items() if number not in exchanged}
            yield from self._foreign_lines(name, side, own)

    @staticmethod
    def _label(side: Side, pairs: list[NumberedPair], index: int) -> Labels:
        """Sets the detected language of a side. Returns those of its lines, if they can be identified."""
        # A language that is not known is identified now as this one, now as that.
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
        detected, declared = [side.detected for side in sides], [side.declared for side in sides]
        known = [known_code(code, known_languages()) for code in declared]
        wrong = [bool(code and seen and not close(code, seen)) for code, seen in zip(known, detected, strict=True)]
        name, phrases = None, []
        if all(wrong) and close(known[0], detected[1]) and close(known[1], detected[0]):
            name = "files in the wrong order"
        elif any(wrong):
            name, described = "wrong names", zip(("source", "target"), detected, declared, strict=True)
            phrases = [f"a {side} in {d}, not {n}" for (side, d, n), bad in zip(described, wrong, strict=True) if bad]
        elif detected[0] and detected[0] == detected[1] and None in known:
            name = "one language"
        if name:
            words = {"detected": detected, "declared": declared, "sides": " and ".join(phrases)}
            yield self.result.finding(name, Tally.of(numbers), len(numbers), words)

    def _foreign_lines(self, name: str, side: Side, labels: Labels) -> Iterator[Finding]:
        """Lines in another language than most of their side; where that is not known, in another script."""
        main = side.detected or _most_common(labels.values())[0]
        for other in dict.fromkeys(filter(None, labels.values())):
            numbers = [number for number, label in labels.items() if label == other]
            if not close(other, main) and len(numbers) >= max(NOT_BY_CHANCE, SHARE * len(labels)):
                words = {"side": name, "language": other, "expected": main}
                yield self.result.finding("foreign", Tally.of(numbers), len(labels), words)


def _long(pairs: list[NumberedPair], index: int) -> Iterator[NumberedPair]:
    """The pairs whose side with this index is long enough to be identified."""
    return (pair for pair in pairs if len(pair[index].encode(errors="surrogatepass")) >= ENOUGH_BYTES)


def main_language(texts: list[str], votes: list[str | None], *, expected: str | None = None) -> str | None:
    """The language of most texts; where they are mixed, of a large part; None where it is not clear.

    `votes` are the languages of single lines. The language of the code `expected` is preferred if many are for it.
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
    agreeing = sum(count for other, count in counts.items() if close(other, language))
    return language, agreeing / max(1, len(votes))


def _most_likely(text: str) -> str | None:
    """Like `sure_language`, but languages that are close count together, and the first of them is given."""
    ranked = identifier().rank(text)
    language = ranked[0][0]
    certainty = sum(probability for other, probability in ranked if close(other, language))
    return language if certainty > SURE and language != NO_LANGUAGE else None


def main_script(text: str) -> str | None:
    """The writing system of most letters, as Unicode calls it: LATIN, CYRILLIC, CJK; None if there are no letters."""
    name, _ = _most_common([script(letter) for letter in text if letter.isalpha()])
    return ONE_SCRIPT.get(name, name)
