"""Codes inside a text, such as tags: taken out of the source, and put where they belong in its translation.

Which target word comes from which source word tells where. An opening code stays before its closing code, and codes
that do not overlap in the source do not overlap in the translation.
"""

import re
from bisect import bisect_left, bisect_right, insort
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from operator import itemgetter
from typing import Literal

from dragoman.decoding.alignment import word_spans
from dragoman.documents.document import Code, Content, has_words
from dragoman.text.characters import INVISIBLE, has_letters
from dragoman.text.tokenizers.placeholders import literal_spans

MOST_STAND_INS = 99
"""Words that stand for codes in one text; with more of them a text is hardly one, and its codes only stand between
words."""
LONGEST_ATOM = 200
"""Characters of a formatted placeholder, and codes in it; longer stretches are texts."""
MOST_WEIGHED = 20
"""Formats inside of each other for which each word is asked where it is in the translation."""
LONGEST_WORD = 10_000
"""Characters of a word in which parts are looked for; longer ones are no words."""
_INK = re.compile(r"\S")
_OPENING, _CLOSING = "\"'([{«“‘„¿¡", "\"')]}»”’“.,;:!?…。！？、，"
_WORD_CHARACTER = re.compile(r"[^\W_]")
_SAYS_SOMETHING = re.compile(r"[^\W_]|[$€£¥%°+=<>←-⇿∀-⋿☀-➿\U0001F000-\U0001FAFF]")
"""Tells a number or a symbol, which stands for a word, from marks of punctuation."""
_SEPARATES = re.compile(rf"(?:[^\w{INVISIBLE}]|_)+")
"""Marks of which no part is a word; without them, the words around them would be one."""
_LAST_WORD, _SHORT_WORD = re.compile(r"[^\W_]{1,20}\Z"), re.compile(r"[^\W_]{1,3}(?![^\W_])")
_FORMULA = re.compile(r"\w|[^\W_]*[^\Wa-z_][^\W_]+|\d.*|[^\W_]+\d|[A-Z]+|[cdkmn]m|ft|mi|sq|yd")
"""What a small number is a part of, as in H2O, km2, NaCl2 and 106; it is the mark of a footnote behind other words."""


@dataclass
class Span:
    """Codes around a stretch of a text, or codes at one point of it, and the spans inside."""

    start: int
    end: int
    opening: Content = ()
    """What is written before the stretch, or at the point."""
    closing: Content | None = None
    """What is written after the stretch; None for a point."""
    children: list["Span"] = field(default_factory=list)
    spaces: Literal["", "around", "instead"] = ""
    """Whether a point has spaces around it, or is one."""


@dataclass(frozen=True)
class PlainText:
    """A text without its codes, and what is needed to put them into a translation of it."""

    text: str
    root: Span
    """The codes as a tree over the text."""
    stand_ins: dict[str, Content]
    """Words in the text that stand for codes."""


@dataclass(frozen=True)
class _Atom:
    """Codes, perhaps with a text between them, that stay as they are."""

    parts: list[str | Code]
    kind: Literal["alone", "word", "break", "formula"]
    """Whether it stands between words, for a word, for a space, or for a word together with the text before it."""

    def says_something(self) -> bool:
        """Whether it has a number or a symbol, and not only marks of punctuation."""
        return any(isinstance(part, str) and _SAYS_SOMETHING.search(part) for part in self.parts)


def take_out(content: Content, *, copied: bool = False) -> PlainText:
    """The text of a content without codes.

    If placeholders are `copied` into translations, words in the text stand for codes that stand for words.
    """
    plain = "".join(part for part in content if isinstance(part, str))
    if not any(isinstance(part, Code) for part in content):
        return PlainText(plain, Span(0, len(plain)), {})
    root = Span(0, 0)
    stack = [root]
    stand_ins: dict[str, Content] = {}
    names = _unused_names(plain)
    text: list[str] = []
    length, last = 0, ""  # the characters so far, and the last one of them
    point: Span | None = None
    point_length = -1  # the characters when there was the latest point
    for piece in _with_atoms(content, copied=copied):
        if isinstance(piece, str):
            if point and point_length == length and last in ("", " ") and piece.startswith(" "):
                point.spaces = point.spaces or "around"
                piece = piece[1:]
        elif isinstance(piece, _Atom):
            if piece.kind in ("word", "formula") and copied and len(stand_ins) < MOST_STAND_INS:
                name = next(names)
                stand_ins[name] = piece.parts
                piece = name
            else:
                position = length
                if piece.kind == "break" and last == " ":
                    position -= 1
                elif piece.kind == "break" and last:
                    text.append(" ")
                    length, last = length + 1, " "
                position = max(position, stack[-1].start)
                point = Span(position, position, piece.parts, spaces="instead" if piece.kind == "break" else "")
                point_length = length
                stack[-1].children.append(point)
                continue
        elif piece.kind == "open":
            span = Span(length, length, [piece])
            stack[-1].children.append(span)
            stack.append(span)
            continue
        else:
            span = stack.pop()
            span.end, span.closing = length, [piece]
            continue
        text.append(piece)
        length, last = length + len(piece), piece[-1:] or last
    plain = "".join(text)
    if point and point_length == length and last == " ":
        point.spaces, plain = point.spaces or "around", plain[:-1]
        point.start = point.end = len(plain)
    root.end = len(plain)
    return PlainText(plain, root, stand_ins)


def _unused_names(text: str) -> Iterator[str]:
    """Words that the text does not have: {1}, {2} and so on."""
    used = set(re.findall(r"\{\d+\}", text))
    number = 0
    while True:
        number += 1
        if f"{{{number}}}" not in used:
            yield f"{{{number}}}"


def pairs(content: Content) -> dict[int, int]:
    """The indices of opening codes, with those of the codes that close them, as far as these are nested."""
    waiting: list[tuple[int, str]] = []
    names: dict[str, int] = defaultdict(int)
    closed: dict[int, int] = {}
    for index, code in enumerate(content):
        if not isinstance(code, Code) or code.kind not in ("open", "close"):
            continue
        if code.kind == "open":
            waiting.append((index, code.name))
            names[code.name] += 1
        elif names[code.name]:
            while True:  # codes that were opened in between and are not closed stand alone
                opened, name = waiting.pop()
                names[name] -= 1
                if name == code.name:
                    break
            closed[opened] = index
    return closed


def _with_atoms(content: Content, *, copied: bool) -> list[str | Code | _Atom]:
    """A content whose only codes are pairs around words; all others are atoms.

    Such are codes without a partner, and stretches without a word: those without letters, and placeholders.
    """
    closed = pairs(content)
    paired = {index for pair in closed.items() for index in pair}
    letters = [0, *accumulate(has_words([part]) for part in content)]
    sizes = [0, *accumulate(len(part) if isinstance(part, str) else 0 for part in content)]
    before, after = _neighbours(content), _neighbours([*reversed(content)], first=True)[::-1]
    pieces: list[str | Code | _Atom] = []
    index = 0
    while index < len(content):
        part, end = content[index], closed.get(index)
        if (
            end is not None
            and (
                letters[end] == letters[index]
                or (
                    max(sizes[end] - sizes[index], end - index) <= LONGEST_ATOM
                    and _is_literal(content[index + 1 : end])
                )
            )
            and (copied or sizes[end] == sizes[index] or end - index <= LONGEST_ATOM)
        ):
            whole = list(content[index : end + 1])
            base = content[index - 1] if index else ""
            kind = _kind(whole, before[index], after[end], base if isinstance(base, str) else "")
            if kind == "formula" and not copied:
                kind = "word"
            # Where words cannot stand for codes, a text with a format is found again in the translation.
            if copied or kind != "word" or sizes[end] == sizes[index]:
                pieces.append(_Atom(whole, kind))
                index = end + 1
                continue
        if isinstance(part, str) or index in paired:
            pieces.append(part)
        else:
            pieces.append(_Atom([part], part.kind if part.kind in ("word", "break") else "alone"))
        index += 1
    return list(_with_formulas(pieces))


def _neighbours(content: Content, *, first: bool = False) -> list[str]:
    """For each index the character that stands before it: the last one of the text before, or with `first` its first.

    Codes that stand for a space or a word count as one; other codes are looked through. Empty at the beginning.
    """
    characters, latest = [], ""
    for part in content:
        characters.append(latest)
        if isinstance(part, str):
            latest = (part[:1] if first else part[-1:]) or latest
        elif part.kind in ("word", "break"):
            latest = "x" if part.kind == "word" else " "
    return characters


def _is_literal(content: Content) -> bool:
    """Whether a content has no letters but those of placeholders."""
    text = "".join(part for part in content if isinstance(part, str))
    spans = literal_spans(text)
    starts, ends = [0, *(end for _, end in spans)], [*(start for start, _ in spans), len(text)]
    return not any(has_letters(text[start:end]) for start, end in zip(starts, ends, strict=True))


def _kind(stretch: Content, before: str, after: str, base: str) -> Literal["alone", "word", "break", "formula"]:
    """What a stretch without words stands for, between two characters; `base` is the text directly before it."""
    text = "".join(part for part in stretch if isinstance(part, str))
    codes = {part.kind for part in stretch if isinstance(part, Code)}
    if not text.strip() and "word" not in codes:
        return "break" if text or "break" in codes else "alone"
    between_words = _WORD_CHARACTER.match(before) and _WORD_CHARACTER.match(after)
    otherwise: Literal["alone", "break"] = "break" if between_words and _SEPARATES.fullmatch(text) else "alone"
    if "word" not in codes and not _SAYS_SOMETHING.search(text):
        return otherwise
    if _WORD_CHARACTER.match(before):
        word = _own_word(_LAST_WORD.search(base))
        return "formula" if word and _FORMULA.fullmatch(word[0]) else otherwise
    if _WORD_CHARACTER.match(after):
        return "alone"
    return "word" if before in ("", *_OPENING) or before.isspace() or _SAYS_SOMETHING.match(before) else "alone"


def _own_word(word: re.Match[str] | None) -> re.Match[str] | None:
    """The word, unless it is a part of a placeholder, such as the letter of %s."""
    if word is None or any(start < word.end() and word.start() < end for start, end in literal_spans(word.string)):
        return None
    return word


def _with_formulas(pieces: Iterable[str | Code | _Atom]) -> Iterator[str | Code | _Atom]:
    """Pieces in which small numbers and the like are one word with what they touch, as in H2O and $10."""
    last: str | Code | _Atom = ""
    for piece in pieces:
        if isinstance(piece, _Atom) and isinstance(last, _Atom):
            if last.kind == piece.kind == "formula":
                last.parts.extend(piece.parts)
                continue
            if last.kind == "alone" and piece.kind == "word" and last.says_something():
                last = _Atom([*last.parts, *piece.parts], "word")
                continue
        elif isinstance(piece, _Atom) and piece.kind == "formula":
            if isinstance(last, str) and (base := _own_word(_LAST_WORD.search(last))):
                yield last[: base.start()]
                last = _Atom([base[0], *piece.parts], "formula")
                continue
        elif (
            isinstance(piece, str)
            and isinstance(last, _Atom)
            and last.kind == "formula"
            and (rest := _own_word(_SHORT_WORD.match(piece)))
        ):
            last.parts.append(rest[0])
            piece = piece[rest.end() :]
            if not piece:
                continue
        yield last
        last = piece
    yield last


def without_surplus(
    target: str, alignment: Sequence[tuple[int, int]], expected: Mapping[str, int]
) -> tuple[str, Sequence[tuple[int, int]]]:
    """A translation and its alignment without the placeholders that it has more often than `expected`.

    Later ones are left out. Those that are not expected at all may be text, such as "50 %d".
    """
    surplus: list[tuple[int, int]] = []
    counts = Counter[str]()
    for start, end in literal_spans(target):
        value = target[start:end]
        counts[value] += 1
        if counts[value] > expected.get(value, len(target)):
            surplus.append((start, end))
    if not surplus:
        return target, alignment
    parts, last = [], 0
    kept = [True] * len(target)
    for start, end in surplus:
        if target[start - 1 : start] in ("", " ") and target[end : end + 1] == " ":
            end += 1
        parts.append(target[last:start])
        kept[start:end] = [False] * (end - start)
        last = end
    shorter = "".join([*parts, target[last:]])
    shifts = [0, *accumulate(kept)]
    starts = [start for start, _ in word_spans(shorter)]
    moved: dict[int, int] = {}
    for number, (start, end) in enumerate(word_spans(target)):
        if any(kept[start:end]):
            moved[number] = bisect_right(starts, shifts[start]) - 1
    return shorter, [(source, moved[word]) for source, word in alignment if word in moved]


def lacking(target: str, literals: Mapping[int, str]) -> list[tuple[int, str]]:
    """The placeholders that a translation lacks, of those at some positions of the source, with these positions."""
    present = Counter(target[start:end] for start, end in literal_spans(target))
    missing: list[tuple[int, str]] = []
    for start, value in literals.items():
        if present[value]:
            present[value] -= 1
        else:
            missing.append((start, value))
    if len(missing) > MOST_STAND_INS:
        return missing
    # One that stands beside other characters than in the source may be there all the same.
    needed = Counter(literals.values())
    return [(start, value) for start, value in missing if target.count(value) < needed[value]]


@dataclass(frozen=True)
class _Placed:
    """A span, and from where to where in the translation it is."""

    span: Span
    start: int
    end: int
    depth: int
    """How many spans are around it."""


class Projection:
    """From positions in a text to those in its translation."""

    def __init__(self, source: str, target: str, alignment: Sequence[tuple[int, int]]):
        self.source, self.target = source, target
        self.source_words, self.target_words = word_spans(source), word_spans(target)
        self.targets: dict[int, list[int]] = {}
        linked = [False] * len(self.target_words)
        for source_word, target_word in sorted(alignment):
            if target_word < len(self.target_words):
                linked[target_word] = True
                self.targets.setdefault(source_word, []).append(target_word)
        self.linked_before = [0, *accumulate(linked)]
        """For each target word, how many before it are linked to any source word."""
        self.linked_sources = sorted(self.targets)
        """The source words that are linked to any target word."""
        self.ink = [match.start() for match in _INK.finditer(source)]
        """Positions of the source that have something else than spaces."""
        self.whole = literal_spans(target)
        """What stays whole in the target, in order."""
        self.homeless = 0
        """Stretches whose words were not found in the target, so that their codes have nothing between them."""

    def put_in(self, root: Span) -> list[str | Code]:
        """The translation with the codes of a tree."""
        pieces: list[str | Code] = []
        waiting: list[str | Code | _Placed] = [_Placed(root, 0, len(self.target), 0)]  # the next one is the last
        while waiting:
            part = waiting.pop()
            if isinstance(part, _Placed):
                waiting += reversed(self._opened(part))
            elif part != "":
                pieces.append(part)
        return pieces

    def _opened(self, place: _Placed) -> list[str | Code | _Placed]:
        """What stands inside of a span: texts, codes, and the spans in it."""
        parts: list[str | Code | _Placed] = []
        position, end = place.start, place.end
        for child in self._children(place):
            span, left, right = child.span, child.start, child.end
            parts.append(self.target[position:left])
            if span.spaces == "around" and left == end:
                parts.append(" ")
            parts += span.opening
            if span.closing is not None:
                parts += [child, *span.closing]
            elif span.spaces == "around" and left < end:
                parts.append(" ")
            position = max(position, right)
            if span.spaces == "instead" and position == left < end and self.target[left] == " ":
                position += 1
        return [*parts, self.target[position:end]]

    def _children(self, place: _Placed) -> list[_Placed]:
        """The spans inside of one, with their places in it, in the order of these."""
        stretches: list[tuple[int, int, int]] = []
        span, start, end = place.span, place.start, place.end
        for number, child in enumerate(span.children):
            if child.end > child.start and (stretch := self._stretch(child, place, stretches)):
                insort(stretches, (*stretch, number))
        placed = {number for _, _, number in stretches}
        points = []
        for number, child in enumerate(span.children):
            if number in placed:
                continue
            self.homeless += child.end > child.start
            position = min(max(self._place(child.start, span, start, end), start), end)
            before = bisect_left(stretches, (position,)) - 1  # the last stretch that begins before this position
            if before >= 0 and position < stretches[before][1]:
                left, right, other = stretches[before]
                position = left if child.start <= span.children[other].start else right
            points.append((position, position, number))
        return [
            _Placed(span.children[number], left, right, place.depth + 1)
            for left, right, number in sorted(stretches + points)
        ]

    def _stretch(self, child: Span, place: _Placed, taken: list[tuple[int, int, int]]) -> tuple[int, int] | None:
        """The stretch with the words of a span, between those that are taken; None if the words are nowhere."""
        parent, start, end = place.span, place.start, place.end
        if self._is_blank(parent.start, child.start) and self._is_blank(child.end, parent.end):
            return (start, end) if not taken else None
        own = range(*(bisect_left(self.source_words, position, key=key) for position, key in (
            (child.start + 1, itemgetter(1)), (child.end, itemgetter(0)))))  # fmt: skip
        if place.depth < MOST_WEIGHED:
            words = self._best_words(own, start, end, taken)
        else:
            words = self._outer_words(own, start, end, taken)
        if words is None:
            return None
        first_word, last_word = (self._clipped(word, start, end) for word in words)
        if len(own) == 1 and words[0] == words[1]:
            return self._part(child, self.source_words[own[0]], first_word)
        left, _ = self._part(child, self.source_words[own[0]], first_word) or first_word
        _, right = self._part(child, self.source_words[own[-1]], last_word) or last_word
        return left, right

    def _best_words(
        self, own: range, start: int, end: int, taken: list[tuple[int, int, int]]
    ) -> tuple[int, int] | None:
        """The first and the last target word of the best stretch between two positions, without taken words.

        A word counts 10 if it is linked to one of the source words `own`, -10 if to others only, and -1 if to none. So
        the best stretch begins and ends with words that are linked to `own`, and only these are looked at.
        """
        best, best_score, score, first, before = None, 0, 0, 0, -1
        for word in sorted({target for source in own for target in self.targets.get(source, ())}):
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

    def _outer_words(
        self, own: range, start: int, end: int, taken: list[tuple[int, int, int]]
    ) -> tuple[int, int] | None:
        """The target words of the first and the last of the source words `own` that have any, in order.

        None if what lies between them is taken.
        """
        first = bisect_left(self.linked_sources, own.start)
        last = bisect_left(self.linked_sources, own.stop) - 1
        if first > last:
            return None
        words = sorted(self.targets[self.linked_sources[index]][0] for index in (first, last))
        left, _ = self._clipped(words[0], start, end)
        _, right = self._clipped(words[1], start, end)
        return (words[0], words[1]) if self._is_free(left, right, taken) else None

    @staticmethod
    def _is_free(left: int, right: int, taken: list[tuple[int, int, int]]) -> bool:
        """Whether two positions have something between them, and nothing there is taken."""
        before = bisect_left(taken, (right,))
        return left < right and not (before and taken[before - 1][1] > left)

    def _part(self, child: Span, source_word: tuple[int, int], target_word: tuple[int, int]) -> tuple[int, int] | None:
        """The part of a target word that belongs to a span, which may have only a part of the source word.

        None if the span has less than half of a word whose translation shows no such part.
        """
        (word_start, word_end), (left, right) = source_word, target_word
        start, end = max(child.start, word_start), min(child.end, word_end)
        if max(word_end - word_start, right - left) > LONGEST_WORD:  # about as far inside of it as in the source
            from_start, to_end = (
                (right - left) * (position - word_start) // (word_end - word_start) for position in (start, end)
            )
            return self._outside(left + from_start, -1), self._outside(left + to_end, 1)
        word, translated = self.source[word_start:word_end], self.target[left:right]
        if translated == word:
            return left + start - word_start, right - (word_end - end)
        before, after = self.source[word_start:start], self.source[end:word_end]
        letters_before, letters_after = _WORD_CHARACTER.search(before), _WORD_CHARACTER.search(after)
        if letters_before or letters_after:
            part = self.source[start:end]
            if translated.count(part) == 1:
                left += translated.index(part)
                right = left + len(part)
            else:
                begins = letters_before and len(before) < len(translated) and translated.startswith(before)
                ends = letters_after and len(after) < len(translated) and translated.endswith(after)
                if begins:
                    left += len(before)
                if ends and left < right - len(after):
                    right -= len(after)
                if not begins and not ends and (2 * len(part) < len(word) or (letters_before and before.isdecimal())):
                    return None
        if before and not letters_before:
            while right - left > 1 and self.target[left] in _OPENING and not self._is_whole(left):
                left += 1
        if after and not letters_after:
            while right - left > 1 and self.target[right - 1] in _CLOSING and not self._is_whole(right - 1):
                right -= 1
        return self._outside(left, -1), self._outside(right, 1)

    def _is_whole(self, position: int) -> bool:
        """Whether a character of the target belongs to something that stays whole."""
        index = bisect_right(self.whole, position, key=itemgetter(0)) - 1
        return index >= 0 and position < self.whole[index][1]

    def _outside(self, position: int, direction: int) -> int:
        """A position, moved back (-1) or on (1) out of what stays whole."""
        index = bisect_left(self.whole, position, key=itemgetter(0)) - 1
        if index >= 0 and position < self.whole[index][1]:
            return self.whole[index][direction > 0]
        return position

    def _clipped(self, word: int, start: int, end: int) -> tuple[int, int]:
        """What lies between two positions of a target word, whose marks may be outside."""
        left, right = self.target_words[word]
        return max(left, start), min(right, end)

    def _is_blank(self, start: int, end: int) -> bool:
        """Whether no word stands between two positions of the source."""
        index = bisect_left(self.ink, start)
        return index == len(self.ink) or self.ink[index] >= end

    def _place(self, position: int, parent: Span, start: int, end: int) -> int:
        """The place of the codes of a point: at the word that it touches, else at the one before it."""
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
            word_start, word_end = self.source_words[word]
            if self.target[left:right] == self.source[word_start:word_end] and position < word_end:
                return left + position - word_start
            next_ = bisect_left(self.ink, position)
            ends = next_ == len(self.ink) or self.source[self.ink[next_]] in _CLOSING
            if touches_before and ends and right - left <= LONGEST_WORD:  # marks come after the codes
                while right - left > 1 and self.target[right - 1] in _CLOSING and not self._is_whole(right - 1):
                    right -= 1
            return self._outside(right, 1)
        # No word is linked to it: as far as in the source.
        share = len(self.target_words) * (word + (not follows)) // max(1, len(self.source_words))
        share = min(share, len(self.target_words))
        return self.target_words[share][0] if share < len(self.target_words) else end
