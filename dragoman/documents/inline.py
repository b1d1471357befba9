"""Codes inside a text, such as tags, taken out of it: what is left is plain text, and a tree of the codes over it.

`dragoman.documents.projection` puts them into the translation of that text.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Literal

from dragoman.documents.document import Code, Content, has_words
from dragoman.text.characters import INVISIBLE, has_letters
from dragoman.text.tokenizers.placeholders import literal_spans

MOST_STAND_INS = 99
"""Most words of one text that stand for codes. Further codes only stand between its words."""
LONGEST_ATOM = 200
"""Most characters of a formatted placeholder, and most codes in it. Longer stretches are texts."""
OPENING_MARKS, CLOSING_MARKS = "\"'([{«“‘„¿¡", "\"')]}»”’“.,;:!?…。！？、，"
WORD_CHARACTER = re.compile(r"[^\W_]")
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
    is_after_word, is_before_word = bool(WORD_CHARACTER.match(before)), bool(WORD_CHARACTER.match(after))
    between: _AtomKind = "break" if is_after_word and is_before_word and _SEPARATES.fullmatch(text) else "alone"
    if "word" not in kinds and not _MEANINGFUL.search(text):
        return between
    if is_after_word:
        word = _unless_in_placeholder(_LAST_WORD.search(text_before))
        return "formula" if word and _FORMULA.fullmatch(word[0]) else between
    if is_before_word:
        return "alone"
    return "word" if before in ("", *OPENING_MARKS) or before.isspace() or _MEANINGFUL.match(before) else "alone"


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
