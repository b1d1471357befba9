"""Files and folders that are written whole or not at all, and are on the disk when the call returns."""

import glob
import hashlib
import os
import secrets
import shutil
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO, BinaryIO

from dragoman.errors import ResourceError
from dragoman.system.locks import lock

LOCK = ".lock"
"""End of the name of the file that is locked as long as somebody writes."""
LONGEST = 200
"""Bytes of a name to which more can be added."""


@contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """A folder to fill, which becomes `path`, new or empty before, when the block ends: whole or not at all."""
    path = path.absolute()
    path.parent.mkdir(parents=True, exist_ok=True)
    with _unfinished(path) as temporary:
        temporary.mkdir()
        yield temporary
        sync_folder(temporary)
        if path.exists():
            _keep_rights(path, temporary)
            path.rmdir()
        os.rename(temporary, path)
    sync_folder(path.parent)


@contextmanager
def new_file(path: Path) -> Iterator[BinaryIO]:
    """A file to write bit by bit, which replaces `path` when the block ends: whole or not at all."""
    with naming(path), _unfinished(path) as temporary:
        with _new(temporary, like=path) as file:
            yield file
            _sync(file)
        os.replace(temporary, path)
    sync_folder(path.parent)


def write_file(path: Path, data: bytes) -> None:
    """Replace `path` by `data` in one move: a crash leaves the old file or the new one, never half of each.

    A link is replaced: folders that strangers made may have links to any file.
    """
    write_files({path: data})


def write_output(path: Path, data: bytes) -> None:
    """The same for a file that the user has named: a link stays and its file is replaced, a device or a pipe is fed."""
    if path.exists() and not path.is_file():
        path.write_bytes(data)
    else:
        write_file(path.resolve(), data)


@contextmanager
def new_output(path: Path) -> Iterator[BinaryIO]:
    """The same for a file that is written bit by bit."""
    if path.exists() and not path.is_file():
        with naming(path), open(path, "wb") as file:
            yield file
    else:
        with new_file(path.resolve()) as file:
            yield file


def write_files(contents: dict[Path, bytes]) -> None:
    """Replace several files as `write_file` does, one right after the other when all of them are on the disk."""
    with ExitStack() as opened:
        temporaries: dict[Path, Path] = {}
        for path, data in contents.items():
            temporaries[path] = opened.enter_context(_unfinished(path))
            check_space(path.parent, len(data))
            with naming(path), _new(temporaries[path], like=path) as file:
                file.write(data)
                _sync(file)
        for path, temporary in temporaries.items():
            os.replace(temporary, path)
    for folder in {path.parent for path in temporaries}:
        sync_folder(folder)


@contextmanager
def _unfinished(path: Path) -> Iterator[Path]:
    """Where a file or a folder is written before it has its name; what is left there at the end is deleted.

    So is what killed processes have left. A lock beside it tells that somebody still writes: the number of a process
    is that of another one in the next container, and on another machine with the same disk.
    """
    stem = path.name if len(os.fsencode(path.name)) <= LONGEST else hashlib.sha256(os.fsencode(path.name)).hexdigest()
    _delete_stale(path.parent, stem)
    while True:
        temporary = path.with_name(f".{stem}.{secrets.token_hex(4)}.tmp")
        claim = temporary.with_suffix(LOCK)
        with open(claim, "a", encoding="ascii") as file:
            # Between the two lines above, another process may have taken the lock for one that was left.
            if not lock(file) or not _is_still(claim, file.fileno()):
                continue
            try:
                yield temporary
                return
            finally:
                _delete(temporary)
                _delete_claim(claim, file)


def _delete_stale(folder: Path, stem: str) -> None:
    for stale in folder.glob(f".{glob.escape(stem)}.*.tmp"):
        claim = stale.with_suffix(LOCK)
        if not claim.exists():
            _delete(stale)
    for claim in folder.glob(f".{glob.escape(stem)}.*{LOCK}"):
        with suppress(OSError), open(claim, "r+", encoding="ascii") as file:
            if lock(file):
                _delete(claim.with_suffix(".tmp"))
                _delete_claim(claim, file)


def _delete_claim(claim: Path, file: IO[str]) -> None:
    """Delete the file of a lock that this process has, and release it."""
    if os.name == "nt":  # Windows deletes no file that is open, nor one that another process has opened by now
        file.close()
        with suppress(OSError):
            claim.unlink()
    else:  # before the lock ends, or it might be deleted when it is another's
        claim.unlink(missing_ok=True)


def _delete(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _is_still(path: Path, descriptor: int) -> bool:
    """Whether an open file still has its name."""
    with suppress(FileNotFoundError):
        return os.path.samestat(os.stat(path), os.fstat(descriptor))
    return False


def _new(temporary: Path, *, like: Path) -> BinaryIO:
    """A new file to write, with the rights of a file that it is to replace."""
    try:
        replaced = os.lstat(like)
        mode = stat.S_IMODE(replaced.st_mode) if stat.S_ISREG(replaced.st_mode) else None
    except OSError:
        mode = None
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    # Never open to more people than the old one was, not for a moment.
    file = open(os.open(temporary, flags, 0o666 if mode is None else mode & 0o600), "wb")  # noqa: SIM115
    if mode is not None:
        _keep_rights(like, temporary)
    return file


def _keep_rights(replaced: Path, new: Path) -> None:
    """Give a file or a folder the owner and the rights of the one that it replaces, as far as this user may."""
    status = os.lstat(replaced)
    with suppress(OSError):
        if hasattr(os, "chown") and (os.lstat(new).st_uid, os.lstat(new).st_gid) != (status.st_uid, status.st_gid):
            os.chown(new, status.st_uid, status.st_gid)
    with suppress(OSError):
        os.chmod(new, stat.S_IMODE(status.st_mode) & 0o777)


def check_space(folder: Path, size: int) -> None:
    """Raise `ResourceError` unless the disk has room for `size` bytes and a fifth more."""
    free = shutil.disk_usage(folder).free
    if free < 1.2 * size:
        raise ResourceError(
            f"The disk of {folder} is full: {1.2 * size / 1e6:.3g} MB are needed and {free / 1e6:.3g} MB are free; "
            "make room and try again."
        )


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Within the `with` block errors of the system name `path` if they name no file, as those of a full disk."""
    try:
        yield
    except OSError as error:
        error.filename = error.filename or str(path)
        raise


def write_synced(path: Path, data: bytes) -> None:
    with open(path, "wb") as file:
        file.write(data)
        _sync(file)


def _sync(file: BinaryIO) -> None:
    """Wait until the disk has what was written to a file."""
    file.flush()
    os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    # A directory can only be synced where it can be opened, which Windows refuses.
    if os.name == "posix":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
