"""Files of translators: XLIFF 1.2 and 2.0, a pair for each unit or segment that is translated."""

from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path
from typing import NamedTuple
from xml.sax.xmlreader import AttributesImpl

from dragoman.data.readers.language_codes import choose_languages, same_language
from dragoman.data.readers.tmx import LOOKED_AT
from dragoman.data.readers.types import Languages, Numbered, PairReader, ReaderOptions, Skipped
from dragoman.data.readers.xml import Segments, parse

UNITS = {"trans-unit", "segment"}  # of 1.2 and of 2.0
UNTRANSLATED = {"initial", "new", "needs-translation", "needs-adaptation", "needs-l10n"}


class _Unit(NamedTuple):
    line: int
    languages: Languages
    source: str
    target: str | None
    """None: not translated yet."""


def open_xliff(path: Path, options: ReaderOptions) -> PairReader:
    """How to read an XLIFF file; its sides are swapped if its languages are options for in the other order."""
    units, wanted = parse(path, _Units()), options.languages
    first = next(units, None)
    found: Languages = first.languages if first else (None, None)
    if None not in found:
        others = (code for unit in (units if wanted else islice(units, LOOKED_AT)) for code in unit.languages if code)
        found = choose_languages(chain(found, others), wanted, str(path))
    languages = wanted or found
    return PairReader(lambda: _read(path, languages), languages)


def _read(path: Path, languages: Languages) -> Iterator[Numbered]:
    untranslated, other = Skipped("not translated yet"), Skipped("in other languages")
    for unit in parse(path, _Units()):
        if unit.target is None:
            yield unit.line, untranslated
        elif _agree(unit.languages, languages):
            yield unit.line, (unit.source, unit.target)
        elif _agree(unit.languages, languages[::-1]):
            yield unit.line, (unit.target, unit.source)
        else:
            yield unit.line, other


def _agree(ours: Languages, theirs: Languages) -> bool:
    return all(a is None or b is None or same_language(a, b) for a, b in zip(ours, theirs, strict=True))


class _Units(Segments):
    """Finishes a `_Unit` for each unit of 1.2 and each segment of 2.0."""

    def __init__(self):
        super().__init__()
        self._languages: Languages = (None, None)
        self._source, self._target, self._state, self._line = "", "", "", 0

    def is_segment(self, name: str, attributes: AttributesImpl) -> bool:
        # Not those of matches and alternatives that a translation memory proposed.
        wanted = name in ("source", "target") and self.path[-1:] and self.path[-1] in UNITS
        if wanted and name == "target":
            self._state = attributes.get("state", self._state)
        return bool(wanted)

    def opened(self, name: str, attributes: AttributesImpl) -> None:
        if name == "xliff":
            self._languages = attributes.get("srcLang"), attributes.get("trgLang")
        elif name == "file" and "source-language" in attributes:
            self._languages = attributes.get("source-language"), attributes.get("target-language")
        elif name in UNITS:
            self._source = self._target = ""
            self._state, self._line = attributes.get("state", ""), self.line

    def segment(self, name: str, text: str) -> None:
        if name == "source":
            self._source = text
        else:
            self._target = text

    def closed(self, name: str) -> None:
        if name in UNITS:
            done = self._target and self._state not in UNTRANSLATED
            self.finished.append(_Unit(self._line, self._languages, self._source, self._target if done else None))
