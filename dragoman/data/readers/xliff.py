"""Files of translators: XLIFF 1.2 and 2.0, a pair for each unit or segment that is translated."""

from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path

from dragoman.data.language_codes import choose_languages, same_language
from dragoman.data.readers.tmx import LANGUAGE_UNITS
from dragoman.data.readers.types import Languages, Numbered, PairReader, ReaderOptions, Skipped
from dragoman.data.readers.xml import Layout, Unit, parse

UNITS = {"trans-unit", "segment"}  # of 1.2 and of 2.0
# Only children of a unit: matches and alternatives that a translation memory proposed have sources and targets too.
LAYOUT = Layout(UNITS, segments={"source": UNITS, "target": UNITS}, context={"xliff", "file"})
UNTRANSLATED = {"initial", "new", "needs-translation", "needs-adaptation", "needs-l10n"}


def open_xliff(path: Path, options: ReaderOptions) -> PairReader:
    """A reader of an XLIFF file, which swaps its sides if its languages are those of the options in the other order."""
    wanted, units = options.languages, parse(path, LAYOUT)
    first = next(units, None)
    languages: Languages = _languages(first) if first else (None, None)
    if None not in languages:
        others = (code for unit in (units if wanted else islice(units, LANGUAGE_UNITS)) for code in _languages(unit))
        languages = choose_languages(chain(languages, filter(None, others)), wanted, str(path))
    return PairReader(lambda: _read(path, wanted or languages), wanted or languages)


def _read(path: Path, languages: Languages) -> Iterator[Numbered]:
    untranslated, other = Skipped("not translated yet"), Skipped("in other languages")
    for unit in parse(path, LAYOUT):
        source, target, state = "", "", unit.attributes.get("state")
        for segment in unit.segments:
            if segment.name == "source":
                source = segment.text
            else:
                target, state = segment.text, segment.attributes.get("state", state)
        if not target or state in UNTRANSLATED:
            yield unit.line, untranslated
        elif _agree(_languages(unit), languages):
            yield unit.line, (source, target)
        elif _agree(_languages(unit), languages[::-1]):
            yield unit.line, (target, source)
        else:
            yield unit.line, other


def _languages(unit: Unit) -> Languages:
    """Source and target language, of the file (1.2) or the whole document (2.0)."""
    file = unit.context.get("file", {})
    if "source-language" in file:
        return file.get("source-language"), file.get("target-language")
    document = unit.context.get("xliff", {})
    return document.get("srcLang"), document.get("trgLang")


def _agree(ours: Languages, theirs: Languages) -> bool:
    return all(a is None or b is None or same_language(a, b) for a, b in zip(ours, theirs, strict=True))
