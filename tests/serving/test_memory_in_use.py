"""A translation memory that another program has locked, or that is deleted, says so."""

import os
import sqlite3
import subprocess
import sys

import pytest

from dragoman.data.readers.memory import open_memory
from dragoman.data.readers.types import ReaderOptions
from dragoman.errors import DataError, ResourceError
from dragoman.storage import memory as module
from dragoman.storage.memory import Memory

LOCKED = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("PRAGMA journal_mode = DELETE")
connection.execute("BEGIN EXCLUSIVE")
print("locked", flush=True)
sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    monkeypatch.setattr(module, "OPENING", 0.05)
    monkeypatch.setattr(module, "PATIENCE", 0.05)


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "memory"
    memory = Memory(path)
    memory.add(("en", "fr"), "A cat.", "Un chat.")
    memory.close()
    return path


@pytest.fixture
def holder(path):
    """Another process that has the memory for itself."""
    command = [sys.executable, "-c", LOCKED, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline()
        yield process
        process.stdin.close()


@pytest.mark.slow
def test_a_memory_in_use_names_the_process_that_has_it(path, holder):
    who = f"process {holder.pid}" if os.path.exists("/proc/locks") else "another program"
    with pytest.raises(ResourceError, match=f"{path} is in use by {who}; wait until that is done"):
        Memory(path)
    with pytest.raises(ResourceError, match=f"{path} is in use by {who}"):
        open_memory(path, ReaderOptions())


def test_a_memory_that_is_locked_for_a_moment_is_waited_for(path, holder, monkeypatch):
    monkeypatch.setattr(module, "OPENING", 60.0)
    holder.stdin.close()
    memory = Memory(path)
    assert memory.find(("en", "fr"), "A cat.") == "Un chat."
    memory.close()


def test_what_clients_are_told_names_no_file_of_the_server(path):
    memory = Memory(path)
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    with pytest.raises(ResourceError, match=r"^The translation memory is in use by"):
        memory.add(("en", "fr"), "A dog.", "Un chien.")
    connection.close()
    memory.close()


def test_a_memory_that_is_deleted_keeps_nothing_and_says_so(path):
    memory = Memory(path)
    path.unlink()
    with pytest.raises(ResourceError, match="was deleted"):
        memory.add(("en", "fr"), "A dog.", "Un chien.")
    memory.close()


@pytest.mark.parametrize("name", ["loop", "x" * 300, "folder", "nowhere/memory"])
def test_a_path_that_is_no_file_is_refused(name, tmp_path):
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    (tmp_path / "folder").mkdir()
    with pytest.raises(DataError, match="cannot be a translation memory"):
        Memory(tmp_path / name)
