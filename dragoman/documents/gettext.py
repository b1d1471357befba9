"""Catalogues of gettext, .po: empty translations are filled and marked for review, others stay."""

import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from dragoman.documents.document import UNKNOWN, Document, Edit, Segment
from dragoman.documents.messages import SkippedValues, pieces_of
from dragoman.documents.plurals import number_of_forms, plural_forms
from dragoman.documents.review import Review, unknown
from dragoman.documents.rewriting import Rewriting, fits, other_languages
from dragoman.formats.po import NO_CHARSETS, Message, character_spans, escaped, messages, named_languages
from dragoman.text.language_codes import Languages, is_written_alike

_NO_CHARSET = re.compile(rf'(?m)^(?:msgstr\s*)?"Content-Type:[^"\n]*charset=({"|".join(NO_CHARSETS)})\b')
_PLURAL_FORMS = re.compile(r'"Plural-Forms:[ \t]*((?:[^"\\\n]|"\r?\n[ \t]*"){0,1000}+)\\n"')
_LANGUAGE = re.compile(r'(?m)^(?:msgstr\s*)?"Language:[ \t]*([\w@.-]*)[ \t]*\\n"')


def read_po(text: str, languages: Languages = UNKNOWN, review: Review = unknown) -> Document:
    """The segments of a catalogue: the messages whose translations are all empty.

    A confidence that the `review` gives becomes a comment, and so does that a memory had the translation. A message
    that can be trusted is not marked for review.
    """
    skipped = SkippedValues()
    damaged: list[int] = []
    entries = list(messages(text.removeprefix("\ufeff").split("\n"), damaged))
    header = entries[0] if entries and entries[0].is_header else None
    if header:
        _check(named_languages(header), languages)
    texts = [message for message in entries if not message.is_header and message.progress != "obsolete"]
    missing = [message for message in texts if message.progress == "missing"]
    catalogue = _Catalogue(text, header, languages[1], [message for message in texts if message.is_plural])
    for message in missing:
        catalogue.fill(message, skipped, review)
    notes = [*skipped.notes(), *catalogue.notes]
    if damaged:
        notes.append(_damaged_note(damaged))
    return catalogue.out.finished(len(texts) - len(missing), notes)


def _damaged_note(lines: list[int]) -> str:
    if len(lines) == 1:
        return f"has a line that belongs to no message, line {lines[0]:,}; its message is left unchanged."
    return f"has {len(lines):,} lines that belong to no message, the first of them line {lines[0]:,}."


def _check(named: Languages, languages: Languages) -> None:
    """Raises `FormatError` if a catalogue names other languages than those of the model."""
    source = languages[0]
    # A catalogue that is not translated yet may name the language of its sources as its own.
    is_untranslated = named[1] and source and is_written_alike(named[1], source)
    if not fits((named[0], None) if is_untranslated else named, languages):
        raise other_languages(named, languages)


class _Catalogue:
    """A catalogue whose empty translations become copies of the sources, with segments in them."""

    def __init__(self, text: str, header: Message | None, target: str | None, plurals: Sequence[Message]):
        self.text, self.out = text, Rewriting(text)
        self.newline = "\r\n" if "\r\n" in text else "\n"
        self.starts = [0, *(match.end() for match in re.finditer("\n", text))]
        """Index of the first character of each line."""
        self.forms: int | None = None
        """Number of plural forms of a translation; None for as many as each message has room for."""
        self.notes: list[str] = []
        edits = self._corrections(header, target, plurals) if header else ()
        self._header_edits = sorted(edits, key=lambda edit: edit.start)

    def _corrections(self, header: Message, target: str | None, plurals: Sequence[Message]) -> Iterator[Edit]:
        """Edits of facts in the header that are not true of the translation. Facts that it lacks are not added."""
        start, end = self._line(header.numbers["msgstr"][0])[0], self._line(header.last)[1]
        if charset := _NO_CHARSET.search(self.text, start, end):
            yield Edit(*charset.span(1), "UTF-8")
        named = named_languages(header)[1]
        is_renamed = target is not None and not (named and is_written_alike(named, target))
        if is_renamed and (language := _LANGUAGE.search(self.text, start, end)):
            space = " " if self.text[language.start(1) - 1] == ":" else ""
            yield Edit(*language.span(1), space + target.replace("-", "_"))
        rule = _PLURAL_FORMS.search(self.text, start, end)
        if not target or not rule or not (is_renamed or "INTEGER" in rule[1]):
            return
        new_rule = plural_forms(target)
        if new_rule and all(message.progress == "missing" for message in plurals):
            self.forms = number_of_forms(new_rule)
            yield Edit(*rule.span(1), new_rule)
        elif plurals and not (new_rule and number_of_forms(new_rule) == number_of_forms(rule[1])):
            self.notes.append(f"has a header Plural-Forms of another language; write that of {target} into it.")

    def fill(self, message: Message, skipped: SkippedValues, review: Review) -> None:
        """Copy the sources of a message to its translations, with segments, if it has any words."""
        if "msgid" not in message.lines:  # its line is damaged
            return
        spans = {keyword: self._span(message, keyword) for keyword in message.lines}
        segments = {
            keyword: list(self._segments(*spans[keyword], message.texts[keyword], skipped))
            for keyword in ("msgid", "msgid_plural")
            if keyword in message.lines
        }
        verdict = review([segment for of_text in segments.values() for segment in of_text])
        if not any(segments.values()) or verdict.is_untranslated:
            return
        self._correct_header()
        remark = "from the translation memory" if verdict.is_remembered else ""
        if verdict.confidence is not None:
            remark = f"confidence {verdict.confidence:.2f}"
        if remark:
            self.out.keep(self._line(min([self._begin(message), *message.flags]))[0])
            self.out.write(f"# Dragoman: {remark}{self.newline}")
        if not verdict.is_trusted:
            self._mark_for_review(message)
        targets = message.targets
        count = (message.is_plural and self.forms) or len(targets)
        for number in range(count):
            source = "msgid_plural" if message.is_plural and (number > 0 or count == 1) else "msgid"
            if number < len(targets):
                self.out.keep(spans[targets[number]][0])
            else:
                self.out.write(f"{self.newline}msgstr[{number}] ")
            self.out.copy(*spans[source], segments[source])
            self.out.skip(spans[targets[min(number, len(targets) - 1)]][1])
        self.out.skip(spans[targets[-1]][1])

    def _correct_header(self) -> None:
        """Write the header, if this is the first message that is filled."""
        for edit in self._header_edits:
            self.out.keep(edit.start)
            self.out.write(edit.text)
            self.out.skip(edit.end)
        self._header_edits = []

    def _mark_for_review(self, message: Message) -> None:
        """Flag the translation of a message as fuzzy."""
        if not message.flags:
            self.out.keep(self._line(self._begin(message))[0])
            self.out.write(f"#, fuzzy{self.newline}")
        elif not any("fuzzy" in flags for flags in message.flags.values()):
            start, end = self._line(min(message.flags))
            self.out.keep(self.text.index("#,", start, end) + 2)
            self.out.write(" fuzzy,")

    def _begin(self, message: Message) -> int:
        """Number of the first line of a message that flags and comments have to stand before.

        Lines with the former text of its source (#|) stand directly before it.
        """
        number = message.line
        while number > 1 and self.text.startswith("#|", self._line(number - 1)[0]):
            number -= 1
        return number

    def _line(self, number: int) -> tuple[int, int]:
        """Start and end of a line."""
        end = self.starts[number] if number < len(self.starts) else len(self.text)
        return self.starts[number - 1], end

    def _span(self, message: Message, keyword: str) -> tuple[int, int]:
        """Start and end of a text with its quotation marks, which may go over many lines."""
        numbers = message.numbers[keyword]
        start = self.text.index('"', *self._line(numbers[0]))
        return start, self.text.rindex('"', *self._line(numbers[-1])) + 1

    def _segments(self, start: int, end: int, value: str, skipped: SkippedValues) -> Iterator[Segment]:
        """The segments of a text in quotation marks."""
        spans = character_spans(self.text[start:end])
        for piece in pieces_of(value, skipped):
            first, last = spans[piece.start][0], spans[piece.end - 1][1]
            yield Segment(start + first, start + last, piece.content, wrap=partial(_spelled, piece.wrap))


def _spelled(change: Callable[[str], str], text: str) -> str:
    """A translation after a change, as a string of a catalogue spells it."""
    return escaped(change(text))
