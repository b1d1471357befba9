"""The command line. Each command is a library call; heavy imports wait inside it, and errors become one sentence.

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

# These modules register their commands, in the order of the help.
from dragoman.cli import training, teaching, interop, translation, evaluation, serving, inspection, plot, data, doctor  # noqa: F401  # isort: skip
from dragoman.cli.app import CommandLineError
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

PYTHON_SHOW_WARNING = warnings.showwarning
FORBIDDEN = {errno.EACCES, errno.EPERM, errno.EROFS}
"""Errors of files that this user may not read or write."""
IMPOSSIBLE_NAME = {errno.ENAMETOOLONG, errno.ELOOP}
"""Errors of names that no file can have, and of links that lead to themselves."""
EXHAUSTED = {errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.EAGAIN}
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
        if code == 128 + signal.SIGINT:  # typer turns Ctrl-C into this exit code
            raise KeyboardInterrupt
        with naming("stdout"):
            sys.stdout.flush()  # a full disk shows here, not when Python ends
    except (Exception, KeyboardInterrupt, SystemExit) as error:
        # typer turns a BrokenPipeError into a SystemExit.
        cause = error.__context__ if isinstance(error, SystemExit) else error
        # A reader of stdout that has read enough, such as `head`, is no failure.
        if not isinstance(cause, BrokenPipeError):
            code = report(explain(error))
    close_streams()
    sys.exit(code)


def tune_process() -> None:
    """Tune the C libraries for work with tensors. Has an effect only before torch is loaded."""
    # Threads that wait for each other spin for microseconds, not milliseconds: as fast on an idle machine, several
    # times as fast on one that has other work.
    os.environ.setdefault("GOMP_SPINCOUNT", "10000")
    # To look for plugins of pydantic in the metadata of all packages takes longer than to check a config.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    if sys.platform != "linux":
        return
    libc = ctypes.CDLL(None)
    if hasattr(libc, "mallopt"):
        # Some freed memory stays with the process: to give the tensors of each step back to the system, and to take
        # them again page by page, costs a tenth of the time.
        m_trim_threshold, m_mmap_threshold = -1, -3  # as glibc numbers them
        libc.mallopt(m_trim_threshold, 64 * 2**20)
        libc.mallopt(m_mmap_threshold, 32 * 2**20)


def report(error: DragomanError) -> int:
    """Print an error as one line, with --json as JSON, and return its exit code."""
    if _wants_json():
        details = {"message": str(error), "exit_code": error.exit_code, "kind": error.kind}
        line = json_line({"error": details}, sys.stderr)
    else:
        line = str(error) if isinstance(error, Interrupted) else f"Error: {error}"
    if not error.reported:
        with suppress(OSError):
            print(line, file=sys.stderr)
    return error.exit_code


def _show_warning(message: Warning | str, category: type[Warning], *place: Any) -> None:
    """Print a warning that is for users as one of ours, and any other as Python does (see `warnings.showwarning`)."""
    if not issubclass(category, UnverifiedModel):
        PYTHON_SHOW_WARNING(message, category, *place)
        return
    from dragoman.terminal import Display

    Display(as_json=_wants_json()).warn(str(message))


def _wants_json() -> bool:
    """Whether --json is among the options, whatever the command is."""
    return "--json" in sys.argv and "--" not in sys.argv[: sys.argv.index("--json")]


def explain(error: BaseException) -> DragomanError:
    """Returns an error as one sentence with a remedy. An error that only a bug can cause is raised again."""
    if isinstance(error, typer.Abort) and isinstance(error.__cause__, EOFError):
        error = error.__cause__  # it is no Ctrl-D, since commands ask nothing
    message = str(error)
    if isinstance(error, DragomanError):
        return _with_line(error)
    if isinstance(error, CommandLineError):
        return UsageError(_describe_mistake(error))
    if isinstance(error, KeyboardInterrupt | typer.Abort):
        return Interrupted(signal.SIGINT, "Interrupted.")
    if isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and "memory" in message):
        # torch has a class of its own for this error on a GPU only.
        remedy = "to train, give a smaller training.max_tokens or --size; to translate, a smaller --beam-size"
        return ResourceError(f"Memory does not suffice; {remedy}.")
    if isinstance(error, UnicodeEncodeError) and not is_spelled(error.object):
        return UsageError(f"{shortened(error.object)} is no UTF-8, which a library needs here; rename it.")
    if isinstance(error, ImportError) and not (error.name or "dragoman").startswith("dragoman"):
        return ResourceError(f"A library cannot be loaded ({reason_of(error)}); `dragoman doctor` tells what is wrong.")
    if isinstance(error, OSError):
        return _explain_system_error(error)
    raise error


def _explain_system_error(error: OSError) -> DragomanError:
    """Returns an error of the operating system as one sentence with a remedy."""
    if "temporary directory" in str(error):  # the module tempfile found none
        return ResourceError(f"{reason_of(error)}; make room in one, or set TMPDIR to another folder.")
    if error.filename is None and fails(sys.stdout):
        error.filename = "stdout"
    if error.errno in FULL:
        return ResourceError(f"{reason_of(error)}; make room on the disk and try again.")
    if error.errno in EXHAUSTED:
        return ResourceError(f"{reason_of(error)}; close other programs, or raise the limits of this one.")
    if error.errno in IMPOSSIBLE_NAME:
        return UsageError(f"{reason_of(error)}; choose another name.")
    remedy = "check who may read and write there" if error.errno in FORBIDDEN else "check the path"
    return DragomanError(f"{reason_of(error)}; {remedy}.")


def _with_line(error: DragomanError) -> DragomanError:
    """The error; one about two files of unequal length also says near which line they part."""
    two_files = sys.modules.get("dragoman.data.readers.two_files")  # None: it is not loaded, so it raised nothing
    if two_files is None or not isinstance(error, two_files.UnequalFiles):
        return error
    from dragoman.data_check.unequal import with_place

    return with_place(error)


def _describe_mistake(error: Any) -> str:
    """Describes a mistake that typer found in a command line, in one sentence with a remedy."""
    context = error.ctx
    see = f"see `{context.command_path if context else 'dragoman'} --help`"
    if type(error).__name__ == "NoSuchOption":  # typer does not export this class
        known = [name for parameter in context.command.get_params(context) for name in parameter.opts]
        close = did_you_mean(error.option_name, known)
        return f"There is no option {error.option_name}{close}; {see}, and put -- before a text that begins with -."
    if hasattr(error.__cause__, "errors"):  # from pydantic, which checks the values for newer versions of typer
        kind, *limits = get_args(get_type_hints(context.command.callback, include_extras=True)[error.param.name])
        value = shown(error.__cause__.errors()[0]["input"])
        return f"{error.param.opts[0]} is {value}; it must be {accepted(kind, limits)}."
    return f"{' '.join(error.format_message().split()).rstrip('.')}; {see}."
