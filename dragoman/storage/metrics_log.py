"""`run/metrics.jsonl`: the events of a run, one JSON object a line."""

import json
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from dragoman.system.atomic import write_file

REQUESTED = "a request to stop"
"""The reason why a run ended that a program stopped: it is done as after a limit, and may go on."""


class MetricsFile:
    """`metrics.jsonl`: one event a line; of the steps only the first and each of number `every`."""

    def __init__(self, path: Path, *, every: int = 10):
        self.path, self.every = path, every

    def __enter__(self) -> Self:
        self.file = open(self.path, "a", encoding="utf-8", buffering=1)
        return self

    def __exit__(self, *exception: object) -> None:
        with suppress(OSError):  # what could not be written, which the writer was told
            self.file.close()

    def write(self, event: str, values: dict[str, Any]) -> None:
        if event != "step" or values["step"] % self.every == 0 or values["step"] == 1:
            self.file.write(json.dumps({"event": event, **values}, ensure_ascii=False) + "\n")

    def forget_after(self, step: int) -> None:
        """A resumed run does the steps after its checkpoint again, and ends again: their lines go."""
        kept = [line for line in read_metrics(self.path) if line.get("step", 0) <= step and line["event"] != "end"]
        self.__exit__()  # Windows replaces no file that is open
        try:
            write_file(self.path, "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in kept).encode())
        finally:
            self.__enter__()


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """The events of a run, oldest first; what is none, such as a last line cut short, is left out."""
    events = []
    for line in path.read_text(encoding="utf-8", errors="replace").split("\n") if path.exists() else []:
        with suppress(ValueError, RecursionError):
            found = json.loads(line)
            if (
                isinstance(found, dict)
                and isinstance(found.get("event"), str)
                and isinstance(found.get("step", 0), int)
            ):
                events.append(found)
    return events
