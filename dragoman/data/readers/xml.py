"""XML with segments of text, read as a stream in constant memory, without the inline codes inside them.

Files come from strangers: a document type definition, which can define entities that fill the memory or fetch files,
is refused.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.sax import SAXParseException
from xml.sax.handler import ContentHandler
from xml.sax.xmlreader import AttributesImpl

from dragoman.data.readers.text_io import open_input, unpacking_errors
from dragoman.data.text import one_line
from dragoman.errors import DataError
from dragoman.system.optional import load

CHUNK = 1 << 16
MAX_SEGMENT = 1 << 20
"""Characters; more is no segment, and would fill the memory."""
MAX_TAG = 1 << 22
"""Bytes of one tag or comment; the parser keeps them until it ends."""

# Inline elements that hold no text of the sentence: formatting codes of the original file, or nothing.
# `sub` is text inside such a code, a footnote or a tooltip, and no part of the sentence around it.
CODES = {"bpt", "ept", "it", "ph", "ut", "sub"} | {"x", "bx", "ex"} | {"sc", "ec", "sm", "em", "cp"}
STANDALONE = {"ph", "ut", "x"}
_GAP = "\0"  # which XML cannot contain
_GAP_IN_WORD = re.compile(r"(?<=\w)\0+(?=\w)")


class Segments(ContentHandler):
    """Collects the text of some elements; what a format makes of them, `finished` holds."""

    def __init__(self):
        super().__init__()
        self.path: list[str] = []
        """Names of the open elements, from the root, without prefixes."""
        self.finished: list[Any] = []
        self._text: list[str] | None = None
        self._size = self._text_level = self._code_level = 0

    @property
    def line(self) -> int:
        """Where the parser is."""
        return self._locator.getLineNumber()

    def is_segment(self, name: str, attributes: AttributesImpl) -> bool:
        """Whether the text of this element inside `path` is wanted."""
        raise NotImplementedError

    def opened(self, name: str, attributes: AttributesImpl) -> None:
        """An element that is no segment begins inside `path`."""

    def segment(self, name: str, text: str) -> None:
        """A segment is complete."""

    def closed(self, name: str) -> None:
        """An element that is no segment ends."""

    def startElement(self, name: str, attrs: AttributesImpl) -> None:
        name = name.rpartition(":")[2]
        if self._text is None:
            if self.is_segment(name, attrs):
                self._text, self._size, self._text_level = [], 0, len(self.path)
            else:
                self.opened(name, attrs)
        elif self._code_level or name in CODES:
            if name in STANDALONE and not self._code_level:
                self._text.append(_GAP)
            self._code_level += 1
        self.path.append(name)

    def endElement(self, name: str) -> None:
        name = self.path.pop()
        if self._text is None:
            self.closed(name)
        elif len(self.path) == self._text_level:
            text, self._text = "".join(self._text), None
            self.segment(name, one_line(_GAP_IN_WORD.sub(" ", text).replace(_GAP, "")))
        elif self._code_level:
            self._code_level -= 1

    def characters(self, content: str) -> None:
        if self._text is not None and not self._code_level:
            self._size += len(content)
            if self._size > MAX_SEGMENT:
                raise ValueError(f"a segment has more than {MAX_SEGMENT:,} characters")
            self._text.append(content)


def parse(path: Path, segments: Segments) -> Iterator[Any]:
    """What `segments` finishes while the file is read. Raises `DataError` with the line."""
    defused = {"extra": "formats", "purpose": f"Reading {path}"}
    forbidden = load("defusedxml", **defused).DefusedXmlException
    parser = load("defusedxml.expatreader", **defused).create_parser(forbid_dtd=True)
    parser.setContentHandler(segments)
    segments.setDocumentLocator(parser)
    problem = None
    try:
        with open_input(path) as stream:
            position, stuck = None, 0
            while chunk := stream.read(CHUNK):
                parser.feed(chunk)
                yield from segments.finished
                segments.finished.clear()
                before, position = position, (parser.getLineNumber(), parser.getColumnNumber())
                stuck = stuck + len(chunk) if position == before else 0
                if stuck > MAX_TAG:
                    raise ValueError(f"a tag or comment is longer than {MAX_TAG >> 20} MiB")
            parser.close()
            yield from segments.finished
    except SAXParseException as error:
        problem = f"is no well-formed XML ({error.getMessage()}); export the file again, or repair it there"
    except forbidden:
        problem = "defines a document type, which can make a reader fetch files; delete <!DOCTYPE ...> from it"
    # Of an encoding that the parser does not know, or of a segment.
    except (LookupError, ValueError) as error:
        problem = f"cannot be read: {error}; save the file as UTF-8 with a segment for each sentence"
    except unpacking_errors() as error:
        problem = f"cannot be read on: {error}; check that the file is whole and that you may read it"
    if problem:
        raise DataError(f"{path}, line {parser.getLineNumber()} {problem}.")
