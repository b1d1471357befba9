"""Files that `translate` reads besides models: lines, documents and terms."""

import csv
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dragoman.bulk.tally import Tally
from dragoman.errors import DataError, UsageError, command_line
from dragoman.formats.other_files import WEB_PAGE, is_office_document, refuse_other_files
from dragoman.formats.text_files import open_input, read_lines, unpacked_name

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


def check_format(path: Path) -> None:
    """Raise `UsageError` for a file whose name is that of no document."""
    from dragoman.documents.registry import format_of

    try:
        format_of(str(path))
    except DataError as error:
        raise UsageError(str(error)) from None


def check_document(path: Path, output: Path | None, others: Iterable[object]) -> None:
    """Raise for a document of an unknown format, without a file for its translation, or beside other text."""
    from dragoman.documents.registry import may_be_called

    if any(others):
        raise UsageError("--document is translated alone; leave out other sentences and --input.")
    check_format(path)
    if output is None:
        raise UsageError(f"Say where the translation of {path} goes, such as --output translated{path.suffix}.")
    if not may_be_called(str(path), str(output)):
        raise UsageError(
            f"The translation of {path} has the format of {path}, so {output} would be called what it is not; "
            f"write --output {_other_name(output.with_suffix(path.suffix), path)}."
        )
    open_input(path).close()


def _other_name(output: Path, document: Path) -> Path:
    """The output, or another name in its folder if that is the document itself."""
    is_same = os.path.realpath(output) == os.path.realpath(document)
    return output.with_stem(f"{output.stem}.translated") if is_same else output


def document_command(model: Path, path: str | Path) -> str | None:
    """The command that translates a file as a document; None for a file that is no document, or just lines of text."""
    from dragoman.documents.registry import format_of

    try:
        ending = format_of(str(path))
    except DataError:
        return None
    if ending == ".txt":
        return None
    return command_line("translate", model, "--document", path, "--output", f"translated{Path(path).suffix}")


def refuse_office_document(model: Path, path: Path | None) -> None:
    """Raise for a document of an office program among files of lines, with the command that translates it."""
    if path is None or not os.path.isfile(path) or not is_office_document(path):
        return
    if command := document_command(model, path):
        raise UsageError(f"{path} has no lines of text; translate it as a document:  {command}")


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


def read_search_terms(glossary: Path | None, forbidden: Path | None) -> dict[str, Any]:
    """The fields of `DecodingConfig` that the files of a glossary and of forbidden terms set."""
    terms: dict[str, Any] = {}
    if glossary:
        terms["glossary"] = read_glossary(glossary)
    if forbidden:
        terms["forbid"] = read_terms(forbidden)
    return terms


def read_glossary(path: Path) -> dict[str, str]:
    """A file of lines `source term, tab, target term`; in a file .csv with a comma. Raises `DataError` with the line
    number."""
    separator, name = (",", "a comma") if unpacked_name(path).lower().endswith(".csv") else ("\t", "a tab")
    terms: dict[str, str] = {}
    for number, line in _filled_lines(path):
        parts = [part.strip() for part in (_cells(line) if separator == "," else line.split(separator))]
        if len(parts) != 2 or not all(parts):
            raise DataError(f"{path}, line {number} is not a source term, {name} and a target term: {line[:60]!r}.")
        source, target = parts
        if terms.setdefault(source, target) != target:
            raise DataError(f"{path}, line {number} gives '{source}' a second translation; keep one of them.")
    return terms


def _cells(line: str) -> list[str]:
    """The cells of a line of CSV; none for a line that is none by itself."""
    try:
        return next(csv.reader([line], strict=True))
    except csv.Error:
        return []


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
