"""Parses XML of strangers safely, and finds its encoding.

Definitions of entities, which can fill the memory, are refused, and no other file is read. A character that XML forbids
is no reason to refuse a file: `FORBIDDEN` stands for it.
"""

import codecs
import re
from collections.abc import Iterable, Iterator
from io import BufferedIOBase
from xml.sax import SAXParseException
from xml.sax.handler import ContentHandler

from dragoman.formats.text_files import encoding_of
from dragoman.system.optional import load
from dragoman.text.characters import BOM

CHUNK = 1 << 16
"""Bytes that are decoded at a time."""
MAX_TAG = 1 << 22
"""Most characters of a tag or comment: the parser keeps them until it ends."""
FORBIDDEN = "\ufdd0"
"""Stands for a character that XML forbids, such as \\x1f. Unicode reserves it for use inside of programs."""
_ALLOWED = re.compile("[\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
MAYBE_FORBIDDEN = re.compile(rf"&#(?:x[0-9A-Fa-f]{{1,10}}|\d{{1,10}});|[^{_ALLOWED.pattern[1:]}")
_LONGEST_REFERENCE = 16

_DECLARED = re.compile(rb"""\s*<\?xml[^>]*?\sencoding\s*=\s*["']([\w.:-]+)""")
NO_ENCODINGS = ("idna", "punycode", "unicode-escape", "raw-unicode-escape", "undefined")
"""Names that Python takes for encodings, but that no document is written in."""


class XmlError(Exception):
    """XML is refused. The message is a sentence without its subject and its full stop; `line` is that of the fault."""

    def __init__(self, line: int, fault: str):
        super().__init__(fault)
        self.line = line


def parsed(chunks: Iterable[str], handler: ContentHandler, *, name: str = "XML") -> Iterator[int]:
    """Parse a document, and yield after each chunk the line that is reached. Raises `XmlError`.

    The handler gets `FORBIDDEN` for characters that XML forbids. Document types are not read, and no file is fetched.
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
    # An unknown encoding, or a limit that is exceeded.
    except (LookupError, ValueError) as error:
        fault = f"cannot be read: {error}; save the file as UTF-8 with a segment for each sentence"
    raise XmlError(parser.getLineNumber(), fault)


def _without_forbidden(chunks: Iterable[str]) -> Iterator[str]:
    """The text with `FORBIDDEN` for each character that XML forbids, and for each reference to one."""
    rest = ""
    for chunk in chunks:
        text = rest + chunk
        start = text.rfind("&", -_LONGEST_REFERENCE)
        # A reference may be cut off at the end; it waits for the next chunk.
        end = len(text) if start < 0 or ";" in text[start:] else start
        text, rest = text[:end], text[end:]
        yield MAYBE_FORBIDDEN.sub(lambda match: FORBIDDEN if is_forbidden(match[0]) else match[0], text)
    yield rest


def is_forbidden(spelled: str) -> bool:
    """Whether XML forbids a character, which is given itself or as a reference such as &#31;."""
    if spelled.startswith("&#x"):
        code = int(spelled[3:-1], 16)
    else:
        code = int(spelled[2:-1]) if spelled.startswith("&#") else ord(spelled)
    return code > 0x10FFFF or not _ALLOWED.fullmatch(chr(code))


def is_encoding(name: str) -> bool:
    """Whether a name is that of an encoding of texts."""
    try:
        codec = codecs.lookup(name)
    except (LookupError, ValueError):
        return False
    return codec._is_text_encoding and codec.name.replace("_", "-") not in NO_ENCODINGS


def xml_encoding(head: bytes) -> str:
    """The encoding of XML by its first bytes, or by its declaration. Raises `LookupError` for an unknown one."""
    encoding = encoding_of(head[:256])
    if encoding:
        return encoding
    name = declared_encoding(head) or "utf-8"
    if not is_encoding(name):
        raise LookupError(f"unknown encoding: {name}")
    try:
        b"x".decode(name)
    except UnicodeError:  # two bytes for each character, but the declaration itself has one
        return "utf-8"
    return name


def declared_encoding(head: bytes) -> str | None:
    """The encoding that the declaration of XML names, or None."""
    declared = _DECLARED.match(head)
    return declared[1].decode() if declared else None


def decoded(stream: BufferedIOBase, *, replace_bad_bytes: bool = False) -> Iterator[str]:
    """The text of an XML file, piece by piece.

    Raises `UnicodeDecodeError` for bytes that are not valid, and `LookupError` for an unknown encoding.
    """
    head = stream.read(CHUNK)
    decoder = codecs.getincrementaldecoder(xml_encoding(head))("replace" if replace_bad_bytes else "strict")
    yield decoder.decode(head).removeprefix(BOM)
    while chunk := stream.read(CHUNK):
        yield decoder.decode(chunk)
    yield decoder.decode(b"", final=True)
