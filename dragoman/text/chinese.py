"""Chinese in traditional and in simplified characters, which OpenCC turns into each other."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from dragoman.system.optional import is_installed, load
from dragoman.text.characters import well_formed
from dragoman.text.language_codes import plain_code, variety
from dragoman.text.patterns import LazyPattern

SIMPLIFIED, TRADITIONAL, OF_HONG_KONG = "t2s", "s2tw", "s2hk"
"""What OpenCC calls its conversions into simplified characters, and into those of Taiwan and Hong Kong."""
SCRIPTS = {"hans": SIMPLIFIED, "hant": TRADITIONAL}
"""Conversions into the scripts that codes of languages name."""
NAMED = frozenset(["hans", "hant", "cn", "sg", "my", "tw", "hk", "mo"])
"""Scripts in codes, and regions that say which one."""
OTHERS = 0.01
"""Most texts, as a share, with letters that Chinese has not: there are such in Japanese and Korean."""
_HAN = LazyPattern("[\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")
_KANA_OR_HANGUL = LazyPattern("[\u3041-\u30ff\uac00-\ud7a3]")


@dataclass(frozen=True)
class Conversion:
    """Writes Chinese texts in simplified characters, or in traditional ones."""

    into: str
    """`SIMPLIFIED`, `TRADITIONAL` or `OF_HONG_KONG`."""

    def __call__(self, text: str) -> str:
        """The text in these characters, if it has any that stand for the other kind alone; else the same text."""
        is_other = is_traditional if self.into == SIMPLIFIED else is_simplified
        return _convert(text, self.into) if is_other(text) else text

    def __str__(self) -> str:
        return "traditional > simplified" if self.into == SIMPLIFIED else "simplified > traditional"


def may_be_chinese(texts: Sequence[str], language: str | None) -> bool:
    """Whether texts of this language, if it is known, can be converted: OpenCC (extra `train`) has to be installed."""
    if not is_installed("opencc") or (language and variety(language).script not in SCRIPTS):
        return False
    if 2 * sum(bool(_HAN.search(text)) for text in texts) < len(texts):
        return False
    return sum(bool(_KANA_OR_HANGUL.search(text)) for text in texts) <= OTHERS * len(texts)


def named_conversion(language: str | None) -> Conversion | None:
    """The conversion into the characters that a code such as zh-TW or zh-Hans names; zh alone names none."""
    if not language or variety(language).language != "zh" or NAMED.isdisjoint(plain_code(language).split("-")):
        return None
    return Conversion(OF_HONG_KONG if plain_code(language).endswith("-hk") else SCRIPTS[variety(language).script])


def count_by_characters(texts: Iterable[str]) -> list[int]:
    """How many of the texts are in simplified characters, and how many in traditional ones."""
    texts = list(texts)
    return [sum(map(is_simplified, texts)), sum(map(is_traditional, texts))]


def is_simplified(text: str) -> bool:
    """Whether a text has characters that neither Taiwan nor Hong Kong writes.

    Each of them writes some characters as simplified Chinese does, such as 床 in Taiwan and 台 in Hong Kong.
    """
    # Neither conversion changes the number of characters.
    written = zip(text, _convert(text, TRADITIONAL), _convert(text, OF_HONG_KONG), strict=False)
    return any(taiwan != character != hong_kong for character, taiwan, hong_kong in written)


def is_traditional(text: str) -> bool:
    """Whether a text has characters that are simplified elsewhere, and is not simplified itself."""
    return _convert(text, SIMPLIFIED) != text and not is_simplified(text)


def _convert(text: str, into: str) -> str:
    """The text converted; the same text if it has lone surrogates or NUL, which OpenCC does not take."""
    if well_formed(text) != text or "\0" in text:
        return text
    return str(_converter(into).convert(text))


@cache
def _converter(into: str) -> Any:
    return load("opencc", extra="train", purpose="Converting Chinese").OpenCC(into)
