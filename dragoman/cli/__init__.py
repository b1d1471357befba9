"""The command line: each verb is a library call. Heavy imports wait inside the verbs; errors become one sentence.

Results go to stdout, everything else to stderr. Exit codes: 0, 1 failed, 2 usage, 3 data, 4 resources, 130 and 143
for signals.
"""

import ctypes
import errno
import os
import signal
import sys
import warnings
from contextlib import suppress
from typing import Annotated, Any, get_args, get_type_hints

import typer

from dragoman import __version__

# They register their commands, in the order of the help.
from dragoman.cli import training, teaching, interop, translation, serving, inspection, plot, data, doctor  # noqa: F401  # isort: skip
from dragoman.cli.app import ClickException
from dragoman.cli.options import Option, app
from dragoman.errors import (
    DragomanError,
    Interrupted,
    ResourceError,
    UnverifiedModel,
    UsageError,
    accepted,
    did_you_mean,
    is_spelled,
    reason_of,
    shortened,
    shown,
)
from dragoman.system.atomic import FULL, naming
from dragoman.system.streams import close_streams, fails, json_line, settle_streams

_PYTHONS_OWN = warnings.showwarning
NO_PATH = {errno.ENAMETOOLONG, errno.ELOOP}
"""Errors of names that no file can have, and of links that lead to themselves."""
LACKING = {errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.EAGAIN}
"""Errors of a machine that has too little memory, or too many open files or processes."""


@app.callback(invoke_without_command=True)
def dragoman(version: Annotated[bool, Option("--version", help="Print the version.", is_eager=True)] = False) -> None:
    if version:
        print(f"dragoman {__version__}")
        raise typer.Exit()


def main() -> None:
    """Run the command line and exit with its code."""
    tune_process()
    settle_streams()
    warnings.showwarning = _show_warning
    code = 0
    try:
        code = app(prog_name="dragoman", standalone_mode=False) or 0
        if code == 128 + signal.SIGINT:  # what typer makes of Ctrl-C
            raise KeyboardInterrupt
        with naming("stdout"):
            sys.stdout.flush()  # a full disk shows here, not when Python ends
    except (Exception, KeyboardInterrupt, SystemExit) as error:
        # A reader of stdout that has read enough, such as `head`, is no failure; typer makes it a SystemExit.
        if not isinstance(error.__context__ if isinstance(error, SystemExit) else error, BrokenPipeError):
            code = report(explain(error))
    close_streams()
    sys.exit(code)


def tune_process() -> None:
    """Set what suits tensors in the C libraries; before torch is loaded."""
    # Threads that wait for each other spin for microseconds, not milliseconds: as fast on an idle machine, several
    # times as fast on one that has other work.
    os.environ.setdefault("GOMP_SPINCOUNT", "10000")
    if sys.platform == "linux" and hasattr(libc := ctypes.CDLL(None), "mallopt"):
        # Some freed memory stays with the process: to give the tensors of each step back to the system, and to take
        # them again page by page, costs a tenth of the time. These are M_TRIM_THRESHOLD and M_MMAP_THRESHOLD of glibc.
        libc.mallopt(-1, 64 * 2**20)
        libc.mallopt(-3, 32 * 2**20)


def report(error: DragomanError) -> int:
    """Print what the user reads of an error, with --json as JSON, and return its exit code."""
    details = {"message": str(error), "exit_code": error.exit_code, "kind": error.kind}
    line = str(error) if isinstance(error, Interrupted) else f"Error: {error}"
    if _wants_json():
        line = json_line({"error": details}, sys.stderr)
    with suppress(OSError):
        if not error.told:
            print(line, file=sys.stderr)
    return error.exit_code


def _show_warning(message: Warning | str, category: type[Warning], *where: Any) -> None:
    """Print a warning that is for users as the commands print theirs, and any other as Python does."""
    if not issubclass(category, UnverifiedModel):
        _PYTHONS_OWN(message, category, *where)
        return
    from dragoman.terminal import Display

    Display(as_json=_wants_json()).warn(str(message))


def _wants_json() -> bool:
    """Whether --json is among the options, whatever the command is."""
    return "--json" in sys.argv and "--" not in sys.argv[: sys.argv.index("--json")]


def explain(error: BaseException) -> DragomanError:
    """The error as one sentence with a remedy; raises it if it is a mistake of ours."""
    if isinstance(error, typer.Abort) and isinstance(error.__cause__, EOFError):
        error = error.__cause__  # which is no Ctrl-D: commands do not ask
    message = str(error)
    if isinstance(error, DragomanError):
        return _with_place(error)
    if isinstance(error, ClickException):
        return UsageError(_usage(error))
    if isinstance(error, KeyboardInterrupt | typer.Abort):
        return Interrupted(signal.SIGINT, "Interrupted.")
    if isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and "memory" in message):
        # What torch raises when memory runs out has a class of its own on a GPU only.
        remedy = "to train, give a smaller training.max_tokens or --size; to translate, a smaller --beam-size"
        return ResourceError(f"Memory does not suffice; {remedy}.")
    if isinstance(error, UnicodeEncodeError) and not is_spelled(error.object):
        return UsageError(f"{shortened(error.object)} is no UTF-8, which a library needs here; rename it.")
    if isinstance(error, ImportError) and not (error.name or "dragoman").startswith("dragoman"):
        return ResourceError(f"A library cannot be loaded ({reason_of(error)}); `dragoman doctor` tells what is wrong.")
    if not isinstance(error, OSError):
        raise error
    if "temporary directory" in message:  # of Python's tempfile, which found none
        return ResourceError(f"{reason_of(error)}; make room in one, or set TMPDIR to another folder.")
    kind, remedy = DragomanError, "check the path"
    if error.errno in FULL:
        kind, remedy = ResourceError, "make room on the disk and try again"
    elif error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        remedy = "check who may read and write there"
    elif error.errno in NO_PATH:
        kind, remedy = UsageError, "choose another name"
    elif error.errno in LACKING:
        kind, remedy = ResourceError, "close other programs, or raise the limits of this one"
    if error.filename is None:
        error.filename = "stdout" if fails(sys.stdout) else None
    return kind(f"{reason_of(error)}; {remedy}.")


def _with_place(error: DragomanError) -> DragomanError:
    """The error, for two files of unequal length with the line where to look."""
    readers = sys.modules.get("dragoman.data.readers.two_files")
    if readers is None or not isinstance(error, readers.UnequalFiles):
        return error
    from dragoman.data_check.unequal import with_place

    return with_place(error)


def _usage(error: Any) -> str:
    """A mistake that typer found in a command line, as one sentence with a remedy."""
    context = error.ctx
    see = f"see `{context.command_path if context else 'dragoman'} --help`"
    if type(error).__name__ == "NoSuchOption":  # typer does not export this class
        known = [name for parameter in context.command.get_params(context) for name in parameter.opts]
        close = did_you_mean(error.option_name, known)
        return f"There is no option {error.option_name}{close}; {see}, and put -- before a text that begins with -."
    if hasattr(error.__cause__, "errors"):  # of pydantic, which checks the values for typer
        kind, *limits = get_args(get_type_hints(context.command.callback, include_extras=True)[error.param.name])
        value = shown(error.__cause__.errors()[0]["input"])
        return f"{error.param.opts[0]} is {value}; it must be {accepted(kind, limits)}."
    return f"{' '.join(error.format_message().split()).rstrip('.')}; {see}."
