"""XML as elements and texts, each with its place in the document; nothing of the spelling is lost."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from html import escape, unescape
from typing import NamedTuple
from xml.sax import ContentHandler, SAXException

from dragoman.documents.document import Code, FormatError
from dragoman.system.optional import load

KINDS = {
    "ph": "word", "x": "word",
    "line-break": "break", "tab": "break", "s": "break", "br": "break", "cr": "break",
    "bpt": "open", "bx": "open", "sc": "open", "ept": "close", "ex": "close", "ec": "close",
}  # fmt: skip
"""Of elements that stand for a word, for a space, or for one end of a stretch of text."""
PAIR = ("startRef", "rid", "i", "id")
"""Attributes that say which two ends belong together."""
MOST_ELEMENTS = 1_000_000
_TOKEN = re.compile(
    r"""<!--.*?-->|<!\[CDATA\[(?P<cdata>.*?)\]\]>|<\?.*?\?>|<![^>]*>
      |<(?P<close>/?)(?P<name>[^\s<>/]+)(?P<attributes>(?:\s+[^\s=<>/]+\s*=\s*(?:"[^"<]*"|'[^'<]*'))*)\s*(?P<empty>/?)>
      |(?P<text>[^<]+)""",
    re.DOTALL | re.VERBOSE,
)
_ATTRIBUTE = re.compile(r"""([^\s=<>/]+)\s*=\s*(?:"([^"]*)"|'([^']*)')""")
_ENCODING = re.compile(r"""(?<=<\?xml version=.1\...)\s*encoding\s*=\s*["'][^"']*["']""")


class Token(NamedTuple):
    """A tag, a text or something else of a document."""

    start: int
    end: int
    kind: str
    """open, close, empty, text or other."""
    name: str
    """Of a tag, without a prefix."""
    value: str
    """Of a text, without entities; else as it is spelled."""


@dataclass(slots=True)
class Element:
    """An element: from its opening tag `start` to the end of its closing tag `end`, and what is in between."""

    name: str
    attributes: dict[str, str]
    start: int
    inside: int
    """Where its opening tag ends."""
    close: int = 0
    """Where its closing tag begins; the same as `inside` for one without."""
    end: int = 0
    content: list["Element | Token"] = field(default_factory=list)

    def child(self, name: str) -> "Element | None":
        """The first element of this name directly inside."""
        return next((each for each in self.content if isinstance(each, Element) and each.name == name), None)

    def walk(self, *names: str) -> Iterator["Element"]:
        """All elements of these names inside, in the order of the document, also inside of each other."""
        for each in self.content:
            if isinstance(each, Element):
                if each.name in names:
                    yield each
                yield from each.walk(*names)

    @property
    def text(self) -> str:
        """All texts inside."""
        return "".join(
            each.text if isinstance(each, Element) else each.value * (each.kind == "text") for each in self.content
        )


def parse(text: str) -> Element:
    """The elements of a document; raises `DataError` if it is not well-formed, or defines entities."""
    _check(text)
    root = Element("", {}, 0, 0)
    stack = [root]
    for number, token in enumerate(_tokens(text)):
        if number > 2 * MOST_ELEMENTS:
            raise FormatError(f"has more than {MOST_ELEMENTS:,} elements; cut it into parts.")
        if token.kind == "close":
            element = stack.pop()
            element.close, element.end = token.start, token.end
        elif token.kind in ("open", "empty"):
            found = ((name.rpartition(":")[2], unescape(a or b)) for name, a, b in _ATTRIBUTE.findall(token.value))
            element = Element(token.name, dict(found), token.start, token.end, token.end, token.end)
            stack[-1].content.append(element)
            stack += [element] * (token.kind == "open")
        else:
            stack[-1].content.append(token)
    return root


def _check(text: str) -> None:
    sax = load("defusedxml.sax", extra="formats", purpose="Reading XML")
    forbidden = load("defusedxml", extra="formats", purpose="Reading XML").DefusedXmlException
    try:
        plain = _ENCODING.sub("", text.removeprefix("\ufeff"), count=1)
        sax.parseString(plain.encode(), ContentHandler(), forbid_dtd=False)
    except forbidden:
        raise FormatError("defines entities, which can fill the memory; delete <!ENTITY ...> from it.") from None
    except (SAXException, ValueError) as error:
        raise FormatError(f"is no well-formed XML ({error}); repair it first.") from None


def _tokens(text: str) -> Iterator[Token]:
    for match in _TOKEN.finditer(text):
        start, end = match.span()
        if match["text"] is not None:
            yield Token(start, end, "text", "", unescape(match["text"]))
        elif match["cdata"] is not None:
            yield Token(start, end, "text", "", match["cdata"])
        elif match["name"]:
            kind = "close" if match["close"] else "empty" if match["empty"] else "open"
            yield Token(start, end, kind, match["name"].rpartition(":")[2], match[0])
        else:
            yield Token(start, end, "other", "", match[0])


def with_codes(element: Element, text: str, whole: set[str]) -> list[str | Code]:
    """What is in an element as texts and codes: tags stand around text, and elements of `whole` are one code."""
    content: list[str | Code] = []
    for each in element.content:
        if isinstance(each, Token):
            content.append(each.value if each.kind == "text" else Code(each.value))
        elif each.name in whole or not each.content:
            pair = next((each.attributes[name] for name in PAIR if name in each.attributes), "")
            content.append(Code(text[each.start : each.end], KINDS.get(each.name, "alone"), f"pair {pair}"))
        else:
            content.append(Code(text[each.start : each.inside], "open", each.name))
            content += with_codes(each, text, whole)
            content.append(Code(text[each.close : each.end], "close", each.name))
    return content


def write(text: str) -> str:
    """A text as XML spells it."""
    return escape(text, quote=False)
