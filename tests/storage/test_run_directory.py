"""A run belongs to one process at a time, and a new one never takes a folder that holds something."""

import os
import signal
import subprocess
import sys

import pytest

from dragoman.errors import ResourceError, UsageError
from dragoman.storage.run_directory import RunDirectory, refuse_to_overwrite, unused

HOLD = """
import sys
from pathlib import Path
from dragoman.storage.run_directory import RunDirectory
with RunDirectory(Path(sys.argv[1])).locked():
    print("locked", flush=True)
    input()
"""


def test_a_second_process_is_refused_by_name_until_the_first_ends_or_crashes(tmp_path):
    directory = RunDirectory(tmp_path / "run")
    command = [sys.executable, "-c", HOLD, str(directory.path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as first:
        assert first.stdout.readline() == b"locked\n"
        for refused in (directory.refuse_if_locked, directory.refuse_if_used, lambda: directory.locked().__enter__()):
            with pytest.raises(ResourceError, match=f"process {first.pid};"):
                refused()
        first.send_signal(signal.SIGKILL)
        first.wait()
    with directory.locked():
        assert directory.lock.read_text() == str(os.getpid())
    directory.refuse_if_locked()


def test_a_lock_holds_against_the_same_process_and_ends_with_its_block(tmp_path):
    directory = RunDirectory(tmp_path)
    with directory.locked(), pytest.raises(ResourceError, match=f"process {os.getpid()};"), directory.locked():
        pass
    with directory.locked():
        pass


def test_looking_for_a_lock_leaves_nothing_behind(tmp_path):
    RunDirectory(tmp_path / "new").refuse_if_used()
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_holds_something_is_refused(tmp_path):
    directory = RunDirectory(tmp_path / "model")
    (directory.path / "run").mkdir(parents=True)
    directory.refuse_if_used()  # left by a start that did not get far
    directory.config.write_text("")
    with pytest.raises(UsageError, match="--resume"):
        directory.refuse_if_used()
    with pytest.raises(UsageError, match="not empty"):
        refuse_to_overwrite(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="is a file"):
        refuse_to_overwrite(tmp_path / "file" / "below")


def test_an_unused_name_has_the_first_free_number(tmp_path):
    for name in ("demo", "demo-2"):
        assert unused(tmp_path / "demo") == tmp_path / name
        (tmp_path / name).mkdir()
    assert unused(tmp_path / "demo") == tmp_path / "demo-3"


def test_what_a_start_left_half_prepared_is_cleared_but_for_the_lock(tmp_path):
    directory = RunDirectory(tmp_path / "model")
    (directory.checkpoints / "step_00000007").mkdir(parents=True)
    directory.metrics.write_text('{"event": "step", "step": 7}\n')
    with directory.locked():
        directory.clear()
        assert [entry.name for entry in directory.run.iterdir()] == ["lock"]
