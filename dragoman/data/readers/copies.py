"""Copies of files that cannot be read where they are: at URLs, in archives, in other encodings than UTF-8.

A copy is read like all other files: any number of times, from any position.
"""

import atexit
import os
import shutil
from collections.abc import Callable, Hashable
from functools import partial
from pathlib import Path
from tempfile import mkdtemp


class LocalCopy(type(Path())):  # type: ignore[misc]
    """A copy in a folder for temporary files, which messages call as the user does."""

    shown = ""

    def __str__(self) -> str:
        return self.shown or super().__str__()

    def __fspath__(self) -> str:
        return super().__str__()


_copies: dict[str, tuple[Hashable, LocalCopy]] = {}
"""Versions and copies of files that this process has copied."""


def local_copy(shown: str, name: str, version: Hashable, write: Callable[[Path], None]) -> LocalCopy:
    """A copy of the file that the user calls `shown`, under the name `name`; made once for each of its versions.

    `write` writes it to a path. Its folder is deleted when this process ends.
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
    """What tells the versions of a file on this machine apart: its size and the time of its last change."""
    state = os.stat(path)
    return state.st_size, state.st_mtime_ns
