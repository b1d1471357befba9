"""Reads segments of text from XML, as a stream in constant memory, without their inline codes."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from xml.sax.handler import ContentHandler
from xml.sax.xmlreader import AttributesImpl

from dragoman.data.readers.types import Skipped
from dragoman.errors import DataError
from dragoman.formats.inline_codes import MARKUP, SEPARATING, SUBFLOW
from dragoman.formats.text_files import MAX_TEXT, open_input, unpacking_errors
from dragoman.formats.xml import XmlError, decoded, parsed
from dragoman.text.characters import one_line

MAX_SEGMENTS = 1_000
"""Most segments in a unit."""
MAX_DEPTH = 1_000
"""Most elements inside of each other."""
DAMAGED = Skipped("has a character that XML forbids")
_GAP = "\0"  # which XML cannot contain
_WITHOUT_TEXT = {*MARKUP, SUBFLOW}
_GAP_IN_WORD = re.compile(r"(?<=\w)\0+(?=\w)")


class TextElement(NamedTuple):
    """A text with the name and attributes of its element, and the attributes of the element around it."""

    name: str
    attributes: AttributesImpl
    parent: AttributesImpl
    text: str


class Unit(NamedTuple):
    """An element with segments inside."""

    line: int
    """The line on which it begins."""
    attributes: AttributesImpl
    context: dict[str, AttributesImpl]
    """Attributes of the latest element of each name in `Layout.context`."""
    segments: list[TextElement]


class Layout(NamedTuple):
    """Names of elements in a format, without prefixes."""

    units: set[str]
    segments: dict[str, set[str]]
    """Elements whose text is wanted, each with the elements that it must be a child of."""
    context: set[str]
    """Elements around units whose attributes are wanted."""


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
            layout = self._layout
            if name in layout.segments and self._open[-1][0] in layout.segments[name]:
                self._text, self._segment_level = [], len(self._open)
                if len(self._unit.segments) == MAX_SEGMENTS:
                    raise ValueError(f"a unit has more than {MAX_SEGMENTS:,} segments")
            elif name in layout.units:
                self._size = 0
                self._unit = Unit(self._locator.getLineNumber(), attrs, self._context, [])
            elif name in layout.context:
                self._context = {**self._context, name: attrs}  # a new one: units keep theirs
        elif self._code_level or name in _WITHOUT_TEXT:
            if name in SEPARATING and not self._code_level:
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
            self._unit.segments.append(TextElement(name, attributes, self._open[-1][1], one_line(text)))
        elif self._code_level:
            self._code_level -= 1

    def characters(self, content: str) -> None:
        if self._text is not None and not self._code_level:
            self._size += len(content)
            if self._size > MAX_TEXT:
                raise ValueError(f"a unit has more than {MAX_TEXT:,} characters")
            self._text.append(content)


def parse(path: Path, layout: Layout, *, replace_bad_bytes: bool = False) -> Iterator[Unit]:
    """The units of a file. Raises `DataError` with the line."""
    handler = _Handler(layout)
    line = 1
    try:
        with open_input(path) as stream:
            for line in parsed(decoded(stream, replace_bad_bytes=replace_bad_bytes), handler, name=str(path)):  # noqa: B007
                yield from handler.units
                handler.units.clear()
        return
    except XmlError as error:
        fault, line = str(error), error.line
    except unpacking_errors() as error:
        fault = f"cannot be read on: {error}; check that the file is whole and that you may read it"
    raise DataError(f"{path}, line {line} {fault}.")
