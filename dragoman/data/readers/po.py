"""Catalogues of gettext, .po: a pair for each translated message, two for one with plural forms."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from dragoman.data.language_codes import same_language
from dragoman.data.readers.text_io import read_file, read_head
from dragoman.data.readers.types import Entry, Languages, Numbered, PairReader, ReaderOptions, Skipped
from dragoman.data.readers.xml import MAX_SEGMENT
from dragoman.data.text import one_line
from dragoman.errors import DataError

_LINE = re.compile(r'(?:(msgctxt|msgid|msgid_plural|msgstr(?:\[\d+\])?)\s*)?"([^"\\]*(?:\\.[^"\\]*)*)"')
_CHARSET = re.compile(rb'^(?:msgstr\s*)?"Content-Type:[^"]*charset=([\w.:-]+)', re.MULTILINE)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}


@dataclass
class _Message:
    line: int = 0
    """Line of its first keyword."""
    lines: dict[str, list[str]] = field(default_factory=dict)
    """Parts of the texts by keyword: msgid, msgstr, msgstr[0] ..."""
    size: int = 0
    """Of all of them, in characters."""
    skipped: Skipped | None = None
    """Why it is not read, if it is not."""

    @property
    def is_whole(self) -> bool:
        """Whether it has come to its translation."""
        return any(keyword.startswith("msgstr") for keyword in self.lines)

    @cached_property
    def texts(self) -> dict[str, str]:
        """The texts of a message that is read."""
        return {keyword: "".join(lines) for keyword, lines in self.lines.items()}

    @property
    def forms(self) -> list[str]:
        """The translation in each form of the plural."""
        # A language has at most six forms, so their numbers can be sorted as text.
        return [self.texts[keyword] for keyword in sorted(self.texts) if keyword.startswith("msgstr")]

    def entries(self) -> Iterator[Entry]:
        if self.skipped:
            yield self.skipped
            return
        forms, source, plural = self.forms, self.texts.get("msgid", ""), self.texts.get("msgid_plural")
        # The first form is for one, unless it is the only form; the last is for many.
        sources = [source] if plural is None else [source, plural][-len(forms) :]
        for source, target in zip(sources, (forms[0], forms[-1]), strict=False):
            yield (one_line(source), one_line(target)) if target else Skipped("not translated yet")


def open_po(path: Path, options: ReaderOptions) -> PairReader:
    """A reader of a catalogue, which swaps its sides if the options name the language of the translations as source."""
    wanted, encoding = options.languages, _encoding(path)
    first = next(_messages(path, encoding, options.replace_bad_bytes), _Message())
    header = first.texts.get("msgstr", "") if _is_header(first) else ""
    metadata = dict(re.findall(r"^([\w-]+): *(\S+) *$", header, re.MULTILINE))
    languages: Languages = metadata.get("X-Source-Language"), metadata.get("Language")
    swap = wanted and languages[1] and [same_language(languages[1], each) for each in wanted] == [True, False]

    def read() -> Iterator[Numbered]:
        for message in _messages(path, encoding, options.replace_bad_bytes):
            for entry in () if _is_header(message) else message.entries():
                yield message.line, entry[::-1] if swap and not isinstance(entry, Skipped) else entry

    return PairReader(read, wanted or languages)


def _is_header(message: _Message) -> bool:
    return message.texts.get("msgid") == "" and "msgctxt" not in message.texts


def _encoding(path: Path) -> str:
    """The charset that the header of a catalogue declares; UTF-8 if there is none, or that of a template."""
    declared = _CHARSET.search(read_head(path))
    name = declared[1].decode() if declared and declared[1] not in (b"CHARSET", b"ASCII", b"US-ASCII") else "UTF-8"
    try:
        b"x".decode(name)
    except (LookupError, UnicodeDecodeError):
        raise DataError(
            f"{path} declares the charset {name}, in which it cannot be read; convert it with `msgconv -t UTF-8`."
        ) from None
    return name


def _messages(path: Path, encoding: str, replace: bool) -> Iterator[_Message]:
    message, keyword = _Message(), ""
    for number, line in enumerate(map(str.strip, read_file(path, replace=replace, encoding=encoding)), start=1):
        if line.startswith(("#", "msgctxt", "msgid")) and message.is_whole:
            yield message
            message, keyword = _Message(), ""
        if line.startswith("#"):
            if line.startswith("#,") and "fuzzy" in line:
                message.skipped = Skipped("fuzzy translation")
            elif re.match(r"#~ *msgid\s", line):
                yield _Message(number, skipped=Skipped("obsolete message"))
        elif line:
            match = _LINE.fullmatch(line)
            if match is None or not (match[1] or keyword) or match[1] in message.lines:
                raise DataError(f"{path}, line {number} does not belong there; repair that message or delete it.")
            keyword, message.line = match[1] or keyword, message.line or number
            message.lines.setdefault(keyword, []).append(_unescaped(match[2]))
            message.size += len(match[2])
            if message.size > MAX_SEGMENT:
                raise DataError(
                    f"{path}, line {number}: the message has more than {MAX_SEGMENT:,} characters; split it."
                )
    if message.is_whole:
        yield message
    elif message.lines:
        raise DataError(f"{path}, line {number} ends inside a message; check that the file is whole.")


def _unescaped(text: str) -> str:
    return re.sub(r"\\(.)", lambda match: _ESCAPES.get(match[1], match[1]), text) if "\\" in text else text
