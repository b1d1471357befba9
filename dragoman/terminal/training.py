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
"""Bytes in use: by this process (`memory`), and on a `GPU`."""

COLUMNS = ("step", "epoch", "loss", "valid loss", MAIN.label, "tokens/s", "time")
IN_NARROW = ("step", "valid loss", MAIN.label)
NARROW = 64
"""Columns of a screen below which a row has the figures of `IN_NARROW` only."""
ACCURACIES = {"accuracy": "train_accuracy", "valid acc.": "valid_accuracy"}
"""Further columns and their keys, where they are measured and a screen has `WIDE` columns."""
WIDE = 88
SHOWN_VALIDATIONS = 12
CURVE_WIDTH = 40
SMOOTHING = 0.95
"""Share of the shown loss that remains with every step."""
SECONDS_BETWEEN_LINES = 10
STOPPING = "Stopping after this step, and saving; once more to stop at once."


class TrainingView:
    """Receives the trainer's events; `rich` renders it as a table every second."""

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
        """Take in the events before a resume without printing them, and the step that ends the run, if it is known."""
        self.last_step = last_step
        for event in events:
            if event["event"] == "step":
                self._step(event)
            elif event["event"] == "validation":
                self._validation(event)
        # The next step is timed alone: those before it were made by another process.
        self._marks.clear()

    def report(self, event: str, metrics: dict[str, Any]) -> None:
        """Take in one event of the trainer."""
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
            before, self.last_step = self.last_step, metrics["last_step"]
            changed = "Steps take longer than they did" if self.last_step < (before or 0) else "There is time for more"
            text = changed if self._falling else "The learning rate falls from now on"
            self._falling = True
            self._print(f"{text}; the last step is {self.last_step:,} ({metrics['reason']}).")
        elif event == "average":
            decision = "better than each, kept" if metrics["better"] else "not better than the best, left"
            score = f"{MAIN.label} {MAIN.write(metrics[MAIN.validation_key])}"
            self._print(f"The average of the last {len(metrics['steps'])} validations has {score}: {decision}.")

    def stopping(self) -> None:
        """A signal came. It may interrupt an import or a print of rich, so the live table shows the message itself."""
        self.message = STOPPING
        if not self.live and not self.quiet:
            os.write(2, f"{self.message}\n".encode())

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Table | Text]:
        # Two lines of status, two of curves, two above the rows, and one for the cursor.
        room = console.height - 7
        samples = 2 if room >= 10 else 1 if room >= 5 else 0
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
        # Only some steps before a resume are known: each stands for those between it and the one before.
        kept = SMOOTHING ** max(1, metrics["step"] - self.last["step"]) if self.last else 0.0
        self.loss = kept * self.loss + (1 - kept) * metrics["loss"]
        self.last = metrics
        self._marks.append((metrics["seconds"], metrics["tokens"], metrics["step"]))
        seconds, tokens, steps = (last - first for last, first in zip(self._marks[-1], self._marks[0], strict=True))
        # After a validation `_marks` begins again, so that its time does not lower the rate.
        if seconds:
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
        more = ACCURACIES if self.config.accuracy and self.console.width >= WIDE else ()
        shown = IN_NARROW if narrow else (*COLUMNS, *more)
        for name in shown:
            table.add_column(name, justify="right", header_style="bold", no_wrap=True)
        for each in self.validations[-num_rows:]:
            best = each is self.validations[-1] and each["better"]
            table.add_row(*(each["row"].get(name, "") for name in shown), style="bold green" if best else "")
        return table

    def _sample_lines(self, number: int) -> Iterator[Text]:
        for sample in self.validations[-1]["samples"][:number] if self.validations else ():
            for name in ("source", "translation", "reference"):
                style = "bold" if name == "translation" else ""
                yield _line((f"  {name:>11}  ", "dim"), (printable(sample[name]), style))

    def _curves(self, *, ascii_only: bool) -> Iterator[Text]:
        for name, metric in ((MAIN.label, MAIN), ("valid loss", LOSS)) if self.validations else ():
            best, values = metric.best(self.validations), [each[metric.validation_key] for each in self.validations]
            curve = "" if ascii_only else sparkline(values, CURVE_WIDTH) + "  "
            words = f"best {metric.write(best[metric.validation_key])} at step {best['step']:,}"
            yield _line((f"  {name:>11}  ", "dim"), (curve, "green"), (words, ""))

    def _pace(self) -> list[str]:
        if not self.last:
            return ["First step ..."]
        return [
            f"step {self.last['step']:,}",
            f"epoch {self.last['epoch'] + 1}",
            f"loss {LOSS.write(self.loss)}",
            f"learning rate {self.last['learning_rate']:.1e}",
            *([f"{self.rate:,.0f} tokens/s"] if self.rate else []),
        ]

    def _clocks(self) -> list[str]:
        last = self.last
        steps_left = self.last_step - last["step"] if self.last_step and last else None
        seconds = steps_left * self.step_seconds if steps_left is not None and self.step_seconds else None
        times = [clock(last["seconds"]), time_left(self.config, seconds, last, self.validations)] if last else []
        in_use = (f"{where} {size(used)}" for where, used in self._memory().items() if used)
        return [text for text in (*times, *in_use) if text]


def _line(*pieces: tuple[str, str]) -> Text:
    """Pieces of text with their styles, on exactly one line of the screen, whatever its width."""
    return Text.assemble(*pieces, no_wrap=True, overflow="ellipsis")
