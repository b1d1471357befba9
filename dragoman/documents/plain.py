"""Plain text: finds paragraphs, whose lines are wrapped again if they were wrapped, and the cells of tables."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from dragoman.documents.document import UNKNOWN, Document, Segment, has_words
from dragoman.documents.lines import columns, filled, joined, units
from dragoman.text.characters import has_letters
from dragoman.text.language_codes import Languages
from dragoman.text.lines import ITEM, may_go_on

_LINE = re.compile(r"[^\r\n\v\f\x85\u2028\u2029]+")
_END = re.compile(r"[.!?:;。！？：；…][\"'”’»”」』)\]]*\s*\Z")
_BEFORE = re.compile(rf"[\ufeff\s]*(?:>[> \t]*)?(?:{ITEM.pattern})?\s*")
"""Indentation, the mark of a quotation in a letter, and the mark of an item."""
_QUOTED = re.compile(r"\s*(?:>[> \t]*)?")
_BAR = re.compile("[|│┃║]")
_GAP = re.compile(r"(?<=\S)(?:[ \t]*\t[ \t]*| {2,}(?=\S))")
SLACK = 8
"""Most columns by which a wrapped line is shorter than it could be."""


@dataclass(frozen=True)
class _Line:
    start: int
    end: int
    text: str
    first: int
    """Index at which the text of the line begins, after indentation and marks."""
    cells: Sequence[tuple[int, int]]
    """Start and end of each cell of a row of a table; empty for other lines."""


def read_text(text: str, languages: Languages = UNKNOWN) -> Document:
    """The segments of a text: its lines, where those that a sentence goes across are one, and cells of tables."""
    segments: list[Segment] = []
    for block in _blocks(text):
        width = max(columns(line.text) for line in block)
        groups = [block[:1]]
        for before, line in pairwise(block):
            if _goes_on(before, line, width):
                groups[-1].append(line)
            else:
                groups.append([line])
        for group in groups:
            segments += _row(group[0]) if group[0].cells else _paragraph(text, group)
    return Document(text, segments)


def _blocks(text: str) -> Iterator[list[_Line]]:
    """Groups of lines that follow each other without an empty line in between."""
    spans = [match.span() for match in _LINE.finditer(text)]
    gaps = [_ends_of_gaps(text[start:end]) for start, end in spans]
    block: list[_Line] = []
    for number, (start, end) in enumerate(spans):
        is_blank = not text[start:end].strip()
        if block and (is_blank or text[block[-1].end : start] not in ("\n", "\r\n", "\r")):
            yield block
            block = []
        if not is_blank:
            neighbours = set().union(*gaps[max(0, number - 1) : number], *gaps[number + 1 : number + 2])
            first = _BEFORE.match(text, start, end).end()
            block.append(_Line(start, end, text[start:end], first, _cells(text, first, start, end, neighbours)))
    if block:
        yield block


def _ends_of_gaps(line: str) -> set[int]:
    """Indices at which a cell may begin: after at least two spaces."""
    return {gap.end() for gap in _GAP.finditer(line.rstrip())}


def _cells(text: str, first: int, start: int, end: int, neighbours: set[int]) -> list[tuple[int, int]]:
    """The cells of a row of a table, which has bars around it, or tabs or several spaces between its cells.

    Two spaces are enough if the line before or after has such a gap up to the same column.
    """
    line = text[start:end].rstrip()
    if _BAR.match(line.lstrip()[:1]) and _BAR.match(line[-1]) and len(line.strip()) > 1:
        bars = [match.start() + start for match in _BAR.finditer(line)]
        return [(left + 1, right) for left, right in pairwise(bars)]
    cells, position = [], first
    for gap in _GAP.finditer(text, first, start + len(line)):
        after_sentence = _END.search(text[max(first, gap.start() - 4) : gap.start()])
        is_wide = "\t" in gap[0] or len(gap[0]) > 2
        if is_wide or (gap.end() - start in neighbours and not after_sentence):
            cells.append((position, gap.end()))
            position = gap.end()
    return [*cells, (position, start + len(line))] if cells else []


def _row(line: _Line) -> Iterator[Segment]:
    """The segments of a row, one for each cell. Spaces behind a translation fill its cell, so that columns stay."""
    for start, end in line.cells:
        cell = line.text[start - line.start : end - line.start]
        core = cell.strip()
        start += len(cell) - len(cell.lstrip())
        if not has_words([core]):
            continue
        space = cell[len(cell.rstrip()) :]
        if not space or "\t" in space:
            yield Segment(start, start + len(core), [core])
            continue
        width = columns(core) + len(space)
        least = 1 if _BAR.match(line.text[end - line.start : end - line.start + 1]) else 2

        def padded(text: str, width: int = width, least: int = least) -> str:
            return text + " " * max(least, width - columns(text))

        yield Segment(start, end, [core], wrap=padded)


def _goes_on(before: _Line, line: _Line, width: int) -> bool:
    """Whether a sentence goes on from one line to the next, since its next word had no place in the first."""
    if before.cells or line.cells:
        return False
    mark_before, mark = _QUOTED.match(before.text)[0], _QUOTED.match(line.text)[0]
    rest = line.text[len(mark) :]
    if mark_before.strip() != mark.strip() or not may_go_on(before.text.rstrip(), rest.rstrip()):
        return False
    if not has_letters(before.text) or not has_letters(rest):
        return False
    word = units([rest[:200]])[0].text
    return rest[0].islower() or columns(before.text) + 1 + columns(word) > width - SLACK


def _paragraph(text: str, lines: Sequence[_Line]) -> Iterator[Segment]:
    """The segment of lines that belong together, which are wrapped again; none if they have no words."""
    start = lines[0].first
    end = lines[-1].start + len(lines[-1].text.rstrip())
    parts = [text[start : lines[0].end], *(line.text[len(_QUOTED.match(line.text)[0]) :] for line in lines[1:])]
    content = joined("\n".join(parts)).strip()
    if start >= end or not has_words([content]):
        return
    if len(lines) == 1:
        yield Segment(start, end, [content])
        return
    width = max(columns(line.text) for line in lines)
    newline = text[lines[0].end : lines[1].start]
    indent = _QUOTED.match(lines[1].text)[0]
    column = columns(text[lines[0].start : start])

    def wrapped(translation: str) -> str:
        return (newline + indent).join(filled(width, column, columns(indent), units([translation])))

    yield Segment(start, end, [content], wrap=wrapped)
