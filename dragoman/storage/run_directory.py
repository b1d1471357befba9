"""The folder of a run: paths of its files, its lock, and reading and writing them with checksums.

Inside the model directory, `run/` holds what only the run needs: its config, the metrics, token ids and checkpoints.
It may be deleted when the run is over.
"""

import os
import shutil
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dragoman.errors import UsageError, command_line
from dragoman.system.atomic import naming, write_file
from dragoman.system.locks import only_one
from dragoman.system.seals import MANIFEST, Mark, fingerprint, read_in, read_sealed, read_verified, write_sealed


class RunDirectory:
    """Paths of the files of a run; none of them needs to exist."""

    def __init__(self, path: Path) -> None:
        self.path = path
        """The model directory."""
        self.run = path / "run"
        self.config = self.run / "config.yaml"
        self.metrics = self.run / "metrics.jsonl"
        self.tensorboard = self.run / "tensorboard"
        self.evaluation = self.run / "evaluation.json"
        self.translations = self.run / "translations.json"
        """The kept model's translations of the test sources."""
        self.marks = self.run / MANIFEST
        """Checksums of the files that `write` has written."""
        self.data = self.run / "data"
        """Held-out pairs, tokenizers and token ids."""
        self.base = self.run / "base"
        """Copy of the model that is fine-tuned."""
        self.synthetic = self.run / "teaching"
        """Request of a distillation or back-translation, and the pairs that models have made."""
        self.given = self.run / "given"
        """Pairs that a Python program has passed to `dragoman.train`."""
        self.learning_curve = self.run / "learning-curve"
        """Runs on a part of the pairs, and their scores."""
        self.checkpoints = self.run / "checkpoints"
        self.snapshots = self.run / "snapshots"
        self.lock = self.run / "lock"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the run against other processes until the `with` block ends, or this process does, however it ends.

        Raises `ResourceError` that names the process which has the lock.
        """
        with naming(self.path), only_one(self.lock, f"{self.path} is being trained"):
            yield

    def refuse_if_locked(self) -> None:
        """Raise `ResourceError` if another process has locked this run."""
        if self.lock.exists():
            with self.locked():
                pass

    def refuse_if_used(self) -> None:
        """Raise `UsageError` or `ResourceError` unless a new run can be started here."""
        self.refuse_if_locked()
        if self.config.exists():
            go_on = command_line("train", "--resume", self.path)
            raise UsageError(f"{self.path} holds a run already; go on with `{go_on}`, or choose another --output.")
        # A folder with nothing but run/ was left by a start that broke off.
        refuse_to_overwrite(self.path, but=("run",))

    def clear(self) -> None:
        """Delete what an earlier start has left in `run/`, so that a new run does not go on from its checkpoints."""
        for entry in {*self.run.iterdir()} - {self.lock, self.synthetic, self.given}:
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()

    def write(self, file: Path, content: bytes) -> None:
        """Write a file of this run, such as the evaluation, and a mark by which `read` finds damage.

        The config has no mark, so that the user may edit it.
        """
        marks = self._marks()
        # The mark of the old content stays valid, too: the process may end before the file is replaced.
        old = marks.get(file.name, [])[-1:]
        write_sealed(self.marks, marks | {file.name: [*old, fingerprint(content)]})
        write_file(file, content)

    def read(self, file: Path) -> bytes:
        """The content of a file that `write` has written. Raises `DataError` if it is not what was written."""
        marks = self._marks()
        return read_verified(file, marks[file.name]) if file.name in marks else file.read_bytes()

    def _marks(self) -> dict[str, list[Mark]]:
        # Runs of older versions have no marks.
        return read_sealed(self.marks, into=dict) if self.marks.is_file() else {}

    def pairs(self, name: str) -> list[tuple[str, str]]:
        """The `valid` or `test` pairs. Raises `DataError` if they are not what was written."""
        return read_in(self.data, f"{name}.json", into=lambda pairs: [(source, target) for source, target in pairs])

    def about(self) -> dict[str, Any]:
        """Facts on the pairs: `data.preparation.DataFacts`. Raises `DataError` if they are not what was written."""
        return read_in(self.data, "about.json", into=dict)


def refuse_to_overwrite(path: Path, *, but: Collection[str] = ()) -> None:
    """Raise `UsageError` unless `path` is a new or empty folder, entries with the names in `but` aside."""
    if path.is_symlink() and not path.exists():
        raise UsageError(f"{path} is a link that leads nowhere; choose another folder.")
    if path.exists() and (not path.is_dir() or {entry.name for entry in path.iterdir()} - {*but}):
        raise UsageError(f"{path} exists and is not empty; choose another folder.")
    existing = next(folder for folder in (path, *path.absolute().parents) if folder.exists())
    if not existing.is_dir():
        raise UsageError(f"{path} cannot be made, since {existing} is a file; choose another folder.")
    if not os.access(existing, os.W_OK):
        raise UsageError(f"{path} cannot be made, since {existing} may not be written to; choose another folder.")


def unused(path: Path) -> Path:
    """`path`, or path-2, path-3 ... if it exists already."""
    number, free = 1, path
    while free.exists():
        number += 1
        free = path.with_name(f"{path.name}-{number}")
    return free
