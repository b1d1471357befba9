"""Locks of the system on files."""

import sys
from typing import IO


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
