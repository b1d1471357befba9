"""OpenDocument texts, ODT: finds paragraphs and headings. Spans and links are placed by the words inside of them."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from dragoman.documents import xml
from dragoman.documents.document import UNKNOWN, Code, Document, FormatError, Segment, with_spaces_outside
from dragoman.documents.office import (
    MOST_NESTED,
    Parts,
    Piece,
    RangeEnd,
    leaves,
    outermost,
    stretches,
    with_ranges,
    write,
)  # fmt: skip
from dragoman.documents.xml import Element, Token
from dragoman.text.language_codes import Languages

TEXTS = re.compile(r"(content|styles)\.xml")
CHARTS = re.compile(r"[^/]+/content\.xml")
PARAGRAPHS = {"p", "h"}
TEXT_ONLY = {"title", "desc", "index-title-template"}
"""Other elements with a text that people read: descriptions of pictures, titles of tables of contents."""
REMOVED = {"tracked-changes"}
"""Elements with text that a change has removed."""
BOXES = {"span", "a", "meta", "placeholder", "text-input"}
"""Elements in a paragraph with texts to translate. Others with a text, such as a date, are words to copy."""
KINDS = {"s": "break", "line-break": "break", "tab": "split", "ruby": "word"}
ALONE = {"note", "annotation"}
UNSEEN = re.compile("rsid|language|country|script|rfc-language-tag")
"""Properties of a style that nobody sees: revisions of the office program, and languages."""
_SPACES = re.compile(r"[ \t\r\n]+")
_RANGE = re.compile(r"(\w+(?:-mark)?)-(start|end)")


def find_parts(files: Mapping[str, bytes]) -> Parts:
    """The parts with texts: those of the document, and of the charts in it."""
    texts = [name for name in files if TEXTS.fullmatch(name)]
    if "content.xml" not in files:
        raise FormatError("has no text of OpenDocument in it; save it again as .odt.")
    texts += [name for name in files if CHARTS.fullmatch(name) and b"<office:chart" in files[name]]
    return Parts(texts, [name for name in files if name == "meta.xml"])


def read_odt(text: str, languages: Languages = UNKNOWN) -> Document:
    """The segments of a part of an ODT: paragraphs, headings, and descriptions of pictures."""
    return Document(text, list(_Part(text).segments()))


@dataclass
class _Box(Piece):
    """A piece with others inside."""

    opening: str = ""
    """The tag that it begins with."""
    closing: str = ""
    style: str | None = None
    """The style of a span as people see it; None for other boxes."""


class _Part:
    """Reads a part of an ODT."""

    def __init__(self, text: str):
        self.text = text
        self.root = xml.parse(text)

    @cached_property
    def styles(self) -> dict[str, str]:
        """The properties of each style that people see, by its name; "" if it only has unseen ones."""
        styles = {}
        for style in self.root.walk("style"):
            name, properties = style.attributes.get("name", ""), []
            for child in style.children:
                seen = [f"{key}={value}" for key, value in child.attributes.items() if not UNSEEN.search(key)]
                if seen or child.content:
                    properties += [child.name, *seen]
            if properties or "parent-style-name" in style.attributes:
                styles[name] = " ".join([style.attributes.get("parent-style-name", ""), *properties])
            else:
                styles[name] = "" if style.content else name
        return styles

    def segments(self) -> Iterator[Segment]:
        """The segments of all paragraphs, in the order of the document."""
        yield from self._blocks([self.root], 0)

    def _blocks(self, elements: Iterable[Element], depth: int) -> Iterator[Segment]:
        """The segments of all paragraphs in some elements, and of those inside of them."""
        if depth > MOST_NESTED:
            raise FormatError(f"has more than {MOST_NESTED} paragraphs inside of each other; take some out.")
        for block in outermost(elements, _is_block, REMOVED):
            pieces = self._pieces(block)
            for stretch in stretches(pieces):
                yield self._segment(stretch)
            for piece in leaves(pieces):
                yield from self._blocks(piece.elements, depth + 1)

    def _pieces(self, box: Element) -> list[Piece]:
        """The pieces of a paragraph or box."""
        pieces: list[Piece] = []
        for child in box.content:
            if isinstance(child, Token):
                if child.kind == "text":
                    pieces.append(Piece(child.start, child.end, "text", _SPACES.sub(" ", child.value)))
                else:
                    pieces.append(Piece(child.start, child.end, "alone"))
            elif not child.content:
                pieces.append(self._leaf(child))
            elif self._is_plain(child):
                pieces.append(Piece(child.start, child.end, "text", _SPACES.sub(" ", child.text)))
            elif child.name in BOXES:
                pieces.append(
                    _Box(
                        child.start, child.end, "box", parts=self._pieces(child),
                        opening=self.text[child.start : child.inside], closing=self.text[child.close : child.end],
                        style=self._style(child) if child.name == "span" else None,
                    )
                )  # fmt: skip
            else:
                pieces.append(self._leaf(child))
        return _joined(pieces)

    def _is_plain(self, element: Element) -> bool:
        """Whether an element is a text without a format that people see."""
        is_text = all(isinstance(part, Token) and part.kind == "text" for part in element.content)
        return is_text and element.name == "span" and self._style(element) == ""

    def _style(self, span: Element) -> str:
        """The style of a span as people see it."""
        name = span.attributes.get("style-name", "")
        return self.styles.get(name, name)

    def _leaf(self, element: Element) -> Piece:
        """An element that is no box as a piece."""
        kind = KINDS.get(element.name)
        if not kind:
            has_paragraphs = any(True for _ in outermost([element], _is_block, set()))
            kind = "alone" if element.name in ALONE or has_paragraphs or not element.text.strip() else "word"
        return Piece(element.start, element.end, kind, range_end=_range_end(element), elements=[element])

    def _segment(self, pieces: list[Piece]) -> Segment:
        """The segment of a text. A space at its beginning or end is written around the translation."""
        first, last = pieces[0], pieces[-1]
        left = " " * (first.text[:1] == " ")
        right = " " * (last.text[-1:] == " ")
        pieces = [replace(piece) for piece in pieces]
        pieces[0].text = pieces[0].text.removeprefix(" ")
        pieces[-1].text = pieces[-1].text.removesuffix(" ")
        return Segment(first.start, last.end, self._content(pieces), write, (left, right))

    def _content(self, pieces: Iterable[Piece]) -> list[str | Code]:
        """Texts, and all other pieces as codes."""
        content: list[str | Code] = []
        ends: list[tuple[int, RangeEnd]] = []
        for piece in pieces:
            if piece.kind == "text":
                content.append(piece.text)
            elif isinstance(piece, _Box):
                content += [Code(piece.opening, "open", "box"), *self._content(piece.parts)]
                content.append(Code(piece.closing, "close", "box"))
            else:
                if piece.range_end:
                    ends.append((len(content), piece.range_end))
                kind = "break" if piece.kind == "split" else piece.kind
                content.append(Code(self.text[piece.start : piece.end], kind, start=piece.start))
        return with_spaces_outside(with_ranges(content, ends))


def _range_end(element: Element) -> RangeEnd | None:
    """The end of a range that an element is, such as `bookmark-start`; None for other elements."""
    name = next((element.attributes[key] for key in ("name", "change-id", "id") if key in element.attributes), None)
    if name is None:
        return None
    if end := _RANGE.fullmatch(element.name):
        return RangeEnd(end[2], f"{end[1]} {name}")
    return RangeEnd("start", f"annotation {name}") if element.name == "annotation" else None


def _is_block(element: Element) -> bool:
    return element.name in PARAGRAPHS or (
        element.name in TEXT_ONLY and all(isinstance(part, Token) for part in element.content)
    )


def _joined(pieces: list[Piece]) -> list[Piece]:
    """The pieces with neighbouring spans of the same style as one if no text stands between them."""
    joined: list[Piece] = []
    between: list[Piece] = []
    for piece in pieces:
        if piece.kind == "alone" and not piece.range_end:
            between.append(piece)
            continue
        last = joined[-1] if joined else None
        if isinstance(piece, _Box) and isinstance(last, _Box) and piece.style == last.style is not None:
            joined[-1] = replace(
                last, end=piece.end, parts=[*last.parts, *between, *piece.parts], closing=piece.closing
            )
        else:
            joined += [*between, piece]
        between = []
    return joined + between
