"""Subtitles, SRT and WebVTT: the text of each cue in as many lines as it had; times and settings stay."""

import re
from collections.abc import Sequence
from functools import partial
from itertools import accumulate

from dragoman.documents.document import UNKNOWN, Code, Content, Document, Languages, Segment, has_words, trimmed

_TIME = r"(?:\d+:)?\d{1,2}:\d{2}[.,]\d{1,3}"
_CUE = re.compile(rf"^[ \t]*{_TIME}[ \t]*-->[ \t]*{_TIME}[^\n]*\n(?P<text>(?:[ \t]*\S[^\n]*(?:\n|\Z))*)", re.MULTILINE)
_CODE = re.compile(r"<(?P<close>/?)(?P<name>[a-zA-Z]*)[^<>\n]*>|\{\\[^{}\n]*\}")
_SPEAKER = re.compile(r"\s*[-–—]\s")


def read_subtitles(text: str, languages: Languages = UNKNOWN) -> Document:
    """The segments of a file: cues, of which one with two speakers has two."""
    segments = []
    for cue in _CUE.finditer(text):
        lines = [(m.start() + cue.start("text"), m[0]) for m in re.finditer(r"[^\r\n]+", cue["text"])]
        speakers = [number for number, (_, line) in enumerate(lines) if _SPEAKER.match(line)]
        groups = [[line] for line in lines] if len(speakers) == len(lines) > 1 else [lines]
        segments += [segment for group in groups if group and (segment := _segment(text, group))]
    return Document(text, segments)


def _segment(text: str, lines: list[tuple[int, str]]) -> Segment | None:
    start, end = lines[0][0], lines[-1][0] + len(lines[-1][1].rstrip())
    if dash := _SPEAKER.match(lines[0][1]):
        start += dash.end()
    content = trimmed(split_codes(re.sub(r"\s*\r?\n\s*", " ", text[start:end])))
    newlines = ["\r\n" if "\r\n" in text[start:end] else "\n"] * (len(lines) - 1)
    lengths = [len(line) for _, line in lines]
    return Segment(start, end, content, wrap=partial(in_lines, lengths, newlines)) if has_words(content) else None


def split_codes(text: str) -> Content:
    """The text with its tags as codes."""
    content: list[str | Code] = []
    last = 0
    for match in _CODE.finditer(text):
        kind = "close" if match["close"] else "open" if match["name"] else "alone"
        content += [text[last : match.start()], Code(match[0], kind, match["name"] or "")]
        last = match.end()
    return [*content, text[last:]]


def in_lines(lengths: Sequence[int], newlines: Sequence[str], text: str) -> str:
    """The text in lines of which each has about the same share as one of `lengths`, and `newlines` between them."""
    if len(lengths) < 2:
        return text
    ends = [len(text) * end / sum(lengths) for end in accumulate(lengths)]
    lines, used = [""], 0
    for word in re.findall(r"(?:<[^<>]*>|\S)+", text):
        if lines[-1] and len(lines) < len(lengths) and used + len(word) / 2 > ends[len(lines) - 1]:
            lines.append("")
        lines[-1] += " " * bool(lines[-1]) + word
        used += len(word) + 1
    return "".join(line + newline for line, newline in zip(lines, [*newlines[: len(lines) - 1], ""], strict=True))
