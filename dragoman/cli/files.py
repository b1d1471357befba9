"""Files that `translate` reads besides models: lines, documents and terms."""

import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from dragoman.bulk.tally import Tally
from dragoman.errors import DataError, UsageError
from dragoman.formats.other_files import WEB_PAGE, refuse_other_files
from dragoman.formats.text_files import open_input, read_lines

if TYPE_CHECKING:
    from dragoman.config.decoding import DecodingConfig

FIRST_LINES = 20
"""Lines of an input that are looked at to notice a document."""
DOCUMENTS = {
    "subtitles": r"\s*(WEBVTT\b|\d+:\d\d:\d\d[.,]\d+ -->)",
    "a web page": r"\s*<(!doctype|html|head|body|div|p|h\d|table|ul)\b",
    "XML, such as XLIFF": r"\s*<(\?xml|xliff|tmx|TS)\b",
}
"""Kinds of documents, each with a pattern for the beginning of a line that plain text does not have."""


def check_document(path: Path, output: Path | None, others: Iterable[object]) -> None:
    """Raise for a document of an unknown format, without a file for its translation, or beside other text."""
    from dragoman.documents.registry import format_of, may_be_called

    if any(others):
        raise UsageError("--document is translated alone; leave out other sentences and --input.")
    try:
        format_of(str(path))
    except DataError as error:
        raise UsageError(str(error)) from None
    if output is None:
        raise UsageError(f"Say where the translation of {path} goes, such as --output translated{path.suffix}.")
    if not may_be_called(str(path), str(output)):
        raise UsageError(
            f"The translation of {path} has the format of {path}, so {output} would be called what it is not; "
            f"write --output {output.with_suffix(path.suffix)}."
        )
    open_input(path).close()


def check_input(texts: list[str] | None, path: Path | None) -> None:
    """Raise for texts beside a file, for a file whose first line cannot be read, or else for a stdin that is closed."""
    if texts and path:
        raise UsageError("Give sentences on the command line or in --input, not both.")
    if texts:
        return
    if path is not None:
        # os.path answers False where pathlib raises, such as for a name that is too long.
        if os.path.exists(path) and not (os.path.isfile(path) or os.path.isdir(path)):
            return  # a pipe can be read only once
        refuse_other_files(path, but=WEB_PAGE)  # `notice_documents` warns of a web page
        with open_input(path) as stream:
            next(read_lines(stream, str(path)), None)
    elif sys.stdin is None:
        raise UsageError("There is nothing to read, since stdin is closed; give sentences, or a file with --input.")


def notice_documents(lines: Iterable[str | None], name: str, warn: Callable[[str], None]) -> Iterator[str | None]:
    """The same lines. Warns if one of the first ones looks like a document, whose markup would be translated too."""
    number = 0
    for line in lines:
        number += line is not None
        if line and 0 < number <= FIRST_LINES:
            for kind, pattern in DOCUMENTS.items():
                if re.match(pattern, line, re.IGNORECASE):
                    number = FIRST_LINES  # one warning is enough
                    warn(f"{name} looks like {kind}; its text alone is translated with --document FILE --output FILE")
        yield line


def read_glossary(path: Path) -> dict[str, str]:
    """A file of lines `source term, tab, target term`. Raises `DataError` with the line number."""
    terms: dict[str, str] = {}
    for number, line in _filled_lines(path):
        parts = [part.strip() for part in line.split("\t")]
        if len(parts) != 2 or not all(parts):
            raise DataError(f"{path}, line {number} is not a source term, a tab and a target term: {line[:60]!r}.")
        source, target = parts
        if terms.setdefault(source, target) != target:
            raise DataError(f"{path}, line {number} gives '{source}' a second translation; keep one of them.")
    return terms


def read_terms(path: Path) -> list[str]:
    """A file with one term on each line."""
    return [line.strip() for _, line in _filled_lines(path)]


def _filled_lines(path: Path) -> Iterator[tuple[int, str]]:
    """The lines of a file that are not blank, with their numbers from 1."""
    with open_input(path) as stream:
        for number, line in enumerate(read_lines(stream, str(path)), start=1):
            if line.strip():
                yield number, line


def untranslated(left: Tally, total: int, config: "DecodingConfig", unit: str) -> str:
    """A sentence about the texts that stay as they are because of --only-above: each place with its confidence."""
    return (
        f"{left.count:,} of {total:,} {unit} stay as they are, their confidence is not above {config.only_above:g}: "
        f"{left.listed(separator=', ')}"
    )
