"""Languages in Cyrillic and in Latin letters, such as Serbian: texts in the one are written in the other.

Both alphabets of a language spell it sound by sound, so a letter of the one is one or two letters of the other. Which
ones is learned from the words. Some letters are alike in all languages (б is b). With these, a word such as `шума` has
one letter that is not known, and where the Latin words have `šuma`, this letter is š.
"""

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

from dragoman.text.characters import in_same_case
from dragoman.text.language_codes import plain_code
from dragoman.text.orthographies import LONGEST, SHARE, surroundings
from dragoman.text.patterns import LazyPattern
from dragoman.text.scripts import SPELLED_WORD
from dragoman.text.spelling import APOSTROPHES
from dragoman.text.tokenizers.placeholders import Verbatim, verbatim
from dragoman.text.truecasing import lowered, raised

LATIN, CYRILLIC = "Latin", "Cyrillic"
ALIKE = dict(zip("абвгдезиклмнопрстуф", "abvgdeziklmnoprstuf", strict=True))
"""Letters that stand for the same sound in all languages, or nearly; what the words say of a language replaces them."""
MOST_WORDS, WORD_LENGTHS = 20_000, range(3, 31)
"""Different words of a script that letters are learned from, and their numbers of letters."""
VOTES = 3
"""Fewest words that must agree on a letter."""
OF_BEST = 0.1
"""Fewest votes, as a share of those for its Latin letter, by which a Cyrillic one has another one, too."""
TURNS = 6
"""Most rounds of voting. Each begins with the letters that the one before has brought."""
SHARE_KNOWN, FEWEST_KNOWN = 0.4, 20
"""The two scripts have the same language if so many of the running words of the rarer one are words of the other one,
as a share, and so many different ones: 82 % in Tatoeba's Serbo-Croatian, and 42 % in 152 sentences of its Uzbek among
435. Macedonian among Serbian has 31 %, Lingua Franca Nova among Interlingua 38 %, and unrelated languages less."""
LENGTHS_KNOWN = range(4, 31)
"""Numbers of letters of the words for that; shorter ones are alike by chance."""
_CYRILLIC = LazyPattern("[\u0400-\u052f]")
_LATIN = LazyPattern("[A-Za-z\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u02af\u1e00-\u1eff]")
_FILE_OR_HOST = r"[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]{2,})+"
_ROMAN_NUMERAL = re.compile("[IVXLCDM]{2,}")
_ONE_APOSTROPHE = dict.fromkeys(map(ord, (*APOSTROPHES, "ʻ", "ʹ")), "'")


@dataclass(frozen=True)
class Transliteration:
    """Writes texts of a language in Cyrillic letters with Latin ones, or the other way round."""

    into: str
    """`LATIN` or `CYRILLIC`."""
    latin: Mapping[str, str]
    """The Latin letters of each Cyrillic one, in lower case."""
    words: Mapping[str, str]
    """Cyrillic words by how they are written in Latin letters, in lower case, where the letters alone would give other
    ones: Serbian `nj` is њ, but in some words нј."""
    others: Mapping[str, str] = field(default_factory=dict)
    """Cyrillic letters for Latin ones that `latin` lacks: Tatar к is q or k."""
    casing: str | None = None
    """A language whose capitals this one has: "tr" if it tells ı from i."""
    kept: tuple[str, ...] = ()
    """Texts that are never changed; addresses and names of files and hosts are not, either."""

    def __call__(self, text: str) -> str:
        """The text in the other script; a text that is not in the one to replace, or has unknown letters, stays."""
        if script_of(text) in (None, self.into):
            return text
        if self.into == CYRILLIC:
            written = self._verbatim.change(text, self._in_cyrillic)
        elif {*_CYRILLIC.findall(text.lower())} <= self.latin.keys():
            written = self._verbatim.change(text, self._in_latin)
        else:
            return text
        return unicodedata.normalize("NFC", written)

    def _in_latin(self, text: str) -> str:
        return "".join(
            self._in_case(letter, self.latin.get(letter.lower(), letter), text, index, index + 1)
            for index, letter in enumerate(text)
        )

    def _in_cyrillic(self, text: str) -> str:
        """A text with its words in Cyrillic letters. Roman numerals stay, in a text that is not all in capitals."""
        written, end = [], 0
        # There are several apostrophes, and all of them may stand in words.
        for match in SPELLED_WORD.finditer(text.translate(_ONE_APOSTROPHE)):
            word = match[0]
            is_numeral = _ROMAN_NUMERAL.fullmatch(word) and not text.isupper()
            if not is_numeral and (letters := self.cyrillic_letters(word)):
                written += [text[end : match.start()], self._with_letters(word, letters)]
                end = match.end()
        return "".join([*written, text[end:]])

    def _with_letters(self, word: str, letters: Iterable[tuple[str, str]]) -> str:
        written, start = [], 0
        for old, new in letters:
            end = start + len(old)
            written.append(self._in_case(word[start:end], new, word, start, end))
            start = end
        return "".join(written)

    def _in_case(self, old: str, new: str, text: str, start: int, end: int) -> str:
        return in_same_case(old, new, text[start - 1 : start], text[end : end + 1], self._raised)

    def cyrillic_letters(self, word: str) -> list[tuple[str, str]] | None:
        """The parts of a Latin word, in lower case, with the Cyrillic letter of each.

        None if one stands for no letter, as in foreign names.
        """
        lower = lowered(word, self.casing)
        if known := self.words.get(lower):
            return [(self.latin[letter], letter) for letter in known]
        letters = [(part, self._cyrillic.get(part, "")) for part in self._parts(lower)]
        return letters if len(lower) == len(word) and all(letter for _, letter in letters) else None

    def _parts(self, word: str) -> Iterator[str]:
        """The parts of a Latin word in lower case, each of which is one Cyrillic letter, and as long as can be."""
        start = 0
        while start < len(word):
            parts = (word[start : start + length] for length in range(LONGEST, 0, -1))
            part = next((part for part in parts if part in self._cyrillic), word[start])
            yield part
            start += len(part)

    @cached_property
    def _verbatim(self) -> Verbatim:
        return verbatim(self.kept, _FILE_OR_HOST)

    @cached_property
    def _raised(self) -> Callable[[str], str]:
        return partial(raised, language=self.casing)

    @cached_property
    def _cyrillic(self) -> dict[str, str]:
        """The Cyrillic letter for Latin ones; the one that comes first in the alphabet where there are several."""
        alike = {letters: letter for letter, letters in ALIKE.items()}
        learned = {letters: letter for letter, letters in sorted(self.latin.items(), reverse=True)}
        return {**alike, **self.others, **learned}

    def __str__(self) -> str:
        return f"{CYRILLIC} > {LATIN}" if self.into == LATIN else f"{LATIN} > {CYRILLIC}"


def script_of(text: str) -> str | None:
    """`CYRILLIC` or `LATIN`: what most letters of a text are; None for neither."""
    cyrillic, latin = len(_CYRILLIC.findall(text)), len(_LATIN.findall(text))
    if cyrillic == latin:
        return None
    return CYRILLIC if cyrillic > latin else LATIN


def count_by_script(texts: Iterable[str]) -> list[int]:
    """How many of the texts are in Latin letters, and how many in Cyrillic ones."""
    counts = Counter(map(script_of, texts))
    return [counts[LATIN], counts[CYRILLIC]]


def named_script(language: str | None) -> str | None:
    """The script that a code such as sr-Latn names."""
    parts = plain_code(language).split("-") if language else []
    return LATIN if "latn" in parts else CYRILLIC if "cyrl" in parts else None


def learn_transliteration(texts: Sequence[str], into: str, kept: Sequence[str] = ()) -> Transliteration | None:
    """How to write texts in one script, from texts in both; None if these are not one language.

    The texts need not say the same: what counts is that their words are the same.
    """
    casing = "tr" if sum("ı" in text for text in texts) > SHARE * len(texts) else None
    words: dict[str, Counter[str]] = {LATIN: Counter(), CYRILLIC: Counter()}
    for text in texts:
        for word in SPELLED_WORD.findall(lowered(text, casing).translate(_ONE_APOSTROPHE)):
            has_latin, has_cyrillic = bool(_LATIN.search(word)), bool(_CYRILLIC.search(word))
            if has_latin != has_cyrillic:
                words[LATIN if has_latin else CYRILLIC][word] += 1
    latin, others = _letters(_frequent(words[CYRILLIC]), _frequent(words[LATIN]))
    written: Counter[str] = Counter()
    for word, number in words[CYRILLIC].items():
        written[_written(word, latin)] += number
    rarer_words, usual_words = sorted((written, words[LATIN]), key=Counter.total)
    compared = {word: number for word, number in rarer_words.items() if len(word) in LENGTHS_KNOWN}
    known = [word for word in compared if word in usual_words]
    if len(known) < FEWEST_KNOWN or sum(compared[word] for word in known) < SHARE_KNOWN * sum(compared.values()):
        return None
    transliteration = Transliteration(into, latin, {}, others, casing, tuple(kept))
    return replace(transliteration, words=_irregular_words(words[CYRILLIC], transliteration))


def _irregular_words(words: Counter[str], by_letters: Transliteration) -> dict[str, str]:
    """Cyrillic words by their Latin letters, from which alone others would follow; the most frequent ones."""
    spelled = [word for word in words if {*word} <= by_letters.latin.keys()]
    usual: dict[str, str] = {}
    for word in sorted(spelled, key=lambda word: (-words[word], word)):
        usual.setdefault(_written(word, by_letters.latin), word)
    by_parts = {latin: by_letters.cyrillic_letters(latin) or [] for latin in usual}
    return {latin: word for latin, word in usual.items() if "".join(new for _, new in by_parts[latin]) != word}


def _written(word: str, latin: Mapping[str, str]) -> str:
    return "".join(latin.get(letter, letter) for letter in word)


def _frequent(counts: Counter[str]) -> list[str]:
    """The most frequent words of `WORD_LENGTHS`, the most frequent first."""
    words = [word for word in counts if len(word) in WORD_LENGTHS]
    return sorted(words, key=lambda word: (-counts[word], word))[:MOST_WORDS]


def _letters(cyrillic: Sequence[str], latin: Iterable[str]) -> tuple[dict[str, str], dict[str, str]]:
    """The Latin letters for each Cyrillic one, from words in both scripts, and the Cyrillic ones for other Latin ones.

    Letters in too few words are left out.
    """
    between = surroundings(latin)
    letters, votes = ALIKE, {}
    for _ in range(TURNS):
        votes = defaultdict[str, Counter[str]](Counter)
        for word in cyrillic:
            unknown = [index for index, letter in enumerate(word) if letter not in letters]
            if len(unknown) > 1:
                continue
            written = [letters.get(letter, "") for letter in word]
            # Letters that are known are asked for as well: the language may write them otherwise.
            for index in unknown or range(len(word)):
                if not _CYRILLIC.match(word[index]):
                    continue
                sides = "".join(written[:index]), "".join(written[index + 1 :])
                votes[word[index]].update(between.get(sides, ()))
        elected = {
            letter: min(counts, key=lambda written: (-counts[written], written))
            for letter, counts in votes.items()
            if counts and max(counts.values()) >= VOTES
        }
        learned = letters | elected
        if learned == letters:
            break
        letters = learned
    return letters, _other_letters(votes, {*letters.values()})


def _other_letters(votes: Mapping[str, Counter[str]], taken: Collection[str]) -> dict[str, str]:
    """The Cyrillic letter for each Latin one that stands for one, although none is written with it as a rule."""
    candidates: defaultdict[str, list[tuple[int, str]]] = defaultdict(list)
    for letter, counts in votes.items():
        fewest = max(VOTES, OF_BEST * max(counts.values(), default=0))
        for latin, number in counts.items():
            if len(latin) == 1 and latin not in taken and number >= fewest:
                candidates[latin].append((-number, letter))
    return {latin: min(by_votes)[1] for latin, by_votes in candidates.items()}
