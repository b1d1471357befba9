"""Files that hold no lines of text, known by their first bytes, and what to do with them."""

import re
from pathlib import Path

from dragoman.data.readers.text_io import read_head
from dragoman.errors import DataError

WEB_PAGE = rb"(?i)\s*<(!doctype )?html"
OTHER_FILES = {
    rb"PK\x03\x04.*(\[Content_Types\]|docProps/|mimetypeapplication)|\xd0\xcf\x11\xe0|\{\\rtf":
        "a document of an office program; save its table there as .csv, or as tab-separated text in UTF-8",
    rb"PK\x03\x04|7z\xbc\xaf|Rar!\x1a|.{257}ustar": "an archive; unpack it and give the file inside",
    rb"BZh\d1AY": "packed by bzip2; unpack it with `bunzip2`",
    rb"%PDF-": "a PDF; copy its text into a text file, a sentence or pair on each line",
    rb"PAR1": "a Parquet file; give its folder as hf:./FOLDER",
    WEB_PAGE: "a web page; download the file itself instead of the page that shows it",
    rb"version https://git-lfs": "a pointer of Git LFS; fetch the file itself with `git lfs pull`",
}  # fmt: skip
"""Patterns of first bytes: what such a file is, and what to do."""


def refuse_other_files(path: Path, *, but: bytes | None = None) -> None:
    """Raise `DataError` for a file that is no text; `but` is a pattern that is not looked for."""
    head = read_head(path)
    for pattern, what in OTHER_FILES.items():
        if pattern != but and re.match(pattern, head, re.DOTALL):
            raise DataError(f"{path} is {what}.")
