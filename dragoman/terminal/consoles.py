"""Consoles for stdout and stderr."""

import os

from rich.console import Console

PIPED_WIDTH = 1000
"""Columns of a table in a file or a pipe. `rich` would fold it at 80 columns."""


class _Console(Console):
    """A console that goes on when nobody reads it any more, as after `head` has read enough."""

    def on_broken_pipe(self) -> None:
        if not self.stderr:
            raise  # the BrokenPipeError that rich handles when it calls this
        self.quiet = True  # notes that nobody reads do not stop the work


def new_console(*, stderr: bool = False) -> Console:
    """A console for stdout or stderr. Without a terminal, or with NO_COLOR (no-color.org), it has no ANSI styles."""
    # With NO_COLOR, `rich` itself leaves out colours only, and keeps bold and dim.
    colors = None if os.environ.get("NO_COLOR") else "auto"
    console = _Console(stderr=stderr, color_system=colors, highlight=False)
    if not console.is_terminal:
        console.width = PIPED_WIDTH
    return console
