"""Copies of files that cannot be read where they are: at URLs, in archives, in other encodings than UTF-8.

Unlike these, a copy can be read any number of times, from any position.
"""

import atexit
import os
import shutil
from collections.abc import Callable, Hashable
from functools import partial
from pathlib import Path
from tempfile import mkdtemp


class LocalCopy(type(Path())):  # type: ignore[misc]
    """Path of a copy in a folder for temporary files; as a text it is what the user calls the file."""

    shown = ""
    """The name that the user gave."""

    def __str__(self) -> str:
        return self.shown or super().__str__()

    def __fspath__(self) -> str:
        return super().__str__()


_copies: dict[str, tuple[Hashable, LocalCopy]] = {}
"""Version and copy of each file that this process has copied, by the name that the user gave."""


def local_copy(shown: str, name: str, version: Hashable, write: Callable[[Path], None]) -> LocalCopy:
    """A copy, with the file name `name`, of the file that the user calls `shown`; made once for each `version`.

    `write` writes the copy to a path. Its folder is deleted when this process ends.
    """
    known, copy = _copies.get(shown, (None, None))
    if copy is None or known != version:
        folder = mkdtemp(prefix="dragoman-")
        atexit.register(partial(shutil.rmtree, folder, ignore_errors=True))
        copy = LocalCopy(folder, name)
        copy.shown = shown
        try:
            write(Path(os.fspath(copy)))
        except OSError as error:
            if not error.filename:  # a full disk, which TMPDIR may change
                error.filename = folder
            raise
        _copies[shown] = version, copy
    return copy


def version_of(path: Path) -> tuple[int, int]:
    """Version of a file on this machine: its size, and the time of its last change in nanoseconds."""
    status = os.stat(path)
    return status.st_size, status.st_mtime_ns
