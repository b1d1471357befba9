"""Codes inside a text, such as tags: taken out of the source, and put where they belong in its translation.

Which target word comes from which source word tells where. An opening code stays before its closing code, and codes
that do not overlap in the source do not overlap in the translation.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Literal

from dragoman.documents.document import Code, Content

_WORD = re.compile(r"\S+")
_OPENING, _CLOSING = "\"'([{«“‘„¿¡", "\"')]}»”’“.,;:!?…。！？、，"


@dataclass
class Span:
    """A stretch of the text between an opening and a closing code; a single code has none."""

    start: int
    end: int
    open: str = ""
    close: str = ""
    children: list["Span"] = field(default_factory=list)
    spaces: Literal["", "around", "instead"] = ""
    """Whether a single code has spaces around it, or is one."""
    is_text: bool = False
    """Whether `open` is a text, which the document has to spell like all others."""


def take_out(content: Content, *, copied: bool = False) -> tuple[str, Span, dict[str, str]]:
    """The text without codes, the codes as a tree with places in that text, and words that stand for codes.

    There are such words if placeholders are `copied` into translations.
    """
    root = Span(0, 0)
    stack = [root]
    paired = _partners(content)
    plain = "".join(each for each in content if isinstance(each, str))
    names = (name for name in (f"{{{number}}}" for number in count(1)) if name not in plain)
    words: dict[str, str] = {}
    text = ""
    single: Span | None = None
    for index, each in enumerate(content):
        if isinstance(each, str):
            if single and single.start == len(text) and text[-1:] in ("", " ") and each.startswith(" "):
                single.spaces = single.spaces or "around"
                each = each[1:]
            text += each
        elif each.kind == "word" and copied:
            words[next_ := next(names)] = each.markup
            text += next_
        elif index not in paired:
            if each.kind == "break":
                text += " " * (text[-1:] not in ("", " "))
            single = Span(len(text), len(text), each.markup, spaces="instead" if each.kind == "break" else "")
            stack[-1].children.append(single)
        elif each.kind == "open":
            span = Span(len(text), len(text), each.markup)
            stack[-1].children.append(span)
            stack.append(span)
        else:
            stack[-1].end, stack[-1].close = len(text), each.markup
            stack.pop()
    root.end = len(text)
    return text, root, words


def _partners(content: Content) -> set[int]:
    """The indices of codes that belong together, and are nested."""
    waiting: list[tuple[int, str]] = []
    found: set[int] = set()
    for index, each in enumerate(content):
        if not isinstance(each, Code) or each.kind not in ("open", "close"):
            continue
        if each.kind == "open":
            waiting.append((index, each.name))
        elif each.name in (names := [name for _, name in waiting]):
            position = len(names) - 1 - names[::-1].index(each.name)
            found |= {waiting[position][0], index}
            del waiting[position:]  # codes that were opened in between and are not closed stand alone
    return found


class Projection:
    """From places in a text to those in its translation."""

    def __init__(self, source: str, target: str, alignment: Sequence[tuple[int, int]]):
        self.source, self.target = source, target
        self.source_words, self.target_words = ([m.span() for m in _WORD.finditer(text)] for text in (source, target))
        self.linked: dict[int, set[int]] = {}
        for source_word, target_word in alignment:
            self.linked.setdefault(target_word, set()).add(source_word)

    def put_in(self, root: Span) -> list[str | Code]:
        """The translation with the codes of a tree."""
        return list(self._rendered(root, 0, len(self.target)))

    def _rendered(self, span: Span, start: int, end: int) -> Iterator[str | Code]:
        position = start
        for child, left, right in self._placed(span, start, end):
            instead = child.spaces == "instead" and self.target[left - 1 : left] == " "
            yield self.target[position : left - instead]
            spelled = " " * (child.spaces == "around" and left == end) + child.open
            yield spelled if child.is_text else Code(spelled)
            if child.close or child.children:
                yield from self._rendered(child, left, right)
                yield Code(child.close)
            elif child.spaces == "around" and left < end:
                yield " "
            position = right
        yield self.target[position:end]

    def _placed(self, span: Span, start: int, end: int) -> list[tuple[Span, int, int]]:
        """The codes inside of a span, with their places between `start` and `end`, in the order of these."""
        taken: list[tuple[int, int, int]] = []
        children = span.children
        for number, child in enumerate(children):
            if child.close and child.end > child.start and (found := self._stretch(child, span, start, end, taken)):
                taken.append((*found, number))
        for number, child in enumerate(children):
            if number not in {each[2] for each in taken}:
                place = min(max(self._place(child.start, span, start, end), start), end)
                inside = next((each for each in taken if each[0] < place < each[1]), None)
                if inside:
                    place = inside[0] if child.start <= children[inside[2]].start else inside[1]
                taken.append((place, place, number))
        taken.sort(key=lambda each: (each[0], each[1], each[2]))
        return [(children[number], left, right) for left, right, number in taken]

    def _stretch(
        self, child: Span, parent: Span, start: int, end: int, taken: list[tuple[int, int, int]]
    ) -> tuple[int, int] | None:
        """Where the words of a span are, as one stretch; None if they are nowhere."""
        if not self.source[parent.start : child.start].strip() and not self.source[child.end : parent.end].strip():
            return (start, end) if not taken else None
        own = {i for i, (left, right) in enumerate(self.source_words) if left < child.end and right > child.start}
        best, best_score, score, first = None, 0.0, 0.0, 0
        for index, (left, right) in enumerate(self.target_words):
            free = left >= start and right <= end and not any(a < right and left < b for a, b, _ in taken)
            if not free or score <= 0:
                score, first = 0.0, index
            if not free:
                continue
            linked = self.linked.get(index, set())
            score += 1.0 if linked & own else -1.0 if linked else -0.1
            if score > best_score:
                best, best_score = (first, index), score
        if best is None:
            return None
        return self._trimmed(child, self.target_words[best[0]][0], self.target_words[best[1]][1])

    def _trimmed(self, child: Span, left: int, right: int) -> tuple[int, int]:
        """Without the marks around the words, if the span in the source is without them."""
        if self.source[child.start - 1 : child.start].strip() and child.start:
            while right - left > 1 and self.target[left] in _OPENING:
                left += 1
        if self.source[child.end : child.end + 1].strip():
            while right - left > 1 and self.target[right - 1] in _CLOSING:
                right -= 1
        return left, right

    def _place(self, position: int, parent: Span, start: int, end: int) -> int:
        """Where a single code goes: to the word that it touches, else to the one before it."""
        if not self.source[parent.start : position].strip():
            return start
        if not self.source[position : parent.end].strip():
            return end
        before = max((i for i, (left, _) in enumerate(self.source_words) if left < position), default=0)
        touches_before = not self.source[position - 1].isspace()
        touches_after = not self.source[position].isspace()
        follows = touches_after and not touches_before
        word = before + 1 if follows else before
        linked = [index for index in range(len(self.target_words)) if word in self.linked.get(index, ())]
        if linked:
            left, right = self.target_words[linked[0] if follows else linked[-1]]
            if follows:
                return left
            inside = self.source[position:].lstrip()[:1] in _CLOSING and touches_before
            return self._trimmed(Span(0, position), left, right)[1] if inside else right
        # No word is linked to it: as far as in the source.
        share = len(self.target_words) * (word + (not follows)) // max(1, len(self.source_words))
        share = min(share, len(self.target_words))
        return self.target_words[share][0] if share < len(self.target_words) else end
