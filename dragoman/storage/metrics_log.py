"""`run/metrics.jsonl`: the events of a run, one JSON object a line."""

import json
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from dragoman.system.atomic import write_file

REQUESTED = "a request to stop"
"""Reason of the end of a run that a program has stopped. Such a run is scored as after a limit, and may go on."""


class MetricsFile:
    """Writes `metrics.jsonl`, one event a line. Of the steps, it keeps the first and each multiple of `every`."""

    def __init__(self, path: Path, *, every: int = 10):
        self.path, self.every = path, every

    def __enter__(self) -> Self:
        self.file = open(self.path, "a", encoding="utf-8", buffering=1)
        return self

    def __exit__(self, *exception: object) -> None:
        with suppress(OSError):  # raised by `write` already
            self.file.close()

    def write(self, event: str, values: dict[str, Any]) -> None:
        """Write an event, unless it is a step that is left out."""
        if event != "step" or values["step"] % self.every == 0 or values["step"] == 1:
            self.file.write(json.dumps({"event": event, **values}, ensure_ascii=False) + "\n")

    def forget_after(self, step: int) -> None:
        """Delete the events of later steps, and the end: a resumed run repeats the steps after its checkpoint."""
        kept = [line for line in read_metrics(self.path) if line.get("step", 0) <= step and line["event"] != "end"]
        self.__exit__()  # Windows replaces no file that is open
        try:
            write_file(self.path, "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in kept).encode())
        finally:
            self.__enter__()


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """The events of a run, oldest first. Lines that are no events, such as a last one cut short, are skipped."""
    if not path.exists():
        return []
    events = []
    for line in path.read_text(encoding="utf-8", errors="replace").split("\n"):
        with suppress(ValueError, RecursionError):
            value = json.loads(line)
            if _is_event(value):
                events.append(value)
    return events


def _is_event(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("event"), str) and isinstance(value.get("step", 0), int)
