"""Lines of a text: which of them are one stretch of running text, and where its translation is broken again."""

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import pairwise

from dragoman.text.characters import BOM, WIDE

BREAK = "\r\n|[\n\r\v\f\x85\u2029]"
"""What ends a line, as a pattern."""
ITEM = re.compile(
    r"[-*+•‣⁃·▪◦●–—][^\S\r\n]+(?=\S)"
    r"|(?:\d{1,3}(?:\.\d{1,3})*[.)]|\(\d{1,3}\)|\[\d{1,3}\]|\(?[a-zA-Z]\)|\(?[ivxIVX]{1,5}\)|[ivxIVX]{2,5}\.)[^\S\r\n]+(?=\S)"
)
"""The mark or number of an item of a list and the space after it, at the beginning of a line."""
NARROWEST = 40
"""Columns of a line that may have been wrapped."""
_BREAK = re.compile(BREAK)
_INNER_BREAK = re.compile(rf"(?<![ \t])[ \t]*(?:{BREAK}|\u2028)(?:[ \t]|{BREAK}|\u2028)*")
_END = re.compile(r"[.!?:;。！？：；…।؟][\"'”’»」』)\]]*$")
_LABEL = re.compile(r"[\w-]+(?: [\w-]+)?: ")
_WIDE = re.compile(WIDE)
_ROOM = re.compile(rf"[ \t]+|(?<={WIDE})(?=(?![，。、；：？！」』”’）》]){WIDE})")


def stretches(text: str, begin: int = 0) -> Iterator[tuple[int, int]]:
    """Start and end of each stretch of running text, without the blanks around it: a line, or several that a sentence
    goes across, as in a text that was wrapped. The text before `begin` is left out."""
    lines = [line for line in _lines(text, begin) if line[0] < line[1]]
    start = 0
    for index, (line, following) in enumerate(pairwise([*lines, None])):
        if following is None or not _goes_on(text, line, following):
            yield lines[start][0], line[1]
            start = index + 1


def _lines(text: str, begin: int) -> Iterator[tuple[int, int]]:
    """Start and end of each line, without the blanks around it."""
    for start, end in [*(match.span() for match in _BREAK.finditer(text, begin)), (len(text), len(text))]:
        line = text[begin:start]
        left = len(line) - len(line.lstrip().lstrip(BOM).lstrip())
        yield begin + left, begin + max(left, len(line.rstrip().rstrip(BOM).rstrip()))
        begin = end


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
    return len(text) + len(_WIDE.findall(text[:NARROWEST]))


def broken_like(translation: str, source: str) -> tuple[str, list[int]]:
    """A translation with the line breaks of its source, each where about the same share of the text stands before it.

    It is broken at spaces, or between Chinese and Japanese characters; what finds no room comes at the end. Also
    returns where breaks were put that replace no space.
    """
    breaks = [match for match in _INNER_BREAK.finditer(source)]
    if not breaks or len(_INNER_BREAK.findall(translation)) == len(breaks):
        return translation, []
    translation = _INNER_BREAK.sub(" ", translation)
    rooms = [match.span() for match in _ROOM.finditer(translation)]
    chosen = _nearest([len(translation) * match.start() / len(source) for match in breaks], rooms)
    parts, done, within = [], 0, []
    for match, (start, end) in zip(breaks, chosen, strict=False):
        parts += [translation[done:start], match[0]]
        within += [start] if start == end else []
        done = end
    left = [match[0] for match in breaks[len(chosen) :]]
    return "".join([*parts, translation[done:], *left]), within


def _nearest(wanted: Sequence[float], rooms: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """For each wanted position a room of its own, near it, in order."""
    chosen, first = [], 0
    for number, position in enumerate(wanted):
        if first >= len(rooms):
            break
        last = max(first, len(rooms) - len(wanted) + number)  # later breaks need rooms, too
        after = bisect_left(rooms, (position, position), first, last)
        before = max(first, after - 1)
        best = before if position - rooms[before][0] < rooms[after][0] - position else after
        chosen.append(rooms[best])
        first = best + 1
    return chosen
