"""A document as its text and the segments in it that are translated."""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from dragoman.text.characters import has_letters
from dragoman.text.language_codes import Languages

FEW_SPACES = 2
"""Most spaces that have no format of their own."""


class FormatError(Exception):
    """A fault of a document. Its message is a sentence without a subject: the caller puts the document's name first."""


@dataclass(frozen=True)
class Code:
    """Markup in a text, such as a tag."""

    markup: str
    """The code as the document spells it."""
    kind: Literal["open", "close", "alone", "word", "break"] = "alone"
    """Whether the code begins or ends a stretch of text (`open`, `close`) or is a single one. A single code may stand
    for a `word` or for a space (`break`)."""
    name: str = ""
    """An opening code and the code that closes it have the same name."""
    start: int | None = field(default=None, compare=False)
    """Index of the markup in the text of the document; None if it does not stand there as it is. Needed to replace
    something inside of the code, such as an attribute of a tag."""


Content = Sequence[str | Code]
"""Texts, and codes between them."""
UNKNOWN: Languages = (None, None)
"""The languages of a document whose source and target are both unknown."""


@dataclass(frozen=True)
class Segment:
    """A text that is translated as a whole."""

    start: int
    """The translation replaces the text of the document from this index up to `end`."""
    end: int
    content: Content
    """The text as people read it, and codes."""
    write: Callable[[str], str] = lambda text: text
    """Spells a text as the document does, such as `&lt;` for `<`. It never gets a code."""
    around: tuple[str, str] = ("", "")
    """Texts that are written before and after the translation."""
    wrap: Callable[[str], str] = lambda text: text
    """Arranges the finished translation, such as in lines."""
    is_copy: bool = False
    """Whether it repeats another segment, so that it does not count as a text of its own."""
    in_place: bool = True
    """Whether the text of the document from `start` to `end` is the source itself. Then it stays, byte for byte, where
    its translation is the same."""

    def writable(self, content: Content) -> Content:
        """The translation without the codes that the format cannot write where they stand."""
        return content

    def written(self, content: Content) -> str:
        """The translation as it is written into the document."""
        spelled = "".join(part.markup if isinstance(part, Code) else self.write(part) for part in content)
        return self.around[0] + self.wrap(spelled) + self.around[1]


@dataclass(frozen=True)
class Edit:
    """A replacement of something that is no translation, such as the name of a document's language."""

    start: int
    end: int
    text: str
    if_changed: bool = False
    """Whether the edit is made only if a text of the document changes."""


@dataclass(frozen=True)
class Document:
    """The text of a document, and the parts of it that are replaced."""

    text: str
    segments: Sequence[Segment]
    """The texts to translate. Two segments overlap only where one stands inside of a code of the other, such as an
    attribute of a tag."""
    edits: Sequence[Edit] = ()
    done: int = 0
    """Number of texts that have a translation already, which stays."""
    notes: Sequence[str] = ()
    """Remarks for a person, each a sentence that follows the name of the document."""
    unencodable: str = "strict"
    """Error handler of `str.encode` for characters that the encoding of the file lacks."""

    def __post_init__(self) -> None:
        """Raises `FormatError` for segments that overlap: one of their translations would be lost."""
        outer: Segment | None = None
        codes: list[Code] = []
        for segment in sorted(self.segments, key=lambda segment: (segment.start, -segment.end)):
            if outer is None or outer.end <= segment.start:
                outer = segment
                codes = [part for part in segment.content if isinstance(part, Code) and part.start is not None]
                continue
            index = bisect_right(codes, segment.start, key=lambda code: code.start) - 1
            if index < 0 or segment.end > codes[index].start + len(codes[index].markup):
                raise FormatError(f"has texts inside of each other at character {segment.start:,}; take them apart.")

    def filled(self, translations: Sequence[Content]) -> str:
        """The text with a translation for each segment."""
        pairs = list(zip(self.segments, translations, strict=True))
        is_changed = any(translation is not segment.content for segment, translation in pairs)
        edits = [edit for edit in self.edits if is_changed or not edit.if_changed]
        changes: list[tuple[Segment | Edit, Content]] = [*((edit, ()) for edit in edits), *pairs]
        # From the end, so that what is replaced inside of a code comes before the segment that has the code.
        changes.reverse()
        changes.sort(key=lambda change: (-change[0].start, change[0].end))
        made: list[Edit] = []
        for change, translation in changes:
            if isinstance(change, Edit):
                made.append(change)
                continue
            start, end = change.start, change.end
            inside: list[Edit] = []
            while made and made[-1].start < end and not made[-1].start == made[-1].end == start:
                inside.append(made.pop())
            if change.in_place and translation is change.content:
                text = _replaced(self.text[start:end], start, inside)
            else:
                text = change.written([_with_edits(part, inside) for part in translation])
            made.append(Edit(start, end, text))
        return _replaced(self.text, 0, made[::-1])


def _with_edits(part: str | Code, edits: Sequence[Edit]) -> str | Code:
    """The part after the edits inside of it, if it is a code."""
    if not isinstance(part, Code) or part.start is None or not edits:
        return part
    start = part.start
    end = start + len(part.markup)
    first = bisect_left(edits, start, key=lambda edit: edit.start)
    last = bisect_left(edits, end, key=lambda edit: edit.start)
    return replace(part, markup=_replaced(part.markup, start, edits[first:last]))


def _replaced(text: str, offset: int, edits: Iterable[Edit]) -> str:
    """The text after some edits, in order. It stands at `offset` of the document, which the edits count from."""
    parts, position = [], 0
    for edit in edits:
        parts += [text[position : edit.start - offset], edit.text]
        position = edit.end - offset
    return "".join([*parts, text[position:]])


def has_words(content: Content) -> bool:
    """Whether there is anything to translate."""
    return any(isinstance(part, str) and has_letters(part) for part in content)


_SPACES = re.compile(r"[ \t\r\n\f]+")


def trimmed(content: Content) -> list[str | Code]:
    """The content with each run of spaces as one space, and without spaces at both ends."""
    parts: list[str | Code] = []
    follows_space = True
    for part in content:
        if isinstance(part, str):
            part = _SPACES.sub(" ", part)
            if follows_space:
                part = part.removeprefix(" ")
            if part:
                follows_space = part.endswith(" ")
        elif part.kind in ("alone", "word", "break"):
            follows_space = part.kind == "break"
        parts.append(part)
    for index in reversed(range(len(parts))):
        part = parts[index]
        if isinstance(part, str):
            parts[index] = part.rstrip(" ")
            if part.strip():
                break
        elif part.kind in ("alone", "word"):
            break
    return [part for part in parts if part != ""]


_SPACES_AT_START = re.compile(rf"\A\s{{1,{FEW_SPACES}}}(?!\s)")
_SPACES_AT_END = re.compile(rf"(?<!\s)\s{{1,{FEW_SPACES}}}\Z")


def with_spaces_outside(content: Content) -> list[str | Code]:
    """The content with the spaces at both ends of formats and links moved out of them.

    More than a few spaces stay: they may be underlined, as a line to write on.
    """
    moved = _spaces_moved(content, "close", _SPACES_AT_END)
    return _spaces_moved(moved[::-1], "open", _SPACES_AT_START)[::-1]


def _spaces_moved(content: Content, kind: str, spaces: re.Pattern[str]) -> list[str | Code]:
    """The content with spaces that stand right before codes of a kind moved behind these."""
    moved: list[str | Code] = []
    for part in content:
        before = moved[-1] if moved else None
        match = None
        if isinstance(part, Code) and part.kind == kind and isinstance(before, str):
            match = spaces.search(before)
        if match and isinstance(before, str):
            moved[-1:] = [before[: match.start()] + before[match.end() :], part, match[0]]
        else:
            moved.append(part)
    return [part for part in moved if part != ""]
