"""Files and folders are written whole or not at all, whatever ends the process that writes them."""

import errno
import os
from pathlib import Path

import pytest

from dragoman.errors import ResourceError
from dragoman.system.atomic import new_file, new_folder, write_file, write_files, write_output
from tests.storage.crashes import disk_with, each_crash, in_child, posix

# Crashes happen in forked children, which start no threads.
pytestmark = pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")


@pytest.mark.parametrize("has_lock", [True, False])
def test_what_a_killed_process_left_is_deleted_and_what_another_one_writes_is_not(
    tmp_path: Path, has_lock: bool
) -> None:
    """This holds even if all processes have the same number, as in containers."""
    (tmp_path / ".a.bin.0a1b2c3d.tmp").write_bytes(b"half")
    (tmp_path / ".folder.0a1b2c3d.tmp").mkdir()
    if has_lock:
        (tmp_path / ".a.bin.0a1b2c3d.lock").touch()
        (tmp_path / ".folder.0a1b2c3d.lock").touch()
    with new_folder(tmp_path / "folder") as other, new_file(tmp_path / "a.bin") as file:
        file.write(b"of the other")
        assert in_child(lambda: write_file(tmp_path / "a.bin", b"whole")) == 0
        assert (tmp_path / "a.bin").read_bytes() == b"whole"
        with new_folder(tmp_path / "folder"):
            pass
        (other / "x").touch()
    assert {path.name for path in tmp_path.iterdir()} == {"a.bin", "folder"}
    assert (tmp_path / "a.bin").read_bytes() == b"of the other"
    assert (tmp_path / "folder/x").exists()


@pytest.mark.skipif(os.name != "posix", reason="rights of POSIX")
def test_what_is_replaced_keeps_its_rights(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"old")
    (tmp_path / "secret").chmod(0o640)
    with new_file(tmp_path / "secret") as file:
        (temporary,) = tmp_path.glob(".secret.*.tmp")
        assert temporary.stat().st_mode & 0o777 == 0o640
        file.write(b"new")
    assert (tmp_path / "secret").stat().st_mode & 0o777 == 0o640
    write_files({tmp_path / "secret": b"newer", tmp_path / ("x" * 250): b"a long name"})
    assert (tmp_path / "secret").stat().st_mode & 0o777 == 0o640
    assert (tmp_path / ("x" * 250)).read_bytes() == b"a long name"


@pytest.mark.first_is_quick
@posix
@pytest.mark.parametrize("old", [b"old" * 1009, None])
def test_a_crash_leaves_the_old_file_or_the_new_one(tmp_path: Path, old: bytes | None) -> None:
    path, new = tmp_path / "model.safetensors", b"new!" * 2003
    seen = set()

    def prepare() -> None:
        for file in tmp_path.iterdir():
            file.unlink()
        if old:
            path.write_bytes(old)

    for code in each_crash(lambda: write_file(path, new), prepare):
        content = path.read_bytes() if path.exists() else None
        assert content == new or (content == old and code == 9)
        seen.add(content)
    assert seen == {old, new}


@posix
def test_an_error_leaves_no_half_file_behind(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(b"old")

    def fail() -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    for moment in ("fsync", "replace"):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(os, moment, lambda *_: fail())
            with pytest.raises(OSError, match=os.strerror(errno.EIO)):
                write_file(path, b"new")
        assert [file.name for file in tmp_path.iterdir()] == ["model.safetensors"]
        assert path.read_bytes() == b"old"


def test_a_link_in_a_folder_is_replaced_and_not_followed(tmp_path: Path) -> None:
    file, link = tmp_path / "file", tmp_path / "link"
    file.write_bytes(b"old")
    link.symlink_to("file")
    write_file(link, b"new")
    assert (link.is_symlink(), link.read_bytes(), file.read_bytes()) == (False, b"new", b"old")


@posix
def test_a_link_that_the_user_names_stays_one_and_a_pipe_is_written_to(tmp_path: Path) -> None:
    file, link, pipe = tmp_path / "file", tmp_path / "link", tmp_path / "pipe"
    file.write_bytes(b"old")
    link.symlink_to("file")
    write_output(link, b"new")
    assert (link.is_symlink(), file.read_bytes()) == (True, b"new")
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write_output(pipe, b"news")
    assert os.read(reader, 7) == b"news"
    os.close(reader)
    assert pipe.is_fifo()
    assert {entry.name for entry in tmp_path.iterdir()} == {"file", "link", "pipe"}


def test_small_files_have_a_size_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk_with(monkeypatch, lambda: 0)
    with pytest.raises(ResourceError) as caught:
        write_file(tmp_path / "config.json", bytes(3001))
    assert " 0 MB are to be written" not in str(caught.value)


def test_hidden_files_of_others_with_such_names_stay(tmp_path: Path) -> None:
    others = [".notes.backup.tmp", ".notes.yarn.lock", ".notes.0a1b2c3.tmp", ".notes.0a1b2c3d.e.tmp"]
    for name in others:
        (tmp_path / name).touch()
    (tmp_path / ".notes.0a1b2c3d.tmp").touch()
    write_file(tmp_path / "notes", b"x")
    assert {path.name for path in tmp_path.iterdir()} == {"notes", *others}


def test_an_error_names_the_file_that_was_to_be_written(tmp_path: Path) -> None:
    with pytest.raises((OSError, ResourceError)) as caught:
        write_file(tmp_path / "gone" / "report.html", b"x")
    assert ".lock" not in str(caught.value)
    assert "report.html" in str(caught.value)
