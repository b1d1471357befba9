"""Files and folders that are written whole or not at all, and are on the disk when the call returns."""

import glob
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from dragoman.errors import ResourceError
from dragoman.system.resources import is_running


@contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """A folder to fill, which becomes `path`, new or empty before, when the block ends: whole or not at all."""
    path = path.absolute()
    temporary = _temporary(path)
    temporary.mkdir(parents=True)
    try:
        yield temporary
        sync_folder(temporary)
        if path.exists():
            path.rmdir()
        os.rename(temporary, path)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    sync_folder(path.parent)


@contextmanager
def new_file(path: Path) -> Iterator[BinaryIO]:
    """A file to write bit by bit, which replaces `path` when the block ends: whole or not at all."""
    temporary = _temporary(path)
    try:
        with naming(path), open(temporary, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
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


def write_files(contents: dict[Path, bytes]) -> None:
    """Replace several files as `write_file` does, one right after the other when all of them are on the disk."""
    temporaries: dict[Path, Path] = {}
    try:
        for path, data in contents.items():
            temporaries[path] = _temporary(path)
            check_space(path.parent, len(data))
            write_synced(temporaries[path], data)
        for path, temporary in temporaries.items():
            os.replace(temporary, path)
    except BaseException:
        for temporary in temporaries.values():
            temporary.unlink(missing_ok=True)
        raise
    for folder in {path.parent for path in temporaries}:
        sync_folder(folder)


def _temporary(path: Path) -> Path:
    """Where a file or a folder is written before it has its name; what processes left that were killed is deleted."""
    for stale in path.parent.glob(f".{glob.escape(path.name)}.*.tmp"):
        number = stale.name.split(".")[-2]
        if number.isdecimal() and not is_running(int(number)):
            shutil.rmtree(stale) if stale.is_dir() else stale.unlink(missing_ok=True)
    return path.with_name(f".{path.name}.{os.getpid()}.tmp")


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
