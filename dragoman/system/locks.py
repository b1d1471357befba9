"""Locks on files, by which processes keep each other out."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from dragoman.errors import ResourceError


def lock(file: IO[str]) -> bool:
    """Lock a file, unless another process has; returns whether this process has it now.

    The system releases the lock when all processes that share the open file have ended.
    """
    try:
        if sys.platform != "win32":
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        else:
            import msvcrt

            # Windows lets nobody read a locked byte: so one far behind the number of the process is locked.
            file.seek(1024)
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
    except (BlockingIOError, PermissionError):
        return False
    except OSError:
        pass  # a file system without locks
    return True


def is_still(path: Path, file: IO[Any]) -> bool:
    """Whether an open file is still the one at this path: neither deleted nor replaced."""
    with suppress(FileNotFoundError):
        return os.path.samestat(os.stat(path), os.fstat(file.fileno()))
    return False


def holders(*files: Path) -> list[int]:
    """Numbers of the other processes that have locked one of the files; none on systems other than Linux."""
    inodes = {os.stat(file).st_ino for file in files if file.exists()}
    try:
        lines = Path("/proc/locks").read_text("ascii").split("\n")
    except OSError:
        return []
    processes = set()
    for line in lines:
        # 3: FLOCK  ADVISORY  WRITE 2481 08:01:131092 0 EOF
        fields = line.split()
        if len(fields) < 8:
            continue
        mode, process, device_and_inode = fields[3:6]
        if mode == "WRITE" and process.isdecimal() and int(device_and_inode.rpartition(":")[2]) in inodes:
            processes.add(int(process))
    return sorted(processes - {0, os.getpid()})


@contextmanager
def only_one(path: Path, activity: str) -> Iterator[None]:
    """Lock a file, so that no other process does the same work, until the block or this process ends.

    Raises `ResourceError` that names the process which has locked it: `activity` is a clause such as "a run is being
    trained". It is raised at the end, too, if the folder of the file was deleted meanwhile, and with it what was
    written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "a+", encoding="ascii") as file:
        if not lock(file):
            file.seek(0)
            process = file.read() or "unknown"
            raise ResourceError(
                f"{activity} by process {process}; wait for it, end it with Ctrl-C, or choose another --output."
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
