"""Catalogues of gettext, .po: empty translations are filled and marked for review, others stay."""

import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from dragoman.documents.document import UNKNOWN, Document, Segment
from dragoman.documents.messages import Left, pieces_of
from dragoman.documents.plurals import plural_forms
from dragoman.documents.rewriting import Rewriting, fits, other_languages
from dragoman.formats.po import ESCAPE, Message, messages, named_languages
from dragoman.text.language_codes import Languages, is_written_alike

_SPELLED = {"\n": "\\n", "\t": "\\t", "\r": "\\r", '"': '\\"', "\\": "\\\\"}
_SPECIAL = re.compile(r'[\n\t\r"\\]')
_NO_CHARSET = re.compile(r'(?m)^(?:msgstr\s*)?"Content-Type:[^"\n]*charset=(CHARSET|(?:US-)?ASCII)\b')
_PLURAL_FORMS = re.compile(r'"Plural-Forms:[ \t]*((?:[^"\\\n]|"\r?\n[ \t]*"){0,1000}+)\\n"')
_LANGUAGE = re.compile(r'(?m)^(?:msgstr\s*)?"Language:[ \t]*([\w@.-]*)[ \t]*\\n"')


def read_po(text: str, languages: Languages = UNKNOWN) -> Document:
    """The segments of a catalogue: the messages whose translations are all empty."""
    left = Left()
    damaged: list[int] = []
    catalogue_messages = [*messages(text.removeprefix("\ufeff").split("\n"), damaged)]
    header = next((message for message in catalogue_messages[:1] if message.is_header), None)
    if header:
        _check(named_languages(header), languages)
    texts = [message for message in catalogue_messages if not message.is_header and message.progress != "obsolete"]
    done = [message for message in texts if message.progress != "missing"]
    catalogue = _Catalogue(text, header, languages[1], [message for message in texts if message.is_plural])
    for message in texts:
        if message.progress == "missing":
            catalogue.fill(message, left)
    notes = [*left.notes(), *catalogue.notes]
    if damaged:
        notes.append(_damaged_note(damaged))
    return catalogue.out.finished(len(done), notes)


def _damaged_note(lines: list[int]) -> str:
    if len(lines) == 1:
        return f"has a line that belongs to no message, line {lines[0]:,}; its message is left unchanged."
    return f"has {len(lines):,} lines that belong to no message, the first of them line {lines[0]:,}."


def _number_of_forms(rule: str) -> int | None:
    """How many forms of the plural a header Plural-Forms says."""
    match = re.search(r"nplurals\s*=\s*(\d+)", rule)
    return int(match[1]) if match else None


def _check(named: Languages, languages: Languages) -> None:
    """Raises `FormatError` if a catalogue names other languages than those of the model."""
    source = languages[0]
    is_of_source = named[1] and source and is_written_alike(named[1], source)  # it is to be translated
    if not fits((named[0], None) if is_of_source else named, languages):
        raise other_languages(named, languages)


class _Catalogue:
    """A catalogue of which copies of sources become the translations."""

    def __init__(self, text: str, header: Message | None, target: str | None, plurals: Sequence[Message]):
        self.text, self.out = text, Rewriting(text)
        self.newline = "\r\n" if "\r\n" in text else "\n"
        self.starts = [0]
        """Index of the first character of each line."""
        for match in re.finditer("\n", text):
            self.starts.append(match.end())
        self.forms: int | None = None
        """How many forms of the plural a translation has; None for as many as there are places for."""
        self.notes: list[str] = []
        self._edits = [*self._header_edits(header, target, plurals)] if header else []

    def _header_edits(
        self, header: Message, target: str | None, plurals: Sequence[Message]
    ) -> Iterator[tuple[int, int, str]]:
        """Start, end and new text of what is not true of the translation in the header, in the places it has."""
        start, end = self._line(header.first["msgstr"])[0], self._line(header.last)[1]
        if charset := _NO_CHARSET.search(self.text, start, end):
            yield *charset.span(1), "UTF-8"
        named = named_languages(header)[1]
        is_renamed = target is not None and not (named and is_written_alike(named, target))
        if is_renamed and (language := _LANGUAGE.search(self.text, start, end)):
            space = " " if self.text[language.start(1) - 1] == ":" else ""
            yield *language.span(1), space + target.replace("-", "_")
        rule = _PLURAL_FORMS.search(self.text, start, end)
        if not target or not rule or not (is_renamed or "INTEGER" in rule[1]):
            return
        known = plural_forms(target)
        if known and all(message.progress == "missing" for message in plurals):
            self.forms = known[1]
            yield *rule.span(1), known[0]
        elif plurals and not (known and known[1] == _number_of_forms(rule[1])):
            self.notes.append(f"has a header Plural-Forms of another language; write that of {target} into it.")

    def fill(self, message: Message, left: Left) -> None:
        """Copy the sources of a message to its translations, with segments, if it has any words."""
        sources = {keyword: self._span(message, keyword) for keyword in message.lines}
        segments = {
            keyword: [*self._segments(*sources[keyword], message.texts[keyword], left)]
            for keyword in ("msgid", "msgid_plural")
            if keyword in message.lines
        }
        if not any(segments.values()):
            return
        self._begin()
        self._mark(message)
        targets = message.targets
        count = (message.is_plural and self.forms) or len(targets)
        for number in range(count):
            source = "msgid_plural" if message.is_plural and (number > 0 or count == 1) else "msgid"
            if number < len(targets):
                self.out.keep(sources[targets[number]][0])
            else:
                self.out.write(f"{self.newline}msgstr[{number}] ")
            self.out.copy(*sources[source], segments[source])
            self.out.skip(sources[targets[min(number, len(targets) - 1)]][1])
        self.out.skip(sources[targets[-1]][1])

    def _begin(self) -> None:
        """Write the header, if this is the first message that is filled."""
        for start, end, text in sorted(self._edits):
            self.out.keep(start)
            self.out.write(text)
            self.out.skip(end)
        self._edits = []

    def _mark(self, message: Message) -> None:
        """Mark the translation of a message for review."""
        if not message.flags:
            self.out.keep(self._line(message.line)[0])
            self.out.write(f"#, fuzzy{self.newline}")
        elif not any("fuzzy" in flags for flags in message.flags.values()):
            start, end = self._line(min(message.flags))
            self.out.keep(self.text.index("#,", start, end) + 2)
            self.out.write(" fuzzy,")

    def _line(self, number: int) -> tuple[int, int]:
        """Start and end of a line."""
        end = self.starts[number] if number < len(self.starts) else len(self.text)
        return self.starts[number - 1], end

    def _span(self, message: Message, keyword: str) -> tuple[int, int]:
        """Start and end of a text with its quotation marks, which may go over many lines."""
        first = message.first[keyword]
        last = max(number for number in self._lines_of(message, keyword))
        start = self.text.index('"', *self._line(first))
        return start, self.text.rindex('"', *self._line(last)) + 1

    def _lines_of(self, message: Message, keyword: str) -> Iterator[int]:
        later = [number for number in message.first.values() if number > message.first[keyword]]
        end = min(later, default=message.last + 1)
        for number in range(message.first[keyword], end):
            start, stop = self._line(number)
            if '"' in self.text[start:stop]:
                yield number

    def _segments(self, start: int, end: int, value: str, left: Left) -> Iterator[Segment]:
        """The segments of a text in quotation marks."""
        places = _places(self.text[start:end])
        for piece in pieces_of(value, left):
            first, last = places[piece.start][0], places[piece.end - 1][1]
            yield Segment(start + first, start + last, piece.content, wrap=partial(_spelled, piece.wrap))


_STRING = re.compile(r'"((?:[^"\\\n]|\\.)*+)"')
_CHARACTER = re.compile(rf"{ESCAPE.pattern}|.", re.DOTALL)


def _places(strings: str) -> list[tuple[int, int]]:
    """Start and end of each character of a text in its strings, in which some are spelled with more than one."""
    return [
        character.span()
        for string in _STRING.finditer(strings)
        for character in _CHARACTER.finditer(strings, *string.span(1))
    ]


def _spelled(change: Callable[[str], str], text: str) -> str:
    """A translation after a change, as a string of a catalogue spells it."""
    return _SPECIAL.sub(lambda match: _SPELLED[match[0]], change(text))
