"""A copy of a run at a URL, from which another machine can go on.

`states/` has lists of files with their sizes and SHA-256, `files/` what they list. A file is never replaced, as its
name ends in its hash, and a list is uploaded after its files: whenever a process is killed, the last list is whole.
What no list names any more is deleted after that.
"""

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import Any

from dragoman.errors import DataError, UsageError, command_line
from dragoman.storage.run_directory import RunDirectory
from dragoman.system.atomic import check_space, new_folder
from dragoman.system.seals import MANIFEST, fingerprint, mark_of
from dragoman.system.urls import file_system, reaching

KEPT = 2
"""States that stay: where the last one is damaged, the one before is taken."""
AT_ONCE = 1 << 24
"""Bytes of a file that is uploaded from memory: it may grow meanwhile, as logs do."""
STATES, FILES = "states", "files"
SPARE = ("run/checkpoints/", "run/snapshots/")
"""Folders in which a run finds damage itself, and does without what is damaged."""
Marks = dict[str, dict[str, Any]]
"""Size and SHA-256 of files, by their paths in the folder of the run."""


class Mirror:
    """The copy of one run. It is reached when it is first used."""

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")
        self._states: dict[str, Marks] | None = None
        """What is known to be there, by name, oldest first; None: nothing is known yet."""
        self._present: set[str] = set()
        """Paths of files there, those included that may be cut short."""
        self._whole: set[str] = set()
        """Paths of files that were uploaded to the end."""
        self._local: dict[Path, tuple[object, dict[str, Any]]] = {}
        """Marks of local files that were computed, and what tells whether these have changed."""

    def is_used(self) -> bool:
        """Whether there is a run already."""
        with reaching(self.url):
            files, root = file_system(self.url)
            return bool(files.find(f"{root}/{STATES}"))

    def refuse_if_used(self) -> None:
        """Raise `UsageError` if there is a run already."""
        if self.is_used():
            go_on = command_line("train", "--resume", self.url)
            raise UsageError(f"{self.url} holds a run already; go on with it by `{go_on}`, or choose another URL.")

    def save(self, folder: Path) -> None:
        """Upload what is new in the folder of a run, and then delete what is old.

        Raises `DataError` or `ResourceError` for what cannot be written, and where there is another run.
        """
        with reaching(self.url, "written"):
            files, root = file_system(self.url)
            states = self._begin(files, root, folder) if self._states is None else self._states
            self._states = None  # what a failure leaves is looked at anew
            marks = {path.relative_to(folder).as_posix(): self._upload(files, root, path, folder)
                     for path in _files_of(folder)}  # fmt: skip
            content = json.dumps(marks).encode()
            number = max((int(name[:8]) for name in states), default=0) + 1
            name = f"{number:08}-{hashlib.sha256(content).hexdigest()}.json"
            files.pipe_file(f"{root}/{STATES}/{name}", content)
            states[name] = marks
            self._prune(files, root, states)
            self._states = states

    def publish(self, folder: Path) -> None:
        """Upload the model itself under the names that it has in the folder, config.json last."""
        with reaching(self.url, "written"):
            files, root = file_system(self.url)
            for path in sorted(folder.glob("[!.]*"), key=lambda path: path.name == "config.json"):
                if path.is_file():
                    files.put_file(str(path), f"{root}/{path.name}")

    def load(self, folder: Path, warn: Callable[[str], None]) -> None:
        """Download the last state that is whole into a new folder; says so when it has to take an older one.

        Raises `DataError` if there is none.
        """
        files, root = file_system(self.url)
        with reaching(self.url):
            names = sorted(map(_name, files.find(f"{root}/{STATES}")), reverse=True)
            for name in names:
                try:
                    marks = _read(files, root, name)
                    with new_folder(folder) as temporary:
                        self._download(files, root, marks, temporary, warn)
                    return
                except DataError as error:
                    warn(f"{self.url}: {error} Going back to the state before.")
        what = "no state that is whole" if names else "no run to go on with"
        raise DataError(f"{self.url} holds {what}; check the URL, or start a new run with another training.mirror.")

    def _begin(self, files: Any, root: str, folder: Path) -> dict[str, Marks]:
        """The states that are there, if they are of this run and no further than it is."""
        states: dict[str, Marks] = {}
        for name in sorted(map(_name, files.find(f"{root}/{STATES}"))):
            states[name] = {}
            with suppress(DataError):  # a damaged one goes when there is a newer one
                states[name] = _read(files, root, name)
        self._present = {path[len(root) + 1 :] for path in files.find(f"{root}/{FILES}")}
        self._whole |= _listed(states)
        marks = next(filter(None, reversed(states.values())), {})
        sealed = RunDirectory(folder).data / MANIFEST
        path = sealed.relative_to(folder).as_posix()
        if marks and marks.get(path) != mark_of(sealed):
            raise DataError(f"{self.url} holds another run; give another training.mirror.")
        here = {path.relative_to(folder).as_posix() for path in _files_of(folder)}
        if max(_checkpoints(marks), default="") > max(_checkpoints(here), default=""):
            raise DataError(
                f"{self.url} is further than {folder}, so it stays as it is; to go on from there, type "
                f"`{command_line('train', '--resume', self.url, '--output', 'ANOTHER')}`."
            )
        return states

    def _upload(self, files: Any, root: str, path: Path, folder: Path) -> dict[str, Any]:
        """Upload a local file, unless it is there; returns its mark."""
        status = path.stat()
        state = status.st_size, status.st_mtime_ns, status.st_ino
        name = path.relative_to(folder).as_posix()
        data = path.read_bytes() if status.st_size < AT_ONCE else None
        known, mark = self._local.get(path, (None, {}))
        if data is not None:
            mark = fingerprint(data)
        elif known != state:
            mark = mark_of(path)
        self._local[path] = state, mark
        key = _key(name, mark)
        if key not in self._whole:
            self._present.add(key)
            if data is None:
                files.put_file(str(path), f"{root}/{key}")
            else:
                files.pipe_file(f"{root}/{key}", data)
            self._whole.add(key)
        return mark

    def _prune(self, files: Any, root: str, states: dict[str, Marks]) -> None:
        """Delete all but the last states, and then the files that these do not list."""
        kept = [name for name in sorted(states) if states[name]][-KEPT:]
        for name in sorted(states.keys() - set(kept)):
            files.rm_file(f"{root}/{STATES}/{name}")
            del states[name]
        for key in sorted(self._present - _listed(states)):
            self._whole.discard(key)
            with suppress(FileNotFoundError):  # one whose upload has failed
                files.rm_file(f"{root}/{key}")
            self._present.remove(key)

    def _download(self, files: Any, root: str, marks: Marks, folder: Path, warn: Callable[[str], None]) -> None:
        check_space(folder, sum(mark["size"] for mark in marks.values()))
        damaged = set()
        for name, mark in marks.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            with suppress(FileNotFoundError):
                files.get_file(f"{root}/{_key(name, mark)}", str(path))
            if not path.is_file() or mark_of(path) != mark:
                path.unlink(missing_ok=True)
                problem = f"{_key(name, mark)} is damaged or missing."
                if not name.startswith(SPARE):
                    raise DataError(problem)
                warn(f"{self.url}: {problem}")
                damaged.add(name)
        if damaged and _checkpoints(marks) <= _checkpoints(damaged):
            raise DataError("All checkpoints of a state are damaged.")


def _files_of(folder: Path) -> Iterator[Path]:
    """What is mirrored: the files of a run that are finished, but no links, which may lead anywhere."""
    for parent, folders, names in os.walk(folder):
        folders[:] = sorted(each for each in folders if each[0] != "." and not each.endswith((".old", ".tmp")))
        for name in sorted(names):
            path = Path(parent, name)
            if name[0] != "." and path.is_file() and not path.is_symlink() and path != RunDirectory(folder).lock:
                yield path


def _read(files: Any, root: str, name: str) -> Marks:
    """What a state lists. Raises `DataError` if a byte of it is wrong, or a file is not inside of the folder."""
    content = files.cat_file(f"{root}/{STATES}/{name}")
    whole = hashlib.sha256(content).hexdigest() == name[9:].removesuffix(".json")
    marks: Marks = json.loads(content) if whole else {}
    if not marks or any(PurePosixPath(each).is_absolute() or ".." in PurePosixPath(each).parts for each in marks):
        raise DataError(f"{STATES}/{name} is damaged.")
    return marks


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def _key(name: str, mark: dict[str, Any]) -> str:
    """The path of a file in the mirror."""
    return f"{FILES}/{name}@{mark['sha256'][:16]}"


def _listed(states: dict[str, Marks]) -> set[str]:
    """The paths of all files that states list."""
    return {_key(*each) for marks in states.values() for each in marks.items()}


def _checkpoints(names: Iterable[str]) -> set[str]:
    """The checkpoints that some files belong to."""
    return {name.split("/")[2] for name in names if name.startswith(SPARE[0])}
