"""XML as elements and texts, each with its place in the document; nothing of the spelling is lost."""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from html import escape
from html.entities import html5
from typing import NamedTuple
from xml.sax import ContentHandler

from dragoman.documents.document import Code, Document, FormatError, Segment, has_words
from dragoman.documents.messages import branch_content, icu_branches, is_icu
from dragoman.formats.xml import MAYBE_FORBIDDEN, XmlError, is_forbidden, parsed

KINDS = {
    "ph": "word", "x": "word", "br": "break",
    "bpt": "open", "bx": "open", "sc": "open", "ept": "close", "ex": "close", "ec": "close",
    "sm": "open", "em": "close",
}  # fmt: skip
"""Kinds of the codes that elements are which stand for a word, for a space, or for one end of a stretch of text."""
PAIR = ("startRef", "rid", "i", "id")
"""Attributes that say which two ends belong together."""
UNENCODABLE = "xmlcharrefreplace"
"""Error handler for characters that the encoding of a document lacks: it spells them as `&#8220;`."""
MOST_ELEMENTS = 1_000_000
MOST_DEPTH = 250
"""Most elements inside of each other: functions that call themselves put their codes into a translation."""
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
_SPELLED = re.compile(f"{_SPECIAL.pattern}|.", re.DOTALL)
"""A character as XML spells it."""
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
    """The name of a tag, without a prefix."""
    value: str
    """A text without references, or anything else as it is spelled."""


@dataclass(slots=True)
class Element:
    """An element: from its opening tag `start` to the end of its closing tag `end`, and what is in between."""

    name: str
    attributes: dict[str, str]
    start: int
    inside: int
    """Index at which the opening tag ends."""
    close: int = 0
    """Index at which the closing tag begins; the same as `inside` for an element without one."""
    end: int = 0
    content: list["Element | Token"] = field(default_factory=list)

    @property
    def children(self) -> Iterator["Element"]:
        """The elements directly inside."""
        return (part for part in self.content if isinstance(part, Element))

    def child(self, name: str) -> "Element | None":
        """The first element of this name directly inside."""
        return next((child for child in self.children if child.name == name), None)

    def walk(self, *names: str) -> Iterator["Element"]:
        """All elements inside, or those of some names, in the order of the document, also inside of each other."""
        waiting = self.content[::-1]
        while waiting:
            part = waiting.pop()
            if isinstance(part, Element):
                if not names or part.name in names:
                    yield part
                waiting += part.content[::-1]

    @property
    def text(self) -> str:
        """All texts inside, as one."""
        return self.text_without(())

    def text_without(self, names: Collection[str]) -> str:
        """The texts inside, but for those in elements of some names."""
        texts = []
        waiting = self.content[::-1]
        while waiting:
            part = waiting.pop()
            if isinstance(part, Element):
                waiting += part.content[::-1] if part.name not in names else ()
            elif part.kind == "text":
                texts.append(part.value)
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
            named = _ATTRIBUTE.findall(token.value) if "=" in token.value else ()
            attributes = {name.rpartition(":")[2]: unescape(double or single) for name, double, single in named}
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
        elif mark := next((mark for mark in _ENDS if text.startswith(mark, start)), None):
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

    So are those of `words`, and what is protected or not to be translated; these codes stand for a word. Two codes that
    belong together, such as `<bx/>` and `<ex/>`, stand around text if both are in the same element.
    """

    def code(start: int, end: int, kind: str, name: str = "") -> Piece:
        return Piece(start, end, Code(text[start:end], kind, name))

    result: list[Piece] = []
    protected: set[str] = set()  # the ranges that are open and not to be translated
    around = [element]
    opened: dict[str, list[tuple[int, Element]]] = {}  # where pairs begin, and in which element, by their names
    waiting: list[Element | Token | Piece] = element.content[::-1]
    while waiting:
        part = waiting.pop()
        if isinstance(part, Piece):
            result.append(part)
            around.pop()
        elif isinstance(part, Token):
            if part.kind == "text" and not (protected and part.value.strip()):
                result.append(Piece(part.start, part.end, part.value))
            else:
                is_word = part.kind == "text" or part.value.startswith("&")
                result.append(code(part.start, part.end, "word" if is_word else "alone"))
        elif part.name in words or (_is_protected(part) and part.name != "sm"):
            result.append(code(part.start, part.end, "word"))
        elif part.name in whole or not part.content:
            if part.name == "sm" and _is_protected(part):
                protected.add(part.attributes.get("id", ""))
            elif part.name == "em":
                protected.discard(part.attributes.get("startRef", ""))
            kind, name = _kind(part)
            if kind == "open":
                opened.setdefault(name, []).append((len(result), around[-1]))
            elif kind == "close" and opened.get(name):
                index, parent = opened[name].pop()
                if parent is not around[-1]:  # the pair may not stand around one end of an element
                    kind = "alone"
                    result[index] = code(result[index].start, result[index].end, kind)
            result.append(code(part.start, part.end, kind, name))
        else:
            result.append(code(part.start, part.inside, "open", part.name))
            around.append(part)
            waiting.append(code(part.close, part.end, "close", part.name))
            waiting += part.content[::-1]
    return result


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


def sentence(pieces: Sequence[Piece], text: str) -> Segment | None:
    """The segment of some pieces, without spaces and single codes around it; None if it has no words."""
    kept = _without_outside(pieces)
    if not has_words([piece.part for piece in kept]):
        return None
    is_cdata = len(kept) == 1 and _is_cdata(kept[0], text)
    if is_cdata:
        kept = [Piece(kept[0].start + len(_CDATA), kept[0].end - len("]]>"), kept[0].part)]
    if isinstance(kept[0].part, str):
        start, end, part = kept[0]
        blank = len(text[start:end]) - len(text[start:end].lstrip(_BLANK))
        kept[0] = Piece(start + blank, end, part[blank:])
    if isinstance(kept[-1].part, str):
        start, end, part = kept[-1]
        blank = len(text[start:end]) - len(text[start:end].rstrip(_BLANK))
        kept[-1] = Piece(start, end - blank, part[: len(part) - blank])
    start, end = kept[0].start, kept[-1].end
    spelled = _as_cdata if is_cdata else spelling(text[start:end])
    content = [part for piece in kept for part in _with_breaks(piece.part, spelled)]
    return Segment(start, end, content, spelled)


def _is_cdata(piece: Piece, text: str) -> bool:
    return isinstance(piece.part, str) and text.startswith(_CDATA, piece.start)


LEFT_MESSAGE = "with ICU forms in the midst of a sentence"
"""Why a text is left that has no `segments`."""
_CODE = "\0"
"""Stands for a code in the text of a message; XML cannot have it."""


def segments(pieces: Sequence[Piece], text: str, *, by_line: bool = False) -> list[Segment] | None:
    """The segments of a text: the text as one sentence or `by_line`, or the branches of a message of ICU.

    None for a message of which a sentence would be cut.
    """
    inside = _without_outside(pieces)
    message = "".join(piece.part if isinstance(piece.part, str) else _CODE for piece in inside)
    if is_icu(message):
        return _branches(inside, message, text)
    sentences = lines(pieces, text) if by_line else [pieces]
    return [segment for line in sentences if (segment := sentence(line, text))]


def _branches(pieces: Sequence[Piece], message: str, text: str) -> list[Segment] | None:
    stretches = icu_branches(message)
    has_cdata = any(_is_cdata(piece, text) for piece in pieces)
    if stretches is None or (has_cdata and len(pieces) > 1):
        return None
    places = [place for piece in pieces for place in _places(piece, text)]
    codes = iter([piece.part for piece in pieces if isinstance(piece.part, Code)])
    spelled = _as_cdata if has_cdata else spelling(text[pieces[0].start : pieces[-1].end])
    result: list[Segment] = []
    last = 0
    for start, end in stretches:
        branch = message[start:end].strip(_BLANK)
        start = message.index(branch, start)
        for _ in range(message.count(_CODE, last, start)):  # codes between the branches
            next(codes)
        last = start + len(branch)
        content, quoted = branch_content(branch)
        write = partial(_in_turn, quoted, spelled)
        parts = [part for whole in content for part in _restored(whole, codes, write)]
        if has_words(parts):
            result.append(Segment(places[start][0], places[last - 1][1], parts, write))
    return result


def _in_turn(first: Callable[[str], str], second: Callable[[str], str], text: str) -> str:
    """A text after two changes."""
    return second(first(text))


def _restored(part: str | Code, codes: Iterator[Code], write: Callable[[str], str]) -> Iterator[str | Code]:
    """A part of a branch with the codes whose stand-ins it has."""
    if isinstance(part, Code):
        yield replace(part, markup=re.sub(_CODE, lambda _: next(codes).markup, write(part.markup)))
        return
    for text in re.split(f"({_CODE})", part):
        yield from [next(codes)] if text == _CODE else _with_breaks(text, write)


def _places(piece: Piece, text: str) -> Iterator[tuple[int, int]]:
    """Start and end of each character of the text of a piece in the document; those of a code as one."""
    start, end, part = piece
    if isinstance(part, Code):
        yield start, end
        return
    if _is_cdata(piece, text):
        start, end = start + len(_CDATA), end - len("]]>")
        yield from ((position, position + 1) for position in range(start, end))
        return
    for match in _SPELLED.finditer(text, start, end):
        yield from [match.span()] * len(unescape(match[0]))


def _without_outside(pieces: Sequence[Piece]) -> list[Piece]:
    """Pieces without those at the beginning and end that do not belong to a sentence: blanks and single codes."""
    inside = [index for index, piece in enumerate(pieces) if not _is_outside(piece.part)]
    return [*pieces[inside[0] : inside[-1] + 1]] if inside else []


def _is_outside(part: str | Code) -> bool:
    return part.kind in ("alone", "break") if isinstance(part, Code) else not part.strip(_BLANK)


def _with_breaks(part: str | Code, spelled: Callable[[str], str]) -> list[str | Code]:
    """A text in which each run of spaces that is more than one space is a code, so that it stays."""
    if isinstance(part, Code):
        return [part]
    parts = _SPACES.split(part)
    return [Code(spelled(part), "break") if index % 2 else part for index, part in enumerate(parts) if part]


def lines(pieces: Iterable[Piece], text: str) -> Iterator[list[Piece]]:
    """The pieces of each line. A line break between two codes that belong together ends none."""
    line: list[Piece] = []
    depth = 0
    for piece in pieces:
        start, end, part = piece
        if isinstance(part, Code):
            depth = max(0, depth + {"open": 1, "close": -1}.get(part.kind, 0))
        elif not depth and not _is_cdata(piece, text):
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
    result: list[Segment] = []
    run: list[Piece] = []
    for piece in (*pieces(root, text, (), ignored), Piece(len(text), len(text), "")):
        if piece.start in ends or piece.start == len(text):
            result += segments(run, text) or ()
            run = []
        elif text.startswith(_CDATA, piece.start):
            run.append(Piece(piece.start, piece.end, Code(text[piece.start : piece.end], "word")))
        else:
            run.append(piece)
    return Document(text, result)


def _is_structure(element: Element) -> bool:
    """Whether an element holds others, and between them at most line breaks and what indents the lines."""
    texts = [part.value for part in element.content if isinstance(part, Token) and part.kind == "text"]
    return any(element.children) and all(not value.strip() and "\n" in value for value in texts)


def prefix(element: Element, text: str) -> str:
    """What stands before the name of an element, with its colon: `x:` for `<x:source>`."""
    return re.match(r"<((?:[^\s:/>]*:)?)", text[element.start : element.inside])[1]


def indent(text: str, start: int) -> str:
    """The line break and spaces before an element."""
    return re.search(r"(?:\r?\n)?[ \t]*\Z", text[max(0, start - 200) : start])[0]


def left_note(count: int, reason: str) -> str:
    """A sentence about texts that were not translated, which follows the name of the document."""
    return f"has {count:,} text{'s' * (count != 1)} {reason}, left unchanged."


def in_quotes(text: str) -> str:
    """The value of an attribute with quotation marks."""
    return f'"{escape(text)}"'
