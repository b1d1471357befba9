"""Output to stdout and stderr in whatever encoding they have.

Text for people is written in the encoding of the stream, with \\xe9 and the like for what it lacks. JSON is read in
each encoding: where the stream is not UTF-8, it is ASCII with \\u00e9. Translations, which programs read, are UTF-8 in
files and pipes, whatever the locale is.
"""

import codecs
import io
import json
import math
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, TextIO

from dragoman.system.atomic import OutputFile

ESCAPED = "backslashreplace"
"""Error handler for characters that an encoding lacks. UTF-8 lacks the bytes of file names that are not UTF-8: JSON
reads the escapes back."""


def settle_streams() -> None:
    """Open stdout and stderr if the shell has closed them (2>&-), and have them escape characters that they lack."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_WRONLY), "w"))
        stream = getattr(sys, name)
        if hasattr(stream, "reconfigure"):  # those of notebooks and tests need not be files
            stream.reconfigure(errors=ESCAPED)


def is_utf8(stream: TextIO) -> bool:
    """Whether a stream is written in UTF-8."""
    try:
        return codecs.lookup(getattr(stream, "encoding", None) or "utf-8").name == "utf-8"
    except LookupError:
        return False


def json_line(value: Any, stream: TextIO | None = None) -> str:
    """A value as one line of JSON that the stream, by default stdout, can write.

    JSON has no infinite numbers and none that are undefined, such as the perplexity of a model whose weights are so:
    they become null.
    """
    write = partial(json.dumps, ensure_ascii=not is_utf8(stream or sys.stdout), allow_nan=False)
    try:
        return write(value)
    except ValueError:
        return write(_finite(value))


def _finite(value: Any) -> Any:
    """The value with null in place of each number that is not finite."""
    if isinstance(value, dict):
        return {key: _finite(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def spelled(text: str, stream: TextIO | None = None) -> str:
    """A text with escapes as the stream, by default stdout, writes it. Columns need its width."""
    encoding = getattr(stream or sys.stdout, "encoding", None) or "utf-8"
    return text.encode(encoding, ESCAPED).decode(encoding)


@contextmanager
def results() -> Iterator[TextIO]:
    """stdout as a stream of lines for programs: UTF-8, but in a terminal the encoding of that."""
    encoding = sys.stdout.encoding if sys.stdout.isatty() else "utf-8"
    file = io.BufferedWriter(OutputFile(os.dup(sys.stdout.fileno()), "stdout"))
    with io.TextIOWrapper(file, encoding=encoding, errors=ESCAPED, line_buffering=sys.stdout.isatty()) as out:
        yield out


def close_streams() -> None:
    """Write what stdout and stderr still buffer. One that fails is replaced, or Python would fail at its end."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def fails(stream: TextIO) -> bool:
    """Whether a stream cannot write what it buffers, as on a full disk."""
    try:
        stream.flush()
    except OSError:
        return True
    return False
