"""A run in a notebook: one output below the cell, which is updated."""

import html
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from dragoman.metrics import LOSS, MAIN
from dragoman.system.figures import clock
from dragoman.system.listener import Listener

SECONDS_BETWEEN = 0.5
"""Time between two updates of the output, so that a page with many of them stays quick."""
SHOWN_VALIDATIONS = 12
COLUMNS = ("step", "epoch", "valid loss", MAIN.label, "time")


def default_listener() -> Listener:
    """The listener of a run that was given none: in a notebook it shows the run, elsewhere it only warns."""
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    return NotebookListener() if hasattr(shell, "kernel") else Listener()


class NotebookListener(Listener):
    """Shows a run as one output of a notebook: notes and warnings, the last validations, and the step at hand."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        """Notes and warnings, as HTML."""
        self.validations: list[dict[str, str]] = []
        self.now = ""
        """What is going on at the moment."""
        self._epoch, self._seconds = 0, 0.0
        self._output: Any = None
        self._shown = 0.0

    def note(self, text: str) -> None:
        """Add a line."""
        self.lines.append(html.escape(text))
        self._show()

    def warn(self, text: str) -> None:
        """Add a line in bold."""
        self.lines.append(f"<b>Warning: {html.escape(text)}</b>")
        self._show()

    @contextmanager
    def status(self, text: str) -> Iterator[Callable[[str], None]]:
        """Show a task that takes a while, and the details with which its function is called."""
        begun = time.monotonic()

        def tell(detail: str) -> None:
            self.now = f"{text}: {detail}"
            self._show(hurry=False)

        self.now = text
        self._show()
        yield tell
        self.now = ""
        self.note(f"{text}: {time.monotonic() - begun:.1f} s")

    def event(self, name: str, values: dict[str, Any]) -> None:
        """Show the step, or add the row of a validation."""
        if name == "step":
            self._epoch, self._seconds = values["epoch"] + 1, values["seconds"]
            self.now = f"step {values['step']:,}, loss {values['loss']:.3f}, {clock(values['seconds'])}"
            self._show(hurry=False)
        elif name == "validation":
            score = MAIN.write(values[MAIN.validation_key]) + (" *" if values["better"] else "")
            valid_loss = LOSS.write(values[LOSS.validation_key])
            row = (f"{values['step']:,}", str(self._epoch), valid_loss, score, clock(self._seconds))
            self.validations.append(dict(zip(COLUMNS, row, strict=True)))
            self._show()
        elif name == "end":
            self.now = ""
            self._show()

    def to_html(self) -> str:
        """The output: lines, a table of the last validations with * the best so far, and the step at hand."""
        parts = [f"<div>{line}</div>" for line in self.lines]
        if self.validations:
            head = "".join(f"<th>{html.escape(name)}</th>" for name in COLUMNS)
            rows = ""
            for validation in self.validations[-SHOWN_VALIDATIONS:]:
                rows += f"<tr>{''.join(f'<td>{validation[name]}</td>' for name in COLUMNS)}</tr>"
            parts.append(f"<table><tr>{head}</tr>{rows}</table>")
        if self.now:
            parts.append(f"<div>{html.escape(self.now)}</div>")
        return "".join(parts)

    def _show(self, *, hurry: bool = True) -> None:
        """Update the output; without `hurry` only if the last update is a while ago."""
        from IPython.display import HTML, display

        if not hurry and time.monotonic() - self._shown < SECONDS_BETWEEN:
            return
        self._shown = time.monotonic()
        if self._output is None:
            self._output = display(HTML(self.to_html()), display_id=True)
        else:
            self._output.update(HTML(self.to_html()))
