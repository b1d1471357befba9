"""Lines that are answered one by one as they arrive from a keyboard, or from a program at the other end of a pipe."""

import select
from collections.abc import Iterator
from io import BufferedIOBase

from dragoman.formats.text_files import MAX_LINE, read_lines


def live_lines(stream: BufferedIOBase, name: str) -> Iterator[str | None]:
    """The lines of a stream as `read_lines` gives them, and None before each one that is not there yet."""
    watched = _Watched(stream)
    lines = read_lines(watched, name)
    while True:
        if not watched.has_line(wait=False):
            yield None
        line = next(lines, None)
        if line is None:
            return
        yield line


class _Watched(BufferedIOBase):
    """A stream that knows whether its next line has arrived. `io.BufferedReader` cannot look at half a line."""

    def __init__(self, stream: BufferedIOBase):
        self.stream, self.arrived, self.ended = stream, bytearray(), False

    def has_line(self, *, wait: bool) -> bool:
        """Whether the next line, or the end, has arrived; `wait` waits until it has."""
        while not (self.ended or len(self.arrived) >= MAX_LINE or b"\n" in self.arrived):
            if not wait and not _ready(self.stream):
                return False
            content = self.stream.read1()
            self.arrived += content
            self.ended = not content
        return True

    def peek(self, size: int = 0) -> bytes:
        """The first bytes of what comes next."""
        self.has_line(wait=True)
        return bytes(self.arrived[:size])

    def readline(self, size: int | None = MAX_LINE) -> bytes:
        """A line of at most `size` bytes."""
        self.has_line(wait=True)
        end = self.arrived.find(b"\n", 0, size) + 1
        line = bytes(self.arrived[: end or size])
        del self.arrived[: len(line)]
        return line


def _ready(stream: BufferedIOBase) -> bool:
    """Whether reading would not wait: there is something to read, or the end."""
    try:
        return bool(select.select([stream], [], [], 0)[0])
    except (OSError, ValueError):  # a stream in memory, or a console of Windows
        return True
