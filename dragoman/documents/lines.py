"""Texts that stand in several lines: joined before they are translated, and arranged in lines again afterwards."""

import re
import unicodedata
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

from dragoman.documents.document import Code, Content, Segment
from dragoman.text.scripts import is_unspaced

_NEWLINE = re.compile(r"(?<![ \t])[ \t]*(?:\r\n|[\r\n])[ \t]*")
_WIDE_MARKS = "\u3001-\u3003\u3008-\u3020\u3030\uff01-\uff0f\uff1a-\uff20\uff3b-\uff40\uff5b-\uff65"
_WIDE_MARK = re.compile(f"[{_WIDE_MARKS}]")
_IDEOGRAPH = "\u2e80-\u2fd5\u3005-\u3007\u3021-\u3096\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_KATAKANA = "\u3099-\u30ff\u31f0-\u31ff\uff66-\uff9f"
_OPENING = "(\\[{\"'«“‘（［｛「『【〔〈《"
# A line neither begins with a closing mark nor ends with an opening one, and no word of katakana is cut.
_UNIT = re.compile(
    rf"[{_OPENING}]*(?:[{_IDEOGRAPH}]|[{_KATAKANA}]+|[^\s{_IDEOGRAPH}{_KATAKANA}]+?)"
    rf"(?:[\u3041\u3043\u3045\u3047\u3049\u3063\u3083\u3085\u3087{_WIDE_MARKS}](?<![（［｛「『【〔〈《])|[)\]}}.,;:!?…’”»\"'])*"
    rf"(?=[{_OPENING}]*[{_IDEOGRAPH}{_KATAKANA}]|\s|\Z)|\S+"
)
_PUNCTUATION = re.compile(r"[.,;:!?…、。，．！？；：][\"')\]’”»」』）]*\Z")
_SPACES = " \t\r\n"
_NEARBY = 12
"""Units on each side of the best place of a line's end that are looked at."""


def joined(text: str) -> str:
    """Lines as one. There is a space between them, except between characters of scripts without spaces."""

    def seam(newline: re.Match[str]) -> str:
        before, after = text[max(0, newline.start() - 1) : newline.start()], text[newline.end() : newline.end() + 1]
        return "" if _is_unspaced(before) and _is_unspaced(after) else " "

    return _NEWLINE.sub(seam, text)


def _is_unspaced(character: str) -> bool:
    return is_unspaced(character) or bool(_WIDE_MARK.match(character))


@dataclass(slots=True)
class Unit:
    """A part of a text that is not divided between lines."""

    gap: str
    """A space if there is one before it."""
    text: str
    begins_line: bool = True
    """Whether it may be the first one of a line."""


def units(content: Content) -> list[Unit]:
    """The units of a text: its words, in Chinese and Japanese its characters. Codes are written as their markup."""
    found: list[tuple[str, list[str]]] = []
    spaced = True  # whether what comes next is not written together with what was before
    for piece in content:
        text = piece.markup if isinstance(piece, Code) else piece
        core = text.strip(_SPACES)
        spaced = spaced or text[:1] in _SPACES
        parts = [("", core)] if isinstance(piece, Code) else _parts(core)
        for number, (gap, part) in enumerate(parts if core else ()):
            if number == 0 and found and not spaced:
                found[-1][1].append(part)
            else:
                found.append((" " if number == 0 and found else gap, [part]))
        spaced = text[-1:] in _SPACES if core else spaced
    return [Unit(gap, "".join(texts)) for gap, texts in found]


def _parts(text: str) -> Iterator[tuple[str, str]]:
    last = 0
    for unit in _UNIT.finditer(text) if not text.isascii() else re.finditer(r"\S+", text):
        yield (" " if unit.start() > last else ""), unit[0]
        last = unit.end()


def in_lines(lengths: Sequence[int], parts: Sequence[Unit]) -> list[str]:
    """A text in as many lines as there are `lengths`, each with about the same share of the text as of these.

    A line rather ends after a mark of punctuation. There are fewer lines if the text has fewer units.
    """
    offsets = list(accumulate((len(unit.gap) + len(unit.text) for unit in parts), initial=0))
    candidates = [index for index in range(1, len(parts)) if parts[index].begins_line]
    places = [offsets[index] for index in candidates]
    scale = offsets[-1] / max(1, sum(lengths))
    ends: list[int] = []
    first = 0  # of the candidates that are left
    for number, end in enumerate(accumulate(lengths[:-1]), start=1):
        last = len(candidates) - (len(lengths) - 1 - number)  # some are left for the lines that follow
        if first >= len(candidates):
            break
        target, length = end * scale, offsets[-1] / len(lengths)
        nearest = bisect_left(places, target)
        nearby = range(max(first, nearest - _NEARBY), min(max(last, first + 1), nearest + _NEARBY)) or [
            min(max(nearest, first), max(last - 1, first))
        ]

        def cost(index: int, target: float = target, length: float = length) -> float:
            number = candidates[index]
            bonus = 0.1 if parts[number].gap else 0.3
            ends_clause = _PUNCTUATION.search(parts[number - 1].text)
            return abs(places[index] - target) - (bonus * length if ends_clause else 0)

        best = min(nearby, key=cost)
        ends.append(candidates[best])
        first = best + 1
    return [written(parts[start:end]) for start, end in zip([0, *ends], [*ends, len(parts)], strict=True)]


def filled(width: int, first: int, indent: int, parts: Sequence[Unit]) -> list[str]:
    """A text in lines of at most `width` columns; the first and the other lines begin at these columns."""
    lines: list[list[Unit]] = [[]]
    used = first
    for unit in parts:
        needed = columns(unit.gap) + columns(unit.text)
        if lines[-1] and used + needed > width and unit.begins_line:
            lines.append([])
            used = indent
        lines[-1].append(unit)
        used += needed
    return [written(line) for line in lines]


def written(parts: Sequence[Unit]) -> str:
    """Units as one text, without a space before the first."""
    return "".join(unit.gap * (number > 0) + unit.text for number, unit in enumerate(parts))


def columns(text: str) -> int:
    """The width of a text where every letter has one column, and those of Chinese, Japanese and Korean have two."""
    if text.isascii():
        return len(text)
    return sum(
        2 if unicodedata.east_asian_width(each) in "WF" else 0 if unicodedata.combining(each) else 1 for each in text
    )


@dataclass(frozen=True)
class LinedSegment(Segment):
    """A segment whose translation has as many lines as its source, if it has as many words."""

    lengths: Sequence[int] = ()
    """Characters in each line of the source."""
    newlines: Sequence[str] = ()
    """What stands between the lines."""

    def written(self, content: Content) -> str:
        """A translation as it is written into the document."""
        lines = in_lines(self.lengths, units(content))
        return "".join(line + end for line, end in zip(lines, [*self.newlines[: len(lines) - 1], ""], strict=True))
