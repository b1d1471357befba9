"""Lines from somebody who waits for answers: a keyboard, or a program at the other end of a pipe."""

import select
from collections.abc import Iterator
from io import BufferedIOBase

from dragoman.data.readers.text_io import MAX_LINE, read_lines

_AT_ONCE = 1 << 16
"""Bytes that a pipe holds."""


def live_lines(stream: BufferedIOBase, name: str) -> Iterator[str | None]:
    """The lines of a stream as `read_lines` gives them, and None before each one that is not there yet."""
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
    """A stream that knows whether its next line has arrived; `io.BufferedReader` cannot look at half a line."""

    def __init__(self, stream: BufferedIOBase):
        self.stream, self.arrived, self.ended = stream, bytearray(), False

    def would_wait(self) -> bool:
        """Whether reading the next line would wait for the other end."""
        while not self._has_line():
            if not _ready(self.stream):
                return True
            self._fill()
        return False

    def peek(self, size: int = 0) -> bytes:
        """Some bytes that come next; none at the end."""
        while not self.arrived and not self.ended:
            self._fill()
        return bytes(self.arrived[: max(size, 1)])

    def readline(self, size: int | None = -1) -> bytes:
        """A line of at most MAX_LINE bytes."""
        while not self._has_line():
            self._fill()
        line = bytes(self.arrived[: self.arrived.find(b"\n", 0, MAX_LINE) + 1 or MAX_LINE])
        del self.arrived[: len(line)]
        return line

    def _has_line(self) -> bool:
        return self.ended or len(self.arrived) >= MAX_LINE or b"\n" in self.arrived

    def _fill(self) -> None:
        new = self.stream.read1(_AT_ONCE)
        self.arrived += new
        self.ended = not new


def _ready(stream: BufferedIOBase) -> bool:
    """Whether there is something to read, or the end."""
    try:
        return bool(select.select([stream], [], [], 0)[0])
    except (OSError, ValueError):  # no pipe but memory, or a console of Windows
        return True
