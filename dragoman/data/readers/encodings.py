"""Converts texts in UTF-16 and UTF-32, which some programs call "Unicode text", to copies in UTF-8."""

import codecs
from pathlib import Path

from dragoman.data.readers.copies import local_copy, version_of
from dragoman.errors import DataError
from dragoman.formats.text_files import encoding_of, open_input, read_head, unpacked_name

PART = 2**20
"""Bytes that are converted at a time."""


def in_utf8(path: Path) -> Path:
    """The file itself, or a copy in UTF-8 if it is in UTF-16 or UTF-32.

    Raises `DataError` if it begins as such a file, but has bytes that are not valid in its encoding.
    """
    encoding = encoding_of(read_head(path))
    if encoding in (None, "utf-8"):
        return path

    def convert(copy: Path) -> None:
        decoder = codecs.getincrementaldecoder(encoding)()
        with open_input(path) as stream, open(copy, "w", encoding="utf-8", newline="") as file:
            try:
                while part := stream.read(PART):
                    file.write(decoder.decode(part))
                file.write(decoder.decode(b"", final=True))
            except UnicodeDecodeError as error:
                position = stream.tell() - len(error.object) + error.start
                raise DataError(
                    f"{path} is no valid {encoding.upper()} at byte {position:,}; save it as UTF-8."
                ) from None

    return local_copy(str(path), unpacked_name(path), version_of(path), convert)
