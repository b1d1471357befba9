"""Truecasing: a sentence in capitals, in title case or without a capital gets the case of the training sources.

A model knows words as its training sources write them, and has hardly seen any other sentences (Lita et al., 2003).
"""

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from functools import cache, partial
from typing import Self

from pydantic import BaseModel

from dragoman.text.language_codes import known_code
from dragoman.text.tokenizers.placeholders import verbatim

MOST_WORDS = 50_000
"""Most spellings that are remembered, the most frequent ones."""
USUAL, RARE = 0.9, 0.05
"""Shares of the sources. If more than the first begin with a capital, all are expected to; if fewer than the second
have capitals, none is expected to."""
SHORTEST_EMPHASIS = 3
"""Fewest letters of a word in capitals that counts as emphasis, such as NOT; US and IT are rather acronyms."""
_TAGS = re.compile(r"(?:<[^<>\s]+>\s*)+")
_CODE = r"(?<![^\W_])(?:[A-Z]+-?\d[A-Z\d-]*|(?:[A-Z]\.)+[A-Z]?)(?![^\W_])"  # AB12CD, U.S., John F. Kennedy
_LETTERS = re.compile(r"[^\W\d_]+")
_WORD = re.compile(rf"{_LETTERS.pattern}(?:['’]{_LETTERS.pattern})*")
_INNER_WORD = re.compile(rf"(?<=[\w,] ){_WORD.pattern}")
_OPENING = r"[\s\"'“„«‘‹¿¡(\[—–-]{0,3}"
_FIRST_LETTER = re.compile(rf"^({_OPENING})([^\W\d_])")
# Not after an abbreviation, three full stops, or a quotation, where the sentence may go on.
_LATER_FIRST_LETTER = re.compile(rf"((?:(?<=\w{{3}})\.|[!?])\s{_OPENING})([^\W\d_])")


class CaseTable(BaseModel, extra="forbid"):
    """How the training sources use capitals."""

    words: list[str] = []
    """Spellings of words, where they do not begin a sentence, that occur twice or more; the most frequent first. There
    is none for a script without case."""
    capitals: bool = False
    """Whether sources have capitals."""
    initials: bool = False
    """Whether sources begin with a capital."""
    nouns: bool = False
    """Whether most rare words begin with a capital, as nouns do in German."""

    @classmethod
    def learn(cls, sources: Iterable[str]) -> Self:
        """Count in one pass over the sources of training pairs."""
        counts = Counter[str]()
        total = cased = capitals = initials = 0
        for source in sources:
            total += 1
            source = _TAGS.sub("", source) if source.startswith("<") else source
            first = _LETTERS.search(source)
            if not first or source == source.upper():  # all in capitals, or in another script: this tells nothing
                continue
            cased += 1
            capitals += source != source.lower()
            initials += first[0][0].isupper()
            counts.update(_INNER_WORD.findall(source))
        if cased <= RARE * total:
            return cls()
        rare = [word for word, count in counts.items() if count == 1 and _has_case(word)]
        return cls(
            words=[word for word, count in counts.most_common(MOST_WORDS) if count > 1 and _has_case(word)],
            capitals=capitals > RARE * cased,
            initials=initials > USUAL * cased,
            nouns=2 * sum(word[0].isupper() for word in rare) > len(rare),
        )


class Truecaser:
    """Gives sentences their usual case. Symbols, tags, addresses and the like stay as they are."""

    def __init__(self, table: CaseTable, language: str | None, symbols: Collection[str] = ()):
        self.table, self.symbols = table, symbols
        self._lower, self._upper = partial(lowered, language=language), partial(raised, language=language)
        self._verbatim = verbatim(tuple(symbols), _CODE)
        self._known = frozenset(table.words)
        # Of several spellings of a word, the most frequent one is the last to be put here.
        self._spellings = {self._lower(word).casefold(): word for word in reversed(table.words)}

    def __call__(self, text: str) -> tuple[str, bool]:
        """The text in its usual case, and whether it was in capitals. A text in its usual case stays as it is."""
        parts = self._verbatim.split(text)  # every second part is to stay
        words = [word for part in parts[::2] for word in _WORD.findall(part) if _has_case(word)]
        if not (self._known and words):
            return text, False
        capitals = self._is_in_capitals(words)
        respelled, everywhere = self._respelling(words, capitals)
        if not everywhere and all(respelled(word) == word for word in words):
            return text, capitals
        begins = everywhere or respelled(words[0]) != words[0]
        for index, part in enumerate(parts):
            if index % 2:
                begins = begins and (part[0] == "<" or part in self.symbols)
                continue
            part = _WORD.sub(lambda word: respelled(word[0]), part)
            if self.table.initials:
                part = _FIRST_LETTER.sub(self._with_capital, part) if begins else part
                part = _LATER_FIRST_LETTER.sub(self._with_capital, part) if everywhere else part
            parts[index], begins = part, begins and not part.strip()
        return "".join(parts), capitals

    def _is_in_capitals(self, words: list[str]) -> bool:
        """Whether the words of a text are in capitals that are not their usual case, as that of acronyms is."""
        if not all(map(_is_upper, words)):
            return False
        return not self.table.capitals or any(len(word) > 1 and self._usual(word, str) != word for word in words)

    def _respelling(self, words: list[str], capitals: bool) -> tuple[Callable[[str], str], bool]:
        """A function that spells a word of a sentence as usual, and whether it is for all words of the sentence."""
        if not self.table.capitals:
            return self._lower, True
        if capitals or (self.table.initials and all(map(str.islower, words))):
            return self._usual, True
        if self._is_title(words):
            return self._without_title_case, True
        return self._without_emphasis, False

    def _is_title(self, words: list[str]) -> bool:
        """Whether a text is in title case: words begin with a capital that the sources write without one."""
        capitalised = [word for word in words[1:] if word[0].isupper()]
        unusual = [word for word in capitalised if not _is_acronym(word) and self._usual(word, str)[0].islower()]
        # Short words of titles may be in lower case.
        if len(unusual) < 2 or not all(word[0].isupper() for word in words[1:] if len(word) > 3):
            return False
        # Where as many words are known as names, it is no title.
        return len({*unusual} - self._known) > len(self._known.intersection(capitalised))

    def _without_title_case(self, word: str) -> str:
        return word if _is_acronym(word) else self._usual(word, str)

    def _without_emphasis(self, word: str) -> str:
        """The usual spelling of a word that stands in capitals here, but never in the sources; other words stay."""
        emphasised = len(word) >= SHORTEST_EMPHASIS and _is_upper(word) and word not in self._known
        return self._usual(word, str) if emphasised else word

    def _usual(self, word: str, unknown: Callable[[str], str] | None = None) -> str:
        """A word, or the parts between its apostrophes, as the sources spell them most often.

        `unknown` spells the parts that the sources lack; by default they are spelled as most rare words are.
        """
        unknown = unknown or self._as_rare_word
        return self._spelling(word) or _LETTERS.sub(lambda part: self._spelling(part[0]) or unknown(part[0]), word)

    def _spelling(self, word: str) -> str | None:
        """The most frequent spelling of a word in the sources, None if they lack it."""
        return self._spellings.get(self._lower(word).casefold())

    def _as_rare_word(self, word: str) -> str:
        """A word in lower case, or with a capital in languages such as German, where most rare words are nouns."""
        word = self._lower(word)
        return self._upper(word[0]) + word[1:] if self.table.nouns else word

    def _with_capital(self, match: re.Match[str]) -> str:
        return match[1] + self._upper(match[2])


def in_capitals(text: str, language: str | None) -> str:
    """A translation in capitals; tags, addresses and the like stay as they are."""
    return verbatim(()).change(text, partial(raised, language=language))


def lowered(text: str, language: str | None) -> str:
    """The text in lower case, in Turkish with a dotless i for I."""
    if _has_dotless_i(language):
        text = text.replace("İ", "i").replace("I", "ı")
    return text.lower()


def raised(text: str, language: str | None) -> str:
    """The text in upper case, in Turkish with a dotted I for i."""
    if _has_dotless_i(language):
        text = text.replace("i", "İ")
    return text.upper()


@cache
def _has_dotless_i(language: str | None) -> bool:
    return known_code(language, frozenset({"tr", "az"})) is not None


def _has_case(word: str) -> bool:
    return word.lower() != word.upper()


def _is_acronym(word: str) -> bool:
    return len(word) > 1 and _is_upper(word)


def _is_upper(word: str) -> bool:
    return word.replace("ß", "").isupper()  # capitals often leave ß as it is
