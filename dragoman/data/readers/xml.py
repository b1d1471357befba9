"""XML: what is refused of it, and segments of text, read as a stream in constant memory without their inline codes.

Files come from strangers: definitions of entities, which can fill the memory, are refused, and no other file is read.
A character that XML forbids is no reason to refuse a file; the segment that has it is left out.
"""

import codecs
import re
from collections.abc import Iterable, Iterator
from io import BufferedIOBase
from pathlib import Path
from typing import NamedTuple
from xml.sax import SAXParseException
from xml.sax.handler import ContentHandler
from xml.sax.xmlreader import AttributesImpl

from dragoman.data.readers.text_io import encoding_of, open_input, unpacking_errors
from dragoman.data.readers.types import Skipped
from dragoman.data.text import BOM, one_line
from dragoman.errors import DataError
from dragoman.system.optional import load

CHUNK = 1 << 16
MAX_SEGMENT = 1 << 20
"""Characters of a unit; longer text is no sentence, and would fill the memory."""
MAX_SEGMENTS = 1_000
"""Most segments in a unit."""
MAX_DEPTH = 1_000
"""Most elements that stand inside of each other."""
MAX_TAG = 1 << 22
"""Characters of one tag or comment; the parser keeps them until it ends."""

# Inline elements that hold no text of the sentence: formatting codes of the original file, or nothing.
# `sub` is text inside such a code, a footnote or a tooltip, and no part of the sentence around it.
CODES = {"bpt", "ept", "it", "ph", "ut", "sub"} | {"x", "bx", "ex"} | {"sc", "ec", "sm", "em", "cp"}
STANDALONE = {"ph", "ut", "x"}
_GAP = "\0"  # which XML cannot contain
_GAP_IN_WORD = re.compile(r"(?<=\w)\0+(?=\w)")

FORBIDDEN = "\ufdd0"
"""Stands for a character that XML forbids, such as \\x1f; Unicode keeps it for the use inside of programs."""
DAMAGED = Skipped("has a character that XML forbids")
_ALLOWED = re.compile("[\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
MAYBE_FORBIDDEN = re.compile(rf"&#(?:x[0-9A-Fa-f]{{1,10}}|\d{{1,10}});|[^{_ALLOWED.pattern[1:]}")
_LONGEST_REFERENCE = 16

_DECLARED = re.compile(rb"""\s*<\?xml[^>]*?\sencoding\s*=\s*["']([\w.:-]+)""")
NO_ENCODINGS = ("idna", "punycode", "unicode-escape", "raw-unicode-escape", "undefined")
"""What Python calls encodings, but no document is written in."""


class Segment(NamedTuple):
    """A text with the name and attributes of its element, and the attributes of the element around it."""

    name: str
    attributes: AttributesImpl
    parent: AttributesImpl
    text: str


class Unit(NamedTuple):
    """An element with segments inside: the line on which it begins, and the attributes of what is around it."""

    line: int
    attributes: AttributesImpl
    context: dict[str, AttributesImpl]
    """Attributes of the latest element of each name in `Layout.context`."""
    segments: list[Segment]


class Layout(NamedTuple):
    """Names of elements in a format, without prefixes."""

    units: set[str]
    segments: dict[str, set[str]]
    """Elements whose text is wanted, and those that they must be a child of."""
    context: set[str]


class _Handler(ContentHandler):
    """Collects the units since `units` was last cleared."""

    def __init__(self, layout: Layout):
        super().__init__()
        self.units: list[Unit] = []
        self._layout = layout
        self._context: dict[str, AttributesImpl] = {}
        self._unit = Unit(0, AttributesImpl({}), {}, [])
        self._open = [("", AttributesImpl({}))]
        """Names and attributes of the open elements, from the root."""
        self._text: list[str] | None = None
        self._size = self._segment_level = self._code_level = 0

    def startElement(self, name: str, attrs: AttributesImpl) -> None:
        name = name.rpartition(":")[2]
        if len(self._open) > MAX_DEPTH:
            raise ValueError(f"more than {MAX_DEPTH:,} elements stand inside of each other")
        if self._text is None:
            units, segments, context = self._layout
            if name in segments and self._open[-1][0] in segments[name]:
                self._text, self._segment_level = [], len(self._open)
                if len(self._unit.segments) == MAX_SEGMENTS:
                    raise ValueError(f"a unit has more than {MAX_SEGMENTS:,} segments")
            elif name in units:
                self._size = 0
                self._unit = Unit(self._locator.getLineNumber(), attrs, self._context, [])
            elif name in context:
                self._context = {**self._context, name: attrs}  # a new one: units keep theirs
        elif self._code_level or name in CODES:
            if name in STANDALONE and not self._code_level:
                self._text.append(_GAP)
            self._code_level += 1
        self._open.append((name, attrs))

    def endElement(self, name: str) -> None:
        name, attributes = self._open.pop()
        if self._text is None:
            if name in self._layout.units:
                self.units.append(self._unit)
        elif len(self._open) == self._segment_level:
            text, self._text = "".join(self._text), None
            if _GAP in text:
                text = _GAP_IN_WORD.sub(" ", text).replace(_GAP, "")
            self._unit.segments.append(Segment(name, attributes, self._open[-1][1], one_line(text)))
        elif self._code_level:
            self._code_level -= 1

    def characters(self, content: str) -> None:
        if self._text is not None and not self._code_level:
            self._size += len(content)
            if self._size > MAX_SEGMENT:
                raise ValueError(f"a unit has more than {MAX_SEGMENT:,} characters")
            self._text.append(content)


def parse(path: Path, layout: Layout, *, replace_bad_bytes: bool = False) -> Iterator[Unit]:
    """The units of a file. Raises `DataError` with the line."""
    handler = _Handler(layout)
    line = 1
    try:
        with open_input(path) as stream:
            for line in parsed(_decoded(stream, replace_bad_bytes), handler, name=str(path)):  # noqa: B007
                yield from handler.units
                handler.units.clear()
        return
    except XmlError as error:
        fault, line = str(error), error.line
    except unpacking_errors() as error:
        fault = f"cannot be read on: {error}; check that the file is whole and that you may read it"
    raise DataError(f"{path}, line {line} {fault}.")


class XmlError(Exception):
    """Why XML is refused: a sentence without its subject and its full stop, and the line on which the fault is."""

    def __init__(self, line: int, fault: str):
        super().__init__(fault)
        self.line = line


def parsed(chunks: Iterable[str], handler: ContentHandler, *, name: str = "XML") -> Iterator[int]:
    """The line that is reached after each chunk of a document has been parsed. Raises `XmlError`.

    Characters that XML forbids are `FORBIDDEN` for the handler. Document types are not read, nor is a file fetched.
    """
    defused = {"extra": "formats", "purpose": f"Reading {name}"}
    entities = load("defusedxml", **defused).EntitiesForbidden
    parser = load("defusedxml.expatreader", **defused).create_parser(forbid_dtd=False, forbid_external=False)
    parser.setContentHandler(handler)
    handler.setDocumentLocator(parser)
    position, stuck = (1, 0), 0
    try:
        for chunk in _without_forbidden(chunks):
            parser.feed(chunk)
            before, position = position, (parser.getLineNumber(), parser.getColumnNumber())
            yield position[0]
            stuck = stuck + len(chunk) if position == before else 0
            if stuck > MAX_TAG:
                raise ValueError(f"a tag or comment is longer than {MAX_TAG >> 20} MiB")
        parser.close()
        yield position[0]
        return
    except SAXParseException as error:
        fault = f"is no well-formed XML ({error.getMessage()}); export the file again, or repair it there"
    except entities:
        fault = "defines entities, which can fill the memory; delete <!ENTITY ...> from it"
    except UnicodeDecodeError as error:
        fault = f"is not valid {error.encoding} (byte 0x{error.object[error.start]:02X}); save the file as UTF-8"
        raise XmlError(position[0] + error.object.count(b"\n", 0, error.start), fault) from None
    # An encoding that nobody knows, or one of the limits above.
    except (LookupError, ValueError) as error:
        fault = f"cannot be read: {error}; save the file as UTF-8 with a segment for each sentence"
    raise XmlError(parser.getLineNumber(), fault)


def _without_forbidden(chunks: Iterable[str]) -> Iterator[str]:
    """The text with `FORBIDDEN` for each character that XML forbids, and for each reference to one."""
    rest = ""
    for chunk in chunks:
        text = rest + chunk
        start = text.rfind("&", -_LONGEST_REFERENCE)
        whole = len(text) if start < 0 or ";" in text[start:] else start
        text, rest = text[:whole], text[whole:]
        yield MAYBE_FORBIDDEN.sub(lambda match: FORBIDDEN if is_forbidden(match[0]) else match[0], text)
    yield rest


def is_forbidden(spelled: str) -> bool:
    """Whether a character, or a reference to one by its number, is none that XML may have."""
    if spelled.startswith("&#x"):
        code = int(spelled[3:-1], 16)
    else:
        code = int(spelled[2:-1]) if spelled.startswith("&#") else ord(spelled)
    return code > 0x10FFFF or not _ALLOWED.fullmatch(chr(code))


def xml_encoding(head: bytes) -> str:
    """The encoding of XML by its first bytes, or by its declaration. Raises `LookupError` for an unknown one."""
    if marked := encoding_of(head[:256]):
        return marked
    name = declared_encoding(head) or "utf-8"
    if codecs.lookup(name).name.replace("_", "-") in NO_ENCODINGS:
        raise LookupError(f"unknown encoding: {name}")
    try:
        b"x".decode(name)
    except UnicodeError:  # two bytes for each character, but the declaration itself has one
        return "utf-8"
    return name


def declared_encoding(head: bytes) -> str | None:
    """The encoding that the declaration of XML names, in a text whose first bytes do not tell it."""
    declared = _DECLARED.match(head)
    return declared[1].decode() if declared else None


def _decoded(stream: BufferedIOBase, replace_bad_bytes: bool) -> Iterator[str]:
    head = stream.read(CHUNK)
    decoder = codecs.getincrementaldecoder(xml_encoding(head))("replace" if replace_bad_bytes else "strict")
    yield decoder.decode(head).removeprefix(BOM)
    while chunk := stream.read(CHUNK):
        yield decoder.decode(chunk)
    yield decoder.decode(b"", final=True)
