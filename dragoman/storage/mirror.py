"""A copy of a run at a URL, from which another machine can go on.

Each time the run is copied, the mirror gets a new state: a list of all files of the run, with their sizes and SHA-256.
`states/` has these lists, and `files/` the files that they name. A file is never replaced, as its name ends in its
hash, and a list is uploaded after its files. So the newest list is whole whenever a process is killed. Afterwards, old
lists are deleted, and then the files that no list names any more.
"""

import hashlib
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Self

from dragoman.errors import DataError, UsageError, command_line
from dragoman.storage.run_directory import RunDirectory
from dragoman.system.atomic import check_space, new_folder
from dragoman.system.seals import MANIFEST, Mark, fingerprint, mark_of
from dragoman.system.urls import file_system, reaching

KEPT = 2
"""States that are kept. If the newest one is damaged, the one before is taken."""
AT_ONCE = 1 << 24
"""Files of fewer bytes are read into memory to be uploaded: they may grow meanwhile, as logs do."""
STATES, FILES = "states", "files"
_STATE_NAME = re.compile(r"\d{8}-[0-9a-f]{64}\.json")
_MARKED = re.compile(r"@[0-9a-f]{16}$")
CHECKPOINTS = "run/checkpoints/"
SPARE = (CHECKPOINTS, "run/snapshots/")
"""Folders in which a run finds damage itself, and goes on without the damaged files."""
Listing = dict[str, Mark]
"""Files of a state: size and SHA-256 by the path in the folder of the run."""
States = dict[str, Listing]
"""States by name, oldest first. The listing of a damaged state is empty."""


class Mirror:
    """The copy of one run. The URL is first accessed when a method is called."""

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")
        self._states: States | None = None
        """States at the URL; None: they have to be read."""
        self._present: set[str] = set()
        """Paths of the files at the URL, including those that may be cut short."""
        self._whole: set[str] = set()
        """Paths of the files whose upload has finished."""
        self._large_files: dict[Path, _LargeFile] = {}

    def is_used(self) -> bool:
        """Whether there is a run at the URL."""
        with reaching(self.url):
            return bool(_Remote.open(self.url).state_names())

    def refuse_if_used(self) -> None:
        """Raise `UsageError` if there is a run at the URL."""
        if self.is_used():
            go_on = command_line("train", "--resume", self.url)
            raise UsageError(f"{self.url} holds a run already; go on with it by `{go_on}`, or choose another URL.")

    def save(self, folder: Path) -> None:
        """Upload what is new in the folder of a run, and then delete what is old.

        Raises `DataError` or `ResourceError` for what cannot be written, and where there is another run.
        """
        with reaching(self.url, "written"):
            remote = _Remote.open(self.url)
            states = self._states
            if states is None:
                states = self._read_states(remote)
                self._refuse_other_run(states, folder)
            self._states = None  # after a failure, they are read again
            listing = {}
            for path in _files_of(folder):
                name = path.relative_to(folder).as_posix()
                listing[name] = self._upload(remote, path, name)
            content = json.dumps(listing).encode()
            name = f"{_last_number(states) + 1:08}-{hashlib.sha256(content).hexdigest()}.json"
            remote.write(f"{STATES}/{name}", content)
            states[name] = listing
            self._prune(remote, states)
            self._states = states

    def publish(self, folder: Path) -> None:
        """Upload the model itself under the names that it has in the folder, config.json last."""
        with reaching(self.url, "written"):
            remote = _Remote.open(self.url)
            for path in sorted(folder.glob("[!.]*"), key=lambda path: path.name == "config.json"):
                if path.is_file():
                    remote.upload(path, path.name)

    def load(self, folder: Path, warn: Callable[[str], None]) -> None:
        """Download the newest state that is whole into a new folder; warns if it has to take an older one.

        Raises `DataError` if there is none.
        """
        remote = _Remote.open(self.url)
        with reaching(self.url):
            names = remote.state_names()
            for name in reversed(names):
                try:
                    listing = remote.read_state(name)
                    with new_folder(folder) as temporary:
                        self._download(remote, listing, temporary, warn)
                    return
                except DataError as error:
                    warn(f"{self.url}: {error} Going back to the state before.")
        what = "no state that is whole" if names else "no run to go on with"
        raise DataError(f"{self.url} holds {what}; check the URL, or start a new run with another training.mirror.")

    def _read_states(self, remote: "_Remote") -> States:
        """Read the states at the URL, and note which files are there."""
        states: States = {}
        for name in remote.state_names():
            states[name] = {}
            with suppress(DataError):  # a damaged one is deleted when there is a newer one
                states[name] = remote.read_state(name)
        self._present = remote.file_paths()
        self._whole |= _listed_paths(states)
        return states

    def _refuse_other_run(self, states: States, folder: Path) -> None:
        """Raise `DataError` if the states are of another run than the one in the folder, or are further than it."""
        newest = _newest(states)
        manifest = RunDirectory(folder).data / MANIFEST
        if newest and newest.get(manifest.relative_to(folder).as_posix()) != mark_of(manifest):
            raise DataError(f"{self.url} holds another run; give another training.mirror.")
        local = {path.relative_to(folder).as_posix() for path in _files_of(folder)}
        if max(_checkpoints(newest), default="") > max(_checkpoints(local), default=""):
            raise DataError(
                f"{self.url} is further than {folder}, so it stays as it is; to go on from there, type "
                f"`{command_line('train', '--resume', self.url, '--output', 'ANOTHER')}`."
            )

    def _upload(self, remote: "_Remote", path: Path, name: str) -> Mark:
        """Upload a local file that the run has under a name, unless it is there; returns its mark."""
        status = path.stat()
        data: bytes | None = None
        if status.st_size < AT_ONCE:
            data = path.read_bytes()
            mark = fingerprint(data)
        else:
            mark = self._mark_of_large(path, status)
        remote_path = _remote_path(name, mark)
        if remote_path not in self._whole:
            self._present.add(remote_path)
            if data is None:
                remote.upload(path, remote_path)
            else:
                remote.write(remote_path, data)
            self._whole.add(remote_path)
        return mark

    def _mark_of_large(self, path: Path, status: os.stat_result) -> Mark:
        """The mark of a large local file, which is read again only if it has changed."""
        version = status.st_size, status.st_mtime_ns, status.st_ino
        known = self._large_files.get(path)
        if known is None or known.version != version:
            known = self._large_files[path] = _LargeFile(version, mark_of(path))
        return known.mark

    def _prune(self, remote: "_Remote", states: States) -> None:
        """Delete all but the newest undamaged states, and then the files that these do not list."""
        kept = [name for name in sorted(states) if states[name]][-KEPT:]
        for name in sorted(states.keys() - set(kept)):
            remote.delete(f"{STATES}/{name}")
            del states[name]
        for path in sorted(self._present - _listed_paths(states)):
            self._whole.discard(path)
            with suppress(FileNotFoundError):  # a file whose upload has failed
                remote.delete(path)
            self._present.remove(path)

    def _download(self, remote: "_Remote", listing: Listing, folder: Path, warn: Callable[[str], None]) -> None:
        """Download the files of a state. Raises `DataError` if one is damaged that the run needs."""
        check_space(folder, sum(mark["size"] for mark in listing.values()))
        damaged = set()
        for name, mark in listing.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            with suppress(FileNotFoundError):
                remote.download(_remote_path(name, mark), path)
            if not path.is_file() or mark_of(path) != mark:
                path.unlink(missing_ok=True)
                problem = f"{_remote_path(name, mark)} is damaged or missing."
                if not name.startswith(SPARE):
                    raise DataError(problem)
                warn(f"{self.url}: {problem}")
                damaged.add(name)
        if damaged and _checkpoints(listing) <= _checkpoints(damaged):
            raise DataError("All checkpoints of a state are damaged.")


@dataclass(frozen=True)
class _LargeFile:
    """A local file whose mark was computed."""

    version: tuple[int, int, int]
    """Size, time of the last change and inode, which tell whether the file has changed since."""
    mark: Mark


@dataclass(frozen=True)
class _Remote:
    """The folder of a mirror. Paths are relative to it."""

    files: Any
    """File system of fsspec."""
    root: str

    @classmethod
    def open(cls, url: str) -> Self:
        """The folder at a URL, as it is now."""
        return cls(*file_system(url))

    def state_names(self) -> list[str]:
        """Names of the states, oldest first."""
        names = (path.rpartition("/")[2] for path in self.files.find(f"{self.root}/{STATES}"))
        return sorted(filter(_STATE_NAME.fullmatch, names))

    def file_paths(self) -> set[str]:
        """Paths of the files of all states, without those that somebody else has put there."""
        paths = (path[len(self.root) + 1 :] for path in self.files.find(f"{self.root}/{FILES}"))
        return set(filter(_MARKED.search, paths))

    def read_state(self, name: str) -> Listing:
        """The listing of a state.

        Raises `DataError` if a byte of it is wrong, or if it names a file that would be outside of the folder.
        """
        content = self.files.cat_file(f"{self.root}/{STATES}/{name}")
        listing: Listing = {}
        if hashlib.sha256(content).hexdigest() == name[9:].removesuffix(".json"):  # as in 00000007-DIGEST.json
            listing = json.loads(content)
        if not listing or any(_is_outside(PurePosixPath(path)) for path in listing):
            raise DataError(f"{STATES}/{name} is damaged.")
        return listing

    def write(self, path: str, data: bytes) -> None:
        """Write a file from memory."""
        self.files.pipe_file(f"{self.root}/{path}", data)

    def upload(self, local: Path, path: str) -> None:
        """Copy a local file."""
        self.files.put_file(str(local), f"{self.root}/{path}")

    def download(self, path: str, local: Path) -> None:
        """Copy a file to this machine. Raises `FileNotFoundError` if it is not there."""
        self.files.get_file(f"{self.root}/{path}", str(local))

    def delete(self, path: str) -> None:
        """Delete a file. Raises `FileNotFoundError` if it is not there."""
        self.files.rm_file(f"{self.root}/{path}")


def _files_of(folder: Path) -> Iterator[Path]:
    """The files of a run that are mirrored: those that are finished, but no links, which may lead anywhere."""
    lock = RunDirectory(folder).lock
    for parent, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name[0] != "." and not name.endswith((".old", ".tmp")))
        for name in sorted(names):
            path = Path(parent, name)
            if name[0] != "." and path.is_file() and not path.is_symlink() and path != lock:
                yield path


def _remote_path(name: str, mark: Mark) -> str:
    """The path in the mirror of a file that the run has under a name."""
    return f"{FILES}/{name}@{mark['sha256'][:16]}"


def _listed_paths(states: States) -> set[str]:
    """The paths in the mirror of all files that states list."""
    return {_remote_path(name, mark) for listing in states.values() for name, mark in listing.items()}


def _newest(states: States) -> Listing:
    """The listing of the newest undamaged state; empty if there is none."""
    for listing in reversed(states.values()):
        if listing:
            return listing
    return {}


def _last_number(states: States) -> int:
    """The number with which the name of the newest state begins; 0 if there is no state."""
    return max((int(name[:8]) for name in states), default=0)


def _is_outside(path: PurePosixPath) -> bool:
    """Whether a path of a listing leads out of the folder of the run."""
    return path.is_absolute() or ".." in path.parts


def _checkpoints(names: Iterable[str]) -> set[str]:
    """Names of the checkpoints, such as step_00000007, that some files of a run belong to."""
    return {name.split("/")[2] for name in names if name.startswith(CHECKPOINTS)}
