"""What people see while a command works: notes, a live table of the training, tables of results. All on stderr.

Without a terminal (a pipe, a log file) the live table becomes a plain line at every validation, and one every
10 seconds in between.
"""

import math
import os
import shlex
import shutil
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.markup import escape
from rich.progress import Progress
from rich.table import Table
from rich.text import Text

SHOWN_VALIDATIONS = 12
SECONDS_BETWEEN_LINES = 10


def command(*words: str) -> str:
    """A command line of ours to copy: it runs from here, also where `dragoman` is not on the PATH."""
    inside = sys.executable.startswith(os.getcwd() + os.sep)
    python = os.path.relpath(sys.executable) if inside else sys.executable
    program = ["dragoman"] if shutil.which("dragoman") else [python, "-m", "dragoman"]
    return shlex.join([*program, *words])


class Display:
    """Writes to stderr; `quiet` leaves warnings only."""

    def __init__(self, *, quiet: bool = False):
        self.console = Console(stderr=True, highlight=False)
        self.quiet = quiet

    def note(self, text: str) -> None:
        """One line about what was done or found."""
        if not self.quiet:
            self.console.print(escape(text), soft_wrap=True)

    def warn(self, text: str) -> None:
        """One line that asks for attention."""
        self.console.print(f"[bold yellow]Warning:[/] {escape(text)}", soft_wrap=True)

    def show(self, table: Table) -> None:
        """A table, unless quiet."""
        if not self.quiet:
            self.console.print(table)

    @contextmanager
    def status(self, text: str) -> Iterator[None]:
        """A spinner while something short goes on, then how long it took."""
        started = time.monotonic()
        if self.console.is_terminal and not self.quiet:
            with self.console.status(escape(text)):
                yield
        else:
            yield
        self.note(f"{text}: {time.monotonic() - started:.1f} s")

    @contextmanager
    def training(self, *, max_seconds: float | None, max_steps: int | None) -> Iterator["TrainingView"]:
        """The live table of a training."""
        view = TrainingView(self, max_seconds, max_steps)
        if self.quiet or not self.console.is_terminal:
            yield view
            return
        with Live(view, console=self.console, refresh_per_second=4, transient=False):
            yield view

    @contextmanager
    def progress(self, text: str, total: int | None = None) -> Iterator[Callable[[int], None]]:
        """A progress bar; call what it gives with the number of things done since the last call."""
        hidden = self.quiet or not self.console.is_terminal
        with Progress(console=self.console, disable=hidden, transient=True) as bar:
            task = bar.add_task(text, total=total)
            yield lambda done: bar.advance(task, done)


class TrainingView:
    """Receives the trainer's events; `rich` asks it for the table several times a second."""

    def __init__(self, display: Display, max_seconds: float | None, max_steps: int | None):
        self.display, self.max_seconds, self.max_steps = display, max_seconds, max_steps
        self.rows: deque[tuple[str, ...]] = deque(maxlen=SHOWN_VALIDATIONS)
        self.samples: list[dict[str, str]] = []
        self.last: dict[str, Any] = {}
        self.loss = self.rate = 0.0
        self._marks: deque[tuple[float, int]] = deque(maxlen=50)  # seconds and tokens after recent steps
        self._printed = 0.0

    def report(self, event: str, metrics: dict[str, Any]) -> None:
        """Take in one event of the trainer."""
        if event == "step":
            self._step(metrics)
        elif event == "validation":
            self._validation(metrics)
        elif event == "average":
            what = "better than each, kept" if metrics["better"] else "not better than the best, left"
            number = len(metrics["steps"])
            self.display.note(f"The average of the last {number} validations has BLEU {metrics['bleu']:.1f}: {what}.")

    def stopping(self) -> None:
        """A signal came."""
        self.display.note("Stopping after this step, and saving; once more to stop at once.")

    def __rich__(self) -> Group:
        return Group(self._table(), *self._sample_lines(self.samples), self._status_line())

    def _step(self, metrics: dict[str, Any]) -> None:
        self.last = metrics
        self.loss = metrics["loss"] if not self.loss else 0.95 * self.loss + 0.05 * metrics["loss"]
        self._marks.append((metrics["seconds"], metrics["tokens"]))
        seconds, tokens = (last - first for last, first in zip(self._marks[-1], self._marks[0], strict=True))
        # The pause of a validation would spoil the rate: the deque restarts after it.
        self.rate = tokens / seconds if seconds else self.rate
        piped = not self.display.quiet and not self.display.console.is_terminal
        if piped and (metrics["step"] == 1 or time.monotonic() - self._printed > SECONDS_BETWEEN_LINES):
            self._printed = time.monotonic()
            self.display.console.print(self._status_line(), soft_wrap=True)

    def _validation(self, metrics: dict[str, Any]) -> None:
        self._marks.clear()
        row = (
            f"{metrics['step']:,}",
            f"{self.last.get('epoch', 0) + 1}",
            f"{self.loss:.3f}",
            f"{metrics['valid_loss']:.3f}",
            f"{metrics['bleu']:.1f}{' *' if metrics['better'] else '  '}",
            f"{self.rate:,.0f}",
            _clock(self.last.get("seconds", 0.0)),
        )
        self.rows.append(row)
        self.samples = metrics["samples"][:2]
        if self.display.quiet or self.display.console.is_terminal:
            return
        names = ("step", "epoch", "loss", "valid loss", "BLEU", "tokens/s", "time")
        self.display.console.print("  ".join(f"{n} {v}" for n, v in zip(names, row, strict=True)), soft_wrap=True)
        for line in self._sample_lines(self.samples[:1]):
            self.display.console.print(line, soft_wrap=True)

    def _table(self) -> Table:
        table = Table(
            title="Training: a row for each validation, * the best so far",
            title_justify="left",
            box=None,
        )
        for name in ("step", "epoch", "loss", "valid loss", "BLEU", "tokens/s", "time"):
            table.add_column(name, justify="right", header_style="bold")
        for row in self.rows:
            table.add_row(*row, style="bold green" if row[4].endswith("*") and row is self.rows[-1] else "")
        return table

    @staticmethod
    def _sample_lines(samples: list[dict[str, str]]) -> list[Text]:
        lines = []
        for sample in samples:
            for name in ("source", "translation", "reference"):
                lines.append(
                    Text(f"  {name:>11}  ", style="dim").append(
                        sample[name], style="" if name != "translation" else "bold"
                    )
                )
        return lines

    def _status_line(self) -> Text:
        if not self.last:
            return Text("First step ...")
        parts = [
            f"step {self.last['step']:,}",
            f"epoch {self.last['epoch'] + 1}",
            f"loss {self.loss:.3f}",
            f"learning rate {self.last['learning_rate']:.1e}",
            f"{self.rate:,.0f} tokens/s",
            _clock(self.last["seconds"]),
        ]
        if (left := self._seconds_left()) is not None:
            parts.append(f"{_clock(left)} left")
        return Text("  ".join(parts), style="cyan")

    def _seconds_left(self) -> float | None:
        seconds, step = self.last["seconds"], self.last["step"]
        limits = []
        if self.max_seconds:
            limits.append(self.max_seconds - seconds)
        if self.max_steps:
            limits.append((self.max_steps - step) * seconds / step)
        return max(0.0, min(limits)) if limits else None


def scores_table(title: str, evaluation: dict[str, Any]) -> Table:
    """The figures of `Evaluation.to_dict`, with the sacrebleu signatures."""
    signatures = evaluation["signatures"]
    rows = [
        ("BLEU", f"{evaluation['bleu']:.2f}", signatures["bleu"]),
        ("chrF++", f"{evaluation['chrf']:.2f}", signatures["chrf"]),
        ("TER", f"{evaluation['ter']:.2f}", signatures["ter"]),
        ("perplexity", f"{evaluation['perplexity']:.3f}", "per token"),
        (
            "token accuracy",
            f"{100 * evaluation['token_accuracy']:.2f} %",
            "next token, given the true beginning",
        ),
        (
            "sentences/s",
            f"{evaluation['sentences_per_second']:.1f}",
            f"{evaluation['sentences']:,} sentences",
        ),
    ]
    return results_table(title, rows)


def results_table(title: str, rows: list[tuple[str, str, str]]) -> Table:
    """Name, value and remark, a row each."""
    table = Table(title=escape(title), title_justify="left", box=None, show_header=False)
    table.add_column(style="bold")
    table.add_column(justify="right")
    table.add_column(style="dim", overflow="fold")
    for row in rows:
        table.add_row(*map(escape, row))
    return table


def comparison_table(heads: list[str], rows: dict[str, list[str]]) -> Table:
    """A row for each name, a column for each head."""
    table = Table(box=None)
    table.add_column(style="bold", no_wrap=True)
    for head in heads:
        table.add_column(escape(head), justify="right", overflow="fold")
    for name, cells in rows.items():
        table.add_row(*map(escape, (name, *cells)))
    return table


def _clock(seconds: float) -> str:
    minutes, seconds = divmod(math.floor(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"
