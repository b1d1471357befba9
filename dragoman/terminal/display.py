"""Notes, warnings, progress and the live table of a training, all on stderr."""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.markup import escape
from rich.progress import BarColumn, Progress, ProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from dragoman.config.training import TrainingConfig
from dragoman.system.listener import Listener
from dragoman.system.streams import json_line
from dragoman.terminal.training import SECONDS_BETWEEN_LINES, STOPPING, Memory, TrainingView

PIPED_WIDTH = 1000
"""Columns of a table in a file or a pipe. `rich` would fold it at 80 columns."""


class _Console(Console):
    """A console that goes on when nobody reads it any more, as after `head` has read enough."""

    def on_broken_pipe(self) -> None:
        if not self.stderr:
            raise  # the BrokenPipeError that rich handles when it calls this
        self.quiet = True  # notes that nobody reads do not stop the work


def console(*, stderr: bool = False) -> Console:
    """A console for stdout or stderr. Without a terminal, or with NO_COLOR (no-color.org), it has no ANSI styles."""
    # With NO_COLOR, `rich` itself leaves out colours only, and keeps bold and dim.
    colors = None if os.environ.get("NO_COLOR") else "auto"
    console = _Console(stderr=stderr, color_system=colors, highlight=False)
    if not console.is_terminal:
        console.width = PIPED_WIDTH
    return console


class Display(Listener):
    """Writes notes, warnings and progress to stderr. `quiet` leaves warnings only, and `as_json` makes them JSON."""

    def __init__(self, *, quiet: bool = False, as_json: bool = False):
        self.console = console(stderr=True)
        self.quiet, self.as_json = quiet, as_json
        self._view: TrainingView | None = None
        self._live_table = ExitStack()

    def note(self, text: str) -> None:
        """Print one line about what was done, unless quiet."""
        if not self.quiet:
            self.console.out(text, highlight=False)

    def warn(self, text: str) -> None:
        """Print one line that asks for attention."""
        if self.as_json:
            self.console.out(json_line({"warning": text}, self.console.file), highlight=False)
        else:
            self.console.print(Text.assemble(("Warning:", "bold yellow"), f" {text}"), soft_wrap=True)

    def show(self, table: Table) -> None:
        """Print a table, unless quiet."""
        if not self.quiet:
            self.console.print(table)

    @contextmanager
    def status(self, text: str) -> Iterator[Callable[[str], None]]:
        """Show a spinner during the `with` block, with details by the function, then print how long it took."""
        started = time.monotonic()
        live = self.console.is_terminal and not self.quiet
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
            os.write(2, f"{STOPPING}\n".encode())

    @contextmanager
    def training(self, config: TrainingConfig, *, memory: Memory) -> Iterator[TrainingView]:
        """The live table of a training; without a terminal, a line at every validation and some in between."""
        live = self.console.is_terminal and not self.quiet
        view = TrainingView(self.console, config, memory=memory, live=live, quiet=self.quiet)
        with Live(view, console=self.console, refresh_per_second=1) if live else nullcontext():
            yield view

    @contextmanager
    def progress(self, text: str) -> Iterator[Callable[[int], None]]:
        """A progress bar. Call the function with the number of items that are done since the last call."""
        with self._bar() as bar:
            task = bar.add_task(text, total=None)
            yield lambda items: bar.advance(task, items)

    @contextmanager
    def file_progress(self, text: str, total: int, *, unit: str = "files") -> Iterator[Callable[[int, int], None]]:
        """A progress bar over files. Call the function with the files and lines that are done since the last call."""
        counts = TextColumn(f"{{task.completed:,}} of {{task.total:,}} {unit}, {{task.fields[lines]:,}} lines")
        with self._bar(TextColumn("{task.description}"), BarColumn(), counts, TimeRemainingColumn()) as bar:
            task = bar.add_task(text, total=total, lines=0)
            yield lambda files, lines: bar.update(task, advance=files, lines=bar.tasks[task].fields["lines"] + lines)

    def _bar(self, *columns: ProgressColumn) -> AbstractContextManager[Progress]:
        hidden = self.quiet or not self.console.is_terminal
        bar = Progress(*columns, console=self.console, disable=hidden, transient=True)
        return nullcontext(bar) if hidden else bar  # up to rich 14, a hidden one leaves an empty line
