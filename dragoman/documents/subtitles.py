"""Subtitles, SRT and WebVTT: finds the text of each cue, which keeps its number of lines. Times and settings stay."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from html import escape
from itertools import pairwise

from dragoman.documents.document import (
    UNKNOWN,
    Code,
    Content,
    Document,
    Languages,
    Segment,
    has_words,
    trimmed,
    with_spaces_outside,
)
from dragoman.documents.html_tokens import as_text
from dragoman.documents.lines import LinedSegment, joined

_WEBVTT = re.compile(r"\ufeff?WEBVTT(?:\s|\Z)")
_LINE = re.compile(r"([^\r\n]*)(?:\r\n?|\n|\Z)")
_NEWLINE = re.compile(r"(?:\r\n?|\n)[^\S\r\n]*")
_TIME = r"[ \t]*-?\d{1,4}(?::\d{1,2}){1,2}(?:[ \t]*[.,:][ \t]*-?\d{1,4})?[ \t]*"
_TIMES = re.compile(rf"\ufeff?{_TIME}-{{1,2}}>{_TIME}(?:[ \t]|\Z|[^\d:.,])")
_NUMBER = re.compile(r"\ufeff?\s*\d+\s*\Z")
_OTHER_BLOCK = re.compile(r"(?:NOTE|STYLE|REGION)(?:\s|\Z)")
_CODE = re.compile(r"<(?P<close>/?)(?P<name>[a-zA-Z][\w-]*)(?:[^\w<>\n-][^<>\n]*)?>|<\d[\d:.,]*>|\{\\[^{}\n]*\}")
_SPEAKER = re.compile(r"\s*(?:(?:[-–—‒―‐]+|>{2,}|<{2,})\s*(?=[^\W\d_]|[<{\[(\"'“«¿¡♪.…]))")
"""The mark before what a speaker says."""
_NAME = re.compile(r"[^\W\d_][^:<>\n]{0,30}:(?=\s)")
_BEFORE = re.compile(r"(?:\{\\[^{}\n]*\}|\s|[♪♫♬])*")
_AFTER = re.compile(r"[\s♪♫♬]*\Z")
_ASIDE = re.compile(r"\[[^\[\]]*\]|\([^()]*\)")
"""A description of something that is heard and not said, such as [door slams]."""


@dataclass(frozen=True)
class _Line:
    start: int
    text: str
    newline: str


def read_subtitles(text: str, languages: Languages = UNKNOWN) -> Document:
    """The segments of a file: its cues. A cue with two speakers has two segments."""
    lines = [
        _Line(match.start(), match[1], match[0][len(match[1]) :])
        for match in _LINE.finditer(text)
        if match.start() < len(text)
    ]
    times = [number for number, line in enumerate(lines) if _TIMES.match(line.text)]
    is_webvtt = _WEBVTT.match(text) is not None
    segments = []
    for first, following in pairwise([*times, len(lines)]):
        cue = lines[first + 1 : following]
        if following < len(lines):
            cue = _without_name(cue)
        for block in _blocks(cue):
            for speech in _speeches(block):
                segment = _segment(speech, has_references=is_webvtt)
                if segment:
                    segments.append(segment)
    return Document(text, segments)


def _without_name(lines: list[_Line]) -> list[_Line]:
    """The lines of a cue without the number or the name of the next one, which stands directly before its times."""
    if lines and lines[-1].text.strip():
        if _NUMBER.match(lines[-1].text) or (len(lines) > 1 and not lines[-2].text.strip()):
            return lines[:-1]
    elif len(lines) > 1 and _NUMBER.match(lines[-2].text):  # an empty line between a number and its times
        return lines[:-2]
    return lines


def _blocks(lines: Sequence[_Line]) -> Iterator[list[_Line]]:
    """The stretches of lines between empty ones, without comments, styles and regions of WebVTT."""
    block: list[_Line] = []
    after_empty_line = False
    for line in [*lines, _Line(0, "", "")]:
        if line.text.strip():
            block.append(line)
            continue
        if after_empty_line and len(block) > 1 and _NUMBER.match(block[0].text):  # of a cue without times
            block = block[1:]
        if block and not (after_empty_line and _OTHER_BLOCK.match(block[0].text)):
            yield block
        block, after_empty_line = [], True


def _speeches(lines: list[_Line]) -> Iterator[list[_Line]]:
    """The lines of each speaker; all lines if there is one speaker."""
    begins = [_begins_speech(_CODE.sub("", line.text)) for line in lines]
    if sum(begins) < 2:
        yield lines
        return
    group: list[_Line] = []
    for line, begins_speech in zip(lines, begins, strict=True):
        if begins_speech and group:
            yield group
            group = []
        group.append(line)
    yield group


def _begins_speech(line: str) -> bool:
    """Whether a line begins with the mark of a speaker, or a name in capitals as in `TOM: Hello`."""
    start = _BEFORE.match(line).end()
    name = _NAME.match(line, start)
    return bool(_SPEAKER.match(line, start)) or bool(name and name[0].isupper())


def _segment(lines: Sequence[_Line], *, has_references: bool) -> Segment | None:
    """The segment of some lines. Marks of speakers and music around the text, and brackets around all of it, stay.

    WebVTT has references to characters, as HTML has them.
    """
    whole = "".join(line.text + line.newline for line in lines[:-1]) + lines[-1].text
    start = _BEFORE.match(whole).end()
    if speaker := _SPEAKER.match(whole, start):
        start = _BEFORE.match(whole, speaker.end()).end()
    last_word_end = len(whole) - len(lines[-1].text) + len(lines[-1].text.rstrip())
    end = max(start, _AFTER.search(whole, max(start, last_word_end - 50)).start())
    if _ASIDE.fullmatch(whole, start, end):
        start, end = start + 1, end - 1
    parts = split_codes(joined(whole[start:end]))
    if has_references:
        parts = [part if isinstance(part, Code) else as_text(part) for part in parts]
    content = with_spaces_outside(trimmed(parts))
    if not has_words(content):
        return None
    lengths = [len(line) for line in _NEWLINE.split(whole[start:end])]
    newlines = _NEWLINE.findall(whole[start:end])
    write = partial(escape, quote=False) if has_references else str
    return LinedSegment(
        lines[0].start + start, lines[0].start + end, content, write=write, lengths=lengths, newlines=newlines
    )


def split_codes(text: str) -> Content:
    """The text with its tags as codes."""
    content: list[str | Code] = []
    last = 0
    for match in _CODE.finditer(text):
        kind = "alone"
        if match["name"]:
            kind = "close" if match["close"] else "open"
        content += [text[last : match.start()], Code(match[0], kind, match["name"] or "")]
        last = match.end()
    return [*content, text[last:]]
