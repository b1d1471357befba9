"""Words in any script, scripts that do not separate words by spaces, and the languages that are written in them."""

import unicodedata
from collections import Counter
from collections.abc import Iterable

from dragoman.text.language_codes import known_code
from dragoman.text.patterns import LazyPattern

LANGUAGES = {
    "CJK": "zh", "HIRAGANA": "ja", "KATAKANA": "ja", "KATAKANA-HIRAGANA": "ja", "HANGUL": "ko", "THAI": "th",
    "LAO": "lo", "KHMER": "km", "MYANMAR": "my", "TIBETAN": "bo",
}  # fmt: skip
"""The language of each script. Korean has spaces, but endings are written together with words."""
# Thai, Lao, Tibetan and Burmese; Khmer; Chinese and Japanese.
_UNSPACED = (
    "[\u0e01-\u0e30\u0e32\u0e33\u0e40-\u0e46\u0e81-\u0eb0\u0eb2\u0eb3\u0ebd-\u0ec6\u0f40-\u0f6c\u1000-\u102a\u1780-\u17b3"
    "\u2e80-\u2fd5\u3005-\u3007\u3021-\u30ff\u31f0-\u31ff\u3400-\u9fff\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff]"
)
_UNSPACED_LETTER = LazyPattern(_UNSPACED)
# Vowels and tones that `\w` leaves out. The scripts of India have spaces and marks, and two full stops among them.
_MARK = (
    "[\u0e31\u0e34-\u0e3a\u0e47-\u0e4e\u0eb1\u0eb4-\u0ebc\u0ec8-\u0ece\u0f71-\u0f87\u102b-\u103e\u17b4-\u17d3"
    "\u3099\u309a]"
)
_SPACED = rf"(?!{_UNSPACED}|{_MARK})[\w\u0300-\u036f\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0900-\u0963\u0966-\u0dff]"
WORD = LazyPattern(rf"{_UNSPACED}{_MARK}*|(?:{_SPACED})+|[^\w\s]")
"""A word, a character of scripts that do not separate words, or a mark of punctuation."""
_LETTER = rf"(?![\d_]){_SPACED}"
SPELLED_WORD = LazyPattern(rf"(?:{_LETTER})+(?:['’ʼ](?:{_LETTER})+)*")
"""A word of letters and their marks, with apostrophes inside, in a script that separates words by spaces."""


def whole(pattern: str, text: str) -> str:
    """The pattern of a text, restricted to whole words as far as the script shows where words begin and end."""
    before = "" if not text or _UNSPACED_LETTER.match(text) else f"(?<!{_SPACED})"
    after = "" if not text or is_unspaced(text[-2:]) else f"(?!{_SPACED})"
    return f"{before}(?:{pattern}){after}(?!{_MARK})"


def script(letter: str) -> str:
    """The first word of the Unicode name of a letter: LATIN, CJK, HIRAGANA."""
    return unicodedata.name(letter, "").partition(" ")[0]


def is_unspaced(text: str) -> bool:
    """Whether a character of the text is of a script without spaces between words."""
    return not text.isascii() and _UNSPACED_LETTER.search(text) is not None


def unspaced_language(code: str | None, texts: Iterable[str]) -> str | None:
    """Two-letter code of the language that `texts` are in if it is one of `LANGUAGES`, or else None.

    A `code` that names one decides, in any spelling (zh-Hans, jpn), and otherwise the script of most letters.
    """
    if named := known_code(code, frozenset(LANGUAGES.values())):
        return named
    languages: Counter[str | None] = Counter()
    for text in texts:
        languages.update(LANGUAGES.get(script(letter)) for letter in text if letter.isalpha())
    if languages["ja"] > languages["zh"] / 10:  # Japanese has Chinese characters too, Chinese has no kana
        languages["ja"] += languages.pop("zh", 0)
    return max(languages, key=languages.__getitem__, default=None)
