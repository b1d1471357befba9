"""Codes inside a text, such as tags: taken out of the source, and put where they belong in its translation.

Which target word comes from which source word tells where. An opening code stays before its closing code, and codes
that do not overlap in the source do not overlap in the translation.
"""

import re
from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from operator import itemgetter
from typing import Literal

from dragoman.decoding.alignment import word_spans
from dragoman.documents.document import Code, Content

_INK = re.compile(r"\S")
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
    paired = partners(content)
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
    if single and single.start == len(text) and text.endswith(" "):
        single.spaces, text = single.spaces or "around", text[:-1]
        single.start = single.end = len(text)
    root.end = len(text)
    return text, root, words


def partners(content: Content) -> set[int]:
    """The indices of codes that belong together, and are nested."""
    waiting: list[tuple[int, str]] = []
    names = Counter[str]()
    found: set[int] = set()
    for index, each in enumerate(content):
        if not isinstance(each, Code) or each.kind not in ("open", "close"):
            continue
        if each.kind == "open":
            waiting.append((index, each.name))
            names[each.name] += 1
        elif names[each.name]:
            while True:  # codes that were opened in between and are not closed stand alone
                opened, name = waiting.pop()
                names[name] -= 1
                if name == each.name:
                    break
            found |= {opened, index}
    return found


class Projection:
    """From places in a text to those in its translation."""

    def __init__(self, source: str, target: str, alignment: Sequence[tuple[int, int]]):
        self.source, self.target = source, target
        self.source_words, self.target_words = word_spans(source), word_spans(target)
        self.sources: dict[int, set[int]] = {}
        self.targets: dict[int, list[int]] = {}
        for source_word, target_word in sorted(alignment):
            if target_word < len(self.target_words):
                self.sources.setdefault(target_word, set()).add(source_word)
                self.targets.setdefault(source_word, []).append(target_word)

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
        stretches: list[tuple[int, int, int]] = []
        children = span.children
        for number, child in enumerate(children):
            if child.close and child.end > child.start and (found := self._stretch(child, span, start, end, stretches)):
                insort(stretches, (*found, number))
        placed = {number for _, _, number in stretches}
        single = []
        for number, child in enumerate(children):
            if number not in placed:
                place = min(max(self._place(child.start, span, start, end), start), end)
                # The last stretch that begins before this place.
                for left, right, other in stretches[: bisect_left(stretches, (place,))][-1:]:
                    if place < right:
                        place = left if child.start <= children[other].start else right
                single.append((place, place, number))
        return [(children[number], left, right) for left, right, number in sorted(stretches + single)]

    def _stretch(
        self, child: Span, parent: Span, start: int, end: int, taken: list[tuple[int, int, int]]
    ) -> tuple[int, int] | None:
        """Where the words of a span are, as one stretch; None if they are nowhere."""
        if self._is_blank(parent.start, child.start) and self._is_blank(child.end, parent.end):
            return (start, end) if not taken else None
        own = range(*(bisect_left(self.source_words, each, key=key) for each, key in (
            (child.start + 1, itemgetter(1)), (child.end, itemgetter(0)))))  # fmt: skip
        linked_to_own = [each for word in own for each in self.targets.get(word, ())]
        best, best_score, score, first = None, 0.0, 0.0, 0
        for index in range(min(linked_to_own, default=0), max(linked_to_own, default=-1) + 1):
            left, right = self._clipped(index, start, end)
            before = bisect_left(taken, (right,))
            free = left < right and not (before and taken[before - 1][1] > left)
            if not free or score <= 0:
                score, first = 0.0, index
            if not free:
                continue
            linked = self.sources.get(index, set())
            score += 1.0 if not linked.isdisjoint(own) else -1.0 if linked else -0.1
            if score > best_score:
                best, best_score = (first, index), score
        if best is None:
            return None
        return self._trimmed(child, self._clipped(best[0], start, end)[0], self._clipped(best[1], start, end)[1])

    def _clipped(self, word: int, start: int, end: int) -> tuple[int, int]:
        """What lies between two places of a target word, whose marks may be outside."""
        left, right = self.target_words[word]
        return max(left, start), min(right, end)

    def _is_blank(self, start: int, end: int) -> bool:
        """Whether no word stands between two places of the source."""
        return not _INK.search(self.source, start, end)

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
        if self._is_blank(parent.start, position):
            return start
        if self._is_blank(position, parent.end):
            return end
        before = max(0, bisect_left(self.source_words, (position,)) - 1)
        touches_before = not self.source[position - 1].isspace()
        touches_after = not self.source[position].isspace()
        follows = touches_after and not touches_before
        word = before + 1 if follows else before
        if linked := self.targets.get(word):
            left, right = self.target_words[linked[0] if follows else linked[-1]]
            if follows:
                return left
            next_ = _INK.search(self.source, position)
            inside = touches_before and (not next_ or next_[0] in _CLOSING)
            return self._trimmed(Span(0, position), left, right)[1] if inside else right
        # No word is linked to it: as far as in the source.
        share = len(self.target_words) * (word + (not follows)) // max(1, len(self.source_words))
        share = min(share, len(self.target_words))
        return self.target_words[share][0] if share < len(self.target_words) else end
