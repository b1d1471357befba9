"""Paths of the files of a run, and its lock.

Inside the model directory, `run/` holds what only the run needs: its config, the metrics, token ids and checkpoints.
It may be deleted when the run is over.
"""

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dragoman.errors import ResourceError, UsageError, command_line
from dragoman.storage.atomic import naming
from dragoman.system.locks import lock


class RunDirectory:
    """Paths of the files of a run."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.run = path / "run"
        self.config = self.run / "config.yaml"
        self.metrics = self.run / "metrics.jsonl"
        self.tensorboard = self.run / "tensorboard"
        self.evaluation = self.run / "evaluation.json"
        self.data = self.run / "data"
        self.base = self.run / "base"
        self.teaching = self.run / "teaching"
        self.checkpoints = self.run / "checkpoints"
        self.snapshots = self.run / "snapshots"
        self.lock = self.run / "lock"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other processes from this run until the block ends, or this process does, however it ends.

        Raises `ResourceError` that names the process which has it.
        """
        self.run.mkdir(parents=True, exist_ok=True)
        with naming(self.path), open(self.lock, "a+", encoding="ascii") as file:
            if not lock(file):
                file.seek(0)
                raise ResourceError(
                    f"{self.path} is being trained by process {file.read() or 'unknown'}; wait for it, end it with "
                    "Ctrl-C, or choose another --output."
                )
            file.truncate(0)
            file.write(str(os.getpid()))
            file.flush()
            yield

    def refuse_if_locked(self) -> None:
        """Raise `ResourceError` if another process has this run at the moment."""
        if self.lock.exists():
            with self.locked():
                pass

    def refuse_if_used(self) -> None:
        """Raise unless a new run can be started here."""
        self.refuse_if_locked()
        if self.config.exists():
            go_on = command_line("train", "--resume", self.path)
            raise UsageError(f"{self.path} holds a run already; go on with `{go_on}`, or choose another --output.")
        # A folder with a run/ alone is one that a start left half prepared.
        refuse_to_overwrite(self.path, but="run")

    def clear(self) -> None:
        """Delete what a start left half prepared: a new run would go on from its checkpoints."""
        for entry in {*self.run.iterdir()} - {self.lock, self.teaching}:
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()

    def pairs(self, name: str) -> list[tuple[str, str]]:
        """The `valid` or `test` pairs."""
        pairs = json.loads((self.data / f"{name}.json").read_bytes())
        return [(source, target) for source, target in pairs]


def refuse_to_overwrite(path: Path, *, but: str | None = None) -> None:
    """Raise `UsageError` unless `path` is a new or empty folder, an entry named `but` aside."""
    if path.exists() and (not path.is_dir() or {entry.name for entry in path.iterdir()} - {but}):
        raise UsageError(f"{path} exists and is not empty; choose another folder.")
    parent = next(each for each in (path, *path.absolute().parents) if each.exists())
    if not parent.is_dir() or not os.access(parent, os.W_OK):
        why = "may not be written to" if parent.is_dir() else "is a file"
        raise UsageError(f"{path} cannot be made, since {parent} {why}; choose another folder.")


def unused(path: Path) -> Path:
    """`path`, or path-2, path-3 ... if there is something already."""
    number, free = 1, path
    while free.exists():
        number += 1
        free = path.with_name(f"{path.name}-{number}")
    return free
