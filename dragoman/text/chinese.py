"""Chinese in traditional and in simplified characters, which OpenCC turns into each other."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from dragoman.system.optional import is_installed, load
from dragoman.text.characters import well_formed
from dragoman.text.language_codes import plain_code, variety
from dragoman.text.patterns import LazyPattern

Direction = Literal["t2s", "s2t"]
DIRECTIONS: dict[Direction, str] = {"t2s": "traditional > simplified", "s2t": "simplified > traditional"}
"""How OpenCC calls its conversions, and how people do."""
WRITTEN: dict[str, Direction] = {"hans": "t2s", "hant": "s2t"}
"""How to write the scripts that codes of languages name."""
OTHERS = 0.01
"""Most texts, as a share, with letters that Chinese has not: there are such in Japanese and Korean."""
_HAN = LazyPattern("[\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")
_KANA_OR_HANGUL = LazyPattern("[\u3041-\u30ff\uac00-\ud7a3]")


@dataclass(frozen=True)
class Conversion:
    """Writes Chinese texts in simplified characters, or in traditional ones."""

    direction: Direction

    def __call__(self, text: str) -> str:
        """The text in the characters of the others. A text that has any of these alone stays as it is."""
        return text if _convert(text, _opposite(self.direction)) != text else _convert(text, self.direction)

    def __str__(self) -> str:
        return DIRECTIONS[self.direction]


def may_be_chinese(texts: Sequence[str], language: str | None) -> bool:
    """Whether texts of this language, if it is known, can be converted: OpenCC (extra `train`) has to be installed."""
    if not is_installed("opencc") or (language and variety(language).script not in WRITTEN):
        return False
    if 2 * sum(bool(_HAN.search(text)) for text in texts) < len(texts):
        return False
    return sum(bool(_KANA_OR_HANGUL.search(text)) for text in texts) <= OTHERS * len(texts)


def named_direction(language: str | None) -> Direction | None:
    """The direction that a code such as zh-TW or zh-Hans names; zh alone names none."""
    if not language or variety(language).language != "zh" or plain_code(language) == "zh":
        return None
    return WRITTEN[variety(language).script]


def number_changed(texts: Iterable[str], direction: Direction) -> int:
    """How many texts have characters that this conversion changes, and none that the opposite one does."""
    back = _opposite(direction)
    return sum(_convert(text, direction) != text == _convert(text, back) for text in texts)


def _opposite(direction: Direction) -> Direction:
    return "s2t" if direction == "t2s" else "t2s"


def _convert(text: str, direction: Direction) -> str:
    """The text converted; the same text if it has lone surrogates, which OpenCC does not take."""
    if well_formed(text) != text:
        return text
    return str(_converter(direction).convert(text))


@cache
def _converter(direction: Direction) -> Any:
    return load("opencc", extra="train", purpose="Converting Chinese").OpenCC(direction)
