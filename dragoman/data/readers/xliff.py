"""Files of translators: XLIFF 1.2 and 2.0, a pair for each unit or segment that is translated."""

from collections.abc import Iterator, Mapping
from itertools import chain, islice
from pathlib import Path
from typing import Literal

from dragoman.data.language_codes import choose_languages, same_language
from dragoman.data.readers.tmx import LANGUAGE_UNITS
from dragoman.data.readers.types import Languages, Numbered, PairReader, ReaderOptions, Skipped
from dragoman.data.readers.xml import DAMAGED, FORBIDDEN, Layout, Unit, parse

UNITS = {"trans-unit", "segment"}  # of 1.2 and of 2.0
# Only children of a unit: matches and alternatives that a translation memory proposed have sources and targets too.
LAYOUT = Layout(UNITS, segments={"source": UNITS, "target": UNITS}, context={"xliff", "file"})
UNFINISHED = {"initial", "new", "needs-translation", "needs-l10n"}
"""States of a text that is not translated yet, in 2.0 and in 1.2. The others of 1.2 that begin with "needs" are those
of a translation that needs a review, or something else than words."""
FINISHED = {"reviewed", "signed-off", "final"}
"""States that a person has given to a translation; it may be empty on purpose."""
Progress = Literal["missing", "draft", "done"]


def progress(source: str, target: str, state: str | None, approved: str | None = None) -> Progress:
    """How far the translation of a text is, by what the file says and by the texts without their codes.

    Where the file says nothing, as most do, a target is done if it differs from the source. Exports put a copy of the
    source where a translation is missing, and that of Symfony puts __ before it. A target that differs although its
    state is unfinished is a draft: somebody wrote it, but nobody calls it a translation.
    """
    source, target = " ".join(source.split()), " ".join(target.split())
    if approved == "yes" or state in FINISHED:
        return "done"
    if not target:
        return "missing"
    if state is None or state in UNFINISHED:
        if target in (source, f"__{source}"):
            return "missing"
        return "draft" if state else "done"
    return "done"


def open_xliff(path: Path, options: ReaderOptions) -> PairReader:
    """A reader of an XLIFF file, which swaps its sides if its languages are those of the options in the other order."""

    def parsed() -> Iterator[Unit]:
        return parse(path, LAYOUT, replace_bad_bytes=options.replace_bad_bytes)

    wanted, units = options.languages, parsed()
    first = next(units, None)
    languages: Languages = _languages(first) if first else (None, None)
    if None not in languages:
        others = (code for unit in (units if wanted else islice(units, LANGUAGE_UNITS)) for code in _languages(unit))
        languages = choose_languages(chain(languages, filter(None, others)), wanted, str(path))
    return PairReader(lambda: _read(parsed(), wanted or languages), wanted or languages)


def _read(units: Iterator[Unit], languages: Languages) -> Iterator[Numbered]:
    untranslated, other = Skipped("not translated yet"), Skipped("in other languages")
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
            yield unit.line, other


def _languages(unit: Unit) -> Languages:
    return named_languages(unit.context.get("xliff", {}), unit.context.get("file", {}))


def named_languages(document: Mapping[str, str], file: Mapping[str, str]) -> Languages:
    """Source and target language by the attributes of a file in it (1.2), or of the whole document (2.0)."""
    if "source-language" in file or "target-language" in file:
        languages = file.get("source-language"), file.get("target-language")
    else:
        languages = document.get("srcLang"), document.get("trgLang")
    source, target = (code if code and code != "und" else None for code in languages)
    return source, target


def agree(ours: Languages, theirs: Languages) -> bool:
    """Whether two pairs of languages may be the same; one that is unknown may be any."""
    return all(a is None or b is None or same_language(a, b) for a, b in zip(ours, theirs, strict=True))
