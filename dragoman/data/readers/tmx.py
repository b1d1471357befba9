"""Translation memories: TMX 1.1 to 1.4, a pair for each unit that has both languages."""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from dragoman.data.readers.types import Numbered, PairReader, ReaderOptions, Skipped
from dragoman.data.readers.xml_units import DAMAGED, Layout, Unit, parse
from dragoman.formats.xml import FORBIDDEN
from dragoman.text.language_codes import choose_languages, same_language

LAYOUT = Layout(units={"tu"}, segments={"seg": {"tuv"}}, context={"header"})
LANGUAGE_UNITS = 1_000
"""Units that tell which languages a file has."""


def open_tmx(path: Path, options: ReaderOptions) -> PairReader:
    """A reader of a TMX file. Without languages in the options, its first units must have exactly two.

    The source is then the language that the header calls so, or else the first one.
    """
    wanted = options.languages
    units = _units(path, options) if wanted else list(islice(_units(path, options), LANGUAGE_UNITS))
    codes = (code for unit in units for code, _ in _variants(unit))
    if wanted is None:
        header = units[0].context.get("header", {}) if units else {}
        codes = sorted(codes, key=lambda code: not same_language(code, header.get("srclang", "*all*")))
    languages = choose_languages(codes, wanted, str(path))
    return PairReader(lambda: _read(_units(path, options), wanted or languages), wanted or languages)


def _units(path: Path, options: ReaderOptions) -> Iterator[Unit]:
    return parse(path, LAYOUT, replace_bad_bytes=options.replace_bad_bytes)


def _read(units: Iterator[Unit], languages: tuple[str, str]) -> Iterator[Numbered]:
    missing = [Skipped(f"unit has no text in {language}") for language in languages]
    for unit in units:
        variants = _variants(unit)
        texts = [next((text for code, text in variants if same_language(code, own)), None) for own in languages]
        if None in texts:
            yield unit.line, missing[texts.index(None)]
        else:
            yield unit.line, DAMAGED if FORBIDDEN in "".join(texts) else tuple(texts)


def _variants(unit: Unit) -> list[tuple[str, str]]:
    """Language and text of each variant."""
    # `lang` is the older way.
    return [(seg.parent.get("xml:lang") or seg.parent.get("lang", ""), seg.text) for seg in unit.segments]
