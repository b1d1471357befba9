"""The command line: each verb is a library call. Heavy imports wait inside the verbs; errors become one sentence.

Results go to stdout, everything else to stderr. Exit codes: 0, 1 failed, 2 usage, 3 data, 4 resources, 130 and 143
for signals.
"""

import ctypes
import errno
import os
import signal
import sys
from typing import Annotated

import typer

from dragoman import __version__
from dragoman.cli import inspection, plot, training, translation  # noqa: F401  (registers their commands)
from dragoman.cli.options import Option, app
from dragoman.errors import DragomanError, Interrupted, ResourceError, UsageError

# typer brings a click of its own and exports only some of its exceptions: BadParameter -> UsageError -> this one.
ClickException = typer.BadParameter.__mro__[2]


@app.callback(invoke_without_command=True)
def options(version: Annotated[bool, Option("--version", help="Print the version.", is_eager=True)] = False) -> None:
    if version:
        print(f"dragoman {__version__}")
        raise typer.Exit()


def main() -> None:
    """Run the command line and exit with its code."""
    tune_process()
    try:
        code = app(standalone_mode=False)
    except typer.Exit as exit_:
        code = exit_.exit_code
    except ClickException as error:
        error.show()
        code = UsageError.exit_code
    except Interrupted as stopped:
        print(stopped, file=sys.stderr)
        code = stopped.exit_code
    except DragomanError as error:
        code = _fail(error.exit_code, str(error))
    except (KeyboardInterrupt, typer.Abort):
        code = _fail(128 + signal.SIGINT, "Interrupted.")
    except BrokenPipeError:
        # The reader has left, `head` for one; nothing may touch stdout again, not even at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 141  # 128 + SIGPIPE, which Windows does not have
    except (MemoryError, RuntimeError) as error:
        # What torch raises when memory runs out has a class of its own on a GPU only.
        if not isinstance(error, MemoryError) and "memory" not in str(error):
            raise
        remedy = "to train, give a smaller training.max_tokens or --size; to translate, a smaller --beam-size"
        code = _fail(ResourceError.exit_code, f"Memory does not suffice; {remedy}.")
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        what = f"{error.strerror or error}: {error.filename or 'while writing'}."
        code = _fail(ResourceError.exit_code if full else 1, what)
    sys.exit(code or 0)


def tune_process() -> None:
    """Settings of the C libraries that suit tensors; before torch is loaded."""
    # Threads that wait for each other spin for microseconds, not milliseconds: as fast on an idle machine, several
    # times as fast on one that has other work.
    os.environ.setdefault("GOMP_SPINCOUNT", "10000")
    if sys.platform == "linux" and hasattr(libc := ctypes.CDLL(None), "mallopt"):
        # Freed memory stays with the process: to give the tensors of each step back to the system, and to take them
        # again page by page, costs a tenth of the time. These are M_TRIM_THRESHOLD and M_MMAP_THRESHOLD of glibc.
        libc.mallopt(-1, 2**31 - 1)
        libc.mallopt(-3, 32 * 2**20)


def _fail(code: int, message: str) -> int:
    print(f"Error: {message}", file=sys.stderr)
    return code
