"""The language of a text, identified by py3langid, offline."""

from collections.abc import Iterable
from functools import cache
from tempfile import gettempdir
from typing import Any

from dragoman.errors import DataError
from dragoman.system.atomic import naming
from dragoman.text.language_codes import close, known_code
from dragoman.text.scripts import WORD

SURE = 0.95
"""Probability above which a single line counts as another language."""
NO_LANGUAGE = "zxx"
SHORTEST = 20
"""Bytes of letters below which no text is foreign: of clean texts with 8 to 12 bytes, 1 in 150 would be."""
UNLIKELY = 0.01
"""Probability of its own language below which a text is foreign."""


@cache
def identifier() -> Any:
    """The identifier of py3langid; it takes a quarter of a second to load."""
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    with naming(gettempdir()):  # where it is unpacked
        return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)


@cache
def known_languages() -> frozenset[str]:
    """The codes that the identification can give: ISO 639, of two letters where there is one."""
    return frozenset(identifier().labels) - {NO_LANGUAGE}


def sure_language(text: str) -> str | None:
    """The language of a text, or None where that is not clear."""
    language, probability = identifier().classify(text)
    return language if probability > SURE and language != NO_LANGUAGE else None


def is_foreign(text: str, language: str | None, other: str) -> bool:
    """Whether a text can hardly be in this language, nor in one close to it; never for a language that is not known.

    What it shares with the `other` side of its pair, such as names, does not count. Which other language it is in need
    not be clear: a line that mixes two is foreign to a third.
    """
    code = known_code(language, known_languages())
    if code is None or _may_be(text, code):  # most texts; what comes now takes longer
        return False
    shared = frozenset(WORD.findall(other.casefold()))
    # Characters of scripts without spaces are no words.
    own = WORD.sub(lambda word: "" if len(word[0]) > 1 and word[0].casefold() in shared else word[0], text)
    letters = "".join(filter(str.isalpha, own))
    if len(letters.encode()) < SHORTEST or _may_be(own, code):
        return False
    return sum(probability for found, probability in identifier().rank(own) if close(found, code)) < UNLIKELY


def _may_be(text: str, code: str) -> bool:
    likeliest, _ = identifier().classify(text)
    return likeliest == NO_LANGUAGE or close(likeliest, code)


def check_identifiable(languages: Iterable[str | None], name: str) -> None:
    """Raise `DataError` for a language of the corpus `name` that is not known, or cannot be identified."""
    for language in languages:
        if language is None:
            raise DataError(
                f"{name} does not say its languages, but data.cleaning.check_languages compares with them; set "
                "data.languages, as in 'data.languages=[en,fr]'."
            )
        if known_code(language, known_languages()) is None:
            raise DataError(
                f"The language '{language}' of {name} is none that can be identified; leave out "
                "data.cleaning.check_languages, or correct data.languages."
            )
