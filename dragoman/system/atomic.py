"""Files and folders that are written whole or not at all, and are on the disk when the call returns.

An error of the system names the file that the user knows, and not the temporary one that replaces it in the end.
"""

import errno
import hashlib
import io
import os
import re
import secrets
import shutil
import stat
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO, Any, BinaryIO

from dragoman.errors import ResourceError, UsageError, reason_of
from dragoman.system.locks import is_still, lock

LOCK = ".lock"
"""Suffix of the file that is locked while somebody writes."""
FULL = {errno.ENOSPC, errno.EFBIG, getattr(errno, "EDQUOT", errno.ENOSPC)}
"""Errors of a full disk, and of a user or a process that may write no more."""
WRITING = {*FULL, errno.EIO}
"""Errors of writing, for which the system does not say the file."""
LONGEST = 200
"""Most bytes of a file's name to which a suffix is added. A hash replaces a longer name."""


class OutputFile(io.FileIO):
    """A file to write. Its errors name the file, even those of a full disk, for which the system does not."""

    def __init__(self, file: int | Path, shown: Path | str):
        """`file` is a descriptor or a path, and `shown` its name in messages."""
        super().__init__(file, "w")
        self.shown = shown

    def write(self, data: Any) -> int:
        """Write some of the bytes; returns how many."""
        with naming(self.shown):
            return super().write(data)


def real_path(path: Path) -> Path:
    """The path without links. A link to itself stays, so that opening it raises; `Path.resolve` would raise here."""
    return Path(os.path.realpath(path))


def check_output(
    path: Path | None, *, read: Iterable[str | Path | None] = (), remedy: str = "choose another --output"
) -> None:
    """Raise `UsageError` for a file that cannot be written, or that is `read` meanwhile; None is stdout."""
    if path is None:
        return
    # os.path answers False where pathlib raises, such as for a name that is too long.
    if os.path.isfile(path) and any(file and os.path.exists(file) and path.samefile(file) for file in read):
        raise UsageError(f"{path} is read and cannot be written at the same time; {remedy}.")
    obstacle = _obstacle(path)
    if obstacle:
        raise UsageError(f"{path} cannot be written: {obstacle}; {remedy}.")


def _obstacle(path: Path) -> str | None:
    """The reason why a file cannot be written; None if it can."""
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:  # raised as well for a link to a file that is not there yet
        folder = real_path(path).parent
        if not folder.is_dir():
            return f"there is no folder {path.parent if not path.is_symlink() else folder}"
        return None if os.access(folder, os.W_OK) else "you may not write there"
    except (OSError, ValueError) as error:
        return reason_of(error).removeprefix(f"{path}: ")
    if stat.S_ISDIR(mode):
        return "it is a folder"
    if stat.S_ISBLK(mode) or stat.S_ISSOCK(mode):
        return "it is a disk or a socket, and no file"
    return None if os.access(path, os.W_OK) else "you may not write there"


def encoded(text: str) -> bytes:
    """A text as UTF-8. Bytes of a file name that are not UTF-8 become \\udcff, which JSON and YAML read back."""
    return text.encode("utf-8", "backslashreplace")


@contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """A folder to fill, which becomes `path`, new or empty before, when the block ends: whole or not at all."""
    path = real_path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with naming(path), _unfinished(path) as temporary:
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
    """A file to write piece by piece, which replaces `path` when the block ends: whole or not at all."""
    with _unfinished(path) as temporary:
        with _new(temporary, like=path) as file:
            yield file
            _sync(file, path)
        os.replace(temporary, path)
    sync_folder(path.parent)


def write_file(path: Path, data: bytes) -> None:
    """Replace `path` by `data` in one move: a crash leaves the old file or the new one, never half of each.

    A link is replaced: folders that strangers made may have links to any file.
    """
    write_files({path: data})


def write_output(path: Path, data: bytes) -> None:
    """Replace a file that the user has named, in one move. A link stays; a device or a pipe is written to directly."""
    with new_output(path) as file:
        file.write(data)


@contextmanager
def new_output(path: Path) -> Iterator[BinaryIO]:
    """A file to write piece by piece, which replaces a file that the user has named as `write_output` does."""
    if path.exists() and not path.is_file():
        with io.BufferedWriter(OutputFile(path, path)) as file:
            yield file
    else:
        with new_file(real_path(path)) as file:
            yield file


def write_files(contents: dict[Path, bytes]) -> None:
    """Replace several files as `write_file` does: first all are written to the disk, then each gets its name."""
    with ExitStack() as opened:
        temporaries: dict[Path, Path] = {}
        for path, data in contents.items():
            temporaries[path] = opened.enter_context(_unfinished(path))
            check_space(path.parent, len(data))
            with _new(temporaries[path], like=path) as file:
                file.write(data)
                _sync(file, path)
        for path, temporary in temporaries.items():
            os.replace(temporary, path)
    for folder in {path.parent for path in temporaries}:
        sync_folder(folder)


@contextmanager
def _unfinished(path: Path) -> Iterator[Path]:
    """A temporary path beside `path`, for a file or a folder to write. It is deleted if it is still there at the end.

    Those that killed processes have left are deleted, too. A locked file beside it tells that somebody still writes:
    the number of a process would not do, as it is another one's in another container, or on a machine that shares the
    disk.

    Raises `ResourceError` if somebody has deleted the folder around it meanwhile: nothing is written then.
    """
    name = os.fsencode(path.name)
    stem = path.name if len(name) <= LONGEST else hashlib.sha256(name).hexdigest()
    _delete_stale(path.parent, stem)
    while True:
        temporary = path.with_name(f".{stem}.{secrets.token_hex(4)}.tmp")
        claim = temporary.with_suffix(LOCK)
        try:
            opened = open(claim, "a", encoding="ascii")  # noqa: SIM115
        except OSError as error:
            error.filename = str(path)
            raise
        with opened as file:
            # Before it was locked, another process may have taken this file for a stale one, and deleted it.
            if not lock(file) or not is_still(claim, file):
                continue
            try:
                with _errors_of(path, temporary):
                    yield temporary
                return
            finally:
                _delete(temporary)
                _delete_claim(claim, file)


@contextmanager
def _errors_of(path: Path, temporary: Path) -> Iterator[None]:
    """Within the `with` block, errors of the temporary path name the path that it is to become.

    Raises `ResourceError` if somebody has deleted it, or the folder around it.
    """
    try:
        yield
    except OSError as error:
        is_ours = isinstance(error.filename, str) and error.filename.startswith(str(temporary))
        if isinstance(error, FileNotFoundError) and (is_ours or not path.parent.is_dir()):
            raise ResourceError(
                f"{path} was deleted while it was written, or the folder around it; run the command again."
            ) from error
        if is_ours:
            error.filename = error.filename.replace(str(temporary), str(path), 1)
            error.filename2 = None  # the new name, in an error of renaming
        raise


def _delete_stale(folder: Path, stem: str) -> None:
    """Delete the temporary files that killed processes have left in a folder, and their locks."""
    prefix = f".{stem}."
    names: list[str] = []
    with suppress(OSError), os.scandir(folder) as entries:
        names = [entry.name for entry in entries if entry.name.startswith(prefix)]
    ours = re.compile(re.escape(prefix) + r"[0-9a-f]{8}\.(tmp|lock)")  # others may have hidden files of such names
    left = [folder / name for name in names if ours.fullmatch(name)]
    for stale in left:
        if stale.suffix != LOCK and not stale.with_suffix(LOCK).exists():
            _delete(stale)
    for claim in left:
        if claim.suffix != LOCK:
            continue
        with suppress(OSError), open(claim, "r+", encoding="ascii") as file:
            if lock(file):
                _delete(claim.with_suffix(".tmp"))
                _delete_claim(claim, file)


def _delete_claim(claim: Path, file: IO[str]) -> None:
    """Delete a file that this process has locked, and release the lock."""
    if os.name == "nt":  # Windows deletes no file that is open, nor one that another process has opened by now
        file.close()
        with suppress(OSError):
            claim.unlink()
    else:  # before the lock ends: afterwards, the file might be another process's
        claim.unlink(missing_ok=True)


def _delete(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _new(temporary: Path, *, like: Path) -> BinaryIO:
    """A new file to write, with the rights of the file `like`, which it is to replace, if there is one."""
    try:
        replaced = os.lstat(like)
        mode = stat.S_IMODE(replaced.st_mode) if stat.S_ISREG(replaced.st_mode) else None
    except OSError:
        mode = None
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    # Never, not for a moment, may more people open the new file than the old one.
    descriptor = os.open(temporary, flags, 0o666 if mode is None else mode & 0o600)
    file = io.BufferedWriter(OutputFile(descriptor, like))
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
def naming(path: Path | str) -> Iterator[None]:
    """Within the `with` block, errors of writing that name no file, as those of a full disk, name `path`."""
    try:
        yield
    except OSError as error:
        if error.errno in WRITING and error.filename is None:
            error.filename = str(path)
        raise


def write_synced(path: Path, data: bytes) -> None:
    """Write a file and wait until the disk has it. A crash may leave a part: for files that nobody reads yet."""
    with io.BufferedWriter(OutputFile(path, path)) as file:
        file.write(data)
        _sync(file, path)


def _sync(file: BinaryIO, path: Path) -> None:
    """Wait until the disk has what was written to a file."""
    with naming(path):
        file.flush()
        os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Wait until the disk has the names of the files in a folder."""
    # A directory can only be synced where it can be opened, which Windows refuses.
    if os.name == "posix":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            with naming(folder):
                os.fsync(descriptor)
        finally:
            os.close(descriptor)
