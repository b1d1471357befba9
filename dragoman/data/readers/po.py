"""Catalogues of gettext, .po: a pair for each message that is translated, two for one with plural forms."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from dragoman.data.readers.language_codes import same_language
from dragoman.data.readers.text_io import read_file
from dragoman.data.readers.types import Entry, Languages, Numbered, PairReader, ReaderOptions, Skipped
from dragoman.data.text import one_line
from dragoman.errors import DataError

_LINE = re.compile(r'(?:(msgctxt|msgid|msgid_plural|msgstr(?:\[\d+\])?)\s*)?"((?:[^"\\]|\\.)*)"')
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}


@dataclass
class _Message:
    line: int = 0
    """Of its first keyword."""
    texts: dict[str, str] = field(default_factory=dict)
    """By keyword: msgid, msgstr, msgstr[0] ..."""
    fuzzy: bool = False
    obsolete: bool = False

    @property
    def complete(self) -> bool:
        return any(keyword.startswith("msgstr") for keyword in self.texts)

    def entries(self) -> Iterator[Entry]:
        if self.obsolete or self.fuzzy:
            yield Skipped("obsolete message" if self.obsolete else "fuzzy translation")
            return
        # A language has at most six forms, so that their numbers sort as text.
        forms = [self.texts[keyword] for keyword in sorted(self.texts) if keyword.startswith("msgstr")]
        source, plural = self.texts.get("msgid", ""), self.texts.get("msgid_plural")
        if plural is None:
            pairs = [(source, forms[0])]
        else:
            # The first form is that of 1, unless it is the only one; the last is that of many.
            pairs = [(source, forms[0])] * (len(forms) > 1) + [(plural, forms[-1])]
        for source, target in pairs:
            yield (one_line(source), one_line(target)) if target else Skipped("not translated yet")


def open_po(path: Path, options: ReaderOptions) -> PairReader:
    """How to read a catalogue; if the source options for is the language of the translations, its sides are swapped."""
    wanted = options.languages
    first = next(_messages(path, options.replace_bad_bytes), _Message())
    header = first.texts.get("msgstr", "") if _is_header(first) else ""
    metadata = dict(re.findall(r"^([\w-]+): *(\S+) *$", header, re.MULTILINE))
    languages: Languages = metadata.get("X-Source-Language"), metadata.get("Language")
    known = languages[1]
    swap = wanted is not None and known is not None and same_language(known, wanted[0])
    swap = swap and not same_language(known, wanted[1])

    def read() -> Iterator[Numbered]:
        for message in _messages(path, options.replace_bad_bytes):
            if not _is_header(message):
                for entry in message.entries():
                    yield message.line, entry[::-1] if swap and not isinstance(entry, Skipped) else entry

    return PairReader(read, wanted or languages)


def _is_header(message: _Message) -> bool:
    return message.texts.get("msgid") == "" and "msgctxt" not in message.texts


def _messages(path: Path, replace: bool) -> Iterator[_Message]:
    message, keyword = _Message(), ""
    for number, line in enumerate(map(str.strip, read_file(path, replace=replace)), start=1):
        if message.complete and line.startswith(("#", "msgctxt", "msgid")):
            yield message
            message, keyword = _Message(), ""
        if line.startswith("#"):
            message.fuzzy |= line.startswith("#,") and "fuzzy" in line
            if re.match(r"#~ *msgid\s", line):
                yield _Message(number, obsolete=True)
        elif line:
            match = _LINE.fullmatch(line)
            if match is None or not (match[1] or keyword) or match[1] in message.texts:
                raise DataError(f"{path}, line {number} does not belong there; repair that message or delete it.")
            keyword, message.line = match[1] or keyword, message.line or number
            message.texts[keyword] = message.texts.get(keyword, "") + _unescaped(match[2])
    if message.texts and not message.complete:
        raise DataError(f"{path}, line {number} ends inside a message; check that the file is whole.")
    if message.complete:
        yield message


def _unescaped(text: str) -> str:
    return re.sub(r"\\(.)", lambda match: _ESCAPES.get(match[1], match[1]), text) if "\\" in text else text
