"""Texts of a language that come in several spellings or scripts, written in one."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice

from dragoman.text.chinese import (
    SIMPLIFIED,
    TRADITIONAL,
    Conversion,
    count_by_characters,
    may_be_chinese,
    named_conversion,
)
from dragoman.text.orthographies import SHARE, SpellingStep, learn_step, rarer_spelling
from dragoman.text.transliteration import (
    CYRILLIC,
    LATIN,
    Transliteration,
    count_by_script,
    learn_transliteration,
    named_script,
)

MOST_TEXTS, MOST_CHARACTERS = 20_000, 400
"""Texts that are looked at, and so many characters of each."""
MOST_STEPS = 3
"""Other spellings that are looked for beside the usual one."""


@dataclass(frozen=True)
class Respelling:
    """Writes texts in the usual spelling of their language, step by step, one for each other spelling."""

    steps: tuple[SpellingStep | Conversion | Transliteration, ...]

    def __call__(self, text: str) -> str:
        """The text in the usual spelling; the same text if it is in that, or in none that can be told."""
        for step in self.steps:
            text = step(text)
        return text

    def __str__(self) -> str:
        return ", ".join(map(str, self.steps))


def learn_respelling(
    texts: Iterable[str], *, like: Sequence[str] = (), language: str | None = None, kept: Sequence[str] = ()
) -> Respelling | None:
    """How to write texts in one spelling, learned from texts in several: in that of most, or of most in `like`.

    The code of their language decides where it names characters or a script, as zh-TW and sr-Latn do. Returns None if
    there is only one spelling, or if the texts in `like` come in several, too. What is in `kept` is never respelled. Of
    many texts, the first `MOST_TEXTS` are looked at.
    """
    texts = _looked_at(texts)
    if may_be_chinese(texts, language):
        conversion = _learn_conversion(texts, like, language)
        return Respelling((conversion,)) if conversion else None
    steps: list[SpellingStep | Transliteration] = []
    step = _learn_script(texts, like, language, kept) or learn_step(texts, like, kept)
    while step and len(steps) < MOST_STEPS:
        steps.append(step)
        texts, like = [step(text) for text in texts], [step(text) for text in like]
        step = learn_step(texts, like, kept)
    return Respelling(tuple(steps)) if steps else None


def learn_reading(texts: Iterable[str], *, language: str | None, kept: Sequence[str]) -> Transliteration | None:
    """How to read texts in the script of most, or in that which the code of their language names.

    None if they are in one script, or if those in the other one are no texts of the same language.
    """
    return _learn_script(_looked_at(texts), [], language, kept)


def _looked_at(texts: Iterable[str]) -> list[str]:
    """The beginnings of so many texts, with single spaces."""
    return [" ".join(text[:MOST_CHARACTERS].split()) for text in islice(texts, MOST_TEXTS)]


def _learn_conversion(texts: Sequence[str], like: Sequence[str], language: str | None) -> Conversion | None:
    """How to write Chinese texts in one kind of characters; None if they are, or if both are wanted."""
    named = named_conversion(language)
    usual = _usual(count_by_characters, texts, [] if named else like)
    return None if usual is None else named or Conversion((SIMPLIFIED, TRADITIONAL)[usual])


def _learn_script(
    texts: Sequence[str], like: Sequence[str], language: str | None, kept: Sequence[str]
) -> Transliteration | None:
    """How to write texts in one of two scripts; None if they are, or if both are wanted."""
    named = named_script(language)
    usual = _usual(count_by_script, texts, [] if named else like)
    return None if usual is None else learn_transliteration(texts, named or (LATIN, CYRILLIC)[usual], kept)


def _usual(count: Callable[[Iterable[str]], Sequence[int]], texts: Sequence[str], like: Sequence[str]) -> int | None:
    """The index of the usual one of two kinds of texts that `count` tells apart.

    None if one of them is too rare, or if the texts in `like` come in both, so that both are wanted.
    """
    own = count(texts)
    if min(own) < max(1, SHARE * len(texts)):
        return None
    rarer = rarer_spelling(own, count(like))
    return None if rarer is None else 1 - rarer
