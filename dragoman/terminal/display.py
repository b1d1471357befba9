"""Notes, warnings, progress and the live table of a training, all on stderr."""

import os
import shlex
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.live import Live
from rich.markup import escape
from rich.progress import Progress
from rich.table import Table

from dragoman.terminal.training import Limits, Memory, TrainingView

PIPED_WIDTH = 1000
"""Columns of a file or a pipe, where `rich` would fold tables at 80."""


def command(*words: str) -> str:
    """A command line of ours to copy: it runs from here, also where `dragoman` is not on the PATH."""
    inside = sys.executable.startswith(os.getcwd() + os.sep)
    python = os.path.relpath(sys.executable) if inside else sys.executable
    program = ["dragoman"] if shutil.which("dragoman") else [python, "-m", "dragoman"]
    return shlex.join([*program, *words])


def console(*, stderr: bool = False) -> Console:
    """stdout or stderr; without a terminal, or with NO_COLOR (no-color.org) in the environment, no ANSI styles."""
    # With NO_COLOR, `rich` would leave out colours only, and keep bold and dim.
    colors = None if os.environ.get("NO_COLOR") else "auto"
    console = Console(stderr=stderr, color_system=colors, highlight=False)
    if not console.is_terminal:
        console.width = PIPED_WIDTH
    return console


class Display:
    """Writes to stderr; `quiet` leaves only warnings."""

    def __init__(self, *, quiet: bool = False):
        self.console = console(stderr=True)
        self.quiet = quiet

    def note(self, text: str) -> None:
        """Print a line of information."""
        if not self.quiet:
            self.console.print(escape(text), soft_wrap=True)

    def warn(self, text: str) -> None:
        """Print a warning, also when quiet."""
        self.console.print(f"[bold yellow]Warning:[/] {escape(text)}", soft_wrap=True)

    def show(self, table: Table) -> None:
        """Print a table."""
        if not self.quiet:
            self.console.print(table)

    @contextmanager
    def status(self, text: str) -> Iterator[None]:
        """Show a spinner during a short task, then how long it took."""
        started = time.monotonic()
        if self.console.is_terminal and not self.quiet:
            with self.console.status(escape(text)):
                yield
        else:
            yield
        self.note(f"{text}: {time.monotonic() - started:.1f} s")

    @contextmanager
    def training(self, limits: Limits, *, memory: Memory | None = None) -> Iterator[TrainingView]:
        """Show the live table of a training, or without a terminal a line at every validation and some in between."""
        live = self.console.is_terminal and not self.quiet
        view = TrainingView(self.console, limits, memory=memory, live=live, quiet=self.quiet)
        if not live:
            yield view
            return
        with Live(view, console=self.console, refresh_per_second=2, transient=False):
            yield view

    @contextmanager
    def progress(self, text: str, total: int | None = None) -> Iterator[Callable[[int], None]]:
        """Show a progress bar; yields a function to call with the number of items done since the last call."""
        hidden = self.quiet or not self.console.is_terminal
        with Progress(console=self.console, disable=hidden, transient=True) as bar:
            task = bar.add_task(text, total=total)
            yield lambda done: bar.advance(task, done)
