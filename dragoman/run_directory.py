"""Where the files of a run are, and its metrics.

Inside the model directory, `run/` holds what only the run needs: its config, the metrics, token ids and checkpoints.
It may be deleted when the run is over.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from dragoman.errors import UsageError


@dataclass(frozen=True)
class RunDirectory:
    """Where the files of a run are."""

    path: Path

    @property
    def run(self) -> Path:
        return self.path / "run"

    @property
    def config(self) -> Path:
        return self.run / "config.yaml"

    @property
    def metrics(self) -> Path:
        return self.run / "metrics.jsonl"

    @property
    def tensorboard(self) -> Path:
        return self.run / "tensorboard"

    @property
    def evaluation(self) -> Path:
        return self.run / "evaluation.json"

    @property
    def data(self) -> Path:
        return self.run / "data"

    @property
    def checkpoints(self) -> Path:
        return self.run / "checkpoints"

    @property
    def snapshots(self) -> Path:
        return self.run / "snapshots"

    def pairs(self, name: str) -> list[tuple[str, str]]:
        """The `valid` or `test` pairs."""
        pairs = json.loads((self.data / f"{name}.json").read_bytes())
        return [(source, target) for source, target in pairs]


def refuse_to_overwrite(path: Path, *, but: str | None = None) -> None:
    """Raise `UsageError` unless `path` is a new or empty folder, an entry named `but` aside."""
    if path.exists() and (not path.is_dir() or {entry.name for entry in path.iterdir()} - {but}):
        raise UsageError(f"{path} exists and is not empty; choose another --output.")


class MetricsFile:
    """`metrics.jsonl`: one event a line; of the steps only every tenth."""

    def __init__(self, path: Path):
        self.path = path

    def __enter__(self) -> Self:
        self.file = open(self.path, "a", encoding="utf-8", buffering=1)
        return self

    def __exit__(self, *exception) -> None:
        self.file.close()

    def write(self, event: str, values: dict[str, Any]) -> None:
        if event != "step" or values["step"] % 10 == 0 or values["step"] == 1:
            self.file.write(json.dumps({"event": event, **values}, ensure_ascii=False) + "\n")

    def forget_after(self, step: int) -> None:
        """A resumed run does the steps after its checkpoint again: their lines go."""
        kept = [line for line in read_metrics(self.path) if line.get("step", 0) <= step and line["event"] != "average"]
        self.file.truncate(0)
        for line in kept:
            self.file.write(json.dumps(line, ensure_ascii=False) + "\n")


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """The events of a run, oldest first; a last line that a crash cut short is left out."""
    events = []
    for line in path.read_text(encoding="utf-8").split("\n") if path.exists() else []:
        try:
            events.append(json.loads(line))
        except ValueError:
            continue
    return events
