"""Files for the tests of this folder, packed as their names say, and what reading them refuses."""

import gzip
import lzma
import sys
from importlib import import_module
from pathlib import Path

import pytest

from dragoman.data.bitext import Bitext
from dragoman.errors import DataError

zstd = import_module("compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd")
PACK = {".gz": gzip.compress, ".xz": lzma.compress, ".zst": zstd.compress}


def write(path: Path, content: str | bytes) -> Path:
    """A file with this content, packed if its name ends so."""
    data = content.encode() if isinstance(content, str) else content
    path.write_bytes(PACK.get(path.suffix, bytes)(data))
    return path


def refusal(*paths: Path | str, languages: tuple[str, str] | None = None) -> str:
    """The one line that refuses files when they are read to the end."""
    with pytest.raises(DataError) as caught:
        list(Bitext.open(*paths, languages=languages))
    message = str(caught.value)
    assert "\n" not in message
    return message


def languages(bitext: Bitext) -> tuple[str | None, str | None]:
    return bitext.source_language, bitext.target_language
