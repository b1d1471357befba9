"""Plain text: paragraphs, whose lines are wrapped again if they were wrapped."""

import re
import textwrap
from itertools import pairwise

from dragoman.documents.document import UNKNOWN, Document, Languages, Segment, has_words

_LINE = re.compile(r"[^\r\n]+")
_END = re.compile(r"[.!?:;。！？：；…][\"'”’»」』)\]]*\s*$")
_ITEM = re.compile(r"\s*([-*•–·]|\d{1,3}[.)]|[a-zA-Z][.)])\s")
NARROWEST = 40
"""Characters of a line that may have been wrapped."""


def read_text(text: str, languages: Languages = UNKNOWN) -> Document:
    """The segments of a text: its lines, but lines that a sentence goes across are one."""
    lines = [match.span() for match in _LINE.finditer(text)]
    groups = [[line] for line in lines[:1]]
    for before, line in pairwise(lines):
        if _goes_on(text, before, line):
            groups[-1].append(line)
        else:
            groups.append([line])
    return Document(text, [segment for group in groups if (segment := _segment(text, group))])


def _goes_on(text: str, before: tuple[int, int], line: tuple[int, int]) -> bool:
    first, second = text[slice(*before)], text[slice(*line)]
    return (
        text[before[1] : line[0]] in ("\n", "\r\n")
        and len(first) >= NARROWEST
        and not _END.search(first)
        and not _ITEM.match(second)
        and bool(first.strip())
        and bool(second.strip())
    )


def _segment(text: str, lines: list[tuple[int, int]]) -> Segment | None:
    start, end = lines[0][0], lines[-1][1]
    whole = text[start:end]
    start += len(whole) - len(whole.lstrip("\ufeff \t\u3000"))
    if item := _ITEM.match(text, start, end):
        start = item.end()
    end -= len(whole) - len(whole.rstrip())
    content = " ".join(text[max(start, left) : right].strip() for left, right in lines)
    if not has_words([content]) or start >= end:
        return None
    if len(lines) == 1:
        return Segment(start, end, [content])
    width = max(right - left for left, right in lines)
    newline = "\r\n" if text[lines[0][1]] == "\r" else "\n"
    second = text[slice(*lines[1])]
    indent = second[: len(second) - len(second.lstrip())]

    def wrapped(translation: str) -> str:
        first = " " * (start - lines[0][0])
        found = textwrap.wrap(
            translation, width, initial_indent=first, subsequent_indent=indent, break_long_words=False,
            break_on_hyphens=False,
        )  # fmt: skip
        return newline.join(found)[len(first) :]

    return Segment(start, end, [content], wrap=wrapped)
