"""Reads XML into elements and texts that know their positions in the document, so that no spelling is lost."""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from html import escape
from html.entities import html5
from typing import Literal, NamedTuple
from xml.sax import ContentHandler

from dragoman.documents.document import Code, Document, FormatError, Segment, has_words
from dragoman.documents.messages import branch_content, icu_branches, is_icu
from dragoman.formats.inline_codes import KINDS
from dragoman.formats.xml import MAYBE_FORBIDDEN, XmlError, is_forbidden, parsed

_PAIR_ATTRIBUTES = ("startRef", "rid", "i", "id")
"""Attributes that say which two ends belong together; the first one that an element has counts."""
UNENCODABLE = "xmlcharrefreplace"
"""Error handler for characters that the encoding of a document lacks: it spells them as `&#8220;`."""
MOST_ELEMENTS = 1_000_000
MOST_DEPTH = 250
"""Most elements inside of each other. Recursive functions put their codes into a translation."""
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
"""A tag of another format inside of a placeholder."""
_ANGULAR = re.compile(r"(START|CLOSE)_([A-Z_]+?)(?:_\d+)?")
"""Ids of the two placeholders that Angular makes of an element; their numbers may differ."""
_ENDS = {"<!--": "-->", "<![CDATA[": "]]>", "<?": "?>"}
_CDATA = "<![CDATA["
_SPECIAL = re.compile(rf"{MAYBE_FORBIDDEN.pattern}|&[^\s<>&;#]{{1,40}};")
"""References, and characters that XML forbids."""
_SPELLED = re.compile(f"{_SPECIAL.pattern}|.", re.DOTALL)
"""A character as XML spells it."""
_SPACES = re.compile(r"([ \t\r\n]{2,}|[\t\r\n])")
"""Spaces that are more than one space, as a group: re.split keeps it."""
_LINE_BREAK = re.compile(r"\n|&#(?:10|x0*[Aa]);")
_BLANK = " \t\r\n"


class Token(NamedTuple):
    """A tag, a text or something else of a document."""

    start: int
    end: int
    kind: Literal["open", "close", "empty", "text", "other"]
    name: str
    """Name of a tag, without a prefix."""
    value: str
    """A text without references; anything else as it is spelled."""


@dataclass(slots=True)
class Element:
    """An element: from the `start` of its opening tag to the `end` of its closing tag, with its content."""

    name: str
    attributes: dict[str, str]
    start: int
    inside: int
    """Index at which the opening tag ends."""
    close: int = 0
    """Index at which the closing tag begins; equal to `inside` for an element without one."""
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
        """All elements at any depth, or only those of some names, in the order of the document."""
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
        """All texts inside as one, but for those in elements of some names."""
        texts = []
        waiting = self.content[::-1]
        while waiting:
            part = waiting.pop()
            if isinstance(part, Element):
                if part.name not in names:
                    waiting += part.content[::-1]
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
            attributes = _attributes(token.value)
            element = Element(token.name, attributes, token.start, token.end, token.end, token.end)
            stack[-1].content.append(element)
            if token.kind == "open":
                stack.append(element)
                if len(stack) > MOST_DEPTH:
                    raise FormatError("has too many elements inside of each other; take some out.")
        else:
            stack[-1].content.append(token)
    return root


def _attributes(tag: str) -> dict[str, str]:
    """The attributes of a tag by their names, without prefixes."""
    if "=" not in tag:
        return {}
    return {name.rpartition(":")[2]: unescape(double or single) for name, double, single in _ATTRIBUTE.findall(tag)}


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
    """The text between two tags. References to unknown entities, and characters that XML forbids, are no text and stay
    as they are spelled."""
    position, parts = start, []
    for match in _SPECIAL.finditer(text, start, end):
        parts.append(text[position : match.start()])
        position = match.end()
        character = _character(match[0])
        if character is not None:
            parts.append(character)
            continue
        if value := "".join(parts):
            yield Token(start, match.start(), "text", "", value)
        yield Token(match.start(), position, "other", "", match[0])
        start, parts = position, []
    parts.append(text[position:end])
    if value := "".join(parts):
        yield Token(start, end, "text", "", value)


def unescape(text: str) -> str:
    """A text without references, but for those to unknown entities and to characters that XML forbids."""
    return _SPECIAL.sub(_unescaped, text) if "&" in text else text


def _unescaped(reference: re.Match[str]) -> str:
    character = _character(reference[0])
    return reference[0] if character is None else character


def _character(spelled: str) -> str | None:
    """The character that a reference stands for; None for others. Of names, XML has five, document types mostly those
    of HTML."""
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


def pieces(element: Element, text: str, whole: Collection[str], ignored: Collection[str] = ()) -> list[Piece]:
    """The content of an element as texts and codes: tags stand around text, and elements of `whole` are one code.

    So are those of `ignored`, and those that are protected or not to be translated; these codes stand for a word. Two
    codes that belong together, such as `<bx/>` and `<ex/>`, stand around text if both are in the same element.
    """
    return _PieceReader(text, whole, ignored).read(element)


class _PieceReader:
    """Collects the texts and codes of an element."""

    def __init__(self, text: str, whole: Collection[str], ignored: Collection[str]):
        self.text, self.whole, self.ignored = text, whole, ignored
        self.pieces: list[Piece] = []
        self.around: list[Element] = []
        """The elements around the next piece, whose tags stand around text."""
        self.protected: set[str] = set()
        """Ids of the ranges that are open and not to be translated."""
        self.opened: dict[str, list[tuple[int, Element]]] = {}
        """By the name of a pair: the indices of codes that open it, and the elements that these are in."""

    def read(self, element: Element) -> list[Piece]:
        """The pieces of an element."""
        self.around = [element]
        waiting: list[Element | Token | Piece] = element.content[::-1]
        while waiting:
            part = waiting.pop()
            if isinstance(part, Piece):  # the closing tag of the innermost element
                self.pieces.append(part)
                self.around.pop()
            elif isinstance(part, Token):
                self._add_token(part)
            elif part.name in self.ignored or (_is_protected(part) and part.name != "sm"):
                self.pieces.append(self._code(part.start, part.end, "word"))
            elif part.name in self.whole or not part.content:
                self._add_whole(part)
            else:
                self.pieces.append(self._code(part.start, part.inside, "open", part.name))
                self.around.append(part)
                waiting.append(self._code(part.close, part.end, "close", part.name))
                waiting += part.content[::-1]
        return self.pieces

    def _code(self, start: int, end: int, kind: str, name: str = "") -> Piece:
        return Piece(start, end, Code(self.text[start:end], kind, name))

    def _add_token(self, token: Token) -> None:
        """Add a text, or a code if it is protected; or add a comment or the like as a code."""
        if token.kind == "text" and not (self.protected and token.value.strip()):
            self.pieces.append(Piece(token.start, token.end, token.value))
        else:
            is_word = token.kind == "text" or token.value.startswith("&")
            self.pieces.append(self._code(token.start, token.end, "word" if is_word else "alone"))

    def _add_whole(self, element: Element) -> None:
        """Add an element as one code."""
        if element.name == "sm" and _is_protected(element):
            self.protected.add(element.attributes.get("id", ""))
        elif element.name == "em":
            self.protected.discard(element.attributes.get("startRef", ""))
        kind, name = _kind(element)
        if kind == "open":
            self.opened.setdefault(name, []).append((len(self.pieces), self.around[-1]))
        elif kind == "close" and self.opened.get(name):
            index, parent = self.opened[name].pop()
            if parent is not self.around[-1]:  # the pair may not stand around one end of an element
                kind = "alone"
                self.pieces[index] = self._code(self.pieces[index].start, self.pieces[index].end, kind)
        self.pieces.append(self._code(element.start, element.end, kind, name))


def _is_protected(element: Element) -> bool:
    return element.attributes.get("translate") == "no" or element.attributes.get("mtype") == "protected"


def _kind(element: Element) -> tuple[str, str]:
    """The kind and the name of the code that a whole element is. A placeholder may hold a tag of another format."""
    kind = "break" if element.name == "br" else KINDS.get(element.name, "alone")
    attributes = element.attributes
    if kind != "word":
        pair = next((attributes[name] for name in _PAIR_ATTRIBUTES if name in attributes), "")
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
    """A text as a section CDATA spells it."""
    return text.replace("]]>", "]]]]><![CDATA[>")


def sentence(pieces: Sequence[Piece], text: str) -> Segment | None:
    """The segment of some pieces, without spaces and single codes around it; None if it has no words."""
    kept = _without_outside(pieces)
    if not has_words([piece.part for piece in kept]):
        return None
    is_cdata = len(kept) == 1 and _is_cdata(kept[0], text)
    if is_cdata:
        kept = [Piece(kept[0].start + len(_CDATA), kept[0].end - len("]]>"), kept[0].part)]
    kept[0] = _without_blanks(kept[0], text, at_start=True)
    kept[-1] = _without_blanks(kept[-1], text, at_start=False)
    start, end = kept[0].start, kept[-1].end
    spelled = _as_cdata if is_cdata else spelling(text[start:end])
    content = [part for piece in kept for part in _with_breaks(piece.part, spelled)]
    return Segment(start, end, content, spelled)


def _without_blanks(piece: Piece, text: str, *, at_start: bool) -> Piece:
    """The piece without blanks at one end, if it is a text."""
    start, end, part = piece
    if isinstance(part, Code):
        return piece
    markup = text[start:end]
    if at_start:
        blanks = len(markup) - len(markup.lstrip(_BLANK))
        return Piece(start + blanks, end, part[blanks:])
    blanks = len(markup) - len(markup.rstrip(_BLANK))
    return Piece(start, end - blanks, part[: len(part) - blanks])


def _is_cdata(piece: Piece, text: str) -> bool:
    return isinstance(piece.part, str) and text.startswith(_CDATA, piece.start)


CUT_SENTENCE = "with ICU forms in the midst of a sentence"
"""The reason in `skipped_note` for texts that have no `segments`."""
_CODE = "\0"
"""Stands for a code in the text of a message; XML cannot have it."""


def segments(pieces: Sequence[Piece], text: str, *, by_line: bool = False) -> list[Segment] | None:
    """The segments of a text: the text as one sentence or `by_line`, or the branches of a message of ICU.

    None for a message with a sentence that would be cut.
    """
    inside = _without_outside(pieces)
    message = "".join(piece.part if isinstance(piece.part, str) else _CODE for piece in inside)
    if is_icu(message):
        return _branches(inside, message, text)
    sentences = lines(pieces, text) if by_line else [pieces]
    segments = [sentence(line, text) for line in sentences]
    return [segment for segment in segments if segment]


def _branches(pieces: Sequence[Piece], message: str, text: str) -> list[Segment] | None:
    """The segments of the branches of a message of ICU; None if a sentence would be cut."""
    stretches = icu_branches(message)
    has_cdata = any(_is_cdata(piece, text) for piece in pieces)
    if stretches is None or (has_cdata and len(pieces) > 1):
        return None
    spans = [span for piece in pieces for span in _character_spans(piece, text)]
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
            result.append(Segment(spans[start][0], spans[last - 1][1], parts, write))
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


def _character_spans(piece: Piece, text: str) -> Iterator[tuple[int, int]]:
    """Start and end in the document of each character of a piece. A code counts as one character."""
    start, end, part = piece
    if isinstance(part, Code):
        yield start, end
        return
    if _is_cdata(piece, text):
        start, end = start + len(_CDATA), end - len("]]>")
        yield from ((position, position + 1) for position in range(start, end))
        return
    for match in _SPELLED.finditer(text, start, end):
        yield from [match.span()] * len(unescape(match[0]))  # a reference may stand for several characters


def _without_outside(pieces: Sequence[Piece]) -> list[Piece]:
    """The pieces without blanks and single codes at both ends, which do not belong to a sentence."""
    inside = [index for index, piece in enumerate(pieces) if not _is_outside(piece.part)]
    return [*pieces[inside[0] : inside[-1] + 1]] if inside else []


def _is_outside(part: str | Code) -> bool:
    return part.kind in ("alone", "break") if isinstance(part, Code) else not part.strip(_BLANK)


def _with_breaks(part: str | Code, spelled: Callable[[str], str]) -> list[str | Code]:
    """The part with each run of spaces that is more than one space as a code, so that it stays."""
    if isinstance(part, Code):
        return [part]
    texts_and_spaces = _SPACES.split(part)  # by turns
    return [Code(spelled(text), "break") if index % 2 else text for index, text in enumerate(texts_and_spaces) if text]


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

    Tags stand inside of sentences, as those of formats do, but for `splitting` ones, which end a sentence. With
    `outline`, so do the tags of an element that holds other elements and no text between them, and the tags directly
    inside of it. Tags that are `non_splitting` never end a sentence. Elements that are `ignored` stay as they are, and
    stand for a word. Names are those in the text, without prefixes. CDATA and comments stay.
    """
    is_document = text.lstrip().startswith(("<?xml", "<!DOCTYPE"))
    _check([text.lstrip()] if is_document else ['<!DOCTYPE _ SYSTEM "_"><_>', text, "</_>"])
    root = _tree(text)
    ends: set[int] = set()  # of sentences: where tags begin that are not inside of one
    for holder in (root, *root.walk()):
        is_structure = outline and _is_structure(holder)
        for element in (holder, *holder.children) if is_structure else (holder,):
            if (is_structure or element.name in splitting) and element.name not in (*non_splitting, *ignored):
                ends |= {element.start, element.close} if element.content else {element.start}
    result: list[Segment] = []
    waiting: list[Piece] = []
    for piece in (*pieces(root, text, (), ignored), Piece(len(text), len(text), "")):
        if piece.start in ends or piece.start == len(text):
            result += segments(waiting, text) or ()
            waiting = []
        elif text.startswith(_CDATA, piece.start):
            waiting.append(Piece(piece.start, piece.end, Code(text[piece.start : piece.end], "word")))
        else:
            waiting.append(piece)
    return Document(text, result)


def _is_structure(element: Element) -> bool:
    """Whether an element holds others, and between them at most line breaks and what indents the lines."""
    texts = [part.value for part in element.content if isinstance(part, Token) and part.kind == "text"]
    return any(element.children) and all(not value.strip() and "\n" in value for value in texts)


def prefix(element: Element, text: str) -> str:
    """The prefix of an element's name with its colon, such as `x:` for `<x:source>`; often empty."""
    return re.match(r"<((?:[^\s:/>]*:)?)", text[element.start : element.inside])[1]


def indent(text: str, start: int) -> str:
    """The line break and spaces before an element."""
    return re.search(r"(?:\r?\n)?[ \t]*\Z", text[max(0, start - 200) : start])[0]


def skipped_note(count: int, reason: str) -> str:
    """A sentence about texts that were not translated, which follows the name of the document."""
    return f"has {count:,} text{'s' * (count != 1)} {reason}, left unchanged."


def in_quotes(text: str) -> str:
    """The value of an attribute with quotation marks."""
    return f'"{escape(text)}"'
