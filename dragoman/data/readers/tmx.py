"""Reads translation memories, TMX 1.1 to 1.4: a pair for each unit that has both languages."""

from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

from dragoman.data.readers.types import Numbered, PairReader, ReaderOptions, Skipped
from dragoman.data.readers.xml_units import DAMAGED, Layout, Unit, parse
from dragoman.formats.xml import FORBIDDEN
from dragoman.text.language_codes import choose_languages, same_language

LAYOUT = Layout(units={"tu"}, segments={"seg": {"tuv"}}, context={"header"})
LANGUAGE_UNITS = 1_000
"""Units at the beginning of a file that are read to find its languages."""


def open_tmx(path: Path, options: ReaderOptions) -> PairReader:
    """A reader of a TMX file. Without languages in the options, its first units must have exactly two.

    The source is then the language that the header calls so, or else the first one.
    """
    wanted = options.languages
    if wanted:
        choose_languages(_codes(_units(path, options)), wanted, str(path))  # refuses a file without them
        languages = wanted
    else:
        units = list(islice(_units(path, options), LANGUAGE_UNITS))
        header = units[0].context.get("header", {}) if units else {}
        source = header.get("srclang", "*all*")
        codes = sorted(_codes(units), key=lambda code: not same_language(code, source))
        languages = choose_languages(codes, None, str(path))
    return PairReader(lambda: _read(_units(path, options), languages), languages)


def _codes(units: Iterable[Unit]) -> Iterator[str]:
    """The language codes of all variants."""
    for unit in units:
        for code, _ in _variants(unit):
            yield code


def _units(path: Path, options: ReaderOptions) -> Iterator[Unit]:
    return parse(path, LAYOUT, replace_bad_bytes=options.replace_bad_bytes)


def _read(units: Iterator[Unit], languages: tuple[str, str]) -> Iterator[Numbered]:
    """A pair for each unit: its first variant in either language."""
    no_source, no_target = (Skipped(f"unit has no text in {language}") for language in languages)
    for unit in units:
        variants = _variants(unit)
        source, target = (_text_in(language, variants) for language in languages)
        if source is None:
            yield unit.line, no_source
        elif target is None:
            yield unit.line, no_target
        elif FORBIDDEN in source or FORBIDDEN in target:
            yield unit.line, DAMAGED
        else:
            yield unit.line, (source, target)


def _text_in(language: str, variants: list[tuple[str, str]]) -> str | None:
    """The text of the first variant in a language."""
    for code, text in variants:
        if same_language(code, language):
            return text
    return None


def _variants(unit: Unit) -> list[tuple[str, str]]:
    """Language code and text of each variant of a unit."""
    # Older versions have `lang`.
    return [(seg.parent.get("xml:lang") or seg.parent.get("lang", ""), seg.text) for seg in unit.segments]
