"""Forms of words, such as "house" and "houses", as far as their spelling shows: they begin with the same letters.

Forms that begin otherwise, such as "go" and "went", are taken for different words.
"""

import unicodedata
from itertools import takewhile

from dragoman.text.scripts import WORD

FEWEST_COMMON, LEAST_COMMON = 3, 0.6
"""Letters that two forms begin with, at least: so many, and this share of the longer one."""


def are_forms(one: str, other: str) -> bool:
    """Whether two words may be forms of one word. Case and diacritics do not matter; acronyms have no other forms."""
    if one != other and (_is_acronym(one) or _is_acronym(other)):
        return False
    one, other = _bare(one), _bare(other)
    common = sum(1 for _ in takewhile(lambda letters: letters[0] == letters[1], zip(one, other, strict=False)))
    return one == other or common >= max(FEWEST_COMMON, LEAST_COMMON * max(len(one), len(other)))


def _is_acronym(word: str) -> bool:
    return len(word) > 1 and word.isupper()


def _bare(word: str) -> str:
    """A word in small letters without diacritics."""
    return "".join(
        letter for letter in unicodedata.normalize("NFD", word.casefold()) if not unicodedata.combining(letter)
    )


def count_forms(term: str, text: str) -> int:
    """How often a text has the words of a term, each in any of its forms."""
    wanted, words = WORD.findall(term), WORD.findall(text)
    count = position = 0
    while wanted and position + len(wanted) <= len(words):
        is_there = all(map(are_forms, wanted, words[position:]))
        count += is_there
        position += len(wanted) if is_there else 1
    return count
