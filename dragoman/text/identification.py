"""The language of a text, identified by py3langid, offline."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
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
"""Bytes of letters below which no text counts as foreign: of clean texts with 8 to 12 bytes, 1 in 150 would."""
UNLIKELY = 0.01
"""Probability of the expected language below which a text counts as foreign."""

LINES_AT_ONCE, MOST_CHUNKS, MOST_LINES = 20, 100, 500
"""Lines that are identified together, most of such chunks, and most single lines, to be certain of a language."""
FEWEST_CHUNKS, FEWEST_LINES = 10, 10
"""Evidence below which no language is certain: chunks, and single lines whose language is clear."""
LONG = 36
"""Bytes of UTF-8 below which a single line is not identified: 30 letters and spaces, or a dozen Chinese characters."""
CERTAIN = 0.95
"""Share of the chunks, and of the clear lines, that must be in one language. Of 186 sides of corpora, 118 were certain
and right, and six in languages that are not known were given one that is close to them."""


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


def certain_language(texts: Sequence[str]) -> str | None:
    """The language of texts, if there is no doubt; None for few texts, mixed ones, and most languages not known.

    Such a language looks like many others, line by line, even where long texts seem to be clear. Give the texts in any
    order but that of their file, since the first of them are looked at.
    """
    chunks = [" ".join(texts[start : start + LINES_AT_ONCE]) for start in range(0, len(texts), LINES_AT_ONCE)]
    lines = [text for text in texts if len(text.encode(errors="surrogatepass")) >= LONG][:MOST_LINES]
    if len(chunks) < FEWEST_CHUNKS or len(lines) < FEWEST_LINES:
        return None  # before anything is loaded
    votes = [sure_language(chunk) for chunk in chunks[:MOST_CHUNKS]]
    clear = [language for language in map(sure_language, lines) if language]
    if len(clear) < FEWEST_LINES:
        return None
    language, _ = Counter(votes).most_common(1)[0]
    if language is None:
        return None
    for languages in (votes, clear):
        if sum(vote is not None and close(vote, language) for vote in languages) < CERTAIN * len(languages):
            return None
    return language


def is_foreign(text: str, language: str | None, other: str) -> bool:
    """Whether a text can hardly be in this language, nor in one close to it; never for a language that is not known.

    Words that the `other` side of its pair has too, such as names, do not count. It need not be clear which other
    language the text is in: a line that mixes two is foreign to a third.
    """
    code = known_code(language, known_languages())
    if code is None or _may_be(text, code):  # most texts; the rest takes longer
        return False
    distinct_text = _without_words_of(other, text)
    letters = "".join(filter(str.isalpha, distinct_text))
    if len(letters.encode()) < SHORTEST or _may_be(distinct_text, code):
        return False
    ranked = identifier().rank(distinct_text)
    return sum(probability for candidate, probability in ranked if close(candidate, code)) < UNLIKELY


def _without_words_of(other: str, text: str) -> str:
    """The text without the words that another one has too."""
    shared = frozenset(WORD.findall(other.casefold()))

    def kept(match: re.Match[str]) -> str:
        word = match[0]
        # Characters of scripts without spaces are no words.
        return "" if len(word) > 1 and word.casefold() in shared else word

    return WORD.sub(kept, text)


def _may_be(text: str, code: str) -> bool:
    """Whether the likeliest language of a text is this one, close to it, or none."""
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
