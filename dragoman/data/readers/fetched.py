"""Downloads files at URLs, each once."""

import os
from pathlib import Path

from dragoman.data.readers.copies import LocalCopy, local_copy
from dragoman.errors import DataError, redacted
from dragoman.system.urls import file_system, name_of, reaching, stamp


def fetch(url: str) -> LocalCopy:
    """A copy of the file at a URL.

    Raises `DataError` if there is none, or if it changed while it was downloaded, and `ResourceError` if the network,
    a library or disk space is missing.
    """
    version = stamp(url)

    def download(path: Path) -> None:
        files, remote = file_system(url)
        with reaching(url):
            files.get_file(remote, os.fspath(path))
        if stamp(url) != version or version[0] not in (0, os.path.getsize(path)):
            raise DataError(f"{redacted(url)} changed while it was read; type the command again when it is complete.")

    return local_copy(redacted(url), name_of(url) or "data", (url, version), download)
