"""Cuts the text of a block into sentences: each link or badge of a row is one, and elements that touch may be two."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import accumulate, pairwise
from typing import NamedTuple

from dragoman.documents.document import Code
from dragoman.documents.html_tokens import BLANKS
from dragoman.documents.inline import paired_codes

ITEMS = {"a", "label"}
"""Inline elements that are texts by themselves where they stand in a row. So are elements that HTML does not know."""
FORMATS = {
    "abbr", "acronym", "b", "bdi", "bdo", "big", "blink", "cite", "data", "del", "dfn", "em", "font", "i", "ins",
    "mark", "meter", "nobr", "output", "picture", "progress", "q", "rb", "ruby", "s", "slot", "small", "span", "strike",
    "strong", "sub", "sup", "time", "tt", "u",
}  # fmt: skip
"""Inline elements that may cover any part of a text."""
_BADGE = re.compile(
    r"""<span\b[^>]*\sclass\s*=\s*["']?[^"'>]*(?<![a-z])(?:badge|btn|button|chip|label|pill|tag)(?![a-z])""",
    re.IGNORECASE,
)
"""The tag of a span that is shown like a button."""
_MARKS = BLANKS + "\xa0|/\\·•∙⋅‣▪›»→‹«←–—-"
"""Characters that may stand between the texts of a row."""
LONGEST_TAG = 300
"""Most characters of a tag that are looked at."""
SEPARATE = {"img", "image", "input", "wbr"}
"""Single tags that separate two words which touch them."""
WITHIN_WORDS = FORMATS - {"cite", "data", "picture", "span", "time"}
"""Formats that may begin or end inside of a word, such as the bold part of an abbreviation."""
DELETIONS = {"del", "s", "strike", "~~"}
"""Formats of deleted text, which often touches the text that replaces it. `~~` is that of Markdown."""
ENDS = ".:;!?…"
"""Characters that end a text."""
_WORD = re.compile(r"\w")


class Piece(NamedTuple):
    """A text or a code, and its position in the page."""

    start: int
    end: int
    content: str | Code

    @property
    def kind(self) -> str:
        """The kind of a code, or `text`."""
        return self.content.kind if isinstance(self.content, Code) else "text"

    @property
    def markup(self) -> str:
        """A code as the page spells it, or a text as people read it."""
        return self.content.markup if isinstance(self.content, Code) else self.content


Stretch = tuple[int, int]
"""Indices of the first piece of a stretch and of the piece after its last one."""


class HtmlSentence:
    """The pieces of a text between two ends of blocks."""

    def __init__(self, pieces: Sequence[Piece]):
        self.pieces = list(pieces)
        closed = paired_codes([piece.content for piece in pieces])
        self._partner = closed | {end: start for start, end in closed.items()}
        """For each tag with a partner, the index of that piece."""
        self._words = _counts(piece.kind == "text" and _WORD.search(piece.content) for piece in pieces)
        """For each index, the number of texts with words before it."""
        self._ink = _counts(
            piece.kind == "word" or (piece.kind == "text" and piece.content.strip(BLANKS)) for piece in pieces
        )
        """For each index, the number of pieces before it that are no blanks and no tags."""

    def parts(self) -> Iterator[Sequence[Piece]]:
        """The texts that are translated one by one."""
        waiting: list[Stretch] = [(0, len(self.pieces))]
        is_whole = True
        while waiting:
            start, end = self._trimmed(*waiting.pop())
            inside = self._inside(start, end)
            if row := self._row(*inside):
                waiting += row
            elif cuts := self._cuts(start, end):
                waiting += pairwise([start, *cuts, end])
            else:
                first, last = (start, end) if is_whole else inside
                yield self._with_whole_empty_elements(first, last)
            is_whole = False

    def _with_whole_empty_elements(self, start: int, end: int) -> list[Piece]:
        """The pieces with each element that has no text as one code; a blank in it is a break between words."""
        pieces: list[Piece] = []
        index = start
        while index < end:
            partner = self._partner.get(index, -1)
            if index < partner < end and self._ink[partner] == self._ink[index]:
                inside = self.pieces[index : partner + 1]
                markup = "".join(piece.markup for piece in inside)
                kind = "break" if any(piece.kind in ("text", "break") for piece in inside) else "alone"
                position = inside[0].start
                pieces.append(Piece(position, inside[-1].end, Code(markup, kind, start=position)))
                index = partner
            else:
                pieces.append(self.pieces[index])
            index += 1
        return pieces

    def _trimmed(self, start: int, end: int) -> Stretch:
        """The stretch without blanks at both ends, and without codes there that are not around a text."""
        while start < end and (after := self._after_outside(start, end)):
            start = after
        while start < end and (before := self._before_outside(start, end)) is not None:
            end = before
        return start, end

    def _after_outside(self, start: int, end: int) -> int:
        """The index after the first piece, or after an empty element; 0 if that belongs to the text."""
        partner = self._partner.get(start, end)
        if partner >= end:
            return start + 1 if self._ink[start + 1] == self._ink[start] else 0
        return partner + 1 if self._ink[partner] == self._ink[start] else 0

    def _before_outside(self, start: int, end: int) -> int | None:
        """The end without the last piece, or without an empty element; None if that belongs to the text."""
        partner = self._partner.get(end - 1, -1)
        if partner < start:
            return end - 1 if self._ink[end] == self._ink[end - 1] else None
        return partner if self._ink[end] == self._ink[partner] else None

    def _inside(self, start: int, end: int) -> Stretch:
        """The stretch without the elements that are around all of it."""
        while start < end and self._partner.get(start) == end - 1:
            start, end = self._trimmed(start + 1, end - 1)
        return start, end

    def _row(self, start: int, end: int) -> list[Stretch]:
        """The contents of the elements of a row, such as links; nothing if this is no row."""
        contents: list[Stretch] = []
        gaps: list[str] = []  # the text between two elements
        gap: list[str] = []
        are_items = True
        index = start
        while index < end:
            piece, partner = self.pieces[index], self._partner.get(index, -1)
            if piece.kind == "word" or (piece.kind == "text" and self._words[index + 1] > self._words[index]):
                return []
            if partner < index or partner >= end:
                if isinstance(piece.content, str):
                    gap.append(piece.content)
                index += 1
                continue
            if self._words[partner] > self._words[index]:
                if contents:
                    gaps.append("".join(gap))
                gap = []
                contents.append((index + 1, partner))
                are_items = are_items and _is_item(piece.content)
            else:
                gap += [inner.content for inner in self.pieces[index:partner] if isinstance(inner.content, str)]
            index = partner + 1
        if len(contents) < 2:
            return []
        are_separated = all(gap.strip() and not gap.strip(_MARKS) for gap in gaps)
        return contents if are_items or are_separated else []

    def _cuts(self, start: int, end: int) -> list[int]:
        """The indices at which another text begins: after two line breaks, or where two elements touch.

        Two words around a single tag, such as that of a picture, are separated by it.
        """
        cuts: list[int] = []
        before = ""  # the last character, if the next text touches it
        codes: list[int] = []
        breaks = 0
        for index in range(start, end):
            piece = self.pieces[index]
            if isinstance(piece.content, Code):
                if piece.kind == "break":
                    breaks += 1
                if breaks == 2:
                    cuts.append(index)
                    breaks = 0
                codes.append(index)
                if piece.kind in ("word", "break"):
                    before = ""
            elif piece.content:
                after = piece.content[0]
                if before and codes and after not in BLANKS:
                    cut = self._cut_between(before, codes, after)
                    if cut is not None:
                        cuts.append(cut)
                before, codes = piece.content[-1].strip(BLANKS), []
                if piece.content.strip(BLANKS):
                    breaks = 0
        return [cut for cut in cuts if start < cut < end]

    def _cut_between(self, before: str, codes: list[int], after: str) -> int | None:
        """The index at which the text is cut between two characters that only codes separate; None if it is not.

        A single tag between two words becomes a break.
        """
        closed, opened = None, None
        for index in codes:
            kind = self.pieces[index].kind
            if kind == "close" and opened is None:
                closed = index
            elif kind == "open" and closed is not None and opened is None:
                opened = index
        if closed is not None and opened is not None:
            are_two_texts = _stand_apart(self._opening(closed), before, self.pieces[opened].content, after)
            return opened if are_two_texts else None
        if _WORD.match(before) and _WORD.match(after):
            single = next((i for i in codes if self.pieces[i].kind == "alone" and self._name(i) in SEPARATE), None)
            if single is not None:
                piece = self.pieces[single]
                self.pieces[single] = piece._replace(content=replace(piece.content, kind="break"))
        return None

    def _name(self, index: int) -> str:
        return self.pieces[index].content.name

    def _opening(self, closed: int) -> Code:
        """The opening tag of a closing one; the closing tag itself if it has no partner."""
        return self.pieces[self._partner.get(closed, closed)].content


def _counts(marks: Iterable[object]) -> list[int]:
    """For each index, the number of true marks before it."""
    return [0, *accumulate(map(bool, marks))]


def _is_item(tag: Code) -> bool:
    """Whether an element is a text by itself where it stands in a row."""
    return tag.name in ITEMS or tag.name not in FORMATS or bool(_BADGE.match(tag.markup[:LONGEST_TAG]))


def is_replaced(first: Code, second: Code) -> bool:
    """Whether one of two elements that touch is deleted text, and the other is the text that replaces it."""
    return (first.name in DELETIONS) != (second.name in DELETIONS)


def _stand_apart(first: Code, before: str, second: Code, after: str) -> bool:
    """Whether two elements that touch are two texts, such as two links, and not two formats within a word.

    `before` and `after` are the characters that touch.
    """
    names = {first.name, second.name}
    if not _WORD.match(after) or not (_WORD.match(before) or before in ENDS) or names & {"sub", "sup"}:
        return False
    if _is_item(first) or _is_item(second) or is_replaced(first, second):
        return True
    if after.isupper():
        return not before.isupper()
    return after.isdigit() and before.isalpha() and not names & WITHIN_WORDS
