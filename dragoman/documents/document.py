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
    """What is wrong with a document, as it is said after its name."""


@dataclass(frozen=True)
class Code:
    """What stands in a text without being a part of it, such as a tag."""

    markup: str
    """As the document spells it."""
    kind: Literal["open", "close", "alone", "word", "break"] = "alone"
    """Whether it is one end of a stretch of text, or a single code; of these, some stand for a word or a space."""
    name: str = ""
    """An opening and its closing code have the same."""
    start: int | None = field(default=None, compare=False)
    """Index of this markup in the text of the document; None if it is spelled nowhere as such. What is replaced inside
    of a code, such as an attribute of a tag, needs it."""


Content = Sequence[str | Code]
"""Texts, and codes between them."""
UNKNOWN: Languages = (None, None)


@dataclass(frozen=True)
class Segment:
    """A text that is translated as a whole."""

    start: int
    """Index from which on the text of the document is replaced, up to `end`."""
    end: int
    content: Content
    """What is translated: the text as people read it, and codes."""
    write: Callable[[str], str] = lambda text: text
    """A text as the document spells it, such as `&lt;` for `<`; codes are not given to it."""
    around: tuple[str, str] = ("", "")
    """What is written before and after the translation."""
    wrap: Callable[[str], str] = lambda text: text
    """Arranges the finished translation, such as in lines."""
    in_place: bool = True
    """Whether the text of the document from `start` to `end` is the source itself: where its translation is the same,
    it stays, byte for byte."""

    def writable(self, content: Content) -> Content:
        """A translation without the codes that the format cannot write where they stand."""
        return content

    def written(self, content: Content) -> str:
        """A translation as it is written into the document."""
        spelled = "".join(part.markup if isinstance(part, Code) else self.write(part) for part in content)
        return self.around[0] + self.wrap(spelled) + self.around[1]


@dataclass(frozen=True)
class Edit:
    """Something else that is replaced, such as the mark that a translation is to be reviewed."""

    start: int
    end: int
    text: str
    if_changed: bool = False
    """Whether it is only made if a text of the document changes, such as the name of its language."""


@dataclass(frozen=True)
class Document:
    """The text of a document, and what is replaced in it."""

    text: str
    segments: Sequence[Segment]
    """None of them overlaps another, but that a code of one may have others inside, such as attributes of a tag."""
    edits: Sequence[Edit] = ()
    done: int = 0
    """Texts that have a translation already, which stays."""
    notes: Sequence[str] = ()
    """What a person should know about this document, each a sentence that follows its name."""
    unencodable: str = "strict"
    """What becomes of characters that the encoding of the file lacks: the name of an error handler of `str.encode`."""

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
        is_changed = any(
            content is not segment.content for segment, content in zip(self.segments, translations, strict=True)
        )
        changes: list[tuple[Segment | Edit, Content]] = [
            *((edit, ()) for edit in self.edits if is_changed or not edit.if_changed),
            *zip(self.segments, translations, strict=True),
        ]
        # From the end, so that what is replaced inside of a code comes before the segment that has the code.
        changes.reverse()
        changes.sort(key=lambda change: (-change[0].start, change[0].end))
        written: list[Edit] = []
        for change, content in changes:
            start, end = change.start, change.end
            if isinstance(change, Edit):
                written.append(change)
                continue
            inside: list[Edit] = []
            while written and written[-1].start < end and not written[-1].start == written[-1].end == start:
                inside.append(written.pop())
            if change.in_place and content is change.content:
                text = _replaced(self.text[start:end], start, inside)
            else:
                text = change.written([_with_edits(part, inside) for part in content])
            written.append(Edit(start, end, text))
        return _replaced(self.text, 0, written[::-1])


def _with_edits(part: str | Code, edits: Sequence[Edit]) -> str | Code:
    """A code in which some things are replaced; other parts of a content stay."""
    if not isinstance(part, Code) or part.start is None or not edits:
        return part
    start = part.start
    end = start + len(part.markup)
    first = bisect_left(edits, start, key=lambda edit: edit.start)
    last = bisect_left(edits, end, key=lambda edit: edit.start)
    return replace(part, markup=_replaced(part.markup, start, edits[first:last]))


def _replaced(text: str, offset: int, edits: Iterable[Edit]) -> str:
    """A text, which stands at `offset` of the document, after some edits in order."""
    parts, last = [], offset
    for edit in edits:
        parts += [text[last - offset : edit.start - offset], edit.text]
        last = edit.end
    return "".join([*parts, text[last - offset :]])


def has_words(content: Content) -> bool:
    """Whether there is anything to translate."""
    return any(isinstance(part, str) and has_letters(part) for part in content)


_SPACES = re.compile(r"[ \t\r\n\f]+")


def trimmed(content: Content) -> list[str | Code]:
    """The content with each run of spaces as one space, and without spaces around it."""
    found: list[str | Code] = []
    spaced = True
    for each in content:
        if isinstance(each, str):
            each = _SPACES.sub(" ", each)
            each = each.removeprefix(" ") if spaced else each
            spaced = each.endswith(" ") if each else spaced
        elif each.kind in ("alone", "word", "break"):
            spaced = each.kind == "break"
        found.append(each)
    for index in reversed(range(len(found))):
        each = found[index]
        if isinstance(each, str):
            found[index] = each.rstrip(" ")
            if each.strip():
                break
        elif each.kind in ("alone", "word"):
            break
    return [each for each in found if each != ""]


def with_spaces_outside(content: Sequence[str | Code]) -> list[str | Code]:
    """A content in which the spaces at both ends of formats and links stand outside of them.

    More than a few spaces stay: they may be underlined, as a line to write on.
    """
    moved = _spaces_moved(content, "close", re.compile(rf"(?<!\s)\s{{1,{FEW_SPACES}}}\Z"))
    return _spaces_moved(moved[::-1], "open", re.compile(rf"\A\s{{1,{FEW_SPACES}}}(?!\s)"))[::-1]


def _spaces_moved(content: Sequence[str | Code], kind: str, spaces: re.Pattern[str]) -> list[str | Code]:
    """A content in which spaces that stand right before codes of a kind stand behind them."""
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
