"""Forms of words, such as "house" and "houses", as far as their spelling shows: a common beginning and an ending each.

Forms that begin otherwise, such as "go" and "went", are taken for different words. Where spelling cannot tell, words
that are often different count as different: a term that is not seen is put in, one that is not there is missed.
"""

import math
import unicodedata
from itertools import takewhile

from dragoman.text.scripts import WORD

FEWEST_COMMON, LEAST_COMMON = 3, 0.6
"""Letters that two forms begin with, at least: so many, and this share of the longer one."""
SHORT = 5
"""Letters of words of which one letter says much: "vert" and "vers", "Bank" and "Band"."""
LONGEST_ENDING = 2
"""Letters of endings that replace each other and begin with consonants, such as those of "macht" and "machen"."""
VOWELS = frozenset("aeiouyæœøıаеиоуыэюяієαεηιουω")


def are_forms(one: str, other: str) -> bool:
    """Whether two words may be forms of one word. Case does not matter; acronyms have no other forms.

    Diacritics may change with an ending ("Hand", "Hände"), or on the last letter ("szkoła", "szkołą"), but inside they
    tell words apart ("schon", "schön"), save for nouns with a capital letter ("Mutter", "Mütter"). One word is the
    other with an ending; or both have endings that begin with vowels ("gato", "gata", "rotes", "roten"), or short ones
    in words that are not `SHORT`.
    """
    if one != other and (_is_acronym(one) or _is_acronym(other)):
        return False
    bare, other_bare = _bare(one), _bare(other)
    if bare == other_bare:
        return _same_but_for_the_last_letter(one, other) or (one[:1].isupper() and other[:1].isupper())
    longest = max(len(bare), len(other_bare))
    common = sum(1 for _ in takewhile(lambda letters: letters[0] == letters[1], zip(bare, other_bare, strict=False)))
    if common < _least_common(longest):
        return False
    if common > FEWEST_COMMON and bare[common - 1] in VOWELS:
        common -= 1
    endings = bare[common:], other_bare[common:]
    if not all(endings) or all(ending[0] in VOWELS for ending in endings):
        return True
    return longest > SHORT and max(map(len, endings)) <= LONGEST_ENDING


def own_beginning(word: str) -> str:
    """The beginning of a word that all its forms have which are not longer."""
    bare = _bare(word)
    return bare[: _least_common(len(bare))]


def beginnings_of_forms(word: str) -> list[str]:
    """What `own_beginning` may be of a form of this word: so these can be looked up, instead of comparing all words."""
    bare = _bare(word)
    least = _least_common(_least_common(len(bare)))
    return [bare[:length] for length in range(min(least, len(bare)), len(bare) + 1)]


def _least_common(length: int) -> int:
    """Letters that forms have in common at least, of which the longer one has so many."""
    return math.ceil(max(FEWEST_COMMON, LEAST_COMMON * length))


def _same_but_for_the_last_letter(one: str, other: str) -> bool:
    """Whether words that are the same without diacritics are so with them, too, but for those of their last letters.

    The points of scripts without capitals, such as Arabic, and those of ё need not be written.
    """
    if one.upper() == one.lower():
        return True
    one, other = (unicodedata.normalize("NFC", word.casefold()).replace("ё", "е") for word in (one, other))
    return one[:-1] == other[:-1]


def _is_acronym(word: str) -> bool:
    return len(word) > 1 and word.isupper()


def _bare(word: str) -> str:
    """A word in small letters without diacritics."""
    return "".join(
        letter for letter in unicodedata.normalize("NFD", word.casefold()) if not unicodedata.combining(letter)
    )


def count_forms(term: str, text: str) -> int:
    """How often a text has the words of a term, each in any of its forms, and its marks."""
    wanted, words = WORD.findall(term), WORD.findall(text)
    count = position = 0
    while wanted and position + len(wanted) <= len(words):
        is_there = all(map(are_forms, wanted, words[position:]))
        count += is_there
        position += len(wanted) if is_there else 1
    return count
