"""What can go wrong for a user, each with the exit code of the command line; how commands to type are written.

The message of every error here is what the user reads: what happened, where, why, what to type next.
"""

import difflib
import os
import shlex
import shutil
import sys
from collections.abc import Iterable


class DragomanError(Exception):
    """The command failed for a reason that the message explains."""

    exit_code = 1
    kind = "failure"
    """Name of the class of errors, for programs that read them."""


class UsageError(DragomanError):
    """The command line or a setting does not make sense."""

    exit_code = 2
    kind = "usage"


class DataError(DragomanError):
    """A file the user gave cannot be used as it is."""

    exit_code = 3
    kind = "data"


class ResourceError(DragomanError):
    """Memory, disk or another resource of the machine does not suffice."""

    exit_code = 4
    kind = "resource"


class Interrupted(DragomanError):
    """A signal ended the command, which left everything in order."""

    kind = "interrupted"

    def __init__(self, signal_number: int, message: str):
        super().__init__(message)
        self.exit_code = 128 + signal_number


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """' (did you mean ...?)' if something known is spelled like `word`, else nothing."""
    close = difflib.get_close_matches(word, list(known), n=1)
    return f" (did you mean '{close[0]}'?)" if close else ""


def command_line(*words: object) -> str:
    """A command of ours to copy, its words quoted; it runs from here even if `dragoman` is not on the PATH."""
    inside = sys.executable.startswith(os.getcwd() + os.sep)
    python = os.path.relpath(sys.executable) if inside else sys.executable
    program = ["dragoman"] if shutil.which("dragoman") else [python, "-m", "dragoman"]
    return shlex.join([*program, *map(str, words)])
