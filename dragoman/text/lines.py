"""Lines of a text: joins those that are one stretch of running text, and breaks the translation again."""

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import pairwise

from dragoman.text.characters import BOM, WIDE
from dragoman.text.patterns import LazyPattern

BREAK = "\r\n|[\n\r\v\f\x85\u2029]"
"""Pattern of what ends a line."""
ITEM = re.compile(
    r"[-*+•‣⁃·▪◦●–—][^\S\r\n]+(?=\S)"
    r"|(?:\d{1,3}(?:\.\d{1,3})*[.)]|\(\d{1,3}\)|\[\d{1,3}\]|\(?[a-zA-Z]\)|\(?[ivxIVX]{1,5}\)|[ivxIVX]{2,5}\.)[^\S\r\n]+(?=\S)"
)
"""The mark or number of an item of a list and the space after it, at the beginning of a line."""
NARROWEST = 40
"""Fewest columns of a line that may have been wrapped."""
_BREAK = re.compile(BREAK)
_INNER_BREAK = re.compile(rf"(?<![ \t])[ \t]*(?:{BREAK}|\u2028)(?:[ \t]|{BREAK}|\u2028)*")
_END = re.compile(r"[.!?:;。！？：；…।؟][\"'”’»」』)\]]*$")
_LABEL = re.compile(r"[\w-]+(?: [\w-]+)?: ")
_WIDE = LazyPattern(WIDE)
_GAP = LazyPattern(rf"[ \t]+|(?<={WIDE})(?=(?![，。、；：？！」』”’）》]){WIDE})")


def stretches(text: str, begin: int = 0) -> Iterator[tuple[int, int]]:
    """Start and end of each stretch of running text, without the blanks around it.

    It is a line, or several lines if a sentence goes across them, as in a text that was wrapped. The text before
    `begin` is left out.
    """
    lines = [(start, end) for start, end in _lines(text, begin) if start < end]
    if not lines:
        return
    stretch_start = lines[0][0]
    for line, following in pairwise(lines):
        if not _goes_on(text, line, following):
            yield stretch_start, line[1]
            stretch_start = following[0]
    yield stretch_start, lines[-1][1]


def _lines(text: str, begin: int) -> Iterator[tuple[int, int]]:
    """Start and end of each line, without the blanks around it."""
    breaks = [match.span() for match in _BREAK.finditer(text, begin)]
    for break_start, break_end in [*breaks, (len(text), len(text))]:
        line = text[begin:break_start]
        left = len(line) - len(line.lstrip().lstrip(BOM).lstrip())
        right = len(line.rstrip().rstrip(BOM).rstrip())
        yield begin + left, begin + max(left, right)
        begin = break_end


def _goes_on(text: str, line: tuple[int, int], following: tuple[int, int]) -> bool:
    """Whether a sentence goes on in the following line."""
    is_next = len(_BREAK.findall(text, line[1], following[0])) == 1
    return is_next and may_go_on(text[slice(*line)], text[slice(*following)])


def may_go_on(line: str, following: str) -> bool:
    """Whether a sentence may go on in the next line: not after a short line or its end, nor in a new item or label.

    Both lines are without blanks around them.
    """
    return (
        _columns(line) >= NARROWEST
        and not _END.search(line[-10:])
        and not ITEM.match(following)
        and not _LABEL.match(following)
    )


def _columns(text: str) -> int:
    """Columns that a line takes on a screen; Chinese and Japanese characters take two."""
    return len(text) + len(_WIDE.findall(text[:NARROWEST]))


def broken_like(translation: str, source: str) -> tuple[str, list[int]]:
    """A translation with the line breaks of its source, each where about the same share of the text stands before it.

    It is broken at spaces, or between Chinese and Japanese characters; breaks for which there is no gap come at the
    end. Also returns the positions of breaks that replace no space.
    """
    breaks = list(_INNER_BREAK.finditer(source))
    if not breaks or len(_INNER_BREAK.findall(translation)) == len(breaks):
        return translation, []
    translation = _INNER_BREAK.sub(" ", translation)
    gaps = [match.span() for match in _GAP.finditer(translation)]
    chosen = _nearest([len(translation) * match.start() / len(source) for match in breaks], gaps)
    parts: list[str] = []
    without_space: list[int] = []
    position = 0
    for match, (start, end) in zip(breaks, chosen, strict=False):
        parts += [translation[position:start], match[0]]
        if start == end:
            without_space.append(start)
        position = end
    breaks_left = [match[0] for match in breaks[len(chosen) :]]
    return "".join([*parts, translation[position:], *breaks_left]), without_space


def _nearest(wanted: Sequence[float], gaps: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """For each wanted position a gap near it, in order and each once; fewer if there are not enough gaps."""
    chosen: list[tuple[int, int]] = []
    first = 0
    for number, position in enumerate(wanted):
        if first >= len(gaps):
            break
        last = max(first, len(gaps) - len(wanted) + number)  # later breaks need gaps, too
        after = bisect_left(gaps, (position, position), first, last)
        before = max(first, after - 1)
        best = before if position - gaps[before][0] < gaps[after][0] - position else after
        chosen.append(gaps[best])
        first = best + 1
    return chosen
