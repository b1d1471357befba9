"""Translation memories: TMX 1.1 to 1.4, a pair for each unit that has both languages."""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from xml.sax.xmlreader import AttributesImpl

from dragoman.data.readers.language_codes import choose_languages, same_language
from dragoman.data.readers.types import Numbered, PairReader, ReaderOptions, Skipped
from dragoman.data.readers.xml import Segments, parse

Variants = list[tuple[str, str]]
"""Language and text of each variant of a unit."""
LOOKED_AT = 1_000
"""Units that tell which languages a file has."""


def open_tmx(path: Path, options: ReaderOptions) -> PairReader:
    """How to read a TMX file; if no languages are options for, its first units must have two languages.

    The source is then what the header calls so.
    """
    header, wanted = _Units(), options.languages
    units = parse(path, header)
    codes = (code for _, variants in (units if wanted else islice(units, LOOKED_AT)) for code, _ in variants)
    if wanted is None:
        codes = sorted(codes, key=lambda code: not same_language(code, header.source_language))
    found = choose_languages(codes, wanted, str(path))
    languages = wanted or found
    return PairReader(lambda: _read(path, languages), languages)


def _read(path: Path, languages: tuple[str, str]) -> Iterator[Numbered]:
    missing = [Skipped(f"unit has no text in {language}") for language in languages]
    for line, variants in parse(path, _Units()):
        source, target = (_text(variants, language) for language in languages)
        if source is None or target is None:
            yield line, missing[source is not None]
        else:
            yield line, (source, target)


def _text(variants: Variants, language: str) -> str | None:
    return next((text for code, text in variants if same_language(code, language)), None)


class _Units(Segments):
    """Finishes the line and the variants of each unit."""

    def __init__(self):
        super().__init__()
        self.source_language = ""
        self._line = 0
        self._language = ""
        self._variants: Variants = []

    def is_segment(self, name: str, attributes: AttributesImpl) -> bool:
        return name == "seg"

    def opened(self, name: str, attributes: AttributesImpl) -> None:
        if name == "header":
            self.source_language = attributes.get("srclang", "")
        elif name == "tu":
            self._line, self._variants = self.line, []
        elif name == "tuv":
            # `lang` is the older way.
            self._language = attributes.get("xml:lang") or attributes.get("lang", "")

    def segment(self, name: str, text: str) -> None:
        self._variants.append((self._language, text))

    def closed(self, name: str) -> None:
        if name == "tu":
            self.finished.append((self._line, self._variants))
