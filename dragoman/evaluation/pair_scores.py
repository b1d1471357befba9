"""Scores that a model gives to sentence pairs. Needs no torch."""

from collections.abc import Iterator
from itertools import islice

from dragoman.data.bitext import Bitext
from dragoman.decoding.translation import TranslationScore
from dragoman.decoding.translator import Translator


def score_pairs(
    translator: Translator, bitext: Bitext, *, length_penalty: float, length_offset: float, window: int = 2048
) -> Iterator[TranslationScore]:
    """Yields the model's score of each pair; reads `window` pairs at a time."""
    remaining = iter(bitext)
    while pairs := list(islice(remaining, window)):
        yield from translator.score(pairs, length_penalty=length_penalty, length_offset=length_offset)
