"""The language of a text, identified by py3langid, offline."""

from collections.abc import Iterable
from functools import cache
from typing import Any

from dragoman.data.language_codes import close, known_code
from dragoman.errors import DataError

SURE = 0.95
"""Probability above which a single line counts as another language."""
NO_LANGUAGE = "zxx"
SHORTEST = 20
"""Bytes of UTF-8 below which no text is foreign: of clean ones with 8 to 12 bytes, 1 in 150 would be."""
UNLIKELY = 0.01
"""Probability of its own language below which a text is foreign."""


@cache
def identifier() -> Any:
    """The identifier of py3langid; it takes a quarter of a second to load."""
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)


@cache
def known_languages() -> frozenset[str]:
    """The codes that the identification can give: ISO 639, of two letters where there is one."""
    return frozenset(identifier().labels) - {NO_LANGUAGE}


def sure_language(text: str) -> str | None:
    """The language of a text, or None where that is not clear."""
    language, probability = identifier().classify(text)
    return language if probability > SURE and language != NO_LANGUAGE else None


def is_foreign(text: str, language: str | None) -> bool:
    """Whether a text can hardly be in this language, nor in one close to it; never for a language that is not known.

    Which other language it is in need not be clear: a line that mixes two is foreign to a third.
    """
    code = known_code(language, known_languages())
    if code is None or len(text.encode(errors="surrogatepass")) < SHORTEST:
        return False
    likeliest, _ = identifier().classify(text)
    if likeliest == NO_LANGUAGE or close(likeliest, code):  # most texts; to rank all languages takes longer
        return False
    return sum(probability for other, probability in identifier().rank(text) if close(other, code)) < UNLIKELY


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
