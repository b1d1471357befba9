"""Errors that a user can do something about, each with its exit code, and words for their messages.

The message of an error is what the user reads: what happened, where, why, what to type next.
"""

import difflib
import os
import re
import shlex
import shutil
import sys
from collections.abc import Callable, Container, Iterable
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

BOUNDS = {"ge": "from {}", "gt": "above {}", "le": "to {}", "lt": "to below {}", "min": "from {}", "max": "to {}"}
"""How limits of pydantic, and `min` and `max` of typer, are written."""
NOUNS = {int: "whole number", float: "number", str: "text"}
LONGEST = 2_000
"""Characters of a message."""
_PASSWORD = re.compile(r"(\w://[^\s/:@]*):[^\s/]*@")
_QUERY = re.compile(r"(\w://[^\s?'\"]*)\?[^\s'\"]*?(?=::|[\s'\"]|$)")
Spell = Callable[[str], str]
"""Writes the dotted key of a setting, such as training.warmup, as the user knows it."""


class DragomanError(Exception):
    """The command failed for a reason that the message explains."""

    exit_code = 1
    kind = "failure"
    """Name of the class of errors, for programs that read them."""
    told = False
    """Whether another process of the run has printed the message."""

    @property
    def message(self) -> str:
        """What the user reads, as it was raised."""
        return super().__str__()

    def __str__(self) -> str:
        """The message in one line: what it quotes of a file may be endless, or hold commands to the terminal."""
        line = re.sub(r"[\0-\x1f\x7f-\x9f\u2028\u2029]", lambda match: repr(match[0])[1:-1], self.message)
        line = redacted(line)
        return line if len(line) <= LONGEST else f"{line[: LONGEST // 2]} ... {line[-LONGEST // 4 :]}"


class UsageError(DragomanError):
    """The command line or a setting does not make sense."""

    exit_code = 2
    kind = "usage"


class DataError(DragomanError):
    """A file the user gave cannot be used as it is."""

    exit_code = 3
    kind = "data"


class UnverifiedModel(UserWarning):
    """A model directory without checksums was loaded: damage in it goes unnoticed."""


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


def reason_of(error: BaseException) -> str:
    """What went wrong, for the middle of a sentence; an error of the system names its file, if it is known."""
    if isinstance(error, DragomanError):
        return str(error).rstrip(".")
    if isinstance(error, MemoryError):
        return "memory does not suffice"
    if isinstance(error, OSError) and error.strerror:
        name = f"{os.fsdecode(error.filename)}: " if isinstance(error.filename, str | bytes | os.PathLike) else ""
        return f"{name}{error.strerror.lower()}"
    lines = " ".join(map(str, error.args)).strip().split("\n")
    return lines[0].rstrip(".") or type(error).__name__


def redacted(text: str) -> str:
    """A text with URLs as they may be printed or kept: without passwords and queries, which may be signatures."""
    return _QUERY.sub(r"\1", _PASSWORD.sub(r"\1@", text))


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """' (did you mean ...?)' if something known is spelled like `word`, else nothing."""
    close = difflib.get_close_matches(word, list(known), n=1)
    return f" (did you mean '{close[0]}'?)" if close else ""


def command_line(*words: object) -> str:
    """A command of ours to copy, its words quoted; it runs from here even if `dragoman` is not on the PATH."""
    inside = sys.executable.startswith(os.getcwd() + os.sep)
    python = os.path.relpath(sys.executable) if inside else sys.executable
    program = ["dragoman"] if shutil.which("dragoman") else [python, "-m", "dragoman"]
    return quoted(*program, *words)


def quoted(*words: object) -> str:
    """Words for the shell at hand, as one line to copy: a POSIX shell, or on Windows PowerShell and cmd alike."""
    if sys.platform != "win32":
        return shlex.join(map(str, words))
    return " ".join(map(_quoted_on_windows, map(str, words)))


def _quoted_on_windows(word: str) -> str:
    """A word in double quotes, unless it has nothing that a shell of Windows takes for a sign of its own."""
    if re.fullmatch(r"[\w@+=:./\\-]+", word):
        return word
    # Programs take a quote behind a backslash for one of the text, and need a backslash before it twice.
    return '"' + re.sub(r'(\\*)("|$)', lambda m: m[1] * 2 + m[2].replace('"', '\\"'), word) + '"'


def accepted(kind: Any, limits: Iterable[Any] = (), *, many: bool = False) -> str:
    """The values of a type in words, such as "a whole number from 1 to 64"; with `many`, its plural."""
    origin, parts = get_origin(kind), [part for part in get_args(kind) if part is not type(None)]
    if origin is Annotated:
        return accepted(parts[0], [each for part in parts[1:] for each in getattr(part, "metadata", ())], many=many)
    if origin is Literal:
        return " or ".join(filter(None, (", ".join(map(str, parts[:-1])), str(parts[-1]))))
    if origin in (Union, UnionType):
        wider = (part for part in parts if part is not int or float not in parts)
        return " or ".join(accepted(part, limits, many=many) for part in wider)
    if origin in (list, tuple):
        most = [f"up to {each.max_length}" for each in limits if hasattr(each, "max_length")]
        return " ".join(["a list of", *([str(len(parts))] if origin is tuple else most), accepted(parts[0], many=True)])
    if origin is dict:
        return f"a table of {accepted(parts[1], many=True)}"
    if kind is bool:
        return "true or false"
    noun = NOUNS.get(kind, "section")
    found = ((words, getattr(each, key, None)) for each in limits for key, words in BOUNDS.items())
    bounds = [words.format(bound) for words, bound in found if bound is not None]
    return " ".join([f"{noun}s" if many else f"a {noun}", *bounds])


def shown(value: Any) -> str:
    """A value as the user wrote it; a text that is no number stands in quotes."""
    if value is None or isinstance(value, bool):
        return "missing" if value is None else str(value).lower()
    number = isinstance(value, str) and re.fullmatch(r"[-+]?(\d[\d.]*(e[-+]?\d+)?|nan|inf)", value.lower())
    return value if number else repr(value)


def is_spelled(name: str) -> bool:
    """Whether a name is UTF-8, and not bytes that Python keeps as half characters."""
    return not re.search("[\ud800-\udfff]", name)


def shortened(text: str, most: int = 60) -> str:
    """A text of at most so many characters, for values that strangers wrote."""
    return text if len(text) <= most else f"{text[:most]} ..."


def respell(text: str, names: Container[str], spell: Spell) -> str:
    """A text in which those words in backticks that are among `names` are written by `spell`."""
    return re.sub(r"`(\w+)`", lambda match: spell(match[1]) if match[1] in names else match[0], text)
