"""Errors that a user can do something about, each with its exit code, and words for their messages.

The message of an error is what the user reads: what happened, where, why, what to type next.
"""

import difflib
import os
import re
import shlex
import shutil
import sys
from collections.abc import Callable, Container, Iterable, Iterator
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

BOUNDS = {"ge": "from {}", "gt": "above {}", "le": "to {}", "lt": "to below {}", "min": "from {}", "max": "to {}"}
"""Words for the limits of a value: those of pydantic, and `min` and `max` of typer."""
NOUNS = {int: "whole number", float: "number", str: "text"}
LONGEST = 2_000
"""Most characters of a message. The middle of a longer one is left out."""
_PASSWORD = re.compile(r"(\w://[^\s/:@]*):[^\s/]*@")
_QUERY = re.compile(r"(\w://[^\s?'\"]*)\?[^\s'\"]*?(?=::|[\s'\"]|$)")
Spell = Callable[[str], str]
"""Function that writes the dotted key of a setting, such as training.warmup, as the user types it."""


class DragomanError(Exception):
    """The command failed for a reason that the message explains."""

    exit_code = 1
    kind = "failure"
    """Name of the class of errors, for programs that read them."""
    reported = False
    """Whether another process of the run has printed the message."""

    @property
    def message(self) -> str:
        """The text as it was raised, however long it is and on however many lines."""
        return super().__str__()

    def __str__(self) -> str:
        """The message as the user reads it: on one line, shortened, without passwords.

        A part that it quotes of a file may be endless, or hold commands to the terminal.
        """
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


class SentenceCut(UserWarning):
    """A sentence had more tokens than the model translates at once, and was translated in parts."""


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
    """The reason of an error, for the middle of a sentence. An error of the system names its file, if it is known."""
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
    """A text whose URLs may be printed or kept: without passwords, and without queries, which may be signatures."""
    return _QUERY.sub(r"\1", _PASSWORD.sub(r"\1@", text))


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Returns ' (did you mean ...?)' if a known word is spelled like `word`, else an empty text."""
    close = difflib.get_close_matches(word, list(known), n=1)
    return f" (did you mean '{close[0]}'?)" if close else ""


def command_line(*words: object) -> str:
    """A command of ours to copy, its words quoted; it runs from here even if `dragoman` is not on the PATH."""
    if shutil.which("dragoman"):
        return quoted("dragoman", *words)
    is_below = sys.executable.startswith(os.getcwd() + os.sep)
    python = os.path.relpath(sys.executable) if is_below else sys.executable
    return quoted(python, "-m", "dragoman", *words)


def quoted(*words: object) -> str:
    """One line to copy with the words quoted for a POSIX shell, or on Windows for both PowerShell and cmd."""
    if sys.platform != "win32":
        return shlex.join(map(str, words))
    return " ".join(map(_quoted_on_windows, map(str, words)))


def _quoted_on_windows(word: str) -> str:
    """A word in double quotes, unless it has only characters that mean nothing to a shell of Windows."""
    if re.fullmatch(r"[\w@+=:./\\-]+", word):
        return word

    # Programs read \" as a quote of the text. Backslashes before it, or before the closing quote, are doubled.
    def escape(match: re.Match[str]) -> str:
        backslashes, quote = match.groups()
        return 2 * backslashes + quote.replace('"', '\\"')

    return '"' + re.sub(r'(\\*)("|$)', escape, word) + '"'


def accepted(kind: Any, limits: Iterable[Any] = (), *, many: bool = False) -> str:
    """The values of a type in words, such as "a whole number from 1 to 64"; with `many`, in the plural.

    `limits` are objects whose attributes bound the value, as in the metadata of an `Annotated` of pydantic or typer.
    """
    origin, parts = get_origin(kind), [part for part in get_args(kind) if part is not type(None)]
    if origin is Annotated:
        own_limits = [limit for part in parts[1:] for limit in getattr(part, "metadata", ())]
        return accepted(parts[0], own_limits, many=many)
    if origin is Literal:
        *choices, last = map(str, parts)
        return f"{', '.join(choices)} or {last}" if choices else last
    if origin in (Union, UnionType):
        kinds = [part for part in parts if part is not int or float not in parts]  # each whole number is a number, too
        return " or ".join(accepted(part, limits, many=many) for part in kinds)
    if origin is tuple:
        return f"a list of {len(parts)} {accepted(parts[0], many=True)}"
    if origin is list:
        lengths = [f"up to {limit.max_length}" for limit in limits if hasattr(limit, "max_length")]
        return " ".join(["a list of", *lengths, accepted(parts[0], many=True)])
    if origin is dict:
        return f"a table (dict) of {accepted(parts[1], many=True)}"
    if kind is bool:
        return "true or false"
    noun = NOUNS.get(kind, "section")
    return " ".join([f"{noun}s" if many else f"a {noun}", *_bounds(limits)])


def _bounds(limits: Iterable[Any]) -> Iterator[str]:
    """Each bound of a number in words, such as "from 1"."""
    for limit in limits:
        for attribute, words in BOUNDS.items():
            bound = getattr(limit, attribute, None)
            if bound is not None:
                yield words.format(bound)


def shown(value: Any) -> str:
    """A value as the user wrote it. A text is put in quotes unless it is a number."""
    if value is None:
        return "missing"
    if isinstance(value, bool):
        return str(value).lower()
    is_number = isinstance(value, str) and re.fullmatch(r"[-+]?(\d[\d.]*(e[-+]?\d+)?|nan|inf)", value.lower())
    return value if is_number else repr(value)


def is_spelled(name: str) -> bool:
    """Whether a name is UTF-8. Python keeps bytes that are not as half of a surrogate pair."""
    return not re.search("[\ud800-\udfff]", name)


def shortened(text: str, most: int = 60) -> str:
    """The first `most` characters of a text, with " ..." if there are more: for texts that strangers wrote."""
    return text if len(text) <= most else f"{text[:most]} ..."


def respell(text: str, names: Container[str], spell: Spell) -> str:
    """Replaces each word in backticks that is among `names` by its `spell`."""
    return re.sub(r"`(\w+)`", lambda match: spell(match[1]) if match[1] in names else match[0], text)
