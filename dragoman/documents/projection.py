"""Codes put back: where they belong in a translation, by the alignment of its words.

An opening code stays before its closing code, and codes that do not overlap in the source do not overlap in the
translation. `dragoman.documents.inline` has taken them out of the source.
"""

import re
from bisect import bisect_left, bisect_right, insort
from dataclasses import dataclass
from itertools import accumulate
from operator import itemgetter
from typing import NamedTuple

from dragoman.decoding.alignment import Alignment, word_spans
from dragoman.documents.document import Code
from dragoman.documents.inline import CLOSING_MARKS, OPENING_MARKS, WORD_CHARACTER, Span
from dragoman.text.tokenizers.placeholders import literal_spans

MOST_WEIGHED = 20
"""Depth of formats inside of each other up to which all words of a format are weighed to find its best place."""
LONGEST_WORD = 10_000
"""Most characters of a word in which parts are looked for."""
_INK = re.compile(r"\S")


@dataclass(frozen=True)
class _PlacedSpan:
    """A span, and the part of the translation that belongs to it."""

    span: Span
    start: int
    end: int
    depth: int
    """Number of spans around it."""


class _Stretch(NamedTuple):
    """The part of the translation that belongs to a child of a span. Stretches sort by their positions."""

    start: int
    end: int
    child: int
    """Index of the child."""


class Projection:
    """Finds the positions in a translation for positions in its source, by the alignment of their words."""

    def __init__(self, source: str, target: str, alignment: Alignment):
        self.source, self.target = source, target
        self.source_words, self.target_words = word_spans(source), word_spans(target)
        self.targets: dict[int, list[int]] = {}
        """The target words that each source word is linked to."""
        linked = [False] * len(self.target_words)
        for source_word, target_word in sorted(alignment):
            if target_word < len(self.target_words):
                linked[target_word] = True
                self.targets.setdefault(source_word, []).append(target_word)
        self.linked_before = [0, *accumulate(linked)]
        """For each target word, the number of words before it that are linked to any source word."""
        self.linked_sources = sorted(self.targets)
        """The source words that are linked to any target word."""
        self.ink = [match.start() for match in _INK.finditer(source)]
        """Positions of all characters of the source but spaces."""
        self.literals = literal_spans(target)
        """The placeholders of the target, in order. They stay whole."""
        self.unplaced = 0
        """Number of spans whose words were not found in the target, so that their codes have nothing between them."""

    def put_in(self, root: Span) -> list[str | Code]:
        """The translation with the codes of a tree."""
        pieces: list[str | Code] = []
        waiting: list[str | Code | _PlacedSpan] = [_PlacedSpan(root, 0, len(self.target), 0)]  # the next one is last
        while waiting:
            part = waiting.pop()
            if isinstance(part, _PlacedSpan):
                waiting += reversed(self._opened(part))
            elif part != "":
                pieces.append(part)
        return pieces

    def _opened(self, parent: _PlacedSpan) -> list[str | Code | _PlacedSpan]:
        """The texts, codes and spans inside of a span."""
        parts: list[str | Code | _PlacedSpan] = []
        position, end = parent.start, parent.end
        for child in self._children(parent):
            span = child.span
            parts.append(self.target[position : child.start])
            if span.spaces == "around" and child.start == end:
                parts.append(" ")
            parts += span.opening
            if span.closing is not None:
                parts += [child, *span.closing]
            elif span.spaces == "around" and child.start < end:
                parts.append(" ")
            position = max(position, child.end)
            if span.spaces == "instead" and position == child.start < end and self.target[position] == " ":
                position += 1
        return [*parts, self.target[position:end]]

    def _children(self, parent: _PlacedSpan) -> list[_PlacedSpan]:
        """The children of a span, placed inside of it, in the order of their places."""
        children = parent.span.children
        stretches: list[_Stretch] = []
        for index, child in enumerate(children):
            if child.end > child.start and (stretch := self._stretch(child, parent, stretches)):
                insort(stretches, _Stretch(*stretch, index))
        placed = {stretch.child for stretch in stretches}
        points: list[_Stretch] = []
        for index, child in enumerate(children):
            if index in placed:
                continue
            self.unplaced += child.end > child.start
            position = min(max(self._point(child.start, parent), parent.start), parent.end)
            before = bisect_left(stretches, (position,)) - 1  # the last stretch that begins before this position
            if before >= 0 and position < stretches[before].end:
                stretch = stretches[before]
                position = stretch.start if child.start <= children[stretch.child].start else stretch.end
            points.append(_Stretch(position, position, index))
        return [
            _PlacedSpan(children[index], start, end, parent.depth + 1)
            for start, end, index in sorted(stretches + points)
        ]

    def _stretch(self, child: Span, parent: _PlacedSpan, taken: list[_Stretch]) -> tuple[int, int] | None:
        """Start and end of a span's words in the target, outside of `taken` stretches; None if they are nowhere."""
        start, end = parent.start, parent.end
        if self._is_blank(parent.span.start, child.start) and self._is_blank(child.end, parent.span.end):
            return (start, end) if not taken else None
        first_source = bisect_left(self.source_words, child.start + 1, key=itemgetter(1))
        last_source = bisect_left(self.source_words, child.end, key=itemgetter(0)) - 1
        sources = range(first_source, last_source + 1)
        find_words = self._best_words if parent.depth < MOST_WEIGHED else self._outer_words
        words = find_words(sources, start, end, taken)
        if words is None:
            return None
        first_word, last_word = (self._clipped(word, start, end) for word in words)
        if len(sources) == 1 and words[0] == words[1]:
            return self._part(child, self.source_words[first_source], first_word)
        left, _ = self._part(child, self.source_words[first_source], first_word) or first_word
        _, right = self._part(child, self.source_words[last_source], last_word) or last_word
        return left, right

    def _best_words(self, sources: range, start: int, end: int, taken: list[_Stretch]) -> tuple[int, int] | None:
        """The first and the last target word of the best stretch between two positions, without taken words.

        A word counts 10 if it is linked to one of the source words `sources`, -10 if to others only, and -1 if to none.
        So the best stretch begins and ends with words that are linked to `sources`, and only these are looked at.
        """
        best, best_score, score, first, before = None, 0, 0, 0, -1
        for word in sorted({target for source in sources for target in self.targets.get(source, ())}):
            left, right = self._clipped(word, start, end)
            if not self._is_free(left, right, taken):
                score = 0
                continue
            if score > 0:
                between = word - before - 1
                others = self.linked_before[word] - self.linked_before[before + 1]
                score -= 9 * others + between
                _, gap = self.target_words[before]
                if score <= 0 or bisect_left(taken, (gap,)) < bisect_left(taken, (left,)):
                    score = 0
            if score == 0:
                first = word
            score, before = score + 10, word
            if score > best_score:
                best, best_score = (first, word), score
        return best

    def _outer_words(self, sources: range, start: int, end: int, taken: list[_Stretch]) -> tuple[int, int] | None:
        """The target words of the first and the last of the source words that have any, in order.

        None if a part of the text between them is taken.
        """
        first = bisect_left(self.linked_sources, sources.start)
        last = bisect_left(self.linked_sources, sources.stop) - 1
        if first > last:
            return None
        words = sorted(self.targets[self.linked_sources[index]][0] for index in (first, last))
        left, _ = self._clipped(words[0], start, end)
        _, right = self._clipped(words[1], start, end)
        return (words[0], words[1]) if self._is_free(left, right, taken) else None

    @staticmethod
    def _is_free(left: int, right: int, taken: list[_Stretch]) -> bool:
        """Whether two positions have something between them, and nothing there is taken."""
        before = bisect_left(taken, (right,))
        return left < right and not (before and taken[before - 1].end > left)

    def _part(self, child: Span, source_word: tuple[int, int], target_word: tuple[int, int]) -> tuple[int, int] | None:
        """The part of a target word that belongs to a span, which may have only a part of the source word.

        None if the span has less than half of a word whose translation shows no such part.
        """
        (word_start, word_end), (left, right) = source_word, target_word
        start, end = max(child.start, word_start), min(child.end, word_end)
        source_length, target_length = word_end - word_start, right - left
        if max(source_length, target_length) > LONGEST_WORD:  # about as far inside of it as in the source
            right = left + target_length * (end - word_start) // source_length
            left += target_length * (start - word_start) // source_length
            return self._outside(left, -1), self._outside(right, 1)
        if self.target[left:right] == self.source[word_start:word_end]:
            return left + start - word_start, right - (word_end - end)
        before, after = self.source[word_start:start], self.source[end:word_end]
        has_letters_before = WORD_CHARACTER.search(before) is not None
        has_letters_after = WORD_CHARACTER.search(after) is not None
        if has_letters_before or has_letters_after:
            part = self._same_letters(
                before if has_letters_before else "",
                self.source[start:end],
                after if has_letters_after else "",
                target_word,
            )
            is_small = 2 * (end - start) < source_length or (has_letters_before and before.isdecimal())
            if part is None and is_small:
                return None
            left, right = part or target_word
        if before and not has_letters_before:
            left = self._without_opening_marks(left, right)
        if after and not has_letters_after:
            right = self._without_closing_marks(left, right)
        return self._outside(left, -1), self._outside(right, 1)

    def _same_letters(self, before: str, part: str, after: str, target_word: tuple[int, int]) -> tuple[int, int] | None:
        """The part of a target word that is spelled like a part of the source word, or stands between the same letters.

        `before` and `after` are the letters around the part in the source word, if there are any. None if the target
        word shows nothing of this.
        """
        left, right = target_word
        word = self.target[left:right]
        if word.count(part) == 1:
            left += word.index(part)
            return left, left + len(part)
        begins_alike = before and len(before) < len(word) and word.startswith(before)
        ends_alike = after and len(after) < len(word) and word.endswith(after)
        if not begins_alike and not ends_alike:
            return None
        if begins_alike:
            left += len(before)
        if ends_alike and left < right - len(after):
            right -= len(after)
        return left, right

    def _without_opening_marks(self, left: int, right: int) -> int:
        """Start of a stretch of the target without marks at its beginning, such as quotation marks."""
        while right - left > 1 and self.target[left] in OPENING_MARKS and not self._is_in_literal(left):
            left += 1
        return left

    def _without_closing_marks(self, left: int, right: int) -> int:
        """End of a stretch of the target without marks at its end, such as a full stop."""
        while right - left > 1 and self.target[right - 1] in CLOSING_MARKS and not self._is_in_literal(right - 1):
            right -= 1
        return right

    def _is_in_literal(self, position: int) -> bool:
        """Whether a character of the target belongs to a placeholder."""
        index = bisect_right(self.literals, position, key=itemgetter(0)) - 1
        return index >= 0 and position < self.literals[index][1]

    def _outside(self, position: int, direction: int) -> int:
        """The position, moved back (-1) or on (1) if it is inside of a placeholder."""
        index = bisect_left(self.literals, position, key=itemgetter(0)) - 1
        if index >= 0 and position < self.literals[index][1]:
            return self.literals[index][direction > 0]
        return position

    def _clipped(self, word: int, start: int, end: int) -> tuple[int, int]:
        """The part of a target word between two positions; marks at the ends of the word may be outside."""
        left, right = self.target_words[word]
        return max(left, start), min(right, end)

    def _is_blank(self, start: int, end: int) -> bool:
        """Whether only spaces stand between two positions of the source."""
        index = bisect_left(self.ink, start)
        return index == len(self.ink) or self.ink[index] >= end

    def _point(self, position: int, parent: _PlacedSpan) -> int:
        """The position in the target for a point of the source: at the word that it touches, else at the one before."""
        if self._is_blank(parent.span.start, position):
            return parent.start
        if self._is_blank(position, parent.span.end):
            return parent.end
        before = max(0, bisect_left(self.source_words, (position,)) - 1)
        touches_before = not self.source[position - 1].isspace()
        touches_after = not self.source[position].isspace()
        is_before_word = touches_after and not touches_before
        word = before + 1 if is_before_word else before
        linked = self.targets.get(word)
        if not linked:  # as far as in the source
            passed = word if is_before_word else word + 1
            share = len(self.target_words) * passed // max(1, len(self.source_words))
            return self.target_words[share][0] if share < len(self.target_words) else parent.end
        if is_before_word:
            return self.target_words[linked[0]][0]
        left, right = self.target_words[linked[-1]]
        word_start, word_end = self.source_words[word]
        if self.target[left:right] == self.source[word_start:word_end] and position < word_end:
            return left + position - word_start
        next_ink = bisect_left(self.ink, position)
        precedes_marks = next_ink == len(self.ink) or self.source[self.ink[next_ink]] in CLOSING_MARKS
        if touches_before and precedes_marks and right - left <= LONGEST_WORD:
            right = self._without_closing_marks(left, right)
        return self._outside(right, 1)
