"""Web pages: finds the text of each block with its inline tags, and the attributes that people read."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from dragoman.documents.document import (
    UNKNOWN,
    Code,
    Content,
    Document,
    Edit,
    Languages,
    Segment,
    has_words,
    trimmed,
    with_spaces_outside,
)
from dragoman.documents.html_elements import BLOCKS, RAW, TEXT_ONLY, VOID, Element, OpenElements
from dragoman.documents.html_sentences import HtmlSentence, Piece
from dragoman.documents.html_tokens import BLANKS, Attribute, Spelling, Token, Tokenizer, as_text, is_value
from dragoman.text.language_codes import CODE, same_language, two_letters

UNTRANSLATED = {
    "code", "iframe", "kbd", "listing", "math", "noembed", "noframes", "plaintext", "pre", "rp", "rt", "rtc", "samp",
    "script", "style", "svg", "var", "xmp",
}  # fmt: skip
"""Elements whose content stays as it is."""
BESIDE = {"rp", "rt", "rtc", "script", "style", "svg"}
"""Elements that stay and do not stand for a word of the sentence around them, such as the reading of a character."""
READ_IN_SVG = {"desc", "foreignobject", "text", "title"}
MOST_INSIDE = 4
"""Most translated elements around each other with elements between them that are not translated."""
BY_LINES = {"listing", "pre", "textarea"}
"""Elements whose line breaks are seen."""
ATTRIBUTES = {
    "alt", "aria-description", "aria-label", "aria-placeholder", "aria-roledescription", "aria-valuetext", "label",
    "placeholder", "title",
}  # fmt: skip
"""Attributes that people read, of any element."""
OWN_ATTRIBUTES = {"table": "summary", "td": "abbr", "th": "abbr"}
"""Further attributes that people read, by the name of the element."""
BUTTONS = {"button", "reset", "submit"}
"""Types of `<input>` whose value people read."""
CHOICES = {"checkbox", "image", "radio"}
"""Other types of `<input>` that end a sentence."""
META = {
    "abstract", "apple-mobile-web-app-title", "application-name", "dc.description", "dc.subject", "dc.title",
    "dcterms.abstract", "dcterms.description", "dcterms.subject", "dcterms.title", "description", "keywords",
    "og:description", "og:image:alt", "og:site_name", "og:title", "subject", "twitter:description", "twitter:image:alt",
    "twitter:title",
}  # fmt: skip
"""Names of `<meta>` whose content people read."""
META_LANGUAGE = {"content-language", "dc.language", "dcterms.language", "inlanguage", "language", "og:locale"}
"""Names of `<meta>` that say in which language a page is."""
NO_LANGUAGE = {"mis", "mul", "und"}
"""Codes that name no language: uncoded, multiple, undetermined."""
_NO_VALUES: dict[str, str] = {}


def read_html(text: str, languages: Languages = UNKNOWN) -> Document:
    """The segments of a page, and its language if it names the source language."""
    return _Reader(text, languages).document()


def inline_tag(markup: str) -> Code:
    """The code of a tag, a comment or template code in running text."""
    token = next(iter(Tokenizer(markup)), None)
    return replace(_code(token, markup), start=None) if token else Code(markup)


def closed_up(content: Content) -> list[str | Code]:
    """The content with each element that is not translated, from its opening to its end tag, as one code for a word.

    Texts inside of such elements become a part of the code as they are. An element without an end tag goes up to the
    end of the content.
    """
    closed: list[str | Code] = []
    inside: list[str] = []
    name, depth = "", 0
    for piece in content:
        if depth:
            inside.append(piece.markup if isinstance(piece, Code) else piece)
            if isinstance(piece, Code) and piece.name == name:
                depth += {"open": 1, "close": -1}.get(piece.kind, 0)
            if not depth:
                closed.append(Code("".join(inside), "word"))
        elif isinstance(piece, Code) and piece.kind == "open" and _is_untranslated(piece.markup):
            inside, name, depth = [piece.markup], piece.name, 1
        else:
            closed.append(piece)
    return [*closed, Code("".join(inside), "word")] if depth else closed


def _code(token: Token, text: str) -> Code:
    """The code of a token other than text."""
    kind: Literal["open", "close", "alone", "word", "break"] = "alone"
    if token.kind == "code":
        kind = "word" if is_value(text[token.start : token.end]) else "alone"
    elif token.name == "br":
        kind = "break"
    elif token.kind == "close" or (token.kind == "open" and not token.is_closed and token.name not in VOID):
        kind = token.kind
    return Code(text[token.start : token.end], kind, token.name, token.start)


def _is_untranslated(markup: str) -> bool:
    """Whether an opening tag begins an element that is not translated."""
    token = next(iter(Tokenizer(markup)))
    declared = _declared(_values(token, markup))
    return declared == "no" or (not declared and token.name in UNTRANSLATED)


def _values(token: Token, text: str) -> dict[str, str]:
    """The attributes of a tag."""
    if not token.attributes:
        return _NO_VALUES
    return {name: as_text(text[start:end], in_attribute=True).strip(BLANKS) for name, start, end, _ in token.attributes}


def _declared(values: dict[str, str]) -> Literal["yes", "no", ""]:
    """Whether the attributes of an element say that it is translated; "" if they do not say it."""
    translate = values.get("translate", "inherit").lower()
    if translate == "no" or "notranslate" in values.get("class", "").lower().split():
        return "no"
    return "yes" if translate in ("", "yes") else ""


class _Reader:
    """Collects the segments of a page in one pass over its tokens."""

    def __init__(self, text: str, languages: Languages):
        self.text, (self.source, self.target) = text, languages
        self.tokens, self.open = Tokenizer(text), OpenElements()
        self.is_xml = text[:200].lstrip("\ufeff" + BLANKS).startswith("<?xml")
        self.attributes: list[Segment] = []
        self.sentences: list[Segment] = []
        self.edits: list[Edit] = []
        self.notes: list[str] = []
        self.done = 0
        self._pieces: list[Piece] = []
        """The sentence so far."""
        self._skips = False
        """Whether an element is open that is not translated."""
        self._skipped: _Skipped | None = None
        """This element, if it stands inside of a sentence."""
        self._outer: list[_OuterSentence] = []
        """The sentences around the one so far, which stands in an element that they skip."""

    def document(self) -> Document:
        """The page with its segments and edits."""
        for token in self.tokens:
            match token.kind:
                case "open":
                    self._open(token)
                case "close":
                    self._close(token)
                case "text":
                    self._read(token)
                case _:
                    self._add(token, _code(token, self.text))
        self._end_sentence()
        segments = sorted([*self.sentences, *self.attributes], key=lambda segment: segment.start)
        return Document(self.text, segments, self.edits, self.done, self.notes, "xmlcharrefreplace")

    def _markup(self, token: Token) -> str:
        return self.text[token.start : token.end]

    def _add(self, token: Token, content: str | Code) -> None:
        if not self._skips:
            self._pieces.append(Piece(token.start, token.end, content))

    def _end_sentence(self) -> None:
        pieces, self._pieces = self._pieces, []
        if not has_words([piece.content for piece in pieces]):
            return
        for part in HtmlSentence(pieces).parts() if len(pieces) > 1 else [pieces]:
            segment = _segment(self.text, part)
            if segment:
                self.sentences.append(segment)

    # ---- texts and tags ----

    def _read(self, token: Token) -> None:
        """Read a text."""
        markup = self._markup(token)
        if not markup.strip(BLANKS):
            self._add(token, markup)
            return
        self.open.read_text()
        self._go_on(token.start)
        if not self.open.has(*BY_LINES):
            self._add(token, as_text(markup))
            return
        for line in re.finditer(r"[^\r\n]+|[\r\n]+", markup):
            if line[0][0] in "\r\n":
                self._end_sentence()
            else:
                start, end = token.start + line.start(), token.start + line.end()
                self._add(Token("text", start, end), as_text(line[0]))

    def _open(self, token: Token) -> None:
        """Read an opening tag."""
        name = token.name
        self.open.open(name)
        self._go_on(token.start)
        is_foreign = self.open.is_foreign()
        has_content = name not in VOID and not (
            token.is_closed and (self.is_xml or is_foreign or name not in BLOCKS | RAW)
        )
        if has_content and not is_foreign:
            if name in RAW:
                self.tokens.skip(name)
            elif name in TEXT_ONLY:
                self.tokens.read(name)
        values = _values(token, self.text)
        element = self._element(name, values, is_foreign)
        if self._skips and len(self._outer) == MOST_INSIDE:
            element.untranslated = self.open.current.why_untranslated()
        if self._skips and not element.why_untranslated():
            if has_content:
                # What is translated inside of what is not is a text by itself.
                self._outer.append(_OuterSentence(self.open.depth, self._pieces, self._skipped))
                self._pieces, self._skipped, self._skips = [], None, False
            else:
                self._read_attributes(token, values)
        if not self._skips:
            self._open_in_text(token, values, element, has_content, is_foreign)
        if has_content:
            self.open.push(element)

    def _open_in_text(
        self, token: Token, values: dict[str, str], element: Element, has_content: bool, is_foreign: bool
    ) -> None:
        """Read an opening tag that stands in translated text, whether or not its element is translated."""
        name = token.name
        is_block = name in BLOCKS or (is_foreign and name in READ_IN_SVG)
        if is_block or (name == "input" and values.get("type", "").lower() in BUTTONS | CHOICES):
            self._end_sentence()
        is_untranslated = bool(element.why_untranslated())
        if values and (not is_untranslated or element.reason == "name"):
            self._read_attributes(token, values)
        if is_untranslated and has_content:
            self._skips = True
            self._skipped = None if is_block else _Skipped(element, token.start, "alone" if name in BESIDE else "word")
            self.done += element.reason == "language" and self._is_target(values)
            return
        if values and not is_untranslated:
            self._name_language(token, values)
        if not is_block:
            self._add(token, _code(token, self.text))

    def _close(self, token: Token) -> None:
        """Read an end tag."""
        element = self.open.close(token.name)
        self._return()
        is_skipped = bool(element and self._skipped and self._skipped.element is element)
        self._go_on(token.end if is_skipped else token.start)
        if is_skipped or self._skips:
            return
        if token.name in BLOCKS:
            self._end_sentence()
        elif element is None or element.untranslated is not element:
            self._add(token, _code(token, self.text))

    def _element(self, name: str, values: dict[str, str], is_foreign: bool) -> Element:
        """An element that is about to be opened, which says whether it is translated."""
        outer = self.open.current.why_untranslated()
        element = Element(name, outer, outer=outer)
        if not values and not outer and name not in UNTRANSLATED:
            return element
        declared = _declared(values)
        if declared == "yes":
            element.untranslated = None
            return element
        if declared == "no" or name in UNTRANSLATED:
            element.untranslated, element.reason = element, "attribute" if declared else "name"
            if name == "html":
                self.notes.append('says translate="no" at its beginning, so nothing in it was translated.')
            return element
        if outer and outer.name == "svg" and outer.reason == "name" and is_foreign and name in READ_IN_SVG:
            element.untranslated = outer.outer
        if self._is_source(values):
            while element.untranslated and element.untranslated.reason == "language":
                element.untranslated = element.untranslated.outer
        elif (language := self._language(values)) and name == "html":
            self.notes.append(f"says that its language is {language!r}; it was translated from {self.source!r}.")
        elif language:
            element.untranslated, element.reason = element, "language"
        return element

    def _return(self) -> None:
        """Go on with the sentence around one that has ended with its element."""
        while self._outer and self.open.depth <= self._outer[-1].depth:
            self._end_sentence()
            outer = self._outer.pop()
            self._pieces, self._skipped, self._skips = outer.pieces, outer.skipped, True

    def _go_on(self, position: int) -> None:
        """End the elements that have ended before a position and were not translated."""
        self._return()
        if not self._skips or self.open.current.why_untranslated():
            return
        self._skips = False
        if self._skipped:
            start, kind = self._skipped.start, self._skipped.kind
            self._pieces.append(Piece(start, position, Code(self.text[start:position], kind, start=start)))
            self._skipped = None

    # ---- languages ----

    def _language(self, values: dict[str, str]) -> str:
        """The language that an element says it is in; nothing if that cannot be compared with the source language."""
        language = values.get("lang") or values.get("xml:lang", "")
        known = self.source and CODE.fullmatch(language) and two_letters(language) not in NO_LANGUAGE
        return language if known else ""

    def _is_source(self, values: dict[str, str]) -> bool:
        language = self._language(values)
        return bool(language) and _means(language, self.source, self.target)

    def _is_target(self, values: dict[str, str]) -> bool:
        return bool(self.target) and _means(self._language(values), self.target, self.source)

    def _name_language(self, token: Token, values: dict[str, str]) -> None:
        """Name the target language where an opening tag names the source language."""
        if not self.source or not self.target:
            return
        names = {"lang", "xml:lang"}
        if token.name == "meta":
            meta_names = {values.get(key, "").lower() for key in ("name", "property", "itemprop", "http-equiv")}
            names = {"content"} if meta_names & META_LANGUAGE else set()
        for attribute in token.attributes:
            language = values[attribute.name]
            if attribute.name in names and self._is_source({"lang": language}):
                code = _language_tag(self.target)
                if "_" in language:
                    code = code.replace("-", "_")
                self.edits.append(Edit(attribute.start, attribute.end, code, if_changed=True))

    # ---- attributes ----

    def _read_attributes(self, token: Token, values: dict[str, str]) -> None:
        """Make segments of the attributes of a tag that people read."""
        name = token.name
        if name in RAW - {"iframe"}:
            return
        names = ATTRIBUTES | {OWN_ATTRIBUTES.get(name, "")}
        if name == "meta":
            meta_names = {values.get(key, "").lower() for key in ("name", "property", "itemprop")}
            names = {"content"} if meta_names & META else set()
        elif name == "input" and values.get("type", "").lower() in BUTTONS:
            names = names | {"value"}
        for attribute in token.attributes:
            if attribute.name in names and (segment := self._attribute(attribute)):
                self.attributes.append(segment)

    def _attribute(self, attribute: Attribute) -> Segment | None:
        """The segment of an attribute's value; None if it has no words."""
        start, end, quote = attribute.start, attribute.end, attribute.quote
        content = trimmed(
            _code(token, self.text) if token.kind == "code" else as_text(self._markup(token), in_attribute=True)
            for token in self.tokens.texts(start, end)
        )
        if not has_words(content):
            return None
        value = self.text[start:end]
        if not quote:
            return Segment(start, end, content, Spelling(value, "\"'"), wrap=_quoted)
        before = value[: len(value) - len(value.lstrip(BLANKS))]
        after = value[len(value.rstrip(BLANKS)) :]
        return Segment(start, end, content, Spelling(value, quote), (before, after))


@dataclass(frozen=True, slots=True)
class _Skipped:
    """An element inside of a sentence that is not translated."""

    element: Element
    start: int
    kind: Literal["word", "alone"]
    """Whether the element stands for a word of the sentence."""


@dataclass(frozen=True, slots=True)
class _OuterSentence:
    """A sentence with an element that is not translated, but has a translated element inside."""

    depth: int
    """Number of open elements around the translated element."""
    pieces: list[Piece]
    skipped: _Skipped | None


def _means(code: str, language: str, other: str | None) -> bool:
    """Whether the code in a page names a language of the translation, and not the `other` language.

    A code of another region does if it cannot be mistaken for the other language.
    """
    if same_language(code, language):
        return True
    return two_letters(code) == two_letters(language) and (not other or two_letters(language) != two_letters(other))


def _language_tag(language: str) -> str:
    """A language as `lang` names it: "fra" is fr, "pt_BR" is pt-BR."""
    code, *rest = language.replace("_", "-").split("-")
    return "-".join([two_letters(code), *rest])


def _segment(text: str, pieces: Sequence[Piece]) -> Segment | None:
    """The segment of a sentence; None if it has no words."""
    content = with_spaces_outside(trimmed([piece.content for piece in pieces]))
    if not has_words(content):
        return None
    first, last = pieces[0], pieces[-1]
    start, end = first.start, last.end
    if isinstance(first.content, str):
        markup = text[first.start : first.end]
        start += len(markup) - len(markup.lstrip(BLANKS))
    if isinstance(last.content, str):
        markup = text[last.start : last.end]
        end -= len(markup) - len(markup.rstrip(BLANKS))
    texts = (text[piece.start : piece.end] for piece in pieces if isinstance(piece.content, str))
    return Segment(start, end, content, Spelling("".join(texts)))


def _quoted(value: str) -> str:
    """The value of an attribute that had no quotation marks, with them if it needs them now."""
    if value and not re.search(r"""[\s"'=<>`]""", value):
        return value
    return f"'{value}'" if '"' in value else f'"{value}"'
