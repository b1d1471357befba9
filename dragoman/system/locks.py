"""Locks of the system on files."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from dragoman.errors import ResourceError


def lock(file: IO[str]) -> bool:
    """Whether this process has the file now: a lock of the system's, which ends with the processes that share it."""
    try:
        if sys.platform != "win32":
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        else:
            import msvcrt

            # Windows lets no one read a byte that is locked: one far behind the number of the process.
            file.seek(1024)
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
    except (BlockingIOError, PermissionError):
        return False
    except OSError:
        pass  # a file system without locks: as if there were none
    return True


def is_still(path: Path, file: IO[Any]) -> bool:
    """Whether an open file still has its name, and was neither deleted nor replaced."""
    with suppress(FileNotFoundError):
        return os.path.samestat(os.stat(path), os.fstat(file.fileno()))
    return False


def holders(*files: Path) -> list[int]:
    """Processes, other than this one, that keep others from writing files by a lock of the system.

    None where the system does not tell, as all but Linux.
    """
    inodes = {os.stat(file).st_ino for file in files if file.exists()}
    try:
        lines = [line.split() for line in Path("/proc/locks").read_text("ascii").split("\n")]
    except OSError:
        return []
    found = {
        int(process)
        for _, _, _, mode, process, place, *_ in (line for line in lines if len(line) >= 8)
        if mode == "WRITE" and process.isdecimal() and int(place.rpartition(":")[2]) in inodes
    }
    return sorted(found - {0, os.getpid()})


@contextmanager
def only_one(path: Path, what: str) -> Iterator[None]:
    """Keep other processes from what a file locks until the block ends, or this process does, however it ends.

    Raises `ResourceError` that names the process which has it: `what` is a clause such as "a run is being trained". It
    is raised at the end, too, if the folder of the file was deleted meanwhile: what was written is nowhere then.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "a+", encoding="ascii") as file:
        if not lock(file):
            file.seek(0)
            raise ResourceError(
                f"{what} by process {file.read() or 'unknown'}; wait for it, end it with Ctrl-C, or choose another "
                "--output."
            )
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        try:
            yield
        except FileNotFoundError as error:
            if is_still(path, file):
                raise
            raise _deleted(path.parent) from error
        if not is_still(path, file):
            raise _deleted(path.parent)


def _deleted(folder: Path) -> ResourceError:
    return ResourceError(f"{folder} was deleted while it was written; run the command again.")
