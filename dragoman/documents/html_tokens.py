"""Reads HTML as tokens with their positions in the text, by the rules of the tokenizer of the HTML standard.

https://html.spec.whatwg.org/multipage/parsing.html#tokenization. Code of templates, such as `{{ name }}` and
`<?php ... ?>`, is a token of its own, also inside of tags. Each character is read a bounded number of times.
"""

import re
from collections.abc import Iterator
from functools import cached_property
from html import unescape
from itertools import pairwise
from typing import Literal, NamedTuple

BLANKS = "\t\n\f\r "
LONGEST_REFERENCE = 40
"""Most characters of a reference. A longer one is a number that no character has."""
LONGEST_CODE = 2_000
"""Most characters of template code in braces. Two braces that are farther apart do not belong together."""
_MARKUP = re.compile(r"<(?:[A-Za-z/!?%]|\{\{)|\{[{%#]|[$#]\{|\[\[")
_CODE = re.compile(r"<[?%]|\{[{%#]|[$#]\{|\[\[")
_NAME = re.compile(r"</?((?:[A-Za-z]|\{\{)[^\t\n\f\r />]*)")
_PLAIN_TAG = re.compile(r"<(/?)([A-Za-z][A-Za-z0-9]*)>")
_GAP = re.compile(r"[\t\n\f\r /]*")
_ATTRIBUTE = re.compile(r"(=?[^\t\n\f\r />=]*)([\t\n\f\r ]*=[\t\n\f\r ]*)?")
_END_OF_VALUE = {
    '"': re.compile(r'"|\{[{%#]|<[?%]'),
    "'": re.compile(r"'|\{[{%#]|<[?%]"),
    "": re.compile(r"[\t\n\f\r >]|\{[{%#]|<[?%]"),
}
"""The end of an attribute's value by its quotation mark, or code that may hold such a mark itself."""
_COMMENT = re.compile(r"<!--(?:-?>|.*?(?:--!?>|\Z))", re.DOTALL)
_PHP = re.compile(r"<\?(?:php|=|[\t\n\r ])", re.IGNORECASE)
_SHORT_CODE = re.compile(r"[$#]\{[^{}<>\n]{1,200}\}|\[\[[^\[\]<>\n]{1,200}\]\]")
_CLOSERS = {"{{": "}}", "{%": "%}", "{#": "#}"}
_VALUE = re.compile(
    r"""\{\{(?![{~-]?[#/^!>] | [~-]?\s*(?:if|else|end|range|with|block|define|template|partial)\b)
      | <[?%][=-] | <\?php\s+(?:echo|print)\b | [$#]\{ | \[\[""",
    re.IGNORECASE | re.VERBOSE,
)
_REFERENCE = re.compile(r"&(?:#[0-9]+;?|#[xX][0-9a-fA-F]+;?|[A-Za-z][A-Za-z0-9]{1,31};?)")
_NO_REFERENCE = re.compile("[A-Za-z0-9#]{0,40}[^A-Za-z0-9#;]")
_NO_CODE, _NO_TAG = re.compile(r"[^?%{$\[]"), re.compile(r"[^A-Za-z/!?%{$\[]")
"""Characters that may follow a `<` that is text: in an attribute, and elsewhere."""
_SPECIAL = re.compile("([&<])")
_REFERENCE_IN_ATTRIBUTE = re.compile(_REFERENCE.pattern.removesuffix(";?)") + r"(?:;|(?![=A-Za-z0-9])))")


class Attribute(NamedTuple):
    """An attribute of a tag."""

    name: str
    """The name in small letters."""
    start: int
    """Start of the value in the text, without a quotation mark."""
    end: int
    quote: Literal['"', "'", ""]


class Token(NamedTuple):
    """A piece of the text."""

    kind: Literal["text", "open", "close", "code", "other"]
    """A text, one of two kinds of tags, template code, or others, which nobody sees: comments, the document type, the
    content of scripts."""
    start: int
    end: int
    name: str = ""
    """The name of a tag, in small letters."""
    attributes: tuple[Attribute, ...] = ()
    is_closed: bool = False
    """Whether a tag ends in `/>`."""


class Tokenizer:
    """Iterates over the tokens of a text.

    After the opening tag of an element without tags inside, such as a script, call `skip` or `read` before the next
    token.
    """

    def __init__(self, text: str):
        self.text = text
        self._without_tags: Literal["", "skip", "read"] = ""
        self._name = ""
        self._last: dict[str, int] = {}
        """The last position of each mark that was looked for; -1 for one that the text does not have."""

    def skip(self, name: str) -> None:
        """Make one token of everything up to the end tag of an element that has just been opened."""
        self._without_tags, self._name = "skip", name

    def read(self, name: str) -> None:
        """Read only texts and template code up to the end tag of an element that has just been opened."""
        self._without_tags, self._name = "read", name

    def __iter__(self) -> Iterator[Token]:
        position = searched = 0
        while position < len(self.text):
            if self._without_tags:
                end = self._end_of_content(position)
                yield from self._content(position, end)
                self._without_tags = ""
                position = searched = end
                continue
            match = _MARKUP.search(self.text, searched)
            start = match.start() if match else len(self.text)
            token = self._token(start) if match else None
            if match and not token:
                searched = start + 1
                continue
            if start > position:
                yield Token("text", position, start)
            if not token:
                break
            yield token
            position = searched = token.end

    def texts(self, start: int, end: int) -> Iterator[Token]:
        """The texts and the template code in a part without tags, such as the value of an attribute."""
        position = searched = start
        while match := _CODE.search(self.text, searched, end):
            code_end = self.end_of_code(match.start())
            if not code_end or code_end > end:
                searched = match.start() + 1
                continue
            if match.start() > position:
                yield Token("text", position, match.start())
            yield Token("code", match.start(), code_end)
            position = searched = code_end
        if end > position:
            yield Token("text", position, end)

    def end_of_code(self, start: int) -> int:
        """The end of the template code that begins here; 0 if none does."""
        opener = self.text[start : start + 2]
        if opener == "<?":
            if not _PHP.match(self.text, start):
                return 0
            return self._after("?>", start) or len(self.text)
        if opener == "<%":
            return self._after("%>", start)
        if opener in _CLOSERS:
            end = self._after(_CLOSERS[opener], start, start + LONGEST_CODE)
            if end and opener == "{{" and self.text.startswith("}", end):
                return end + 1  # of three braces
            return end
        match = _SHORT_CODE.match(self.text, start)
        return match.end() if match else 0

    def _end_of_content(self, start: int) -> int:
        """The index of the end tag up to which no tags are read, or the end of the text."""
        if self._name == "plaintext":
            return len(self.text)
        match = re.compile(rf"</{re.escape(self._name)}(?=[\t\n\f\r />])", re.IGNORECASE).search(self.text, start)
        return match.start() if match else len(self.text)

    def _content(self, start: int, end: int) -> Iterator[Token]:
        """The tokens of the content of an element without tags inside."""
        if self._without_tags == "read":
            yield from self.texts(start, end)
        elif end > start:
            yield Token("other", start, end)

    def _after(self, mark: str, start: int, end: int | None = None) -> int:
        """The position after the next such mark; 0 if there is none."""
        if mark not in self._last:
            self._last[mark] = self.text.rfind(mark)
        if self._last[mark] < start + 2:
            return 0
        position = self.text.find(mark, start + 2, end)
        return position + len(mark) if position >= 0 else 0

    def _token(self, start: int) -> Token | None:
        """The tag, comment or template code that begins here; None if it is text."""
        text = self.text
        if plain := _PLAIN_TAG.match(text, start):
            return Token("close" if plain[1] else "open", start, plain.end(), plain[2].lower())
        if end := self.end_of_code(start):
            return Token("code", start, end)
        if text[start] != "<" or text[start + 1] == "%":
            return None
        if text.startswith("<!--", start):
            return Token("other", start, _COMMENT.match(text, start).end())
        if text.startswith("<![CDATA[", start) and (end := self._after("]]>", start)):
            return Token("other", start, end)
        if name := _NAME.match(text, start):
            return self._tag(start, name)
        end = text.find(">", start) + 1 or len(text)
        return Token("other", start, end)

    def _tag(self, start: int, name: re.Match[str]) -> Token:
        """The tag that begins here. If the text ends within it, browsers show nothing of it."""
        text, position, attributes = self.text, name.end(), dict[str, Attribute]()
        unfinished = Token("other", start, len(text))
        while True:
            gap, position = position, _GAP.match(text, position).end()
            if position == len(text):
                return unfinished
            if text[position] == ">":
                break
            if code_end := self.end_of_code(position) if text[position] in "{<" else 0:
                position = code_end
                continue
            match = _ATTRIBUTE.match(text, position)
            position = match.end()
            attribute = match[1].lower()
            if not match[2]:
                attributes.setdefault(attribute, Attribute(attribute, position, position, ""))
                continue
            quote = text[position] if text[position : position + 1] in ('"', "'") else ""
            position += len(quote)
            end = self._end_of_value(position, quote)
            if end < 0:
                return unfinished
            attributes.setdefault(attribute, Attribute(attribute, position, end, quote))
            position = end + len(quote)
        is_closed = text[position - 1] == "/" and position > gap
        kind = "close" if text[start + 1] == "/" else "open"
        return Token(kind, start, position + 1, name[1].lower(), tuple(attributes.values()), is_closed)

    def _end_of_value(self, start: int, quote: str) -> int:
        """The end of the value of an attribute; -1 if there is none."""
        while match := _END_OF_VALUE[quote].search(self.text, start):
            if match[0][0] not in "{<":
                return match.start()
            start = self.end_of_code(match.start()) or match.start() + 1
        return -1


def is_value(code: str) -> bool:
    """Whether template code stands for a text, as `{{ name }}` does and `{% if name %}` does not."""
    return bool(_VALUE.match(code))


def as_text(markup: str, *, in_attribute: bool = False) -> str:
    """The text that people read for markup with references such as `&amp;`.

    `html.unescape` would raise for numbers of thousands of digits.
    """
    pattern = _REFERENCE_IN_ATTRIBUTE if in_attribute else _REFERENCE
    return pattern.sub(_character, markup) if "&" in markup else markup


class Spelling:
    """Spells texts as HTML, with references for characters where the `source` has them.

    In an attribute, `quotes` are the marks that would end its value.
    """

    def __init__(self, source: str, quotes: str = ""):
        self._source, self._quotes = source, quotes

    def __call__(self, text: str) -> str:
        if not any(mark in text for mark in self._bare):
            return text.translate(self._table)
        spelled = []
        for part, after in pairwise([*_SPECIAL.split(text), ""]):
            may_stay = part in self._bare and _is_bare(part, after, in_attribute=bool(self._quotes))
            spelled.append(part if may_stay else part.translate(self._table))
        return "".join(spelled)

    @cached_property
    def _table(self) -> dict[int, str]:
        spellings = {"&": "&amp;", "<": "&lt;", ">": ">" if ">" in self._source else "&gt;"}
        spellings |= {quote: "&quot;" if quote == '"' else "&#39;" for quote in self._quotes}
        for reference in _REFERENCE.finditer(self._source):
            character = _character(reference)
            if len(character) == 1 and character not in BLANKS and not (character.isascii() and character.isalnum()):
                spellings[character] = reference[0].removesuffix(";") + ";"
        return str.maketrans(spellings)

    @cached_property
    def _bare(self) -> list[str]:
        """Special characters that the source has as they are."""
        plain = _REFERENCE.sub("", self._source)
        return [mark for mark in "&<" if mark in plain]


def _is_bare(mark: str, after: str, *, in_attribute: bool) -> bool:
    """Whether `&` or `<` is no markup before a text."""
    if mark == "<":
        return bool((_NO_CODE if in_attribute else _NO_TAG).match(after))
    return bool(_NO_REFERENCE.match(after)) and unescape(mark + after[:40]) == mark + after[:40]


def _character(reference: re.Match[str]) -> str:
    return unescape(reference[0]) if len(reference[0]) <= LONGEST_REFERENCE else "\N{REPLACEMENT CHARACTER}"
