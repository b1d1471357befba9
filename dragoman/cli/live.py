"""Lines from somebody who waits for answers: a keyboard, or a program at the other end of a pipe."""

import select
from collections.abc import Iterator
from io import BufferedIOBase

from dragoman.data.readers.text_io import MAX_LINE, read_lines

_AT_ONCE = 1 << 16  # bytes, what a pipe holds


def live_lines(stream: BufferedIOBase, name: str) -> Iterator[str | None]:
    """The lines of a stream, as `read_lines` gives them, and None before each that has to be waited for."""
    watched = _Watched(stream)
    lines = read_lines(watched, name)
    while True:
        if watched.would_wait():
            yield None
        line = next(lines, None)
        if line is None:
            return
        yield line


class _Watched(BufferedIOBase):
    """A stream that knows whether its next line is there."""

    def __init__(self, stream: BufferedIOBase):
        self._stream = stream
        self._rest, self._place, self._ended = b"", 0, False

    def readable(self) -> bool:
        return True

    def would_wait(self) -> bool:
        """Whether reading the next line would wait for the other end."""
        while not self._ended and self._rest.find(b"\n", self._place) < 0:
            if len(self._rest) - self._place >= MAX_LINE:
                return False  # and will be refused
            if not _ready(self._stream):
                return True
            self._fill()
        return False

    def peek(self, size: int = 0) -> bytes:
        """What is there, at least a byte before the end."""
        while self._place == len(self._rest) and not self._ended:
            self._fill()
        return self._rest[self._place :]

    def readline(self, size: int | None = -1) -> bytes:
        limit = size if size is not None and size >= 0 else float("inf")
        while (end := self._rest.find(b"\n", self._place)) < 0 and not self._ended:
            if len(self._rest) - self._place >= limit:
                break
            self._fill()
        end = end + 1 if end >= 0 else len(self._rest)
        end = min(end, self._place + limit)
        line, self._place = self._rest[self._place : end], end
        return line

    def _fill(self) -> None:
        new = self._stream.read1(_AT_ONCE)
        self._rest, self._place, self._ended = self._rest[self._place :] + new, 0, not new


def _ready(stream: BufferedIOBase) -> bool:
    """Whether there is something to read, or the end."""
    try:
        return bool(select.select([stream], [], [], 0)[0])
    except (OSError, ValueError):  # no pipe but memory, or a console of Windows
        return True
