"""Parses gettext's catalogues, .po, line by line into messages."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from dragoman.formats.text_files import MAX_TEXT
from dragoman.text.language_codes import CODE, Languages

_STRING = re.compile(r'"([^"\\\n]*+(?:\\.[^"\\\n]*+)*+)"')
_LINE = re.compile(rf"(?:(msgctxt|msgid|msgid_plural|msgstr(?:\[\d{{1,3}}\])?)\s*)?{_STRING.pattern}")
_CHARSET = re.compile(rb'^(?:msgstr\s*)?"Content-Type:[^"]*charset=([\w.:-]+)', re.MULTILINE)
NO_CHARSETS = ("CHARSET", "ASCII", "US-ASCII")
"""Names in the headers of templates and of catalogues without a translation, which say nothing about a translation."""
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}
_ESCAPED = {"\n": "\\n", "\t": "\\t", "\r": "\\r", '"': '\\"', "\\": "\\\\"}
_TO_ESCAPE = re.compile(r'[\n\t\r"\\]')


class DamagedCatalogue(Exception):
    """A line of a catalogue belongs to no message; says which and what is wrong with it."""

    def __init__(self, line: int, fault: str):
        super().__init__(f"line {line}{fault}")


@dataclass
class Message:
    """A message of a catalogue, as its lines have it."""

    line: int = 0
    """Line of its first keyword."""
    lines: dict[str, list[str]] = field(default_factory=dict)
    """Parts of the texts by keyword: msgid, msgstr, msgstr[0] ..."""
    numbers: dict[str, list[int]] = field(default_factory=dict)
    """Numbers of the lines that these parts stand in, by keyword."""
    last: int = 0
    """Its last line."""
    flags: dict[int, str] = field(default_factory=dict)
    """The lines with flags, by their number."""
    size: int = 0
    """Number of characters of all its texts."""
    is_obsolete: bool = False

    @property
    def is_header(self) -> bool:
        """Whether it holds the facts about the catalogue instead of a text."""
        return self.texts.get("msgid") == "" and "msgctxt" not in self.texts

    @property
    def is_whole(self) -> bool:
        """Whether the lines so far include a translation."""
        return any(keyword.startswith("msgstr") for keyword in self.lines)

    @property
    def is_plural(self) -> bool:
        """Whether it has plural forms."""
        return "msgid_plural" in self.lines

    @cached_property
    def texts(self) -> dict[str, str]:
        """The texts by keyword; complete once the message is."""
        return {keyword: "".join(lines) for keyword, lines in self.lines.items()}

    @property
    def targets(self) -> list[str]:
        """The keywords of the translations, one for each plural form."""
        keywords = [keyword for keyword in self.texts if keyword.startswith("msgstr")]
        return sorted(keywords, key=lambda keyword: (len(keyword), keyword))

    @property
    def forms(self) -> list[str]:
        """The translations, one for each plural form."""
        return [self.texts[keyword] for keyword in self.targets]

    @property
    def progress(self) -> Literal["missing", "draft", "done", "obsolete"]:
        """State of the translation; a fuzzy one is a draft, which waits for a review."""
        if self.is_obsolete:
            return "obsolete"
        if not any(self.forms):
            return "missing"
        return "draft" if any("fuzzy" in flags for flags in self.flags.values()) else "done"

    def add(self, number: int, line: str, keyword: str) -> tuple[str, str]:
        """Add a line, which goes on with the text of a keyword or begins another: a fault or "", and its keyword."""
        match = _LINE.fullmatch(line)
        if match is None or not (match[1] or keyword) or match[1] in self.lines:
            return " does not belong there; repair that message or delete it.", ""
        keyword, self.line, self.last = match[1] or keyword, self.line or number, number
        self.numbers.setdefault(keyword, []).append(number)
        self.lines.setdefault(keyword, []).append(unescaped(match[2]))
        self.size += len(match[2])
        if self.size > MAX_TEXT:
            return f": the message has more than {MAX_TEXT:,} characters; split it.", ""
        return "", keyword

    def metadata(self) -> dict[str, str]:
        """The fields of a header by their names, such as Language."""
        return dict(re.findall(r"^([\w-]+):[ \t]*(.*?)[ \t]*$", self.texts.get("msgstr", ""), re.MULTILINE))


def named_languages(first: Message) -> Languages:
    """The languages that a catalogue names in its first message, if that is its header."""
    fields = first.metadata() if first.is_header else {}
    return _code(fields.get("X-Source-Language", "")), _code(fields.get("Language", ""))


def _code(locale: str) -> str | None:
    """The language code of a locale, such as sr-Latn of `sr@latin`; None if it names no language."""
    code, _, modifier = locale.partition("@")
    if script := {"latin": "Latn", "cyrillic": "Cyrl", "devanagari": "Deva"}.get(modifier):
        code = f"{code}-{script}"
    return code if CODE.fullmatch(code) else None


def declared_charset(head: bytes) -> str | None:
    """The charset in the header of a catalogue; None for one without, or one that a template or ASCII has."""
    declared = _CHARSET.search(head)
    charset = declared[1].decode() if declared else None
    return None if charset in NO_CHARSETS else charset


def messages(lines: Iterable[str], damaged: list[int] | None = None) -> Iterator[Message]:
    """The messages in the lines of a catalogue.

    Raises `DamagedCatalogue` for a line that belongs to no message, or adds its number to `damaged` and leaves out the
    message that it interrupts.
    """
    message, keyword, number = Message(), "", 0
    for number, line in enumerate(map(str.strip, lines), start=1):
        if line.startswith(("#", "msgctxt", "msgid")) and message.is_whole:
            yield message
            message, keyword = Message(), ""
        if line.startswith("#"):
            if line.startswith("#,"):
                message.flags[number] = line
            elif re.match(r"#~ *msgid\s", line):
                message.flags.clear()  # they belong to the obsolete message
                yield Message(number, is_obsolete=True)
        elif line and not line.startswith("domain "):
            fault, keyword = message.add(number, line, keyword)
            if fault:
                if damaged is None:
                    raise DamagedCatalogue(number, fault)
                damaged.append(number)
                message, keyword = Message(), ""
    if message.is_whole:
        yield message
    elif message.lines and damaged is None:
        raise DamagedCatalogue(number, " ends inside a message; check that the file is whole.")


_ESCAPE = re.compile(r"\\(?:[0-7]{1,3}|x[0-9A-Fa-f]{1,2}|.)", re.DOTALL)
_CHARACTER = re.compile(rf"{_ESCAPE.pattern}|.", re.DOTALL)


def escaped(text: str) -> str:
    """A text as a string of a catalogue spells it."""
    return _TO_ESCAPE.sub(lambda match: _ESCAPED[match[0]], text)


def unescaped(text: str) -> str:
    """What a text of a catalogue means, in which `\\n` is a line break."""
    return _ESCAPE.sub(lambda match: _meaning(match[0][1:]), text) if "\\" in text else text


def character_spans(strings: str) -> list[tuple[int, int]]:
    """Start and end of each character of a text in the strings that spell it. An escape is one character."""
    return [
        character.span()
        for string in _STRING.finditer(strings)
        for character in _CHARACTER.finditer(strings, *string.span(1))
    ]


def _meaning(escape: str) -> str:
    if len(escape) > 1 or escape in "01234567":
        return chr(int(escape[1:], 16) if escape[0] == "x" else int(escape, 8))
    return _ESCAPES.get(escape, escape)
