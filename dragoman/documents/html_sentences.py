"""Cuts the text of a block into sentences: a row of links or badges is none, and what only touches is no word."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import accumulate, pairwise
from typing import NamedTuple

from dragoman.documents.document import Code
from dragoman.documents.html_tokens import BLANKS
from dragoman.documents.inline import pairs

ITEMS = {"a", "label"}
"""Inline elements that are texts by themselves if they stand in a row. So are elements that HTML does not know."""
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
"""What may stand between the texts of a row."""
LONGEST_TAG = 300
"""Characters of a tag that are looked at."""
SEPARATE = {"img", "image", "input", "wbr"}
"""Single tags that separate two words which touch them."""
WITHIN_WORDS = FORMATS - {"cite", "data", "picture", "span", "time"}
"""Formats that may begin or end inside of a word, such as the bold part of an abbreviation."""
DELETIONS = {"del", "s", "strike", "~~"}
"""Formats of what is no longer said; what is said instead often touches it. `~~` is that of Markdown."""
ENDS = ".:;!?…"
_WORD = re.compile(r"\w")


class Piece(NamedTuple):
    """A text or a code of a sentence, and where it stands in the page."""

    start: int
    end: int
    content: str | Code

    @property
    def kind(self) -> str:
        """The kind of a code, or `text`."""
        return self.content.kind if isinstance(self.content, Code) else "text"

    @property
    def markup(self) -> str:
        """As the page spells a code; as people read a text."""
        return self.content.markup if isinstance(self.content, Code) else self.content


Stretch = tuple[int, int]
"""The first of some pieces, and the one after the last."""


class HtmlSentence:
    """The pieces of a text between two ends of blocks."""

    def __init__(self, pieces: Sequence[Piece]):
        self.pieces = list(pieces)
        closed = pairs([piece.content for piece in pieces])
        self._partner = closed | {end: start for start, end in closed.items()}
        """For each tag with a partner, the number of that piece."""
        self._words = _counts(piece.kind == "text" and _WORD.search(piece.content) for piece in pieces)
        self._ink = _counts(piece.kind == "word" or (piece.kind == "text" and piece.content.strip(BLANKS))
                            for piece in pieces)  # fmt: skip

    def parts(self) -> Iterator[Sequence[Piece]]:
        """The texts that are translated one by one."""
        waiting = [(0, len(self.pieces), False)]
        while waiting:
            start, end, is_part = waiting.pop()
            start, end = self._trimmed(start, end)
            inner = self._inside(start, end)
            if row := self._row(*inner):
                waiting += [(first, last, True) for first, last in row]
                continue
            cuts = self._cuts(start, end)
            if cuts:
                edges = [start, *cuts, end]
                waiting += [(first, last, True) for first, last in pairwise(edges)]
                continue
            first, last = inner if is_part else (start, end)
            yield self._with_whole_empty_elements(first, last)

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
                place = inside[0].start
                pieces.append(Piece(place, inside[-1].end, Code(markup, kind, start=place)))
                index = partner
            else:
                pieces.append(self.pieces[index])
            index += 1
        return pieces

    def _trimmed(self, start: int, end: int) -> Stretch:
        """Without blanks and codes at both ends that are not around a text."""
        while start < end and (after := self._after_outside(start, end)):
            start = after
        while start < end and (before := self._before_outside(start, end)) is not None:
            end = before
        return start, end

    def _after_outside(self, start: int, end: int) -> int:
        """What comes after the first piece, or after an empty element; 0 if that belongs to the text."""
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
        """Without the elements that are around all of it."""
        while start < end and self._partner.get(start) == end - 1:
            start, end = self._trimmed(start + 1, end - 1)
        return start, end

    def _row(self, start: int, end: int) -> list[Stretch]:
        """What is inside of the elements of a row; nothing if this is none."""
        items: list[Stretch] = []
        gaps: list[str] = []
        """What stands between the items."""
        gap: list[str] = []
        are_items = True
        index = start
        while index < end:
            piece, partner = self.pieces[index], self._partner.get(index, -1)
            if piece.kind == "word" or (piece.kind == "text" and self._words[index + 1] > self._words[index]):
                return []
            if partner < index or partner >= end:
                gap += [piece.content] if isinstance(piece.content, str) else []
                index += 1
                continue
            if self._words[partner] > self._words[index]:
                gaps += ["".join(gap)] if items else []
                gap = []
                items.append((index + 1, partner))
                are_items = are_items and _is_item(piece.content)
            else:
                gap += [inner.content for inner in self.pieces[index:partner] if isinstance(inner.content, str)]
            index = partner + 1
        if len(items) < 2:
            return []
        return items if are_items or all(gap.strip() and not gap.strip(_MARKS) for gap in gaps) else []

    def _cuts(self, start: int, end: int) -> list[int]:
        """The places where another text begins: after two line breaks, or where two elements touch.

        Two words around a single tag, such as that of a picture, are separated by it.
        """
        cuts: list[int] = []
        before = ""  # the last character, if the next text touches it
        codes: list[int] = []
        breaks = 0
        for index in range(start, end):
            piece = self.pieces[index]
            if isinstance(piece.content, Code):
                breaks = breaks + 1 if piece.kind == "break" else breaks
                if breaks == 2:
                    cuts.append(index)
                    breaks = 0
                codes.append(index)
                before = "" if piece.kind in ("word", "break") else before
            elif piece.content:
                if before and codes and (after := piece.content[0]) not in BLANKS:
                    cuts += self._cut_between(before, codes, after)
                before, codes = piece.content[-1].strip(BLANKS), []
                breaks = 0 if piece.content.strip(BLANKS) else breaks
        return [cut for cut in cuts if start < cut < end]

    def _cut_between(self, before: str, codes: list[int], after: str) -> list[int]:
        """The place between two characters that only codes separate where the text is cut, if it is."""
        closed, opened = None, None
        for index in codes:
            kind = self.pieces[index].kind
            if kind == "close" and opened is None:
                closed = index
            elif kind == "open" and closed is not None and opened is None:
                opened = index
        if closed is not None and opened is not None:
            return [opened] if _stand_apart(self._opening(closed), before, self.pieces[opened].content, after) else []
        if _WORD.match(before) and _WORD.match(after):
            single = next((i for i in codes if self.pieces[i].kind == "alone" and self._name(i) in SEPARATE), None)
            if single is not None:
                piece = self.pieces[single]
                self.pieces[single] = piece._replace(content=replace(piece.content, kind="break"))
        return []

    def _name(self, index: int) -> str:
        return self.pieces[index].content.name

    def _opening(self, closed: int) -> Code:
        """The opening tag of a closing one, which itself stands for one that is missing."""
        return self.pieces[self._partner.get(closed, closed)].content


def _counts(marks: Iterable[object]) -> list[int]:
    """How many of the first pieces are marked, for each number of pieces."""
    return [0, *accumulate(map(bool, marks))]


def _is_item(tag: Code) -> bool:
    return tag.name in ITEMS or tag.name not in FORMATS or bool(_BADGE.match(tag.markup[:LONGEST_TAG]))


def is_replaced(first: Code, second: Code) -> bool:
    """Whether one of two elements that touch is deleted, and the other is what is said instead."""
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
