"""Codes inside a text, such as tags: taken out of the source, and put where they belong in its translation.

The alignment, which says which target word comes from which source word, tells where. An opening code stays before its
closing code, and codes that do not overlap in the source do not overlap in the translation.
"""

import re
from bisect import bisect_left, bisect_right, insort
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from operator import itemgetter
from typing import Literal, NamedTuple

from dragoman.decoding.alignment import word_spans
from dragoman.documents.document import Code, Content, has_words
from dragoman.text.characters import INVISIBLE, has_letters
from dragoman.text.tokenizers.placeholders import literal_spans

MOST_STAND_INS = 99
"""Most words of one text that stand for codes. Further codes only stand between its words."""
LONGEST_ATOM = 200
"""Most characters of a formatted placeholder, and most codes in it. Longer stretches are texts."""
MOST_WEIGHED = 20
"""Depth of formats inside of each other up to which all words of a format are weighed to find its best place."""
LONGEST_WORD = 10_000
"""Most characters of a word in which parts are looked for."""
_INK = re.compile(r"\S")
_OPENING_MARKS, _CLOSING_MARKS = "\"'([{«“‘„¿¡", "\"')]}»”’“.,;:!?…。！？、，"
_WORD_CHARACTER = re.compile(r"[^\W_]")
_MEANINGFUL = re.compile(r"[^\W_]|[$€£¥%°+=<>←-⇿∀-⋿☀-➿\U0001F000-\U0001FAFF]")
"""A letter, digit or symbol that may stand for a word, other than marks of punctuation."""
_SEPARATES = re.compile(rf"(?:[^\w{INVISIBLE}]|_)+")
"""Marks that are no part of a word; without them, the words around them would be one."""
_LAST_WORD, _SHORT_WORD = re.compile(r"[^\W_]{1,20}\Z"), re.compile(r"[^\W_]{1,3}(?![^\W_])")
_FORMULA = re.compile(r"\w|[^\W_]*[^\Wa-z_][^\W_]+|\d.*|[^\W_]+\d|[A-Z]+|[cdkmn]m|ft|mi|sq|yd")
"""A word that a small number belongs to, as in H2O, km2, NaCl2 and 106. Behind other words it marks a footnote."""


@dataclass
class Span:
    """Codes around a stretch of a text, or codes at one point of it, and the spans inside."""

    start: int
    end: int
    opening: Content = ()
    """Codes before the stretch, or at the point."""
    closing: Content | None = None
    """Codes after the stretch; None for a point."""
    children: list["Span"] = field(default_factory=list)
    spaces: Literal["", "around", "instead"] = ""
    """Whether a point has spaces around it, or stands instead of a space."""


@dataclass(frozen=True)
class PlainText:
    """A text without its codes, and the codes as they are put into its translation."""

    text: str
    root: Span
    """The codes as a tree over the text."""
    stand_ins: dict[str, Content]
    """Words in the text that stand for codes."""


_AtomKind = Literal["alone", "word", "break", "formula"]
"""Whether an atom stands between words, for a word, for a space, or for a word together with the text before it."""


@dataclass(frozen=True)
class _Atom:
    """A code, or codes with a text between them that is not translated, which stay as they are."""

    parts: list[str | Code]
    kind: _AtomKind

    def is_meaningful(self) -> bool:
        """Whether the atom has a number or a symbol, and not only marks of punctuation."""
        return any(isinstance(part, str) and _MEANINGFUL.search(part) for part in self.parts)


def take_out(content: Content, *, copied: bool = False) -> PlainText:
    """The text of a content without codes.

    If placeholders are `copied` into translations, words in the text stand for codes that stand for words.
    """
    plain = "".join(part for part in content if isinstance(part, str))
    if not any(isinstance(part, Code) for part in content):
        return PlainText(plain, Span(0, len(plain)), {})
    builder = _PlainTextBuilder(_unused_names(plain))
    for piece in _with_atoms(content, copied=copied):
        if isinstance(piece, str):
            builder.add_text(piece)
        elif isinstance(piece, _Atom):
            if copied and piece.kind in ("word", "formula") and len(builder.stand_ins) < MOST_STAND_INS:
                builder.add_stand_in(piece)
            else:
                builder.add_point(piece)
        elif piece.kind == "open":
            builder.open_span(piece)
        else:
            builder.close_span(piece)
    return builder.finished()


class _PlainTextBuilder:
    """Collects the text of a content and the tree of its codes, from the beginning to the end."""

    def __init__(self, names: Iterator[str]):
        self.names = names
        """Words for `stand_ins`."""
        self.stand_ins: dict[str, Content] = {}
        self.root = Span(0, 0)
        self.open_spans = [self.root]
        self.texts: list[str] = []
        self.length = 0
        """Characters of all `texts`."""
        self.last_character = ""
        self.point_at_end: Span | None = None
        """The latest point, if no text follows it so far."""

    def add_text(self, text: str) -> None:
        """Add a text. A space before and another after a point are the spaces around it, and only one stays."""
        if self.point_at_end and self.last_character in ("", " ") and text.startswith(" "):
            self.point_at_end.spaces = self.point_at_end.spaces or "around"
            text = text[1:]
        self._append(text)

    def add_stand_in(self, atom: _Atom) -> None:
        """Add a word that stands for an atom."""
        name = next(self.names)
        self.stand_ins[name] = atom.parts
        self._append(name)

    def add_point(self, atom: _Atom) -> None:
        """Add the codes of an atom at the end of the text so far. One that stands for a space brings the space."""
        position = self.length
        if atom.kind == "break" and self.last_character == " ":
            position -= 1
        elif atom.kind == "break" and self.last_character:
            self._append(" ")
        parent = self.open_spans[-1]
        position = max(position, parent.start)
        point = Span(position, position, atom.parts, spaces="instead" if atom.kind == "break" else "")
        parent.children.append(point)
        self.point_at_end = point

    def open_span(self, code: Code) -> None:
        """Begin a stretch of the text with a code."""
        span = Span(self.length, self.length, [code])
        self.open_spans[-1].children.append(span)
        self.open_spans.append(span)

    def close_span(self, code: Code) -> None:
        """End the latest stretch with a code."""
        span = self.open_spans.pop()
        span.end, span.closing = self.length, [code]

    def finished(self) -> PlainText:
        """The whole text. A space at its end, before a point, goes with the point."""
        plain = "".join(self.texts)
        if self.point_at_end and self.last_character == " ":
            self.point_at_end.spaces = self.point_at_end.spaces or "around"
            plain = plain[:-1]
            self.point_at_end.start = self.point_at_end.end = len(plain)
        self.root.end = len(plain)
        return PlainText(plain, self.root, self.stand_ins)

    def _append(self, text: str) -> None:
        if text:
            self.texts.append(text)
            self.length += len(text)
            self.last_character = text[-1]
            self.point_at_end = None


def _unused_names(text: str) -> Iterator[str]:
    """Words that the text does not have: {1}, {2} and so on."""
    used = set(re.findall(r"\{\d+\}", text))
    number = 0
    while True:
        number += 1
        if f"{{{number}}}" not in used:
            yield f"{{{number}}}"


def paired_codes(content: Content) -> dict[int, int]:
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
    """The content with codes in pairs around words; all other codes become atoms.

    Atoms are codes without a partner, and stretches without a word: those without letters, and placeholders.
    """
    closed = paired_codes(content)
    paired = {index for pair in closed.items() for index in pair}
    atoms = _AtomFinder(content, copied=copied)
    pieces: list[str | Code | _Atom] = []
    index = 0
    while index < len(content):
        part, end = content[index], closed.get(index)
        atom = atoms.between(index, end) if end is not None else None
        if atom:
            pieces.append(atom)
            index = end
        elif isinstance(part, str) or index in paired:
            pieces.append(part)
        else:
            pieces.append(_Atom([part], part.kind if part.kind in ("word", "break") else "alone"))
        index += 1
    return list(_with_formulas(pieces))


class _AtomFinder:
    """Tells which stretches of a content are atoms: those from an opening to its closing code without words."""

    def __init__(self, content: Content, *, copied: bool):
        self.content = content
        self.copied = copied
        """Whether placeholders are copied into translations."""
        self.texts_with_words = [0, *accumulate(has_words([part]) for part in content)]
        """Number of texts with words before each index."""
        self.sizes = [0, *accumulate(len(part) if isinstance(part, str) else 0 for part in content)]
        """Number of characters before each index."""
        self.before = _neighbours(content)
        """The character before each index."""
        self.after = _neighbours([*reversed(content)], first=True)[::-1]
        """The character after each index."""

    def between(self, start: int, end: int) -> _Atom | None:
        """The codes at two indices and all between them as an atom; None if these are words to translate."""
        size, codes = self.sizes[end] - self.sizes[start], end - start
        if size and codes > LONGEST_ATOM and not self.copied:
            return None
        if self.texts_with_words[end] != self.texts_with_words[start] and (
            max(size, codes) > LONGEST_ATOM or not _is_literal(self.content[start + 1 : end])
        ):
            return None
        stretch = list(self.content[start : end + 1])
        text_before = self.content[start - 1] if start else ""
        if isinstance(text_before, Code):
            text_before = ""
        kind = _kind(stretch, self.before[start], self.after[end], text_before)
        if kind == "formula" and not self.copied:
            kind = "word"
        # Where words cannot stand for codes, a text with a format is found again in the translation.
        if kind == "word" and size and not self.copied:
            return None
        return _Atom(stretch, kind)


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


def _kind(stretch: Content, before: str, after: str, text_before: str) -> _AtomKind:
    """The kind of a stretch without words, from the characters around it and the text directly before it."""
    text = "".join(part for part in stretch if isinstance(part, str))
    kinds = {part.kind for part in stretch if isinstance(part, Code)}
    if not text.strip() and "word" not in kinds:
        return "break" if text or "break" in kinds else "alone"
    is_after_word, is_before_word = bool(_WORD_CHARACTER.match(before)), bool(_WORD_CHARACTER.match(after))
    between: _AtomKind = "break" if is_after_word and is_before_word and _SEPARATES.fullmatch(text) else "alone"
    if "word" not in kinds and not _MEANINGFUL.search(text):
        return between
    if is_after_word:
        word = _unless_in_placeholder(_LAST_WORD.search(text_before))
        return "formula" if word and _FORMULA.fullmatch(word[0]) else between
    if is_before_word:
        return "alone"
    return "word" if before in ("", *_OPENING_MARKS) or before.isspace() or _MEANINGFUL.match(before) else "alone"


def _unless_in_placeholder(word: re.Match[str] | None) -> re.Match[str] | None:
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
            if last.kind == "alone" and piece.kind == "word" and last.is_meaningful():
                last = _Atom([*last.parts, *piece.parts], "word")
                continue
        elif isinstance(piece, _Atom) and isinstance(last, str) and piece.kind == "formula":
            base = _unless_in_placeholder(_LAST_WORD.search(last))
            if base:
                yield last[: base.start()]
                last = _Atom([base[0], *piece.parts], "formula")
                continue
        elif isinstance(piece, str) and isinstance(last, _Atom) and last.kind == "formula":
            rest = _unless_in_placeholder(_SHORT_WORD.match(piece))
            if rest:
                last.parts.append(rest[0])
                piece = piece[rest.end() :]
                if not piece:
                    continue
        yield last
        last = piece
    yield last


Links = Sequence[tuple[int, int]]
"""An alignment: pairs of a source word and a target word, by their numbers."""


def without_surplus(target: str, alignment: Links, expected: Mapping[str, int]) -> tuple[str, Links]:
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
    parts, position = [], 0
    is_kept = [True] * len(target)
    for start, end in surplus:
        if target[start - 1 : start] in ("", " ") and target[end : end + 1] == " ":
            end += 1
        parts.append(target[position:start])
        is_kept[start:end] = [False] * (end - start)
        position = end
    shorter = "".join([*parts, target[position:]])
    positions = [0, *accumulate(is_kept)]
    starts = [start for start, _ in word_spans(shorter)]
    words: dict[int, int] = {}  # from the words of the target to those of the shorter text
    for number, (start, end) in enumerate(word_spans(target)):
        if any(is_kept[start:end]):
            words[number] = bisect_right(starts, positions[start]) - 1
    return shorter, [(source_word, words[word]) for source_word, word in alignment if word in words]


def lacking(target: str, literals: Mapping[int, str]) -> list[tuple[int, str]]:
    """The placeholders that a translation lacks, with their positions in the source: the keys of `literals`."""
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

    def __init__(self, source: str, target: str, alignment: Links):
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
        has_letters_before = _WORD_CHARACTER.search(before) is not None
        has_letters_after = _WORD_CHARACTER.search(after) is not None
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
        while right - left > 1 and self.target[left] in _OPENING_MARKS and not self._is_in_literal(left):
            left += 1
        return left

    def _without_closing_marks(self, left: int, right: int) -> int:
        """End of a stretch of the target without marks at its end, such as a full stop."""
        while right - left > 1 and self.target[right - 1] in _CLOSING_MARKS and not self._is_in_literal(right - 1):
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
        precedes_marks = next_ink == len(self.ink) or self.source[self.ink[next_ink]] in _CLOSING_MARKS
        if touches_before and precedes_marks and right - left <= LONGEST_WORD:
            right = self._without_closing_marks(left, right)
        return self._outside(right, 1)
