"""Languages in Cyrillic and in Latin letters, such as Serbian: texts in the one are written in the other.

Both alphabets of a language spell it sound by sound, so a letter of the one is one or two letters of the other. Which
ones is learned from the words. Some letters are alike in all languages (б is b). With these, a word such as `шума` has
one letter that is not known, and where the Latin words have `šuma`, this letter is š.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from dragoman.text.characters import in_same_case
from dragoman.text.language_codes import plain_code
from dragoman.text.orthographies import LONGEST, surroundings
from dragoman.text.patterns import LazyPattern
from dragoman.text.scripts import SPELLED_WORD
from dragoman.text.tokenizers.placeholders import verbatim

LATIN, CYRILLIC = "Latin", "Cyrillic"
ALIKE = dict(zip("абвгдезиклмнопрстуф", "abvgdeziklmnoprstuf", strict=True))
"""Letters that stand for the same sound in all languages, or nearly; what the words say of a language replaces them."""
MOST_WORDS, WORD_LENGTHS = 20_000, range(3, 31)
"""Different words of a script that letters are learned from, and their numbers of letters."""
VOTES, TURNS = 3, 6
"""Words that a letter needs, and how often all of them are asked, with what the last time has brought."""
KNOWN, FEWEST = 0.4, 20
"""The rarer script is the same language if so many of its running words are words of the other one, as a share, and so
many different ones: 82 % in Tatoeba's Serbo-Croatian, and 42 % in 152 sentences of its Uzbek among 435. Macedonian
among Serbian has 27 %, and pairs of less similar languages have less."""
CHECKED = range(4, 31)
"""Numbers of letters of the words for that; shorter ones are alike by chance."""
_CYRILLIC = LazyPattern("[\u0400-\u052f]")
_LATIN = LazyPattern("[A-Za-z\u00c0-\u024f]")


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
    kept: tuple[str, ...] = ()
    """Texts that are never changed; addresses are not, either."""

    def __call__(self, text: str) -> str:
        """The text in the other script; a text that is not in the one to replace, or has unknown letters, stays."""
        if script_of(text) in (None, self.into):
            return text
        if self.into == CYRILLIC:
            return verbatim(self.kept).change(text, self._in_cyrillic)
        if {*_CYRILLIC.findall(text.lower())} <= self.latin.keys():
            return verbatim(self.kept).change(text, self._in_latin)
        return text

    def _in_latin(self, text: str) -> str:
        return "".join(
            in_same_case(letter, self.latin.get(letter.lower(), letter), text[index - 1 : index], text[index + 1 :][:1])
            for index, letter in enumerate(text)
        )

    def _in_cyrillic(self, text: str) -> str:
        return SPELLED_WORD.sub(lambda word: self.in_cyrillic(word[0]), text)

    def in_cyrillic(self, word: str) -> str:
        """A word in Cyrillic letters; the same word if one of its letters stands for none, as in foreign names."""
        lower = word.lower()
        if known := self.words.get(lower):
            parts = [(self.latin[letter], letter) for letter in known]
        else:
            parts = [(letters, self._cyrillic.get(letters, "")) for letters in self._parts(lower)]
        if not all(letter for _, letter in parts) or len(lower) != len(word):
            return word
        written, start = [], 0
        for letters, letter in parts:
            end = start + len(letters)
            written.append(in_same_case(word[start:end], letter, word[start - 1 : start], word[end : end + 1]))
            start = end
        return "".join(written)

    def _parts(self, word: str) -> Iterator[str]:
        """The parts of a Latin word in lower case, each of which is one Cyrillic letter, and as long as can be."""
        start = 0
        while start < len(word):
            lengths = range(LONGEST, 0, -1)
            part = next((part for length in lengths if (part := word[start:][:length]) in self._cyrillic), word[start])
            yield part
            start += len(part)

    @cached_property
    def _cyrillic(self) -> dict[str, str]:
        """The Cyrillic letter for Latin ones; the one that comes first in the alphabet where there are several."""
        usual = {letters: letter for letter, letters in ALIKE.items()}
        return usual | {letters: letter for letter, letters in sorted(self.latin.items(), reverse=True)}

    def __str__(self) -> str:
        return f"{CYRILLIC} > {LATIN}" if self.into == LATIN else f"{LATIN} > {CYRILLIC}"


def script_of(text: str) -> str | None:
    """`CYRILLIC` or `LATIN`: what most letters of a text are; None for neither."""
    cyrillic, latin = len(_CYRILLIC.findall(text)), len(_LATIN.findall(text))
    if cyrillic == latin:
        return None
    return CYRILLIC if cyrillic > latin else LATIN


def numbers_of_both(texts: Iterable[str]) -> list[int]:
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
    counts = {
        script: Counter(
            word for text in texts if script_of(text) == script for word in SPELLED_WORD.findall(text.lower())
        )
        for script in (CYRILLIC, LATIN)
    }
    cyrillic_words, latin_words = map(_frequent, counts.values())
    latin = _letters(cyrillic_words, latin_words)
    in_latin = Counter()
    for word, number in counts[CYRILLIC].items():
        in_latin[_written(word, latin)] += number
    rarer, usual = sorted((in_latin, counts[LATIN]), key=Counter.total)
    running = {word: number for word, number in rarer.items() if len(word) in CHECKED}
    known = [word for word in running if word in usual]
    if len(known) < FEWEST or sum(running[word] for word in known) < KNOWN * sum(running.values()):
        return None
    transliteration = Transliteration(into, latin, {}, tuple(kept))
    spelled = (word for word in reversed(cyrillic_words) if {*word} <= latin.keys())
    words = {_written(word, latin): word for word in spelled}
    irregular = {word: cyrillic for word, cyrillic in words.items() if transliteration.in_cyrillic(word) != cyrillic}
    return replace(transliteration, words=irregular)


def _written(word: str, latin: Mapping[str, str]) -> str:
    return "".join(latin.get(letter, letter) for letter in word)


def _frequent(counts: Counter[str]) -> list[str]:
    """The most frequent words of `WORD_LENGTHS`, the most frequent first."""
    words = [word for word in counts if len(word) in WORD_LENGTHS]
    return sorted(words, key=lambda word: (-counts[word], word))[:MOST_WORDS]


def _letters(cyrillic: Sequence[str], latin: Iterable[str]) -> dict[str, str]:
    """The Latin letters for each Cyrillic one, from words in both scripts. Letters in too few words are left out."""
    between = surroundings(latin)
    letters = ALIKE
    for _ in range(TURNS):
        votes: defaultdict[str, Counter[str]] = defaultdict(Counter)
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
            letter: min(counts, key=lambda latin: (-counts[latin], latin))
            for letter, counts in votes.items()
            if counts and max(counts.values()) >= VOTES
        }
        learned = letters | elected
        if learned == letters:
            break
        letters = learned
    return letters
