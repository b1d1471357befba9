"""Outputs: named when the disk is full, missed when they are deleted meanwhile, of the rights of what they replace."""

import errno
import os
import resource
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dragoman.errors import ResourceError
from dragoman.system.atomic import (
    encoded,
    new_file,
    new_folder,
    new_output,
    real_path,
    write_file,
    write_files,
    write_output,
    write_synced,
)
from dragoman.system.locks import only_one

BYTES = b"x" * 100_000
KILOBYTE = 1024


@contextmanager
def small_disk() -> Iterator[None]:
    """Files of this process may have a kilobyte inside the `with` block; the system tells it as a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (KILOBYTE, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def by_new_file(path: Path) -> None:
    with new_file(path) as file:
        for _ in range(100):
            file.write(BYTES[:1000])


def by_new_output(path: Path) -> None:
    with new_output(path) as file:
        file.write(BYTES)


def by_new_folder(path: Path) -> None:
    with new_folder(path) as folder:
        (folder / "inner").write_bytes(BYTES)


WRITERS = {
    "write_file": lambda path: write_file(path, BYTES),
    "write_files": lambda path: write_files({path: BYTES, path.with_name("other"): b""}),
    "write_output": lambda path: write_output(path, BYTES),
    "write_synced": lambda path: write_synced(path, BYTES),
    "new_file": by_new_file,
    "new_output": by_new_output,
    "new_folder": by_new_folder,
}
WHOLE = sorted(WRITERS.keys() - {"write_synced"})
"""Those whose files are there whole or not at all."""


@pytest.mark.parametrize("name", sorted(WRITERS))
def test_a_full_disk_is_told_with_the_file_as_the_user_knows_it(name, tmp_path):
    path = tmp_path / "out.tsv"
    with small_disk(), pytest.raises(OSError, match="File too large") as error:
        WRITERS[name](path)
    assert error.value.filename == str(path)
    assert error.value.errno == errno.EFBIG


@pytest.mark.parametrize("name", WHOLE)
def test_no_half_file_stays(name, tmp_path):
    with small_disk(), pytest.raises(OSError, match="File too large"):
        WRITERS[name](tmp_path / "out.tsv")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("write", [new_file, new_output, new_folder])
def test_an_output_whose_folder_is_deleted_meanwhile_is_no_success(write, tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    with pytest.raises(ResourceError, match="was deleted while it was written"), write(folder / "out"):
        shutil.rmtree(folder)


def test_an_output_that_is_deleted_meanwhile_is_no_success(tmp_path):
    with pytest.raises(ResourceError, match="out was deleted"), new_folder(tmp_path / "out") as folder:
        shutil.rmtree(folder)
    with pytest.raises(ResourceError, match="out was deleted"), new_file(tmp_path / "out"):
        next(tmp_path.glob(".out.*.tmp")).unlink()


def test_what_else_is_not_there_is_no_deleted_output(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere"), new_file(tmp_path / "out"):
        open(tmp_path / "nowhere")  # noqa: SIM115


@pytest.mark.parametrize("name", sorted({"write_file", "write_output", "new_file", "new_output"}))
def test_what_is_replaced_keeps_its_rights(name, tmp_path):
    path = tmp_path / "out.tsv"
    path.touch()
    path.chmod(0o600)
    WRITERS[name](path)
    assert path.read_bytes() == BYTES
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_link_that_leads_to_itself_is_an_error_of_the_system(tmp_path):
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    assert real_path(loop).name == "loop"
    for inner in (loop / "out", loop / "a" / "out"):
        with pytest.raises(OSError, match="symbolic links"):
            write_output(inner, b"")


def test_the_path_of_no_file_is_found_by_pathlib():
    """`Path.resolve` raises RuntimeError for a link that leads to itself, and `Path.home` for a user without one."""
    calls = (".resolve()", "Path.home()", ".expanduser()")
    files = Path(__file__).parents[2].joinpath("dragoman").rglob("*.py")
    assert not [f"{file}: {call}" for file in files for call in calls if call in file.read_text("utf-8")]


def test_names_that_are_no_text_are_spelled_as_json_reads_them():
    name = os.fsdecode(b"caf\xe9")
    assert encoded(f'"{name} é"') == '"caf\\udce9 é"'.encode()


def test_a_locked_folder_that_is_deleted_meanwhile_is_no_success(tmp_path):
    folder = tmp_path / "run"

    def delete_and(read: Path | None) -> None:
        with only_one(folder / "lock", "busy"):
            shutil.rmtree(folder)
            if read:
                read.read_bytes()

    for read in (None, folder / "part"):
        with pytest.raises(ResourceError, match="run was deleted while it was written"):
            delete_and(read)
    with pytest.raises(FileNotFoundError, match="elsewhere"), only_one(folder / "lock", "busy"):
        (tmp_path / "elsewhere").read_bytes()
