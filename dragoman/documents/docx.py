"""Documents of Word, DOCX. A paragraph is a row of runs, each with its format.

Runs of the same format are one text, wherever Word has cut them. The translation has the usual format of the text; for
other formats, a code opens the format and another closes it. So every word has the format of the word that it comes
from.

A field has codes and a result. A result that people read as text, such as that of a link, is translated, and the codes
stay around it. Other results, such as the number of a page, are a word that is copied.
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
    RangeEnd,
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
"""Content types of the main part (`MAIN`), of all parts with texts (`TEXTS`), and of those that name a language."""
USUAL_NAMES = re.compile(r"word/(document|header\d*|footer\d*|footnotes|endnotes|comments)\.xml")
"""Parts with texts in a document that says nothing about types."""

BOXES = {"hyperlink", "ins", "moveTo", "fldSimple", "smartTag", "sdt", "sdtContent", "customXml", "dir", "bdo"}
"""Elements in a paragraph with runs inside."""
REMOVED = {"del", "moveFrom"}
"""Elements with text that a change has removed."""
IGNORED = {"proofErr"}
"""Elements that are left out. Word makes marks of the spelling checker again; here they would be at wrong words."""
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
"""Properties of a run that nobody sees. Runs that only differ in these have the same format."""
DESCRIBED = {"docPr": ("descr", "title"), "shape": ("alt",)}
"""Attributes of pictures that describe them to people who do not see them, by the name of the element."""
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
    """A field of Word."""

    begin: int
    """Index in the text of the mark that begins the field."""
    separate: int | None = None
    """Index of the mark between its codes and its result."""
    end: int | None = None
    """Index of the mark that ends it."""
    codes: list[str] = field(default_factory=list)

    @property
    def is_translated(self) -> bool:
        """Whether people read its result as text."""
        return _is_translated("".join(self.codes))


def _is_translated(codes: str) -> bool:
    """Whether people read the result of a field with these codes as text. The first code is the kind of the field."""
    words = codes.split(maxsplit=1)
    return bool(words) and words[0].upper() in TRANSLATED_FIELDS


@dataclass(frozen=True)
class _Run:
    """A run of a paragraph: texts and other elements of one format."""

    start: int
    end: int
    inside: int
    """Index at which its opening tag ends."""
    close: int
    """Index at which its closing tag begins."""
    properties: Element | None
    """The element with its format."""

    @property
    def opening_end(self) -> int:
        """Index at which its properties end, or its opening tag if it has none."""
        return self.properties.end if self.properties else self.inside


@dataclass
class _Piece(Piece):
    """A part of a paragraph in a DOCX."""

    parts: Sequence["_Piece"] = ()
    opening: "_Piece | None" = None
    """The beginning of a box: a tag, or the codes of a field."""
    closing: "_Piece | None" = None
    run: _Run | None = None
    """The run that the element is a child of."""
    run_before: _Run | None = None
    """The run that the piece begins within; None if no other piece of the run precedes it."""
    run_after: _Run | None = None
    """The run that the piece ends within; None if no other piece of the run follows it."""
    markup: str = ""
    """Spelling of the piece by itself, with whole runs, if it begins or ends within a run."""
    field_end: int = 0
    """End of the last field that begins inside of the piece and ends behind it; 0 if there is none."""

    @property
    def outer_start(self) -> int:
        """Its beginning, or that of the run that begins with it."""
        return self.run.start if self.run and not self.run_before else self.start

    @property
    def outer_end(self) -> int:
        """Its end, or that of the run that ends with it."""
        return self.run.end if self.run and not self.run_after else self.end


class _Part:
    """Reads a part of a DOCX."""

    def __init__(self, text: str):
        self.text = text
        self.root = xml.parse(text)
        self.fields: dict[int, Field] = {}
        """Fields by the index of their first mark."""
        self.codes_until: dict[int, int] = {}
        """For each paragraph, by its index, that begins in the codes of a field: the index at which these end."""
        self._find_fields()

    def _find_fields(self) -> None:
        """Fill `fields` and `codes_until`. A field may go across paragraphs."""
        opened: list[Field] = []
        paragraphs_in_codes: list[tuple[int, Field]] = []
        stack = [self.root]
        while stack:
            element = stack.pop()
            mark = element.attributes.get("fldCharType") if element.name == "fldChar" else None
            if mark == "begin":
                opened.append(Field(element.start))
            elif mark == "separate" and opened:
                opened[-1].separate = element.start
            elif mark == "end" and opened:
                closed = opened.pop()
                closed.end = element.start
                self.fields[closed.begin] = closed
            elif element.name == "instrText" and opened and opened[-1].separate is None:
                opened[-1].codes.append(element.text)
            elif element.name == "p" and opened and opened[-1].separate is None:
                paragraphs_in_codes.append((element.start, opened[-1]))
            stack += [child for child in reversed(element.content) if isinstance(child, Element)]
        for start, around in paragraphs_in_codes:
            if around.end is not None:
                self.codes_until[start] = around.end if around.separate is None else around.separate

    def segments(self) -> Iterator[Segment]:
        """The segments of all paragraphs, descriptions and names, in the order of the document."""
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
                yield from self._blocks(block.children, depth)

    def _paragraph(self, paragraph: Element, depth: int) -> Iterator[Segment]:
        """The segments of a paragraph, and of the paragraphs inside of it."""
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
        for child in box.children:
            if child.name == "r":
                run = _Run(child.start, child.end, child.inside, child.close, child.child("rPr"))
                inside = [part for part in child.children if part.name != "rPr"]
                for index, part in enumerate(inside):
                    pieces.append(self._leaf(part, run, is_first=index == 0, is_last=index == len(inside) - 1))
            elif child.name in BOXES and child.content and not _is_word(child):
                pieces.append(self._box(child))
            elif not child.name.endswith("Pr") and child.name not in IGNORED:
                pieces.append(self._leaf(child))
        return self._with_fields(pieces)

    def _box(self, element: Element) -> _Piece:
        """An element with runs inside as a piece."""
        parts = self._pieces(element)
        properties = [child for child in element.children if child.name.endswith("Pr")]
        inside = properties[-1].end if properties else element.inside
        return _Piece(
            element.start, element.end, "box", parts=parts,
            opening=_Piece(element.start, inside, "alone"), closing=_Piece(element.close, element.end, "alone"),
            field_end=max((part.field_end for part in parts), default=0),
        )  # fmt: skip

    def _leaf(
        self, element: Element, run: _Run | None = None, *, is_first: bool = True, is_last: bool = True
    ) -> _Piece:
        """An element without runs as a piece: a child of a run, or one between runs."""
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
            range_end = RangeEnd(end[2].lower(), f"{end[1]} {element.attributes['id']}")
        return _Piece(
            element.start, element.end, kind, text, range_end=range_end, run=run,
            elements=[] if element.name in REMOVED else [element],
            run_before=None if is_first else run, run_after=None if is_last else run,
        )  # fmt: skip

    def _with_fields(self, pieces: Sequence[_Piece]) -> list[_Piece]:
        """The pieces with each field as one piece."""
        whole: list[_Piece] = []
        index = 0
        while index < len(pieces):
            piece, last = pieces[index], index
            begun = self.fields.get(piece.start) if piece.kind != "box" else None
            if begun:
                piece, last = self._whole_field(pieces, index, begun)
            elif piece.field_end:
                end = _covering(pieces, piece.field_end)
                if end is not None:
                    piece, last = self._slice(pieces[index : end + 1], "word"), end
            whole.append(piece)
            index = last + 1
        return whole

    def _whole_field(self, pieces: Sequence[_Piece], first: int, whole: Field) -> tuple[_Piece, int]:
        """The field that begins with a piece as one piece, and the index of the last piece that belongs to it."""
        separate, last = _covering(pieces, whole.separate), _covering(pieces, whole.end)
        if last is None:  # it goes on in another paragraph, or behind the box
            last = len(pieces) - 1 if separate is None else separate
            return replace(self._slice(pieces[first : last + 1]), field_end=whole.end or 0), last
        is_translated = False
        if whole.is_translated and separate is not None:
            result = pieces[separate + 1 : last]
            has_own_marks = pieces[separate].kind != "box" and pieces[last].kind != "box"
            is_translated = has_own_marks and any(piece.has_words for piece in result)
        if not is_translated:
            return self._slice(pieces[first : last + 1], "alone" if whole.separate is None else "word"), last
        opening, closing = self._slice(pieces[first : separate + 1]), self._slice(pieces[last : last + 1])
        box = _Piece(
            opening.outer_start, closing.outer_end, "box", parts=self._with_fields(result),
            opening=opening, closing=closing, run_before=opening.run_before, run_after=closing.run_after,
        )  # fmt: skip
        return box, last

    def _slice(self, pieces: Sequence[_Piece], kind: Literal["word", "alone"] = "alone") -> _Piece:
        """Some pieces in a row as one that is no text."""
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
    """All pieces that are no boxes, and the beginnings and ends of boxes."""
    for piece in pieces:
        if piece.opening and piece.closing:
            yield piece.opening
            yield from _leaves_and_marks(piece.parts)
            yield piece.closing
        else:
            yield piece


def _covering(pieces: Sequence[_Piece], position: int | None) -> int | None:
    """The index of the piece that a position of the document is in; None if it is in none."""
    if position is None:
        return None
    index = bisect_right(pieces, position, key=lambda piece: piece.start) - 1
    return index if index >= 0 and position < pieces[index].end else None


def _opening(text: str, run: _Run) -> str:
    """The opening tag and the properties of a run."""
    return text[run.start : run.opening_end]


def _is_block(element: Element) -> bool:
    return element.name in ("p", "strCache") or element.name in DESCRIBED


def _is_word(box: Element) -> bool:
    """Whether a box is copied as a word, such as the number of a page or a date."""
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
        """The properties of each run that people see, by the start of the run."""
        self.numbers: dict[str, int] = {}
        """The number of each format, by its properties that people see."""
        self.characters: dict[str, str] = {}
        """The elements of the text that stand for characters, by these."""
        spellings: list[Counter[str]] = []  # for each format, the characters that have it, by how it is spelled
        for leaf in _leaves_and_marks(pieces):
            if leaf.run:
                number = self.format_of(leaf.run)
                if number == len(spellings):
                    spellings.append(Counter())
                spellings[number][text[leaf.run.inside : leaf.run.opening_end]] += len(leaf.text)
            if leaf.text in CHARACTERS.values() and leaf.elements[0].name in CHARACTERS:
                self.characters[leaf.text] = text[leaf.start : leaf.end]
        self.formats = [max(counts, key=lambda spelling: counts[spelling]) for counts in spellings]
        """The properties of each format, as they are spelled for most characters."""

    def segment(self) -> Segment:
        """The text with codes for all formats but the usual one."""
        first, last = self.pieces[0], self.pieces[-1]
        left = first.text[: len(first.text) - len(first.text.lstrip())]
        right = last.text[len(last.text.rstrip()) :]
        pieces = list(self.pieces)
        pieces[0] = replace(pieces[0], text=pieces[0].text.lstrip())
        pieces[-1] = replace(pieces[-1], text=pieces[-1].text.rstrip())
        base = self.usual_format(pieces)
        written_around = self._spaces(first, left), _mark(base), self._spaces(last, right)
        return Segment(
            first.outer_start, last.outer_end, self.content(pieces, base), write,
            wrap=partial(self._joined, *written_around),
        )  # fmt: skip

    def _spaces(self, piece: _Piece, spaces: str) -> str:
        """Spaces in the format of a piece."""
        return _mark(self.format_of(piece.run)) + spaces if piece.run and spaces else ""

    def format_of(self, run: _Run) -> int:
        """The number of the format of a run."""
        if run.start not in self.keys:
            self.keys[run.start] = _seen(self.text, run.properties) if run.properties else ""
        return self.numbers.setdefault(self.keys[run.start], len(self.numbers))

    def usual_format(self, pieces: Sequence[_Piece]) -> int:
        """The format of most texts outside of boxes; of several, that of most characters."""
        texts, characters = Counter[int](), Counter[int]()
        last = None
        for piece in pieces:
            if piece.kind == "text" and piece.run and piece.text.strip():
                number = self.format_of(piece.run)
                texts[number] += number != last
                characters[number] += len(piece.text)
                last = number
        return max(texts, key=lambda number: (texts[number], characters[number]), default=0)

    def content(self, pieces: Sequence[_Piece], base: int) -> list[str | Code]:
        """Texts, and the codes that lead from the format `base` to others and back."""
        builder = _ContentBuilder(self, base)
        for piece in pieces:
            builder.add(piece)
        return builder.finished()

    def code(self, piece: _Piece) -> Code:
        """The code of a piece that is not translated."""
        kind = "break" if piece.kind in ("split", "text") else piece.kind
        markup = piece.markup or self.text[piece.start : piece.end]
        start = piece.start - 1 if piece.elements else None
        return Code(_mark(markup + (str(self.format_of(piece.run)) if piece.run else "")), kind, start=start)

    def _joined(self, left: str, base: str, right: str, written: str) -> str:
        """The runs of a translation."""
        first, last = self.pieces[0].run_before, self.pieces[-1].run_after
        runs = _Writer(self, self.format_of(first) if first else None)
        for index, part in enumerate((left + base + written + right).split(NUL)):
            markup, end, number = part.rpartition(">")
            if index % 2 == 0:
                runs.add_text(part)
            elif not end:
                runs.format = int(number)
            else:
                runs.add_markup(markup + end, int(number) if number else None)
        return runs.finished(self.format_of(last) if last else None, _opening(self.text, last) if last else "")


class _ContentBuilder:
    """Collects the content of some pieces. Codes lead from the `base` format to others and back."""

    def __init__(self, runs: _Runs, base: int):
        self.runs, self.base = runs, base
        self.parts: list[str | Code] = []
        self.range_ends: list[tuple[int, RangeEnd]] = []
        self.waiting: list[_Piece] = []
        """Codes since the last text, which may belong into its format or behind it."""
        self.format = base
        """The format of the last text."""
        self.stretches = 0
        """Number of stretches so far that have a format of their own."""
        self.last_character = " "

    def add(self, piece: _Piece) -> None:
        """Add the next piece."""
        if piece.kind == "text":
            self._add_text(piece)
        elif piece.kind == "box":
            self._add_box(piece)
        else:
            self.waiting.append(piece)

    def finished(self) -> list[str | Code]:
        """The whole content."""
        self._add_waiting(self.base, in_word=False)
        return with_spaces_outside(with_ranges(self.parts, self.range_ends))

    def _add_text(self, piece: _Piece) -> None:
        """Add a text. Spaces alone take the format of the last text, so that they need no codes."""
        number = self.runs.format_of(piece.run) if piece.run else self.base
        if piece.run and not piece.text.strip() and number != self.format:
            if len(piece.text) > FEW_SPACES:
                self.waiting.append(piece)
                return
            number = self.format
        self._add_waiting(number, in_word=bool(self.last_character.strip() and piece.text[:1].strip()))
        if number != self.format:
            self.stretches += 1
            self.parts.append(Code(_mark(number), "open", f"format {self.stretches}"))
            self.format = number
        self.parts.append(piece.text)
        self.last_character = piece.text[-1:] or self.last_character

    def _add_box(self, piece: _Piece) -> None:
        """Add the content of a box between two codes. Inside, its own usual format is the base."""
        self._add_waiting(self.base, in_word=False)
        inner = self.runs.usual_format(piece.parts)
        self.parts += [
            Code(self.runs.code(piece.opening).markup + _mark(inner), "open", "box"),
            *self.runs.content(piece.parts, inner),
            Code(self.runs.code(piece.closing).markup + _mark(self.base), "close", "box"),
        ]
        self.last_character = " "

    def _add_waiting(self, number: int, *, in_word: bool) -> None:
        """Add the codes before a text of a format: within this format if the last text has it, too, else behind it."""
        goes_on = number == self.format and (in_word or not any(piece.range_end for piece in self.waiting))
        if self.format != self.base and not goes_on:
            self.parts.append(Code(_mark(self.base), "close", f"format {self.stretches}"))
            self.format = self.base
        for piece in self.waiting:
            if piece.range_end:
                # A range that begins in one format and ends in another is none: it would overlap the format.
                stretch = self.stretches if self.format != self.base else 0
                end = replace(piece.range_end, name=f"{piece.range_end.name} {stretch}")
                self.range_ends.append((len(self.parts), end))
            self.parts.append(self.runs.code(piece))
        self.waiting = []


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
        """Add a text in the current format."""
        if text:
            if self.opened != self.format:
                self._open(self.format)
            self.texts.append(text)

    def add_markup(self, markup: str, number: int | None) -> None:
        """Add markup in a run of a format, or between runs for None."""
        if number is None:
            self._close()
        elif self.opened != number:
            self._open(number)
        self._end_text()
        self.parts.append(markup)

    def finished(self, number: int | None, opening: str) -> str:
        """All runs. With the number of a format, the last run has that format and stays open.

        If this run is a new one, it begins with `opening`.
        """
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
        """Write the text of a run, with the elements that stand for characters."""
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
    """A code as the content has it."""
    return f"{NUL}{markup}{NUL}"


def _seen(text: str, properties: Element) -> str:
    """The properties of a run that people see."""
    seen = [f"{name}={value}" for name, value in properties.attributes.items() if name not in UNSEEN_ATTRIBUTES]
    for child in properties.children:
        is_hint = child.name == "rFonts" and set(child.attributes) == {"hint"}
        if child.name not in UNSEEN and not is_hint:
            seen.append(text[child.start : child.end])
    return "".join(seen)
