"""XLIFF 1.2 and 2: missing targets are filled and marked for review; others, and inline codes, stay."""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from dragoman.data.readers.xliff import agree, named_languages, progress
from dragoman.documents import xml
from dragoman.documents.document import Document, FormatError, Languages, Segment, has_words
from dragoman.documents.messages import is_icu
from dragoman.documents.rewriting import Rewriting
from dragoman.documents.xml import Element

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
    fitting = [agree(own, languages) for own in named]
    if not any(fitting):
        raise _other_languages(named[0], languages)
    reader = _Reader(text)
    for scope, (_, own_target), fits in zip(scopes, named, fitting, strict=True):
        if fits:
            is_unnamed = languages[1] and not own_target and (is_second or scope.name == "file")
            reader.header = (scope, attribute, languages[1]) if is_unnamed else None
            for unit in _units(scope):
                reader.read(unit)
        else:
            reader.left["in other languages"] += sum(1 for _ in _units(scope))
    return reader.out.finished(reader.done, reader.notes(), unencodable=xml.UNENCODABLE)


def _other_languages(named: Languages, languages: Languages) -> FormatError:
    says, model = (" to ".join(code or "some language" for code in codes) for codes in (named, languages))
    return FormatError(
        f"says that it is from {says}, and the model translates from {model}; choose a model for the languages of the "
        "file, or correct them in it."
    )


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


def _parts(element: Element | None) -> dict[str, Element]:
    """The sentences that a text was divided into, by their numbers; none if it was not."""
    marks = element.walk("mrk") if element else ()
    return {each.attributes.get("mid", ""): each for each in marks if each.attributes.get("mtype") == "seg"}


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
        return [xml.left_note(count, reason) for reason, count in self.left.items()]

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
            missing = {mid: part for mid, part in parts.items() if unit.is_missing(part, translated.get(mid))}
            self.done += len(parts) - len(missing)
            if missing:
                self._fill_sentences(unit, target, missing, translated)
        elif not unit.is_missing(source, target):
            self.done += 1
        elif is_icu(source.text):
            self.left["with forms of the plural or the like"] += 1
        else:
            self._fill(unit)

    def _segments(self, element: Element, unit: _Unit) -> list[Segment]:
        pieces = xml.pieces(element, self.text, WHOLE)
        sentences = xml.lines(pieces, self.text) if unit.is_preserved else [pieces]
        return [segment for each in sentences if (segment := xml.sentence(each, self.text))]

    def _fill(self, unit: _Unit) -> None:
        """Make the whole source the target."""
        source, target = unit.source, unit.target
        segments = [each for part in _parts(source).values() or [source] for each in self._segments(part, unit)]
        if not segments:
            return
        self._begin(unit)
        prefix = self.text[source.start + 1 : source.inside].partition(source.name)[0]
        if target:
            self._open(unit, target)
        else:
            self.out.keep(source.end)
            state = "" if unit.is_segment else f' state="{STATES["trans-unit"]}"'
            self.out.write(f"{xml.indent(self.text, source.start)}<{prefix}target{state}>")
        self.out.copy(source.inside, source.close, segments)
        self.out.write(f"</{prefix}target>")
        self.out.skip(target.end if target else source.end)

    def _fill_sentences(
        self, unit: _Unit, target: Element, missing: dict[str, Element], translated: dict[str, Element]
    ) -> None:
        """Fill those sentences of a target that are missing, and put those without a place at its end."""
        self._begin(unit)
        self._open(unit, target)
        for mid, place in translated.items():
            if part := missing.get(mid):
                self.out.keep(place.start)
                self.out.copy(part.start, part.end, self._segments(part, unit))
                self.out.skip(place.end)
        self.out.keep(target.close)
        for mid, part in missing.items():
            if mid not in translated:
                self.out.copy(part.start, part.end, self._segments(part, unit))

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
