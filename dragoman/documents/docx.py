"""Documents of Word, DOCX. A paragraph is a row of runs, each with its format.

Runs of the same format are one text, wherever Word has cut them. The usual format of a text is that of its translation;
for others, a code opens a format and another closes it. So every word has the format of the word that it comes from.

A field has codes and a result. What people read as a text, such as that of a link, is translated, and the codes stay
around it. Other results, such as the number of a page, are a word that is copied.
"""

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Literal

from dragoman.documents import office, xml
from dragoman.documents.document import (
    FEW_SPACES,
    UNKNOWN,
    Code,
    Document,
    FormatError,
    Languages,
    Segment,
    has_words,
    with_spaces_outside,
)
from dragoman.documents.office import (
    MOST_NESTED,
    Parts,
    Piece,
    leaves,
    outermost,
    stretches,
    with_ranges,
    write,
)  # fmt: skip
from dragoman.documents.xml import Element

TYPES = "[Content_Types].xml"
MAIN = re.compile(r".*word.*\.main\+xml", re.IGNORECASE)
TEXTS = re.compile(
    r".*(\.main|\.header|\.footer|\.footnotes|\.endnotes|\.comments|\.glossary"
    r"|\.chart|\.chartshapes|\.diagramData|\.diagramDrawing)\+xml",
    re.IGNORECASE,
)
STYLES = re.compile(r".*(\.styles|\.stylesWithEffects|\.settings|\.numbering|\.core-properties)\+xml", re.IGNORECASE)
"""Types of contents: of the main part, of all parts with texts, and of those that name a language."""
USUAL_NAMES = re.compile(r"word/(document|header\d*|footer\d*|footnotes|endnotes|comments)\.xml")
"""Parts with texts in a document that says nothing about types."""

BOXES = {"hyperlink", "ins", "moveTo", "fldSimple", "smartTag", "sdt", "sdtContent", "customXml", "dir", "bdo"}
"""Elements with runs inside, besides a paragraph."""
REMOVED = {"del", "moveFrom"}
"""Text that a change has removed."""
IGNORED = {"proofErr"}
"""Elements that Word makes again by itself: marks of the spelling checker would be at wrong words of a translation."""
KINDS = {
    "tab": "split", "ptab": "split", "br": "break", "cr": "break",
    "sym": "word", "oMath": "word", "oMathPara": "word", "ruby": "word", "fld": "word",
}  # fmt: skip
"""Kinds of codes by the names of elements in a paragraph or a run; all other elements stand alone."""
CHARACTERS = {"noBreakHyphen": "\N{NON-BREAKING HYPHEN}", "softHyphen": "\N{SOFT HYPHEN}"}
"""Elements that stand for a character of a word."""
TRANSLATED_FIELDS = {"HYPERLINK", "REF", "FORMTEXT", "QUOTE", "TOC", "INDEX", "INCLUDETEXT"}
"""Fields whose results people read as text."""
UNSEEN = {"lang", "noProof"}
UNSEEN_ATTRIBUTES = {"lang", "altLang", "dirty", "err", "noProof", "smtClean", "smtId"}
"""Properties of a run that nobody sees: runs that differ in them have the same format."""
DESCRIBED = {"docPr": ("descr", "title"), "shape": ("alt",)}
"""Attributes of pictures that are read to people who do not see them."""
_RANGE = re.compile(r"(\w+?)(?:Range)?(Start|End)")


def find_parts(files: Mapping[str, bytes]) -> Parts:
    """The parts with texts, whatever their names are, by the types of their contents."""
    if TYPES in files:
        types = _types(files)
        texts = [name for name, kind in types.items() if TEXTS.fullmatch(kind)]
        others = [name for name, kind in types.items() if STYLES.fullmatch(kind)]
        if any(MAIN.fullmatch(kind) for kind in types.values()):
            return Parts(texts, others)
    elif texts := [name for name in files if USUAL_NAMES.fullmatch(name)]:
        return Parts(texts, [])
    raise FormatError("has no text of Word in it; save it again as .docx.")


def _types(files: Mapping[str, bytes]) -> dict[str, str]:
    """The type of content of each file in a document, as far as it is known."""
    text, _ = office.decoded(files[TYPES], TYPES)
    root = xml.parse(text)
    names = {element.attributes.get("PartName", "").casefold(): element for element in root.walk("Override")}
    endings = {element.attributes.get("Extension", "").casefold(): element for element in root.walk("Default")}
    types = {}
    for name in files:
        element = names.get(f"/{name}".casefold()) or endings.get(name.rpartition(".")[2].casefold())
        if element:
            types[name] = element.attributes.get("ContentType", "")
    return types


def read_docx(text: str, languages: Languages = UNKNOWN) -> Document:
    """The segments of a part of a DOCX: paragraphs, descriptions of pictures, and names in charts."""
    return Document(text, list(_Part(text).segments()))


@dataclass
class Field:
    """A field: where the mark of its beginning, of the beginning of its result, and of its end are."""

    begin: int
    separate: int | None = None
    end: int | None = None
    codes: list[str] = field(default_factory=list)

    @property
    def is_translated(self) -> bool:
        """Whether its result is read as a text."""
        return _is_translated("".join(self.codes))


def _is_translated(codes: str) -> bool:
    """Whether the result of a field with these codes is read as a text."""
    return any(name.upper() in TRANSLATED_FIELDS for name in codes.split(maxsplit=1)[:1])


@dataclass(frozen=True)
class _Run:
    """A run of a paragraph: texts and other elements of one format."""

    start: int
    end: int
    inside: int
    """Where its opening tag ends."""
    close: int
    """Where its closing tag begins."""
    properties: Element | None
    """The element with its format."""

    @property
    def opening_end(self) -> int:
        """Where its properties end, or its opening tag if it has none."""
        return self.properties.end if self.properties else self.inside


@dataclass
class _Piece(Piece):
    """A part of a paragraph in a DOCX."""

    parts: Sequence["_Piece"] = ()
    opening: "_Piece | None" = None
    """The beginning of a box: a tag, or the codes of a field."""
    closing: "_Piece | None" = None
    run: _Run | None = None
    """The run that an element is a child of."""
    run_before: _Run | None = None
    """The run that it stands in if it is not the first in it."""
    run_after: _Run | None = None
    """The run that it stands in if it is not the last in it."""
    markup: str = ""
    """How it is written by itself if it begins or ends within a run."""
    field_end: int = 0
    """End of the last field that begins inside of this stretch and ends behind it; 0 if there is none."""

    @property
    def outer_start(self) -> int:
        """Its beginning, or that of the run that begins with it."""
        return self.run.start if self.run and not self.run_before else self.start

    @property
    def outer_end(self) -> int:
        """Its end, or that of the run that ends with it."""
        return self.run.end if self.run and not self.run_after else self.end


class _Part:
    """A part of a DOCX while it is read."""

    def __init__(self, text: str):
        self.text = text
        self.root = xml.parse(text)
        self.fields: dict[int, Field] = {}
        self.codes_until: dict[int, int] = {}
        self._find_fields()

    def _find_fields(self) -> None:
        """Finds fields by their first marks, and paragraphs that begin in the codes of a field, with the end of these.

        A field may go across paragraphs.
        """
        opened: list[Field] = []
        in_codes: list[tuple[int, Field]] = []
        stack = [self.root]
        while stack:
            element = stack.pop()
            mark = element.attributes.get("fldCharType") if element.name == "fldChar" else None
            if mark == "begin":
                opened.append(Field(element.start))
            elif mark == "separate" and opened:
                opened[-1].separate = element.start
            elif mark == "end" and opened:
                own = opened.pop()
                own.end = element.start
                self.fields[own.begin] = own
            elif element.name == "instrText" and opened and opened[-1].separate is None:
                opened[-1].codes.append(element.text)
            elif element.name == "p" and opened and opened[-1].separate is None:
                in_codes.append((element.start, opened[-1]))
            stack += [child for child in reversed(element.content) if isinstance(child, Element)]
        for start, own in in_codes:
            if own.end is not None:
                self.codes_until[start] = own.end if own.separate is None else own.separate

    def segments(self) -> Iterator[Segment]:
        yield from self._blocks([self.root], 0)

    def _blocks(self, elements: Iterable[Element], depth: int) -> Iterator[Segment]:
        """The segments of all paragraphs in some elements, and of those inside of them."""
        if depth > MOST_NESTED:
            raise FormatError(f"has more than {MOST_NESTED} paragraphs inside of each other; take some out.")
        for block in outermost(elements, _is_block, REMOVED):
            if block.name == "p":
                yield from self._paragraph(block, depth)
            elif block.name == "strCache":
                for value in block.walk("v"):
                    if has_words([value.text]):
                        yield Segment(value.inside, value.close, [value.text], write)
            else:
                yield from office.attribute_segments(self.text, block, DESCRIBED[block.name])
                yield from self._blocks(_children(block), depth)

    def _paragraph(self, paragraph: Element, depth: int) -> Iterator[Segment]:
        prefix = xml.prefix(paragraph, self.text)
        pieces = self._pieces(paragraph)
        if until := self.codes_until.get(paragraph.start):
            pieces = [piece for piece in pieces if piece.start > until]
        for stretch in stretches(pieces):
            yield _Runs(self.text, prefix, stretch).segment()
        for piece in leaves(pieces):
            yield from self._blocks(piece.elements, depth + 1)

    def _pieces(self, box: Element) -> list[_Piece]:
        """The pieces of a paragraph or box."""
        pieces: list[_Piece] = []
        for child in _children(box):
            if child.name == "r":
                run = _Run(child.start, child.end, child.inside, child.close, child.child("rPr"))
                inside = [part for part in _children(child) if part.name != "rPr"]
                for index, part in enumerate(inside):
                    pieces.append(self._leaf(part, run, is_first=index == 0, is_last=index == len(inside) - 1))
            elif child.name in BOXES and child.content and not _is_word(child):
                pieces.append(self._box(child))
            elif not child.name.endswith("Pr") and child.name not in IGNORED:
                pieces.append(self._leaf(child))
        return self._with_fields(pieces)

    def _box(self, element: Element) -> _Piece:
        parts = self._pieces(element)
        properties = [child for child in _children(element) if child.name.endswith("Pr")]
        inside = properties[-1].end if properties else element.inside
        return _Piece(
            element.start, element.end, "box", parts=parts,
            opening=_Piece(element.start, inside, "alone"), closing=_Piece(element.close, element.end, "alone"),
            field_end=max((part.field_end for part in parts), default=0),
        )  # fmt: skip

    def _leaf(
        self, element: Element, run: _Run | None = None, *, is_first: bool = True, is_last: bool = True
    ) -> _Piece:
        kind, text, range_end = KINDS.get(element.name, "alone"), "", None
        if element.name == "t" and run:
            kind, text = "text", office.without_line_breaks(element.text)
        elif element.name in CHARACTERS:
            kind, text = "text", CHARACTERS[element.name]
        elif element.name == "br" and element.attributes.get("type", "textWrapping") != "textWrapping":
            kind = "split"  # a page or a column begins
        elif element.name in BOXES:
            kind = "word"
        elif (end := _RANGE.fullmatch(element.name)) and "id" in element.attributes:
            range_end = end[2].lower(), f"{end[1]} {element.attributes['id']}"
        return _Piece(
            element.start, element.end, kind, text, range_end=range_end, run=run,
            elements=[] if element.name in REMOVED else [element],
            run_before=None if is_first else run, run_after=None if is_last else run,
        )  # fmt: skip

    def _with_fields(self, pieces: Sequence[_Piece]) -> list[_Piece]:
        """Pieces in which each field is one."""
        whole: list[_Piece] = []
        index = 0
        while index < len(pieces):
            piece = pieces[index]
            own = self.fields.get(piece.start) if piece.kind != "box" else None
            if own:
                last = self._add_field(whole, pieces, index, own)
            elif piece.field_end and (end := _covering(pieces, piece.field_end)) is not None:
                whole.append(self._slice(pieces[index : end + 1], "word"))
                last = end
            else:
                whole.append(piece)
                last = index
            index = last + 1
        return whole

    def _add_field(self, whole: list[_Piece], pieces: Sequence[_Piece], first: int, own: Field) -> int:
        """Adds the field that begins with a piece to the `whole` ones; returns the index of the last piece of it."""
        separate, last = _covering(pieces, own.separate), _covering(pieces, own.end)
        if last is None:  # it goes on in another paragraph, or behind the box
            last = len(pieces) - 1 if separate is None else separate
            whole.append(replace(self._slice(pieces[first : last + 1]), field_end=own.end or 0))
            return last
        is_translated = own.is_translated and separate is not None
        if is_translated:
            parts = pieces[separate + 1 : last]
            marks = pieces[separate], pieces[last]
            is_translated = all(mark.kind != "box" for mark in marks) and any(part.has_words for part in parts)
        if is_translated:
            opening, closing = self._slice(pieces[first : separate + 1]), self._slice(pieces[last : last + 1])
            whole.append(
                _Piece(
                    opening.outer_start, closing.outer_end, "box", parts=self._with_fields(parts),
                    opening=opening, closing=closing,
                    run_before=opening.run_before, run_after=closing.run_after,
                )
            )  # fmt: skip
        else:
            whole.append(self._slice(pieces[first : last + 1], "alone" if own.separate is None else "word"))
        return last

    def _slice(self, pieces: Sequence[_Piece], kind: Literal["word", "alone"] = "alone") -> _Piece:
        """Some pieces as one that is no text."""
        first, last = pieces[0], pieces[-1]
        before, after = first.run_before, last.run_after
        elements = [element for leaf in leaves(pieces) for element in leaf.elements]
        if first.run and first.run is last.run and (before or after):
            return _Piece(
                first.start, last.end, kind, elements=elements, run=first.run, run_before=before, run_after=after
            )
        start, end = first.outer_start, last.outer_end
        markup = ""
        if before or after:
            markup = _opening(self.text, before) if before else ""
            markup += self.text[start:end]
            markup += self.text[after.close : after.end] if after else ""
        return _Piece(
            start, end, kind, markup=markup, run_before=before, run_after=after, elements=[] if markup else elements
        )


def _leaves_and_marks(pieces: Iterable[_Piece]) -> Iterator[_Piece]:
    """All pieces that are no boxes, and what boxes begin and end with."""
    for piece in pieces:
        if piece.opening and piece.closing:
            yield piece.opening
            yield from _leaves_and_marks(piece.parts)
            yield piece.closing
        else:
            yield piece


def _covering(pieces: Sequence[_Piece], position: int | None) -> int | None:
    """The index of the piece that a position of the document is in."""
    if position is None:
        return None
    index = bisect_right(pieces, position, key=lambda piece: piece.start) - 1
    return index if index >= 0 and position < pieces[index].end else None


def _opening(text: str, run: _Run) -> str:
    """The tag that a run begins with, and its properties."""
    return text[run.start : run.opening_end]


def _children(element: Element) -> Iterator[Element]:
    return (child for child in element.content if isinstance(child, Element))


def _is_block(element: Element) -> bool:
    return element.name in ("p", "strCache") or element.name in DESCRIBED


def _is_word(box: Element) -> bool:
    """Whether a box has something to be copied, such as the number of a page or a date."""
    if box.name == "fldSimple":
        return not _is_translated(box.attributes.get("instr", ""))
    properties = box.child("sdtPr") if box.name == "sdt" else None
    return properties is not None and any(properties.child(name) for name in ("date", "checkbox"))


class _Runs:
    """A text of a paragraph: runs, boxes and other pieces. Writes the runs of its translation.

    In the content, NUL stands before and after each code, as XML cannot hold it. A code is what is written between
    runs, or what is written in a run with the number of its format behind it; a number alone begins a format.
    """

    def __init__(self, text: str, prefix: str, pieces: Sequence[_Piece]):
        self.text, self.prefix, self.pieces = text, prefix, pieces
        self.keys: dict[int, str] = {}
        self.numbers: dict[str, int] = {}
        self.characters: dict[str, str] = {}
        sizes: list[Counter[str]] = []
        for leaf in _leaves_and_marks(pieces):
            if leaf.run:
                number = self._number(leaf.run)
                sizes += [Counter()] * (number == len(sizes))
                sizes[number][text[leaf.run.inside : leaf.run.opening_end]] += len(leaf.text)
            if leaf.text in CHARACTERS.values() and leaf.elements[0].name in CHARACTERS:
                self.characters[leaf.text] = text[leaf.start : leaf.end]
        self.formats = [max(spelled, key=lambda form: spelled[form]) for spelled in sizes]
        """How each format is spelled for most characters."""

    def segment(self) -> Segment:
        """The text with codes for all formats but the usual one."""
        first, *_, last = pieces = [self.pieces[0], *self.pieces]
        left = first.text[: len(first.text) - len(first.text.lstrip())]
        right = last.text[len(last.text.rstrip()) :]
        pieces[1] = replace(pieces[1], text=pieces[1].text.lstrip())
        pieces[-1] = replace(pieces[-1], text=pieces[-1].text.rstrip())
        base = self._usual(pieces[1:])
        written_around = self._spaces(first, left), _mark(base), self._spaces(last, right)
        return Segment(
            first.outer_start, last.outer_end, self._content(pieces[1:], base), write,
            wrap=partial(self._joined, *written_around),
        )  # fmt: skip

    def _spaces(self, piece: _Piece, spaces: str) -> str:
        """Spaces in the format of a piece."""
        return _mark(self._number(piece.run)) + spaces if piece.run and spaces else ""

    def _number(self, run: _Run) -> int:
        """The number of the format of a run."""
        if run.start not in self.keys:
            self.keys[run.start] = _seen(self.text, run.properties) if run.properties else ""
        return self.numbers.setdefault(self.keys[run.start], len(self.numbers))

    def _usual(self, pieces: Sequence[_Piece]) -> int:
        """The format outside of boxes that most of the others stand in: that of most texts, then of most characters."""
        texts, characters = Counter[int](), Counter[int]()
        last = None
        for piece in pieces:
            if piece.kind == "text" and piece.run and piece.text.strip():
                number = self._number(piece.run)
                texts[number] += number != last
                characters[number] += len(piece.text)
                last = number
        return max(texts, key=lambda number: (texts[number], characters[number]), default=0)

    def _content(self, pieces: Sequence[_Piece], base: int) -> list[str | Code]:
        """Texts, and the codes that lead from the format `base` to others and back."""
        content: list[str | Code] = []
        ends: list[tuple[int, str, str]] = []
        waiting: list[_Piece] = []  # what stands between the last text and the next one
        current, spans, last = base, 0, " "
        for piece in [*pieces, None]:
            if piece and piece.kind not in ("text", "box"):
                waiting.append(piece)
                continue
            number = base
            if piece and piece.kind == "text" and piece.run:
                number = self._number(piece.run)
                if not piece.text.strip() and number != current:
                    if len(piece.text) > FEW_SPACES:
                        waiting.append(piece)
                        continue
                    number = current
            in_word = piece is not None and bool(last.strip() and piece.text[:1].strip())
            stays = number == current and (in_word or not any(other.range_end for other in waiting))
            if current != base and not stays:
                content.append(Code(_mark(base), "close", f"format {spans}"))
                current = base
            for other in waiting:
                if other.range_end:
                    which, name = other.range_end
                    ends.append((len(content), which, f"{name} {spans if current != base else 0}"))
                content.append(self._code(other))
            waiting = []
            if piece and piece.kind == "box":
                inner = self._usual(piece.parts)
                content += [
                    Code(self._code(piece.opening).markup + _mark(inner), "open", "box"),
                    *self._content(piece.parts, inner),
                    Code(self._code(piece.closing).markup + _mark(base), "close", "box"),
                ]
                last = " "
            elif piece:
                if number != current:
                    spans += 1
                    content.append(Code(_mark(number), "open", f"format {spans}"))
                    current = number
                content.append(piece.text)
                last = piece.text[-1:] or last
        return with_spaces_outside(with_ranges(content, ends))

    def _code(self, piece: _Piece) -> Code:
        kind = "break" if piece.kind in ("split", "text") else piece.kind
        markup = piece.markup or self.text[piece.start : piece.end]
        start = piece.start - 1 if piece.elements else None
        return Code(_mark(markup + (str(self._number(piece.run)) if piece.run else "")), kind, start=start)

    def _joined(self, left: str, base: str, right: str, written: str) -> str:
        """The runs of a translation."""
        first, last = self.pieces[0].run_before, self.pieces[-1].run_after
        runs = _Writer(self, self._number(first) if first else None)
        for index, part in enumerate((left + base + written + right).split(NUL)):
            markup, end, number = part.rpartition(">")
            if index % 2 == 0:
                runs.add_text(part)
            elif not end:
                runs.format = int(number)
            else:
                runs.add_markup(markup + end, int(number) if number else None)
        return runs.finished(self._number(last) if last else None, _opening(self.text, last) if last else "")


class _Writer:
    """Writes runs; a new one begins where the format changes."""

    def __init__(self, runs: _Runs, opened: int | None):
        self.runs = runs
        self.opened = opened
        """The format of the run that is not closed yet."""
        self.format = 0
        """The format of the next text."""
        self.parts: list[str] = []
        self.texts: list[str] = []

    def add_text(self, text: str) -> None:
        if text:
            if self.opened != self.format:
                self._open(self.format)
            self.texts.append(text)

    def add_markup(self, markup: str, number: int | None) -> None:
        """Adds markup in a run of a format, or between runs."""
        if number is None:
            self._close()
        elif self.opened != number:
            self._open(number)
        self._end_text()
        self.parts.append(markup)

    def finished(self, number: int | None, opening: str) -> str:
        """All runs. The last one is closed unless it is to be of a format; then it is one of that format."""
        if number is None or self.opened != number:
            self._close()
            self.parts.append(opening)
        self._end_text()
        return "".join(self.parts)

    def _open(self, number: int) -> None:
        self._close()
        self.parts.append(f"<{self.runs.prefix}r>{self.runs.formats[number]}")
        self.opened = number

    def _close(self) -> None:
        self._end_text()
        if self.opened is not None:
            self.parts.append(f"</{self.runs.prefix}r>")
        self.opened = None

    def _end_text(self) -> None:
        """Writes the text of a run, with the elements that stand for characters."""
        characters, prefix = self.runs.characters, self.runs.prefix
        text = "".join(self.texts)
        self.texts = []
        for part in re.split(f"([{''.join(characters)}])", text) if characters else [text]:
            if part in characters:
                self.parts.append(characters[part])
            elif part:
                # Only Word's own texts can say that spaces around them count; those in drawings always do.
                space = ' xml:space="preserve"' if part != part.strip() and prefix != "a:" else ""
                self.parts.append(f"<{prefix}t{space}>{part}</{prefix}t>")


NUL = "\0"


def _mark(markup: str | int) -> str:
    return f"{NUL}{markup}{NUL}"


def _seen(text: str, properties: Element) -> str:
    """The properties of a run that people see."""
    seen = [f"{name}={value}" for name, value in properties.attributes.items() if name not in UNSEEN_ATTRIBUTES]
    for child in _children(properties):
        is_hint = child.name == "rFonts" and set(child.attributes) == {"hint"}
        if child.name not in UNSEEN and not is_hint:
            seen.append(text[child.start : child.end])
    return "".join(seen)
