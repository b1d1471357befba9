"""XML with segments of text, read as a stream in constant memory, without the inline codes inside the segments.

Files come from strangers: definitions of entities, which can fill the memory, are refused, and no other file is read.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from xml.sax import SAXParseException
from xml.sax.handler import ContentHandler
from xml.sax.xmlreader import AttributesImpl

from dragoman.data.readers.text_io import open_input, unpacking_errors
from dragoman.data.text import one_line
from dragoman.errors import DataError
from dragoman.system.optional import load

CHUNK = 1 << 16
MAX_SEGMENT = 1 << 20
"""Characters of a unit; longer text is no sentence, and would fill the memory."""
MAX_SEGMENTS = 1_000
"""In a unit."""
MAX_DEPTH = 1_000
"""Of elements inside of each other."""
MAX_TAG = 1 << 22
"""Bytes of one tag or comment; the parser keeps them until it ends."""

# Inline elements that hold no text of the sentence: formatting codes of the original file, or nothing.
# `sub` is text inside such a code, a footnote or a tooltip, and no part of the sentence around it.
CODES = {"bpt", "ept", "it", "ph", "ut", "sub"} | {"x", "bx", "ex"} | {"sc", "ec", "sm", "em", "cp"}
STANDALONE = {"ph", "ut", "x"}
_GAP = "\0"  # which XML cannot contain
_GAP_IN_WORD = re.compile(r"(?<=\w)\0+(?=\w)")


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


def parse(path: Path, layout: Layout) -> Iterator[Unit]:
    """The units of a file. Raises `DataError` with the line."""
    defused = {"extra": "formats", "purpose": f"Reading {path}"}
    forbidden = load("defusedxml", **defused).DefusedXmlException
    parser = load("defusedxml.expatreader", **defused).create_parser(forbid_dtd=False, forbid_external=False)
    handler = _Handler(layout)
    parser.setContentHandler(handler)
    handler.setDocumentLocator(parser)
    problem = None
    try:
        with open_input(path) as stream:
            position, stuck = None, 0
            while chunk := stream.read(CHUNK):
                parser.feed(chunk)
                yield from handler.units
                handler.units.clear()
                before, position = position, (parser.getLineNumber(), parser.getColumnNumber())
                stuck = stuck + len(chunk) if position == before else 0
                if stuck > MAX_TAG:
                    raise ValueError(f"a tag or comment is longer than {MAX_TAG >> 20} MiB")
            parser.close()
            yield from handler.units
    except SAXParseException as error:
        problem = f"is no well-formed XML ({error.getMessage()}); export the file again, or repair it there"
    except forbidden:
        problem = "defines entities, which can fill the memory; delete <!ENTITY ...> from it"
    # An encoding that the parser does not know, or one of the limits above.
    except (LookupError, ValueError) as error:
        problem = f"cannot be read: {error}; save the file as UTF-8 with a segment for each sentence"
    except unpacking_errors() as error:
        problem = f"cannot be read on: {error}; check that the file is whole and that you may read it"
    if problem:
        raise DataError(f"{path}, line {parser.getLineNumber()} {problem}.")
