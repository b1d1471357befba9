"""Refuses files that hold no lines of text, by their first bytes, and says what to do with them."""

import difflib
import os
import re
from contextlib import suppress
from pathlib import Path

from dragoman.errors import DataError
from dragoman.formats.text_files import read_head

OFFICE = rb"PK\x03\x04.*(\[Content_Types\]|docProps/|mimetypeapplication)|\xd0\xcf\x11\xe0|\{\\rtf"
WEB_PAGE = rb"(?i)\s*<(!doctype )?html"
OTHER_FILES = {
    OFFICE: "a document of an office program; save its table there as .csv, or as tab-separated text in UTF-8",
    rb"PK\x03\x04|7z\xbc\xaf|Rar!\x1a|.{257}ustar":
        "an archive that is not opened here; unpack it and give the file inside",
    rb"%PDF-": "a PDF; copy its text into a text file, a sentence or pair on each line",
    rb"PAR1": "a Parquet file; give its folder as hf:./FOLDER",
    WEB_PAGE: "a web page; download the file itself instead of the page that shows it",
    rb"version https://git-lfs": "a pointer of Git LFS; fetch the file itself with `git lfs pull`",
}  # fmt: skip
"""By a pattern of first bytes: what such a file is, and what to do with it."""


def check_is_file(path: Path) -> None:
    """Raise `DataError` unless a path is a file that can be read twice. Suggests the name that is closest."""
    # os.path returns False where pathlib raises: too long a name, a folder that may not be entered.
    if os.path.isfile(path):
        return
    if os.path.isdir(path):
        raise DataError(f"{path} is a folder; name a file in it, such as {path / 'train.tsv'}.")
    if os.path.exists(path):
        raise DataError(f"{path} cannot be read twice, as training must; save it to a file first.")
    if os.path.islink(path):
        raise DataError(f"{path} is a link that leads nowhere; name the file itself.")
    near: list[str] = []
    with suppress(OSError):
        near = difflib.get_close_matches(path.name, os.listdir(path.parent), n=1)
    remedy = f"did you mean {path.parent / near[0]}?" if near else "check the path."
    raise DataError(f"There is no file {path}; {remedy}")


def is_office_document(path: Path) -> bool:
    """Whether a file is a document of an office program, by its first bytes."""
    return re.match(OFFICE, read_head(path), re.DOTALL) is not None


def refuse_other_files(path: Path, *, but: bytes | None = None) -> None:
    """Raise `DataError` for a file that is no text; `but` is a key of `OTHER_FILES` that is allowed."""
    head = read_head(path)
    for pattern, description in OTHER_FILES.items():
        if pattern != but and re.match(pattern, head, re.DOTALL):
            raise DataError(f"{path} is {description}.")
