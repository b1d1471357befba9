"""The language of a text, identified by py3langid, offline."""

import re
from collections.abc import Collection, Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import NamedTuple

from dragoman.documents.document import has_words
from dragoman.documents.html_tokens import as_text
from dragoman.text.identification import NO_LANGUAGE, identifier, known_languages
from dragoman.text.language_codes import close, known_code, two_letters

UNLIKELY = 0.01
"""Probability of all served languages together below which a text is in none of them, if another language is likely."""
LIKELY = 0.5
"""Probability above which a language is likely to be that of a text."""
IMPOSSIBLE = 0.001
"""As `UNLIKELY`, when no other language is likely, as for a single word in another script."""
LONGEST_SHORT = 40
"""Characters of a text up to which it is looked up in `short_words.txt`."""
_EDGES = re.compile(r"^\W+|\W+$")
_TAG = re.compile("<[^<>]*>")


class Detected(NamedTuple):
    """A language, and its probability from 0 to 1."""

    language: str
    confidence: float


def detect(text: str) -> list[Detected]:
    """The likely languages of a text, most likely first; empty for a text without words."""
    if not has_words([text]):
        return []
    ranked = _ranked(text)
    likely = [detected for detected in ranked if detected.confidence >= 0.01]
    return likely or ranked[:1]


def detect_among(text: str, languages: Sequence[str]) -> Detected:
    """The most likely of some languages; the first of them if all are equally likely."""
    if not has_words([text]):
        return Detected("en" if "en" in languages else languages[0], 0.0)
    if short := _languages_of_short_text(text, languages):
        return Detected(short[0], 1 / len(short))
    codes = {language: _identifier_code(language) for language in languages}
    shares = dict.fromkeys(codes.values(), 0.0)
    for language, share in _ranked(text):
        if language in shares:
            shares[language] += share
            continue
        # A language that is none of these, such as Cantonese, counts for those that can hardly be told from it.
        for code in shares:
            if code and close(code, language):
                shares[code] += share
    detected = [Detected(language, min(1.0, shares[codes[language]])) for language in languages]
    return max(detected, key=lambda candidate: candidate.confidence)


def foreign_language(text: str, languages: Collection[str]) -> Detected | None:
    """The most likely language of a text that is surely in none of `languages`; None if it may be in one of them."""
    codes = [_identifier_code(language) for language in languages]
    if None in codes or not has_words([text]) or _languages_of_short_text(text, languages):
        return None
    ranked = _ranked(text)
    most_likely = ranked[0]
    share = sum(share for language, share in ranked if any(close(language, code) for code in codes))
    limit = UNLIKELY if most_likely.confidence > LIKELY else IMPOSSIBLE
    return most_likely if share < limit else None


def without_tags(text: str) -> str:
    """A text of HTML or XML, its tags replaced by spaces."""
    return as_text(_TAG.sub(" ", text))


@lru_cache(64)
def _ranked(text: str) -> list[Detected]:
    """All languages that the identifier knows, most likely first."""
    return [Detected(language, share) for language, share in identifier().rank(text) if language != NO_LANGUAGE]


def _identifier_code(language: str) -> str | None:
    """The code of a language in py3langid; None if it does not know the language."""
    return known_code(language, known_languages())


def _languages_of_short_text(text: str, languages: Collection[str]) -> list[str]:
    """The languages in which a text is one of the greetings and answers that are too short to identify."""
    if len(text) > LONGEST_SHORT:
        return []
    words = _EDGES.sub("", text.casefold().replace("’", "'"))
    return [language for language in languages if words in _short_texts().get(two_letters(language), ())]


@cache
def _short_texts() -> dict[str, set[str]]:
    """The texts of `short_words.txt` by the codes of their languages."""
    lines = Path(__file__).with_name("short_words.txt").read_text(encoding="utf-8").strip().split("\n")
    rows = (line.split(" ", 1) for line in lines if not line.startswith("#"))
    return {language: set(texts.split(", ")) for language, texts in rows}
