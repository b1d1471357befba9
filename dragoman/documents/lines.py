"""Joins the lines of a text before it is translated, and arranges the translation in lines again."""

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
"""Number of units on each side of the ideal end of a line that are looked at."""


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
    """A space before the unit, or ""."""
    text: str
    begins_line: bool = True
    """Whether the unit may be the first one of a line."""


def units(content: Content) -> list[Unit]:
    """The units of a text: its words, in Chinese and Japanese its characters. Codes are written as their markup.

    A code and a word that touch are one unit.
    """
    collected: list[tuple[str, list[str]]] = []  # for each unit, its gap and the texts that it consists of
    is_apart = True  # whether a space is before the next text
    for piece in content:
        text = piece.markup if isinstance(piece, Code) else piece
        core = text.strip(_SPACES)
        is_apart = is_apart or text[:1] in _SPACES
        if not core:
            continue
        parts = [("", core)] if isinstance(piece, Code) else _parts(core)
        for number, (gap, part) in enumerate(parts):
            if number == 0 and collected and not (is_apart or gap):
                collected[-1][1].append(part)
            else:
                collected.append((gap or (" " if number == 0 and collected else ""), [part]))
        is_apart = text[-1:] in _SPACES
    return [Unit(gap, "".join(texts)) for gap, texts in collected]


def _parts(text: str) -> Iterator[tuple[str, str]]:
    """Gap and text of each unit of a text without codes."""
    position = 0
    for unit in _UNIT.finditer(text) if not text.isascii() else re.finditer(r"\S+", text):
        yield (" " if unit.start() > position else ""), unit[0]
        position = unit.end()


def in_lines(lengths: Sequence[int], parts: Sequence[Unit]) -> list[str]:
    """A text in as many lines as there are `lengths`, each with about the share of the text that it has of these.

    Lines end after a mark of punctuation if one is near. There are fewer lines if the text has fewer units.
    """
    offsets = list(accumulate((len(unit.gap) + len(unit.text) for unit in parts), initial=0))
    candidates = [index for index in range(1, len(parts)) if parts[index].begins_line]
    positions = [offsets[index] for index in candidates]
    scale = offsets[-1] / max(1, sum(lengths))
    average_length = offsets[-1] / max(1, len(lengths))
    ends: list[int] = []
    first = 0  # of the candidates that are left
    for number, end in enumerate(accumulate(lengths[:-1]), start=1):
        if first >= len(candidates):
            break
        last = len(candidates) - (len(lengths) - 1 - number)  # some are left for the lines that follow
        target = end * scale
        nearest = bisect_left(positions, target)
        nearby = range(max(first, nearest - _NEARBY), min(max(last, first + 1), nearest + _NEARBY))
        if not nearby:
            closest = min(max(nearest, first), max(last - 1, first))
            nearby = range(closest, closest + 1)

        def cost(index: int, target: float = target) -> float:
            unit, before = parts[candidates[index]], parts[candidates[index] - 1]
            bonus = 0.1 if unit.gap else 0.3
            ends_clause = _PUNCTUATION.search(before.text)
            return abs(positions[index] - target) - (bonus * average_length if ends_clause else 0)

        best = min(nearby, key=cost)
        ends.append(candidates[best])
        first = best + 1
    return [written(parts[start:end]) for start, end in zip([0, *ends], [*ends, len(parts)], strict=True)]


def filled(width: int, first: int, indent: int, parts: Sequence[Unit]) -> list[str]:
    """A text in lines of at most `width` columns. The first line begins at column `first`, the others at `indent`."""
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
    """The units as one text, without a space before the first."""
    return "".join(unit.gap * (number > 0) + unit.text for number, unit in enumerate(parts))


def columns(text: str) -> int:
    """The width of a text where every letter has one column, and those of Chinese, Japanese and Korean have two."""
    return len(text) if text.isascii() else sum(map(_columns_of, text))


def _columns_of(character: str) -> int:
    if unicodedata.east_asian_width(character) in "WF":
        return 2
    return 0 if unicodedata.combining(character) else 1


@dataclass(frozen=True)
class LinedSegment(Segment):
    """A segment whose translation has as many lines as its source, if it has as many words."""

    lengths: Sequence[int] = ()
    """Characters in each line of the source."""
    newlines: Sequence[str] = ()
    """The line breaks between these lines, with the spaces behind them."""

    def written(self, content: Content) -> str:
        """The translation as it is written into the document."""
        spelled = [part if isinstance(part, Code) else self.write(part) for part in content]
        lines = in_lines(self.lengths, units(spelled))
        return "".join(line + end for line, end in zip(lines, [*self.newlines[: len(lines) - 1], ""], strict=True))
