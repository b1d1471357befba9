"""Reads files of translators, XLIFF 1.2 and 2.0: a pair for each unit or segment that is translated."""

from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path

from dragoman.data.readers.tmx import LANGUAGE_UNITS
from dragoman.data.readers.types import Numbered, PairReader, ReaderOptions, Skipped
from dragoman.data.readers.xml_units import DAMAGED, Layout, Unit, parse
from dragoman.formats.xliff import named_languages, progress
from dragoman.formats.xml import FORBIDDEN
from dragoman.text.language_codes import Languages, choose_languages, same_language

UNITS = {"trans-unit", "segment"}  # of 1.2 and of 2.0
# Only children of a unit: matches and alternatives that a translation memory proposed have sources and targets too.
LAYOUT = Layout(UNITS, segments={"source": UNITS, "target": UNITS}, context={"xliff", "file"})


def open_xliff(path: Path, options: ReaderOptions) -> PairReader:
    """A reader of an XLIFF file, which swaps its sides if its languages are those of the options in the other order."""

    def units() -> Iterator[Unit]:
        return parse(path, LAYOUT, replace_bad_bytes=options.replace_bad_bytes)

    wanted = options.languages
    parsed = units()
    first = next(parsed, None)
    languages: Languages = _languages(first) if first else (None, None)
    if None not in languages:
        others = parsed if wanted else islice(parsed, LANGUAGE_UNITS)
        other_codes = (code for unit in others for code in _languages(unit) if code)
        languages = choose_languages(chain(languages, other_codes), wanted, str(path))
    return PairReader(lambda: _read(units(), wanted or languages), wanted or languages)


def _read(units: Iterator[Unit], languages: Languages) -> Iterator[Numbered]:
    untranslated, in_other_languages = Skipped("not translated yet"), Skipped("in other languages")
    for unit in units:
        source, target, state = "", "", unit.attributes.get("state")
        for segment in unit.segments:
            if segment.name == "source":
                source = segment.text
            else:
                target, state = segment.text, segment.attributes.get("state", state)
        if not target or progress(source, target, state, unit.attributes.get("approved")) != "done":
            yield unit.line, untranslated
        elif FORBIDDEN in source + target:
            yield unit.line, DAMAGED
        elif agree(_languages(unit), languages):
            yield unit.line, (source, target)
        elif agree(_languages(unit), languages[::-1]):
            yield unit.line, (target, source)
        else:
            yield unit.line, in_other_languages


def _languages(unit: Unit) -> Languages:
    return named_languages(unit.context.get("xliff", {}), unit.context.get("file", {}))


def agree(ours: Languages, theirs: Languages) -> bool:
    """Whether two pairs of languages may be the same; an unknown language agrees with any."""
    return all(a is None or b is None or same_language(a, b) for a, b in zip(ours, theirs, strict=True))
