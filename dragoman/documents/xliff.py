"""XLIFF 1.2 and 2: missing targets are filled and marked for review; others, and inline codes, stay."""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from dragoman.documents import xml
from dragoman.documents.document import Document, Segment, has_words
from dragoman.documents.rewriting import Rewriting, fits, other_languages
from dragoman.documents.xml import Element
from dragoman.formats.xliff import named_languages, progress
from dragoman.text.language_codes import Languages

WHOLE = {"bpt", "ept", "it", "ph", "ut", "x", "bx", "ex", "sc", "ec"}
"""Elements whose content is no text of the sentence."""
STATES = {"trans-unit": "needs-review-translation", "segment": "translated"}
"""What says that nobody has reviewed a translation: the state of the target in 1.2, of the segment in 2."""


@dataclass(frozen=True)
class _Unit:
    """A unit of 1.2, or a segment of 2, that is to be translated."""

    element: Element
    source: Element
    """What is copied: the segmented source if there is one."""
    target: Element | None
    is_preserved: bool
    """Whether its line breaks mean something."""

    @property
    def is_segment(self) -> bool:
        """Whether it is a segment of XLIFF 2."""
        return self.element.name == "segment"

    def is_missing(self, source: Element, target: Element | None) -> bool:
        """Whether there is no translation yet of a text in this unit."""
        holder = self.element if self.is_segment else self.target
        state = holder.attributes.get("state") if holder else None
        words = target.text_without(WHOLE) if target else ""
        return progress(source.text_without(WHOLE), words, state, self.element.attributes.get("approved")) == "missing"


def read_xliff(text: str, languages: Languages) -> Document:
    """The segments of a file: those of copies of its sources, which become targets where there is no translation."""
    root = xml.parse(text)
    document = root.child("xliff") or root
    is_second = document.attributes.get("version", "").startswith("2")
    attribute = "trgLang" if is_second else "target-language"
    scopes = [document] if is_second else [*document.walk("file")] or [document]
    named = [named_languages(document.attributes, scope.attributes) for scope in scopes]
    fitting = [fits(own, languages) for own in named]
    if not any(fitting):
        raise other_languages(named[0], languages)
    reader = _Reader(text)
    for scope, (_, own_target), is_fitting in zip(scopes, named, fitting, strict=True):
        if is_fitting:
            is_unnamed = languages[1] and not own_target and (is_second or scope.name == "file")
            reader.header = (scope, attribute, languages[1]) if is_unnamed else None
            for unit in _units(scope):
                reader.read(unit)
        else:
            reader.left["in other languages"] += sum(1 for _ in _units(scope))
    return reader.out.finished(reader.done, reader.notes(), unencodable=xml.UNENCODABLE)


def _units(scope: Element) -> Iterator[_Unit]:
    """The units that are to be translated; what holds a unit may say that it is not."""
    waiting = [(scope, "yes", "default")]
    while waiting:
        element, translate, space = waiting.pop()
        translate = element.attributes.get("translate", translate)
        space = element.attributes.get("space", space)
        if element.name not in STATES:
            waiting += [(child, translate, space) for child in [*element.children][::-1]]
        elif translate != "no" and (source := element.child("source")):
            is_preserved = source.attributes.get("space", space) == "preserve"
            yield _Unit(element, element.child("seg-source") or source, element.child("target"), is_preserved)


def _sentences(element: Element | None) -> list[Element]:
    """The sentences that a text was divided into; none if it was not."""
    marks = element.walk("mrk") if element else ()
    return [mark for mark in marks if mark.attributes.get("mtype") == "seg"]


def _parts(element: Element | None) -> dict[str, Element]:
    """The sentences that a text was divided into, by their numbers."""
    return {mark.attributes.get("mid", ""): mark for mark in _sentences(element)}


class _Reader:
    """Fills units, one after the other."""

    def __init__(self, text: str):
        self.text, self.out, self.done = text, Rewriting(text), 0
        self.left = Counter[str]()
        """How many units are left as they are, by the reason."""
        self.header: tuple[Element, str, str] | None = None
        """The element that gets an attribute as soon as one of its units is filled: name and value of it."""

    def notes(self) -> list[str]:
        """What a person should know about the units that are left."""
        return [xml.left_note(count, reason) for reason, count in self.left.items() if count]

    def read(self, unit: _Unit) -> None:
        """Fill a unit, or the sentences in it that lack a translation."""
        source, target = unit.source, unit.target
        parts, translated = _parts(source), _parts(target)
        if not has_words([source.text_without(WHOLE)]):
            return
        if xml.has_forbidden(self.text[source.start : source.end]):
            self.left["with characters that XML forbids"] += 1
        elif parts and translated:
            parts = {mid: part for mid, part in parts.items() if has_words([part.text_without(WHOLE)])}
            missing = {
                mid: self._segments(part, unit)
                for mid, part in parts.items()
                if unit.is_missing(part, translated.get(mid))
            }
            self.done += len(parts) - len(missing)
            filled = {mid: segments for mid, segments in missing.items() if segments is not None}
            if filled:
                self._fill_sentences(unit, target, parts, translated, filled)
        elif not unit.is_missing(source, target):
            self.done += 1
        else:
            self._fill(unit)

    def _segments(self, element: Element, unit: _Unit) -> list[Segment] | None:
        """The segments of a source, or of a sentence in it; None, which is counted, for a message that is left."""
        pieces = xml.pieces(element, self.text, WHOLE)
        segments = xml.segments(pieces, self.text, by_line=unit.is_preserved)
        self.left[xml.LEFT_MESSAGE] += segments is None
        return segments

    def _fill(self, unit: _Unit) -> None:
        """Make the whole source the target."""
        source, target = unit.source, unit.target
        parts = [self._segments(part, unit) for part in _sentences(source) or [source]]
        segments = [segment for own in parts for segment in own or ()]
        if not segments or None in parts:
            return
        self._begin(unit)
        prefix = xml.prefix(source, self.text)
        if target:
            self._open(unit, target)
        else:
            self.out.keep(source.end)
            state = "" if unit.is_segment else f' state="{STATES["trans-unit"]}"'
            space = f" xml:space={xml.in_quotes(source.attributes['space'])}" if "space" in source.attributes else ""
            self.out.write(f"{xml.indent(self.text, source.start)}<{prefix}target{space}{state}>")
        self.out.copy(source.inside, source.close, segments)
        self.out.write(f"</{prefix}target>")
        self.out.skip(target.end if target else source.end)

    def _fill_sentences(
        self,
        unit: _Unit,
        target: Element,
        sources: dict[str, Element],
        translated: dict[str, Element],
        segments: dict[str, list[Segment]],
    ) -> None:
        """Fill those sentences of a target that have `segments`, and put those without a place at its end."""
        self._begin(unit)
        self._open(unit, target)
        for mid, place in translated.items():
            if mid in segments:
                self.out.keep(place.start)
                self.out.copy(sources[mid].start, sources[mid].end, segments[mid])
                self.out.skip(place.end)
        self.out.keep(target.close)
        for mid, own in segments.items():
            if mid not in translated:
                self.out.copy(sources[mid].start, sources[mid].end, own)

    def _begin(self, unit: _Unit) -> None:
        """Keep all up to the unit, with the language of the file and the state of a segment of XLIFF 2."""
        if self.header:
            self._write_tag(*self.header)
            self.header = None
        if unit.is_segment:
            self._write_tag(unit.element, "state", STATES["segment"])

    def _open(self, unit: _Unit, target: Element) -> None:
        """Write the opening tag of a target that there is."""
        if unit.is_segment:
            self._write_tag(target)
        else:
            self._write_tag(target, "state", STATES["trans-unit"])

    def _write_tag(self, element: Element, attribute: str = "", value: str = "") -> None:
        """Write the opening tag of an element, also for one that has none inside, perhaps with another attribute."""
        self.out.keep(element.start)
        tag = self.text[element.start : element.inside].removesuffix(">").removesuffix("/").rstrip()
        if attribute:
            tag = re.sub(rf"""\s(?:{attribute}|subState)\s*=\s*("[^"]*"|'[^']*')""", "", tag)
            tag += f" {attribute}={xml.in_quotes(value)}"
        self.out.write(f"{tag}>")
        self.out.skip(element.inside)
