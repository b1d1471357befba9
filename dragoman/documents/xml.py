"""XML as elements and texts, each with its place in the document; nothing of the spelling is lost."""

import re
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from html import escape
from html.entities import html5
from typing import NamedTuple
from xml.sax import ContentHandler

from dragoman.data.readers.xml import MAYBE_FORBIDDEN, XmlError, is_forbidden, parsed
from dragoman.documents.document import Code, Document, FormatError, Segment, has_words

KINDS = {
    "ph": "word", "x": "word", "br": "break",
    "bpt": "open", "bx": "open", "sc": "open", "ept": "close", "ex": "close", "ec": "close",
    "sm": "open", "em": "close",
}  # fmt: skip
"""Of elements that stand for a word, for a space, or for one end of a stretch of text."""
PAIR = ("startRef", "rid", "i", "id")
"""Attributes that say which two ends belong together."""
UNENCODABLE = "xmlcharrefreplace"
"""What becomes of characters that the encoding of a document lacks: `&#8220;`."""
MOST_ELEMENTS = 1_000_000
MOST_DEPTH = 250
"""Of elements inside of each other. What codes are in is put together by functions that call themselves."""
_TAG = re.compile(
    r"""<(?P<close>/?)(?P<name>[^\s<>/=!?]+)(?P<attributes>(?:\s+[^\s=<>/]+\s*=\s*(?:"[^"]*"|'[^']*'))*+)
        \s*(?P<empty>/?)>""",
    re.VERBOSE,
)
_ATTRIBUTE = re.compile(r"""([^\s=<>/]+)\s*=\s*(?:"([^"]*)"|'([^']*)')""")
_DOCTYPE = re.compile(
    r"""<!(?:[^\["'>]|"[^"]*"|'[^']*')*+
        (?:\[(?:<!--.*?-->|<\?.*?\?>|"[^"]*"|'[^']*'|[^]"'])*+\]\s*)?>""",
    re.DOTALL | re.VERBOSE,
)
_HELD_TAG = re.compile(r"<(/?)([A-Za-z][\w:.-]*)(?:\s[^<]*?)?(/?)>")
_ANGULAR = re.compile(r"(START|CLOSE)_([A-Z_]+?)(?:_\d+)?")
"""Ids of the two placeholders that Angular makes of an element; their numbers may differ."""
_ENDS = {"<!--": "-->", "<![CDATA[": "]]>", "<?": "?>"}
_CDATA = "<![CDATA["
_SPECIAL = re.compile(rf"{MAYBE_FORBIDDEN.pattern}|&[^\s<>&;#]{{1,40}};")
"""References, and characters that XML forbids."""
_SPACES = re.compile(r"([ \t\r\n]{2,}|[\t\r\n])")
"""More than one space, as a group: re.split keeps it."""
_LINE_BREAK = re.compile(r"\n|&#(?:10|x0*[Aa]);")
_BLANK = " \t\r\n"


class Token(NamedTuple):
    """A tag, a text or something else of a document."""

    start: int
    end: int
    kind: str
    """open, close, empty, text or other."""
    name: str
    """Of a tag, without a prefix."""
    value: str
    """Of a text, without references; else as it is spelled."""


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

    @property
    def children(self) -> Iterator["Element"]:
        """The elements directly inside."""
        return (each for each in self.content if isinstance(each, Element))

    def child(self, name: str) -> "Element | None":
        """The first element of this name directly inside."""
        return next((each for each in self.children if each.name == name), None)

    def walk(self, *names: str) -> Iterator["Element"]:
        """All elements inside, or those of some names, in the order of the document, also inside of each other."""
        waiting = self.content[::-1]
        while waiting:
            each = waiting.pop()
            if isinstance(each, Element):
                if not names or each.name in names:
                    yield each
                waiting += each.content[::-1]

    @property
    def text(self) -> str:
        """All texts inside."""
        return self.text_without(())

    def text_without(self, names: Collection[str]) -> str:
        """The texts inside, but for those in elements of some names."""
        texts = []
        waiting = self.content[::-1]
        while waiting:
            each = waiting.pop()
            if isinstance(each, Element):
                waiting += each.content[::-1] if each.name not in names else ()
            elif each.kind == "text":
                texts.append(each.value)
        return "".join(texts)


def parse(text: str) -> Element:
    """The elements of a document. Raises `FormatError` if it is not well-formed, or defines entities."""
    _check([text.removeprefix("\ufeff")])
    return _tree(text)


def _check(chunks: Iterable[str]) -> None:
    try:
        for _ in parsed(chunks, ContentHandler()):
            pass
    except XmlError as error:
        raise FormatError(f"{error} (line {error.line}).") from None


def _tree(text: str) -> Element:
    """The elements of a text that is well-formed."""
    root = Element("", {}, 0, 0, len(text), len(text))
    stack = [root]
    for number, token in enumerate(_tokens(text)):
        if number > 2 * MOST_ELEMENTS:
            raise FormatError(f"has more than {MOST_ELEMENTS:,} elements; cut it into parts.")
        if token.kind == "close":
            element = stack.pop()
            element.close, element.end = token.start, token.end
        elif token.kind in ("open", "empty"):
            found = _ATTRIBUTE.findall(token.value) if "=" in token.value else ()
            attributes = {name.rpartition(":")[2]: unescape(a or b) for name, a, b in found}
            element = Element(token.name, attributes, token.start, token.end, token.end, token.end)
            stack[-1].content.append(element)
            if token.kind == "open":
                stack.append(element)
                if len(stack) > MOST_DEPTH:
                    raise FormatError("has too many elements inside of each other; take some out.")
        else:
            stack[-1].content.append(token)
    return root


def _tokens(text: str) -> Iterator[Token]:
    """The tokens of a text that is well-formed."""
    position = 0
    while position < len(text):
        start = position
        if text[start] != "<":
            position = text.find("<", start)
            position = len(text) if position < 0 else position
            yield from _texts(text, start, position)
        elif tag := _TAG.match(text, start):
            position = tag.end()
            kind = "close" if tag["close"] else "empty" if tag["empty"] else "open"
            yield Token(start, position, kind, tag["name"].rpartition(":")[2], tag[0])
        elif mark := next((each for each in _ENDS if text.startswith(each, start)), None):
            position = text.index(_ENDS[mark], start + len(mark)) + len(_ENDS[mark])
            value = text[start:position]
            if mark == _CDATA:
                yield Token(start, position, "text", "", value[len(_CDATA) : -len("]]>")])
            else:
                yield Token(start, position, "other", "", value)
        else:
            position = _DOCTYPE.match(text, start).end()
            yield Token(start, position, "other", "", text[start:position])


def _texts(text: str, start: int, end: int) -> Iterator[Token]:
    """The text between two tags. What of it is no character stays as it is spelled: a reference to an unknown entity,
    and characters that XML forbids."""
    first, parts = start, []
    for match in _SPECIAL.finditer(text, start, end):
        parts.append(text[first : match.start()])
        first = match.end()
        if (character := _character(match[0])) is not None:
            parts.append(character)
            continue
        if value := "".join(parts):
            yield Token(start, match.start(), "text", "", value)
        yield Token(match.start(), first, "other", "", match[0])
        start, parts = first, []
    parts.append(text[first:end])
    if value := "".join(parts):
        yield Token(start, end, "text", "", value)


def unescape(text: str) -> str:
    """A text without references, but for those to unknown entities and to characters that XML forbids."""
    if "&" not in text:
        return text
    return _SPECIAL.sub(lambda match: match[0] if (known := _character(match[0])) is None else known, text)


def _character(spelled: str) -> str | None:
    """What is spelled as a reference, if that is known: XML has five names, and document types mostly those of HTML."""
    if not spelled.startswith("&"):
        return None
    if not spelled.startswith("&#"):
        return html5.get(spelled[1:])
    if is_forbidden(spelled):
        return None
    return chr(int(spelled[3:-1], 16) if spelled[2] == "x" else int(spelled[2:-1]))


def has_forbidden(text: str) -> bool:
    """Whether a text has characters that XML forbids, or references to some."""
    return any(is_forbidden(match[0]) for match in MAYBE_FORBIDDEN.finditer(text))


class Piece(NamedTuple):
    """A text or code in a document."""

    start: int
    end: int
    part: str | Code


def pieces(element: Element, text: str, whole: Collection[str], words: Collection[str] = ()) -> list[Piece]:
    """What is in an element as texts and codes: tags stand around text, and elements of `whole` are one code.

    So are those of `words`, and what is protected or not to be translated; these codes stand for a word.
    """
    found: list[Piece] = []
    waiting: list[Element | Token | Piece] = element.content[::-1]
    while waiting:
        each = waiting.pop()
        if isinstance(each, Piece):
            found.append(each)
        elif isinstance(each, Token):
            code = Code(each.value, "word" if each.value.startswith("&") else "alone")
            found.append(Piece(each.start, each.end, each.value if each.kind == "text" else code))
        elif each.name in words or _is_protected(each):
            found.append(Piece(each.start, each.end, Code(text[each.start : each.end], "word")))
        elif each.name in whole or not each.content:
            kind, name = _kind(each)
            found.append(Piece(each.start, each.end, Code(text[each.start : each.end], kind, name)))
        else:
            found.append(Piece(each.start, each.inside, Code(text[each.start : each.inside], "open", each.name)))
            waiting.append(Piece(each.close, each.end, Code(text[each.close : each.end], "close", each.name)))
            waiting += each.content[::-1]
    return found


def _is_protected(element: Element) -> bool:
    return element.attributes.get("translate") == "no" or element.attributes.get("mtype") == "protected"


def _kind(element: Element) -> tuple[str, str]:
    """The kind and the name of the code that a whole element is. A placeholder may hold a tag of another format."""
    kind, attributes = KINDS.get(element.name, "alone"), element.attributes
    if kind != "word":
        pair = next((attributes[name] for name in PAIR if name in attributes), "")
        return kind, f"pair {pair}"
    if "lb" in (attributes.get("ctype"), attributes.get("type"), attributes.get("subType", "").rpartition(":")[2]):
        return "break", ""
    if angular := _ANGULAR.fullmatch(attributes.get("id", "")):
        return ("open" if angular[1] == "START" else "close"), angular[2]
    held = element.text or attributes.get("equiv-text") or attributes.get("disp") or ""
    tag = _HELD_TAG.fullmatch(held.strip())
    if tag and tag[2].lower() == "br":
        return "break", ""
    if not tag or tag[3]:
        return "word", ""
    return ("close" if tag[1] else "open"), tag[2]


def write(text: str) -> str:
    """A text as XML spells it."""
    return escape(text, quote=False)


def spelling(markup: str) -> Callable[[str], str]:
    """A function that spells a text as XML, and characters by the references that `markup` has for them."""
    references = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
    for match in _SPECIAL.finditer(markup):
        character = _character(match[0])
        if character and len(character) == 1 and not re.fullmatch("[ A-Za-z0-9]", character):
            references[character] = match[0]
    table = str.maketrans(references)
    return lambda text: text.translate(table)


def _as_cdata(text: str) -> str:
    """A text as it is spelled inside of a section CDATA."""
    return text.replace("]]>", "]]]]><![CDATA[>")


def sentence(found: list[Piece], text: str) -> Segment | None:
    """The segment of some pieces, without spaces and single codes around it; None if it has no words."""
    inside = [index for index, piece in enumerate(found) if not _is_outside(piece.part)]
    found = found[inside[0] : inside[-1] + 1] if inside else []
    if not has_words([piece.part for piece in found]):
        return None
    is_cdata = len(found) == 1 and text.startswith(_CDATA, found[0].start)
    if is_cdata:
        found = [Piece(found[0].start + len(_CDATA), found[0].end - len("]]>"), found[0].part)]
    if isinstance(found[0].part, str):
        start, end, part = found[0]
        blank = len(text[start:end]) - len(text[start:end].lstrip(_BLANK))
        found[0] = Piece(start + blank, end, part[blank:])
    if isinstance(found[-1].part, str):
        start, end, part = found[-1]
        blank = len(text[start:end]) - len(text[start:end].rstrip(_BLANK))
        found[-1] = Piece(start, end - blank, part[: len(part) - blank])
    start, end = found[0].start, found[-1].end
    spelled = _as_cdata if is_cdata else spelling(text[start:end])
    content = [part for piece in found for part in _with_breaks(piece.part, spelled)]
    return Segment(start, end, content, spelled)


def _is_outside(part: str | Code) -> bool:
    """Whether a part at the beginning or end of a sentence does not belong to it."""
    return part.kind in ("alone", "break") if isinstance(part, Code) else not part.strip(_BLANK)


def _with_breaks(part: str | Code, spelled: Callable[[str], str]) -> list[str | Code]:
    """A text in which each run of spaces that is more than one space is a code, so that it stays."""
    if isinstance(part, Code):
        return [part]
    parts = _SPACES.split(part)
    return [Code(spelled(each), "break") if index % 2 else each for index, each in enumerate(parts) if each]


def lines(found: list[Piece], text: str) -> Iterator[list[Piece]]:
    """The pieces of each line. A line break between two codes that belong together ends none."""
    line: list[Piece] = []
    depth = 0
    for piece in found:
        start, end, part = piece
        if isinstance(part, Code):
            depth = max(0, depth + {"open": 1, "close": -1}.get(part.kind, 0))
        elif not depth and not text.startswith(_CDATA, start):
            for match in _LINE_BREAK.finditer(text, start, end):
                line.append(Piece(start, match.start(), unescape(text[start : match.start()])))
                yield line
                line, start = [], match.end()
            piece = Piece(start, end, unescape(text[start:end]))
        line.append(piece)
    yield line


def read_fragment(
    text: str,
    *,
    splitting: Collection[str] = (),
    non_splitting: Collection[str] = (),
    ignored: Collection[str] = (),
    outline: bool = True,
) -> Document:
    """The segments of a piece of XML, which may have text or several elements at its top. Raises `FormatError`.

    Its tags stand inside of sentences, as those of formats do, but for `splitting` ones. With `outline`, so do not the
    tags of elements that hold others, and no text between them, nor those directly inside of these; tags that are
    `non_splitting` never end a sentence. Elements that are `ignored` stay as they are, and stand for a word. Names are
    those in the text, without prefixes. CDATA and comments stay.
    """
    is_document = text.lstrip().startswith(("<?xml", "<!DOCTYPE"))
    _check([text.lstrip()] if is_document else ['<!DOCTYPE _ SYSTEM "_"><_>', text, "</_>"])
    root = _tree(text)
    ends: set[int] = set()
    for holder in (root, *root.walk()):
        is_structure = outline and _is_structure(holder)
        for element in (holder, *holder.children) if is_structure else (holder,):
            if (is_structure or element.name in splitting) and element.name not in (*non_splitting, *ignored):
                ends |= {element.start, element.close} if element.content else {element.start}
    segments, run = [], []
    for piece in (*pieces(root, text, (), ignored), Piece(len(text), len(text), "")):
        if piece.start in ends or piece.start == len(text):
            segments.append(sentence(run, text))
            run = []
        elif text.startswith(_CDATA, piece.start):
            run.append(Piece(piece.start, piece.end, Code(text[piece.start : piece.end], "word")))
        else:
            run.append(piece)
    return Document(text, [segment for segment in segments if segment])


def _is_structure(element: Element) -> bool:
    """Whether an element holds others, and between them at most line breaks and what indents the lines."""
    tokens = [each for each in element.content if isinstance(each, Token) and each.kind == "text"]
    return any(element.children) and all(not each.value.strip() and "\n" in each.value for each in tokens)


def indent(text: str, start: int) -> str:
    """The line break and spaces before an element."""
    return re.search(r"(?:\r?\n)?[ \t]*\Z", text[max(0, start - 200) : start])[0]


def left_note(count: int, reason: str) -> str:
    """A sentence about texts that were not translated, which follows the name of the document."""
    return f"has {count:,} text{'s' * (count != 1)} {reason}, left unchanged."


def in_quotes(text: str) -> str:
    """The value of an attribute with quotation marks."""
    return f'"{escape(text)}"'
