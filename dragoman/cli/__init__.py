"""The command line: each verb is a library call. Heavy imports wait inside the verbs; errors become one sentence.

Results go to stdout, everything else to stderr. Exit codes: 0, 1 failed, 2 usage, 3 data, 4 resources, 130 and 143
for signals.
"""

import ctypes
import errno
import os
import signal
import sys
from typing import Annotated, Any

import typer

from dragoman import __version__

# They register their commands, in the order of the help.
from dragoman.cli import training, interop, translation, inspection, plot, data, doctor  # noqa: F401  # isort: skip
from dragoman.cli.app import ClickException
from dragoman.cli.options import Option, app
from dragoman.errors import DragomanError, Interrupted, ResourceError, UsageError, did_you_mean


@app.callback(invoke_without_command=True)
def options(version: Annotated[bool, Option("--version", help="Print the version.", is_eager=True)] = False) -> None:
    if version:
        print(f"dragoman {__version__}")
        raise typer.Exit()


def main() -> None:
    """Run the command line and exit with its code."""
    tune_process()
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by the shell: 2>&-
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_WRONLY), "w"))
    try:
        code = app(prog_name="dragoman", standalone_mode=False)
        sys.stdout.flush()  # a full disk shows here, not when Python ends
    except BrokenPipeError:
        code = 141  # 128 + SIGPIPE, which Windows does not have; the reader has left, `head` for one
    except (Exception, KeyboardInterrupt) as error:
        code, message = explain(error)
        print(message, file=sys.stderr)
    try:
        sys.stdout.flush()
    except OSError:
        # Nothing may touch stdout again, not even Python at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(code or 0)


def tune_process() -> None:
    """Settings of the C libraries that suit tensors; before torch is loaded."""
    # Threads that wait for each other spin for microseconds, not milliseconds: as fast on an idle machine, several
    # times as fast on one that has other work.
    os.environ.setdefault("GOMP_SPINCOUNT", "10000")
    if sys.platform == "linux" and hasattr(libc := ctypes.CDLL(None), "mallopt"):
        # Some freed memory stays with the process: to give the tensors of each step back to the system, and to take
        # them again page by page, costs a tenth of the time. These are M_TRIM_THRESHOLD and M_MMAP_THRESHOLD of glibc.
        libc.mallopt(-1, 64 * 2**20)
        libc.mallopt(-3, 32 * 2**20)


def explain(error: BaseException) -> tuple[int, str]:
    """The exit code for an error and the sentence that a user reads; raises those that are mistakes of ours."""
    code, message = 1, str(error)
    if isinstance(error, Interrupted):
        return error.exit_code, message
    if isinstance(error, DragomanError):
        code = error.exit_code
    elif isinstance(error, ClickException):
        code, message = UsageError.exit_code, _usage(error)
    elif isinstance(error, KeyboardInterrupt | typer.Abort):
        code, message = 128 + signal.SIGINT, "Interrupted."
    elif isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and "memory" in message):
        # What torch raises when memory runs out has a class of its own on a GPU only.
        remedy = "to train, give a smaller training.max_tokens or --size; to translate, a smaller --beam-size"
        code, message = ResourceError.exit_code, f"Memory does not suffice; {remedy}."
    elif isinstance(error, OSError):
        code, message = _of_the_system(error)
    else:
        raise error
    return code, f"Error: {message}"


def _usage(error: Any) -> str:
    """What typer says of a command line, as one sentence with a remedy."""
    context = error.ctx
    see = f"see `{context.command_path if context else 'dragoman'} --help`"
    if hasattr(error, "possibilities"):  # of an option that there is not
        known = [name for parameter in context.command.get_params(context) for name in parameter.opts]
        close = did_you_mean(error.option_name, known)
        return f"There is no option {error.option_name}{close}; {see}, and put -- before a text that begins with -."
    # pydantic, which checks the values for typer, begins a sentence inside of typer's.
    message = " ".join(error.format_message().split()).replace(": Input", ": input").rstrip(".")
    return f"{message}; {see}."


def _of_the_system(error: OSError) -> tuple[int, str]:
    code, remedy = 1, "check the path"
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        code, remedy = ResourceError.exit_code, "make room on the disk and try again"
    elif error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        remedy = "check who may read and write there"
    what = (error.strerror or str(error)).lower()
    return code, f"{error.filename or 'The output'}: {what}; {remedy}."
