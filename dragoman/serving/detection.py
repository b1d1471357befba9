"""The language of a text, identified by py3langid, offline."""

import html
import re
from collections.abc import Collection, Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import NamedTuple

from dragoman.documents.document import has_words
from dragoman.text.identification import NO_LANGUAGE, identifier, known_languages
from dragoman.text.language_codes import close, known_code, two_letters

UNLIKELY = 0.01
"""Share of all languages together below which a text is in none of them, if another language is likely."""
LIKELY = 0.5
"""Probability from which a language is said to be that of a text."""
IMPOSSIBLE = 0.001
"""The same share when no other language is likely, as for a single word in another script."""
LONGEST_SHORT = 40
"""Characters of a text that may be one of `short_words.txt`."""
_EDGES = re.compile(r"^\W+|\W+$")
_TAG = re.compile("<[^<>]*>")


class Detected(NamedTuple):
    """A language, and from 0 to 1 how sure it is."""

    language: str
    confidence: float


def detect(text: str) -> list[Detected]:
    """The likely languages of a text, best first. None for a text without words."""
    if not has_words([text]):
        return []
    ranked = _ranked(text)
    return [language for language in ranked if language.confidence >= 0.01] or ranked[:1]


def detect_among(text: str, languages: Sequence[str]) -> Detected:
    """The likeliest of some languages, the first of them where nothing tells them apart."""
    if not has_words([text]):
        return Detected("en" if "en" in languages else languages[0], 0.0)
    if short := _languages_of_short(text, languages):
        return Detected(short[0], 1 / len(short))
    codes = {language: _identified(language) for language in languages}
    shares = dict.fromkeys(codes.values(), 0.0)
    for language, share in _ranked(text):
        # One that is not asked about, such as Cantonese, counts for those that can hardly be told from it.
        counted = [language] if language in shares else [code for code in shares if code and close(code, language)]
        for code in counted:
            shares[code] += share
    detected = [Detected(language, min(1.0, shares[codes[language]])) for language in languages]
    return max(detected, key=lambda language: language.confidence)


def foreign_language(text: str, languages: Collection[str]) -> Detected | None:
    """The language of a text that is surely in none of these; None for one that may be in one of them."""
    known = [_identified(language) for language in languages]
    if None in known or not has_words([text]) or _languages_of_short(text, languages):
        return None
    likeliest = _ranked(text)[0]
    share = sum(share for language, share in _ranked(text) if any(close(language, own) for own in known))
    if share < (UNLIKELY if likeliest.confidence > LIKELY else IMPOSSIBLE):
        return likeliest
    return None


def without_tags(text: str) -> str:
    """The text of HTML or XML."""
    return html.unescape(_TAG.sub(" ", text))


@lru_cache(64)
def _ranked(text: str) -> list[Detected]:
    """All languages, likeliest first."""
    return [Detected(language, share) for language, share in identifier().rank(text) if language != NO_LANGUAGE]


def _identified(language: str) -> str | None:
    """The code by which py3langid has a language."""
    return known_code(language, known_languages())


def _languages_of_short(text: str, languages: Collection[str]) -> list[str]:
    """The languages in which a text is one of the greetings and answers that are too short for statistics."""
    if len(text) > LONGEST_SHORT:
        return []
    words = _EDGES.sub("", text.casefold().replace("’", "'"))
    return [language for language in languages if words in _short_texts().get(two_letters(language), ())]


@cache
def _short_texts() -> dict[str, set[str]]:
    lines = Path(__file__).with_name("short_words.txt").read_text(encoding="utf-8").strip().split("\n")
    rows = (line.split(" ", 1) for line in lines if not line.startswith("#"))
    return {language: set(texts.split(", ")) for language, texts in rows}
