"""XLIFF 1.2 and 2: missing targets are filled and marked for review; others, and inline codes, stay."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from dragoman.documents import xml
from dragoman.documents.document import Document, Segment, has_words
from dragoman.documents.review import Review, Verdict, unknown
from dragoman.documents.rewriting import Rewriting, fits, other_languages
from dragoman.documents.xml import Element
from dragoman.formats.inline_codes import MARKUP
from dragoman.formats.xliff import named_languages, progress
from dragoman.text.language_codes import Languages

STATES = {"trans-unit": "needs-review-translation", "segment": "translated"}
"""States of a translation that nobody has reviewed: of the target in 1.2, of the segment in 2."""
TRUSTED = "translated"
"""State of a target of 1.2 whose confidence is above the limit that a person has set."""
REMEMBERED = "exact-match"
"""State qualifier of a target of 1.2 that a translation memory had."""
OF_STATES = ("subState", "state-qualifier")
"""Attributes that say more about a state, and that do not outlast it."""
LOCKED = {"true", "locked", "yes"}
"""Values of the attribute `locked`, in small letters, by which translation programs keep a unit or a sentence from
changes."""
CONFIRMED = {
    "conf": {"Translated", "ApprovedTranslation", "ApprovedSignOff"},
    "status": {"ManuallyConfirmed", "Proofread", "Confirmed", "Reviewed"},
    "confirmed": {"1"},
}
"""Attributes and values by which Trados Studio (of a sentence), memoQ and Phrase (of a unit) say that a person has
confirmed a translation."""


@dataclass(frozen=True)
class _Unit:
    """A unit of 1.2, or a segment of 2, that is to be translated."""

    element: Element
    source: Element
    """The element that is copied: the segmented source if there is one."""
    target: Element | None
    is_preserved: bool
    """Whether the line breaks of the unit mean something."""

    @property
    def is_segment(self) -> bool:
        """Whether the unit is a segment of XLIFF 2."""
        return self.element.name == "segment"

    def is_missing(self, source: Element, target: Element | None) -> bool:
        """Whether a text in this unit has no translation yet."""
        holder = self.element if self.is_segment else self.target
        state = holder.attributes.get("state") if holder else None
        approved = "yes" if _is_confirmed(self.element) else self.element.attributes.get("approved")
        translation = target.text_without(MARKUP) if target else ""
        return progress(source.text_without(MARKUP), translation, state, approved) == "missing"


@dataclass(frozen=True)
class _MissingLanguage:
    """An element that names no target language, and the attribute for it."""

    element: Element
    attribute: str
    value: str


def read_xliff(text: str, languages: Languages, review: Review = unknown) -> Document:
    """The segments of a file: those of copies of its sources, which become targets where there is no translation.

    A confidence that the `review` gives stands in 1.2 as the match quality of an alternative translation, and in 2 as
    the sub-state of the segment. That a memory had the translation stands in the state qualifier, or the sub-state.
    """
    root = xml.parse(text)
    document = root.child("xliff") or root
    is_second = document.attributes.get("version", "").startswith("2")
    attribute = "trgLang" if is_second else "target-language"
    scopes = [document] if is_second else [*document.walk("file")] or [document]
    named = [named_languages(document.attributes, scope.attributes) for scope in scopes]
    if not any(fits(scope_languages, languages) for scope_languages in named):
        raise other_languages(named[0], languages)
    reader = _Reader(text, review)
    for scope, scope_languages in zip(scopes, named, strict=True):
        if not fits(scope_languages, languages):
            reader.skipped["in other languages"] += sum(1 for _ in _units(scope))
            continue
        is_unnamed = languages[1] and not scope_languages[1] and (is_second or scope.name == "file")
        reader.missing_language = _MissingLanguage(scope, attribute, languages[1]) if is_unnamed else None
        for unit in _units(scope):
            reader.read(unit)
    return reader.out.finished(reader.done, reader.notes(), unencodable=xml.UNENCODABLE)


def _units(scope: Element) -> Iterator[_Unit]:
    """The units that are to be translated; what holds a unit may say that it is not."""
    waiting = [(scope, "yes", "default")]
    while waiting:
        element, translate, space = waiting.pop()
        translate = "no" if _is_locked(element) else element.attributes.get("translate", translate)
        space = element.attributes.get("space", space)
        if element.name not in STATES:
            waiting += [(child, translate, space) for child in [*element.children][::-1]]
        elif translate != "no" and (source := element.child("source")):
            is_preserved = source.attributes.get("space", space) == "preserve"
            yield _Unit(element, element.child("seg-source") or source, element.child("target"), is_preserved)


def _is_locked(element: Element) -> bool:
    return element.attributes.get("locked", "").lower() in LOCKED


def _is_confirmed(element: Element) -> bool:
    return any(element.attributes.get(name) in values for name, values in CONFIRMED.items())


def _kept_sentences(unit: Element) -> set[str]:
    """The numbers of the sentences of Trados Studio that are locked, or that a person has confirmed."""
    definitions = unit.child("seg-defs")
    segments = definitions.walk("seg") if definitions else ()
    return {segment.attributes.get("id", "") for segment in segments if _is_locked(segment) or _is_confirmed(segment)}


def _sentences(element: Element | None) -> list[Element]:
    """The sentences that a text was divided into; none if it was not."""
    marks = element.walk("mrk") if element else ()
    return [mark for mark in marks if mark.attributes.get("mtype") == "seg"]


def _numbered_sentences(element: Element | None) -> dict[str, Element]:
    """The sentences that a text was divided into, by their numbers."""
    return {mark.attributes.get("mid", ""): mark for mark in _sentences(element)}


def _state(verdict: Verdict) -> dict[str, str]:
    """The attributes of a target of 1.2 that say what is known about it."""
    state = {"state": TRUSTED if verdict.is_trusted else STATES["trans-unit"]}
    return state | ({"state-qualifier": REMEMBERED} if verdict.is_remembered else {})


def _sub_state(verdict: Verdict) -> dict[str, str]:
    """The attributes of a segment of 2 that say what is known about its translation."""
    state = {"state": STATES["segment"]}
    if verdict.percent is not None:
        return state | {"subState": f"dragoman:confidence-{verdict.percent}"}
    return state | ({"subState": "dragoman:memory"} if verdict.is_remembered else {})


def _written(attributes: Mapping[str, str]) -> str:
    """Attributes as they stand in a tag, after a space each."""
    return "".join(f" {name}={xml.in_quotes(value)}" for name, value in attributes.items())


class _Reader:
    """Fills units, one after the other."""

    def __init__(self, text: str, review: Review):
        self.text, self.review, self.out, self.done = text, review, Rewriting(text), 0
        self.skipped = Counter[str]()
        """Number of units that are left as they are, by the reason."""
        self.missing_language: _MissingLanguage | None = None
        """The language that is named as soon as a unit is filled."""

    def notes(self) -> list[str]:
        """Notes about the units that are left as they are."""
        return [xml.skipped_note(count, reason) for reason, count in self.skipped.items() if count]

    def read(self, unit: _Unit) -> None:
        """Fill a unit, or the sentences in it that lack a translation."""
        if not has_words([unit.source.text_without(MARKUP)]):
            return
        sources, targets = _numbered_sentences(unit.source), _numbered_sentences(unit.target)
        if xml.has_forbidden(self.text[unit.source.start : unit.source.end]):
            self.skipped["with characters that XML forbids"] += 1
        elif sources and targets:
            self._fill_sentences(unit, sources, targets)
        elif not unit.is_missing(unit.source, unit.target):
            self.done += 1
        elif _kept_sentences(unit.element) & sources.keys():
            self.skipped["with sentences that are locked or confirmed, but have no place in the target"] += 1
        else:
            self._fill(unit)

    def _segments(self, element: Element, unit: _Unit) -> list[Segment] | None:
        """The segments of a source, or of a sentence in it; None for a message that is left, which is counted."""
        pieces = xml.pieces(element, self.text, MARKUP)
        segments = xml.segments(pieces, self.text, by_line=unit.is_preserved)
        self.skipped[xml.CUT_SENTENCE] += segments is None
        return segments

    def _fill(self, unit: _Unit) -> None:
        """Make the whole source the target."""
        source, target = unit.source, unit.target
        segments: list[Segment] = []
        is_whole = True
        for part in _sentences(source) or [source]:
            part_segments = self._segments(part, unit)
            is_whole = is_whole and part_segments is not None
            segments += part_segments or ()
        verdict = self.review(segments)
        if not segments or not is_whole or verdict.is_untranslated:
            return
        self._begin(unit, verdict)
        prefix = xml.prefix(source, self.text)
        if target:
            self._open(unit, target, verdict)
        else:
            self.out.keep(source.end)
            space = {"xml:space": source.attributes["space"]} if "space" in source.attributes else {}
            attributes = space | ({} if unit.is_segment else _state(verdict))
            self.out.write(f"{xml.indent(self.text, source.start)}<{prefix}target{_written(attributes)}>")
        self.out.copy(source.inside, source.close, segments)
        self.out.write(f"</{prefix}target>")
        if verdict.percent is not None and not unit.is_segment:
            indent = xml.indent(self.text, source.start)
            self.out.write(f'{indent}<{prefix}alt-trans match-quality="{verdict.percent}" origin="Dragoman">')
            self.out.write(f"<{prefix}target>")
            copies = [replace(segment, is_copy=True) for segment in segments]
            self.out.copy(source.inside, source.close, copies)
            self.out.write(f"</{prefix}target></{prefix}alt-trans>")
        self.out.skip(target.end if target else source.end)

    def _fill_sentences(self, unit: _Unit, sources: dict[str, Element], targets: dict[str, Element]) -> None:
        """Fill the sentences of a target that lack a translation, and put those without a place at its end."""
        kept = _kept_sentences(unit.element)
        sources = {mid: source for mid, source in sources.items() if has_words([source.text_without(MARKUP)])}
        missing = [
            mid for mid, source in sources.items() if mid not in kept and unit.is_missing(source, targets.get(mid))
        ]
        self.done += len(sources) - len(missing)
        segments: dict[str, list[Segment]] = {}
        for mid in missing:
            sentence_segments = self._segments(sources[mid], unit)
            if sentence_segments is not None and not self.review(sentence_segments).is_untranslated:
                segments[mid] = sentence_segments
        if not segments:
            return
        verdict = self.review([segment for of_sentence in segments.values() for segment in of_sentence])
        if len(segments) < len(missing):  # a person has to fill the others
            verdict = replace(verdict, is_trusted=False)
        if len(segments) < len(sources):  # the attributes of the target are about all of its sentences
            verdict = replace(verdict, is_remembered=False)
        self._begin(unit, verdict)
        self._open(unit, unit.target, verdict)
        for mid, target in targets.items():
            if mid in segments:
                self.out.keep(target.start)
                self.out.copy(sources[mid].start, sources[mid].end, segments[mid])
                self.out.skip(target.end)
        self.out.keep(unit.target.close)
        for mid, sentence_segments in segments.items():
            if mid not in targets:
                self.out.copy(sources[mid].start, sources[mid].end, sentence_segments)

    def _begin(self, unit: _Unit, verdict: Verdict) -> None:
        """Keep all up to the unit, with the language of the file and the state of a segment of XLIFF 2."""
        if missing := self.missing_language:
            self._write_tag(missing.element, {missing.attribute: missing.value})
            self.missing_language = None
        if unit.is_segment:
            self._write_tag(unit.element, _sub_state(verdict))

    def _open(self, unit: _Unit, target: Element, verdict: Verdict) -> None:
        """Write the opening tag of a target that exists."""
        self._write_tag(target, {} if unit.is_segment else _state(verdict))

    def _write_tag(self, element: Element, attributes: Mapping[str, str]) -> None:
        """Write the opening tag of an element with these attributes in place of its own ones of the same names, and of
        what else said something about its state. An empty tag becomes an opening one."""
        self.out.keep(element.start)
        tag = self.text[element.start : element.inside].removesuffix(">").removesuffix("/").rstrip()
        if attributes:
            outdated = "|".join([*attributes, *OF_STATES])
            tag = re.sub(rf"""\s(?:{outdated})\s*=\s*("[^"]*"|'[^']*')""", "", tag)
        self.out.write(f"{tag}{_written(attributes)}>")
        self.out.skip(element.inside)
