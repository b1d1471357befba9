"""Notes, warnings, progress and the live table of a training, all on stderr.

A command that has nothing to show does not load `rich`.
"""

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from functools import cached_property
from typing import TYPE_CHECKING, Any

from dragoman.system.listener import Listener
from dragoman.system.streams import json_line

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, ProgressColumn
    from rich.table import Table

    from dragoman.config.training import TrainingConfig
    from dragoman.terminal.training import Memory, TrainingView

FORCED_TERMINAL = {"FORCE_COLOR", "TTY_COMPATIBLE"}
"""Variables of the environment that make `rich` take a pipe for a terminal."""


def console(*, stderr: bool = False) -> "Console":
    """A console for stdout or stderr. Without a terminal, or with NO_COLOR (no-color.org), it has no ANSI styles."""
    from dragoman.terminal.consoles import new_console

    return new_console(stderr=stderr)


class Display(Listener):
    """Writes notes, warnings and progress to stderr. `quiet` leaves warnings only, and `as_json` makes them JSON."""

    def __init__(self, *, quiet: bool = False, as_json: bool = False):
        self.quiet, self.as_json = quiet, as_json
        self._view: TrainingView | None = None
        self._live_table = ExitStack()

    @cached_property
    def console(self) -> "Console":
        """The console on stderr."""
        return console(stderr=True)

    @cached_property
    def is_terminal(self) -> bool:
        """Whether stderr is a terminal. For a file or a pipe, `rich` need not be loaded to know."""
        if sys.stderr.isatty() or FORCED_TERMINAL & os.environ.keys():
            return self.console.is_terminal
        return False

    def note(self, text: str) -> None:
        """Print one line about what was done, unless quiet."""
        if not self.quiet:
            self.console.out(text, highlight=False)

    def warn(self, text: str) -> None:
        """Print one line that asks for attention."""
        if self.as_json:
            self.console.out(json_line({"warning": text}, self.console.file), highlight=False)
        else:
            from rich.text import Text

            self.console.print(Text.assemble(("Warning:", "bold yellow"), f" {text}"), soft_wrap=True)

    def show(self, table: "Table") -> None:
        """Print a table, unless quiet."""
        if not self.quiet:
            self.console.print(table)

    @contextmanager
    def status(self, text: str) -> Iterator[Callable[[str], None]]:
        """Show a spinner during the `with` block, with details by the function, then print how long it took."""
        from rich.markup import escape

        from dragoman.terminal.training import SECONDS_BETWEEN_LINES

        started = time.monotonic()
        live = self.is_terminal and not self.quiet
        style = "line" if self.console.options.ascii_only else "dots"
        with self.console.status(escape(text), spinner=style) if live else nullcontext() as spinner:
            printed = started

            def tell(detail: str) -> None:
                nonlocal printed
                if spinner:
                    spinner.update(escape(f"{text}: {detail}"))
                elif time.monotonic() - printed > SECONDS_BETWEEN_LINES:
                    printed = time.monotonic()
                    self.note(f"{text}: {detail}")

            yield tell
        self.note(f"{text}: {time.monotonic() - started:.1f} s")

    def event(self, name: str, values: dict[str, Any]) -> None:
        """Show an event of a training (see `dragoman.system.listener`)."""
        if name == "begin":
            from dragoman.system.device import memory_in_use  # loads torch

            self._view = self._live_table.enter_context(self.training(values["config"], memory=memory_in_use))
            self._view.begin(values["past"], last_step=values["last_step"])
        elif name == "end":
            self._live_table.close()
            self._view = None
        elif name == "stopping":
            self._stopping()
        elif self._view:
            self._view.report(name, values)

    def _stopping(self) -> None:
        """Print that a signal came, perhaps before there is a table."""
        if self._view:
            self._view.stopping()
        elif not self.quiet:
            from dragoman.terminal.training import STOPPING

            os.write(2, f"{STOPPING}\n".encode())

    @contextmanager
    def training(self, config: "TrainingConfig", *, memory: "Memory") -> Iterator["TrainingView"]:
        """The live table of a training; without a terminal, a line at every validation and some in between."""
        from rich.live import Live

        from dragoman.terminal.training import TrainingView

        live = self.is_terminal and not self.quiet
        view = TrainingView(self.console, config, memory=memory, live=live, quiet=self.quiet)
        with Live(view, console=self.console, refresh_per_second=1) if live else nullcontext():
            yield view

    @contextmanager
    def progress(self, text: str) -> Iterator[Callable[[int], None]]:
        """A progress bar. Call the function with the number of items that are done since the last call."""
        if self._hides_progress:
            yield lambda items: None
            return
        with self._bar() as bar:
            task = bar.add_task(text, total=None)
            yield lambda items: bar.advance(task, items)

    @contextmanager
    def file_progress(self, text: str, total: int, *, unit: str = "files") -> Iterator[Callable[[int, int], None]]:
        """A progress bar over files. Call the function with the files and lines that are done since the last call."""
        if self._hides_progress:
            yield lambda files, lines: None
            return
        from rich.progress import BarColumn, TextColumn, TimeRemainingColumn

        counts = TextColumn(f"{{task.completed:,}} of {{task.total:,}} {unit}, {{task.fields[lines]:,}} lines")
        with self._bar(TextColumn("{task.description}"), BarColumn(), counts, TimeRemainingColumn()) as bar:
            task = bar.add_task(text, total=total, lines=0)
            yield lambda files, lines: bar.update(task, advance=files, lines=bar.tasks[task].fields["lines"] + lines)

    @property
    def _hides_progress(self) -> bool:
        return self.quiet or not self.is_terminal

    def _bar(self, *columns: "ProgressColumn") -> "Progress":
        from rich.progress import Progress

        return Progress(*columns, console=self.console, transient=True)
