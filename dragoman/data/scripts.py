"""Scripts that do not show words by spaces, and the languages that are written in them."""

import unicodedata
from collections import Counter
from collections.abc import Iterable

from dragoman.data.readers.language_codes import known_code

LANGUAGES = {
    "CJK": "zh", "HIRAGANA": "ja", "KATAKANA": "ja", "KATAKANA-HIRAGANA": "ja", "HANGUL": "ko", "THAI": "th",
    "LAO": "lo", "KHMER": "km", "MYANMAR": "my", "TIBETAN": "bo",
}  # fmt: skip
"""The language of each script. Korean has spaces, but endings are written together with words."""
UNSPACED = LANGUAGES.keys() - {"HANGUL"}


def script(letter: str) -> str:
    """What the Unicode name of a letter begins with: LATIN, CJK, HIRAGANA."""
    return unicodedata.name(letter, "").partition(" ")[0]


def is_unspaced(text: str) -> bool:
    """Whether a character of the text is of a script without spaces between words."""
    return not text.isascii() and any(script(each) in UNSPACED for each in text)


def unspaced_language(code: str | None, texts: Iterable[str]) -> str | None:
    """Two-letter code of the language that `texts` are in if it is one of `LANGUAGES`, or else None.

    A `code` that names one decides, in any spelling (zh-Hans, jpn), and otherwise the script of most letters.
    """
    if named := known_code(code, frozenset(LANGUAGES.values())):
        return named
    languages = Counter(LANGUAGES.get(script(letter)) for text in texts for letter in text if letter.isalpha())
    if languages["ja"] > languages["zh"] / 10:  # Japanese has Chinese characters too, Chinese has no kana
        languages["ja"] += languages.pop("zh", 0)
    return max(languages, key=languages.__getitem__, default=None)
