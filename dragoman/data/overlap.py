"""Words that both sides of a pair share: a large share of them shows text that was not translated, or only in part."""

from itertools import pairwise

from dragoman.text.scripts import WORD, is_unspaced

FEWEST = 5
"""Least number of different words, on the side with fewer of them, that are compared: fewer may all be names."""


def overlap(source: str, target: str) -> float:
    """Share of the different words of the side with fewer of them that are in the other side, too; 0 below `FEWEST`.

    Where words are not separated by spaces, their characters are compared, and pairs of them if both sides are
    written so: Chinese and Japanese share many characters. Numbers and punctuation do not count.
    """
    sides = [[word for word in WORD.findall(text.casefold()) if word[0].isalpha()] for text in (source, target)]
    if is_unspaced(source) and is_unspaced(target):
        sides = [list(map("".join, pairwise(words))) for words in sides]
    fewer, more = sorted(map(set, sides), key=len)
    return len(fewer & more) / len(fewer) if len(fewer) >= FEWEST else 0.0
