"""Files at URLs, downloaded once, so that they are read like all others: any number of times, from any position."""

import atexit
import os
import shutil
from functools import partial
from pathlib import Path
from tempfile import mkdtemp

from dragoman.errors import DataError, redacted
from dragoman.urls import file_system, name_of, reaching, stamp


class FetchedFile(type(Path())):  # type: ignore[misc]
    """A local copy of a file, which messages call by its URL."""

    url = ""

    def __str__(self) -> str:
        return redacted(self.url) or super().__str__()

    def __fspath__(self) -> str:
        return super().__str__()


_fetched: dict[str, tuple[tuple[int, str], FetchedFile]] = {}
"""Versions and copies of files that this process has downloaded."""


def fetch(url: str) -> FetchedFile:
    """The file at a URL, in a folder for temporary files, which is deleted when this process ends.

    Raises `DataError` if there is none, or if it changed while it was downloaded, and `ResourceError` if the network,
    a library or disk space is missing.
    """
    version = stamp(url)
    known, copy = _fetched.get(url, (None, None))
    if copy is None or known != version:
        folder = mkdtemp(prefix="dragoman-")
        atexit.register(partial(shutil.rmtree, folder, ignore_errors=True))
        copy = FetchedFile(folder, name_of(url) or "data")
        copy.url = url
        files, path = file_system(url)
        try:
            with reaching(url):
                files.get_file(path, os.fspath(copy))
        except OSError as error:  # a full disk, which TMPDIR may change
            error.filename = folder
            raise
        if stamp(url) != version or version[0] not in (0, os.path.getsize(copy)):
            raise DataError(f"{copy} changed while it was read; type the command again when the file is complete.")
        _fetched[url] = version, copy
    return copy
