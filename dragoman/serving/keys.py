"""The API keys that a server asks for, which may be in a file that changes while it runs."""

import hmac
import logging
import os
import stat
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from dragoman.errors import DragomanError

LOG = logging.getLogger("dragoman.serving")
LOOKING = 1.0
"""Seconds after which the server looks again whether the file of keys has changed."""


class ApiKeys:
    """Keys, one of which each request needs. Without any, no request needs one."""

    def __init__(self, keys: Sequence[str] = ()):
        self._keys = [key.encode() for key in keys]

    def __bool__(self) -> bool:
        return bool(self._keys)

    def __contains__(self, key: str) -> bool:
        given = key.encode(errors="surrogatepass")
        return any([hmac.compare_digest(given, known) for known in self._keys])  # all, in constant time


class KeysInFile(ApiKeys):
    """The keys in a file, which is read again when it has changed.

    A file that then cannot be read, or has no keys, changes nothing, and is logged.
    """

    def __init__(self, path: Path, read: Callable[[Path], list[str]]):
        """`read` returns the keys in the file. Raises what it raises."""
        self._path, self._read = path, read
        self._state = self._current_state()
        self._looked = time.monotonic()
        self._error = ""
        """What went wrong when the file was read last."""
        super().__init__(read(path))

    def __contains__(self, key: str) -> bool:
        if time.monotonic() - self._looked >= LOOKING:
            self._looked = time.monotonic()
            state = self._current_state()
            if state != self._state and self._renew():
                self._state = state
        return super().__contains__(key)

    def _renew(self) -> bool:
        """Read the keys again; False if that fails, which is logged once."""
        try:
            super().__init__(self._read(self._path))
        except (DragomanError, OSError) as error:
            if str(error) != self._error:
                self._error = str(error)
                LOG.error("The keys stay as they were: %s", error)
            return False
        self._error = ""
        return True

    def _current_state(self) -> tuple[int, ...] | None:
        """What differs when the file is written or replaced; always None for a pipe, which can be read only once."""
        try:
            status = os.stat(self._path)
        except OSError:
            return None
        if not stat.S_ISREG(status.st_mode):
            return None
        return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
