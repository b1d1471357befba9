"""The view of a training: a live table for people, plain lines for pipes and log files."""

import os
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from rich.console import Console, ConsoleOptions
from rich.table import Table
from rich.text import Text

from dragoman.config.training import TrainingConfig
from dragoman.metrics import LOSS, MAIN
from dragoman.system.figures import clock, printable, size, sparkline
from dragoman.terminal.remaining import time_left

Memory = Callable[[], dict[str, int]]
"""Function that returns the bytes in use: by this process (`memory`), and on a `GPU`."""

COLUMNS = ("step", "epoch", "loss", "valid loss", MAIN.label, "tokens/s", "time")
NARROW_COLUMNS = ("step", "valid loss", MAIN.label)
"""Columns of the table on a screen of fewer than `NARROW` columns of text."""
NARROW = 64
ACCURACIES = {"accuracy": "train_accuracy", "valid acc.": "valid_accuracy"}
"""Further columns and the keys of their values, if they are measured and the screen has `WIDE` columns of text."""
WIDE = 88
SHOWN_VALIDATIONS = 12
CURVE_WIDTH = 40
SMOOTHING = 0.95
"""Share of the old value in the smoothed loss at every step."""
SECONDS_BETWEEN_LINES = 10
"""Least seconds between two lines about steps where there is no terminal."""
STOPPING = "Stopping after this step, and saving; once more to stop at once."


class TrainingView:
    """Receives the events of the trainer. If `live`, `rich` renders it as a table; else it prints lines."""

    def __init__(self, console: Console, config: TrainingConfig, *, memory: Memory, live: bool, quiet: bool = False):
        self.console, self.config, self.live, self.quiet = console, config, live, quiet
        self.last_step: int | None = None
        self.validations: list[dict[str, Any]] = []
        self.last: dict[str, Any] = {}
        self.loss = self.rate = self.step_seconds = 0.0
        self.message = ""
        self._falling = False
        self._marks: deque[tuple[float, int, int]] = deque(maxlen=50)
        """Seconds, tokens and number of recent steps."""
        self._printed = 0.0
        self._memory = memory

    def begin(self, events: Iterable[dict[str, Any]], *, last_step: int | None) -> None:
        """Take in the events before a resume, without printing them, and the number of the last step, if known."""
        self.last_step = last_step
        for event in events:
            if event["event"] == "step":
                self._step(event)
            elif event["event"] == "validation":
                self._validation(event)
        # Steps before the resume were made by another process, and do not count for the speed.
        self._marks.clear()

    def report(self, event: str, metrics: dict[str, Any]) -> None:
        """Take in one event of the trainer, and print it if it matters."""
        if event == "step":
            self._step(metrics)
            due = metrics["step"] == 1 or time.monotonic() - self._printed > SECONDS_BETWEEN_LINES
            if due and not self.live:
                self._printed = time.monotonic()
                self._print("  ".join([*self._pace(), *self._clocks()]))
        elif event == "validation":
            self._validation(metrics)
            if not self.live:
                self._print("  ".join(f"{name} {value}" for name, value in self.validations[-1]["row"].items()))
                for line in self._sample_lines(1):
                    self._print(line)
        elif event == "roll_back":
            self._marks.clear()
        elif event == "decay":
            self._print_decay(metrics["last_step"], metrics["reason"])
        elif event == "average":
            self._print_average(metrics)

    def _print_decay(self, last_step: int, reason: str) -> None:
        """Print that the learning rate falls, or that the last step has changed since it does."""
        if not self._falling:
            text = "The learning rate falls from now on"
        elif last_step < (self.last_step or 0):
            text = "Steps take longer than they did"
        else:
            text = "There is time for more"
        self._falling, self.last_step = True, last_step
        self._print(f"{text}; the last step is {last_step:,} ({reason}).")

    def _print_average(self, metrics: dict[str, Any]) -> None:
        """Print whether averaged weights are better than those of each validation."""
        decision = "better than each, kept" if metrics["better"] else "not better than the best, left"
        score = f"{MAIN.label} {MAIN.write(metrics[MAIN.validation_key])}"
        self._print(f"The average of the last {len(metrics['steps'])} validations has {score}: {decision}.")

    def stopping(self) -> None:
        """Show that a signal came, without `rich`, whose import or print the signal may have interrupted."""
        self.message = STOPPING
        if not self.live and not self.quiet:
            os.write(2, f"{self.message}\n".encode())

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Table | Text]:
        # Two lines of status, two of curves, two above the rows, and one for the cursor.
        room = console.height - 7
        samples = max(0, min(2, room // 5))
        yield _line(("Training: a row for each validation, * the best so far", "italic"))
        yield self._table(max(1, min(SHOWN_VALIDATIONS, room - 3 * samples)), narrow=options.max_width < NARROW)
        yield from self._sample_lines(samples)
        yield from self._curves(ascii_only=options.ascii_only)
        for words in (self._pace(), self._clocks()):
            yield _line(("  ".join(words), "cyan"))
        if self.message:
            yield _line((self.message, "bold"))

    def _print(self, line: str | Text) -> None:
        if not self.quiet:
            self.console.print(line, soft_wrap=True, markup=False)

    def _step(self, metrics: dict[str, Any]) -> None:
        # Only some steps before a resume are known. Each stands for those between it and the one before.
        old_share = SMOOTHING ** max(1, metrics["step"] - self.last["step"]) if self.last else 0.0
        self.loss = old_share * self.loss + (1 - old_share) * metrics["loss"]
        self.last = metrics
        self._marks.append((metrics["seconds"], metrics["tokens"], metrics["step"]))
        seconds, tokens, steps = (last - first for last, first in zip(self._marks[-1], self._marks[0], strict=True))
        # After a validation `_marks` begins again, so that its time does not lower the rate.
        if seconds and steps > 0:  # after a run went back, steps may stand there twice
            self.rate, self.step_seconds = tokens / seconds, seconds / steps

    def _validation(self, metrics: dict[str, Any]) -> None:
        self._marks.clear()
        seconds = self.last.get("seconds", 0.0)
        row = {
            "step": f"{metrics['step']:,}",
            "epoch": f"{self.last.get('epoch', 0) + 1}",
            "loss": LOSS.write(self.loss),
            "valid loss": LOSS.write(metrics[LOSS.validation_key]),
            MAIN.label: f"{MAIN.write(metrics[MAIN.validation_key])}{' *' if metrics['better'] else '  '}",
            "tokens/s": f"{self.rate:,.0f}",
            "time": clock(seconds),
        }
        row |= {name: f"{metrics[key]:.1%}" for name, key in ACCURACIES.items() if key in metrics}
        self.validations.append(metrics | {"seconds": seconds, "row": row})

    def _table(self, num_rows: int, *, narrow: bool) -> Table:
        table = Table(box=None)
        columns = NARROW_COLUMNS if narrow else COLUMNS
        if not narrow and self.config.accuracy and self.console.width >= WIDE:
            columns = (*COLUMNS, *ACCURACIES)
        for name in columns:
            table.add_column(name, justify="right", header_style="bold", no_wrap=True)
        for validation in self.validations[-num_rows:]:
            is_new_best = validation is self.validations[-1] and validation["better"]
            cells = [validation["row"].get(name, "") for name in columns]
            table.add_row(*cells, style="bold green" if is_new_best else "")
        return table

    def _sample_lines(self, number: int) -> Iterator[Text]:
        """Some sentences of the last validation, with translation and reference, a line each."""
        samples = self.validations[-1]["samples"] if self.validations else []
        for sample in samples[:number]:
            for name in ("source", "translation", "reference"):
                style = "bold" if name == "translation" else ""
                yield _line((f"  {name:>11}  ", "dim"), (printable(sample[name]), style))

    def _curves(self, *, ascii_only: bool) -> Iterator[Text]:
        """A line for score and loss each: its curve over all validations, and the best one."""
        if not self.validations:
            return
        for name, metric in ((MAIN.label, MAIN), ("valid loss", LOSS)):
            best = metric.best(self.validations)
            values = [validation[metric.validation_key] for validation in self.validations]
            curve = "" if ascii_only else sparkline(values, CURVE_WIDTH) + "  "
            words = f"best {metric.write(best[metric.validation_key])} at step {best['step']:,}"
            yield _line((f"  {name:>11}  ", "dim"), (curve, "green"), (words, ""))

    def _pace(self) -> list[str]:
        """Step, epoch, loss, learning rate and speed, as far as they are known."""
        if not self.last:
            return ["First step ..."]
        texts = [
            f"step {self.last['step']:,}",
            f"epoch {self.last['epoch'] + 1}",
            f"loss {LOSS.write(self.loss)}",
            f"learning rate {self.last['learning_rate']:.1e}",
        ]
        if self.rate:
            texts.append(f"{self.rate:,.0f} tokens/s")
        return texts

    def _clocks(self) -> list[str]:
        """Time, time left and memory, as far as they are known."""
        texts = []
        if self.last:
            seconds_left = None
            if self.last_step and self.step_seconds:
                seconds_left = (self.last_step - self.last["step"]) * self.step_seconds
            texts.append(clock(self.last["seconds"]))
            texts.append(time_left(self.config, seconds_left, self.last, self.validations))
        for place, num_bytes in self._memory().items():
            if num_bytes:
                texts.append(f"{place} {size(num_bytes)}")
        return [text for text in texts if text]


def _line(*pieces: tuple[str, str]) -> Text:
    """Pieces of text with their styles, on exactly one line of the screen, whatever its width."""
    return Text.assemble(*pieces, no_wrap=True, overflow="ellipsis")
