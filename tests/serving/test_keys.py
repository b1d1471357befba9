"""API keys, and the file that they are read from."""

import os
from pathlib import Path

import pytest

from dragoman.errors import UsageError
from dragoman.serving import keys
from dragoman.serving.keys import ApiKeys, KeysInFile


def read(path: Path) -> list[str]:
    found = path.read_text(encoding="utf-8").split()
    if not found:
        raise UsageError(f"{path} has no keys; write one on each line.")
    return found


def test_a_key_is_one_of_them_or_none_is_asked_for():
    known = ApiKeys(["one", "zwö"])
    assert known
    assert [key in known for key in ("one", "zwö", "on", "", "\ud800")] == [True, True, False, False, False]
    assert not ApiKeys()


def test_a_file_of_keys_is_read_again_when_it_has_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    messages: list[str] = []
    monkeypatch.setattr(keys.LOG, "error", lambda form, *values: messages.append(form % values))
    monkeypatch.setattr(keys, "LOOKING", 0.0)
    path = tmp_path / "keys"
    path.write_text("one\n", encoding="utf-8")
    known = KeysInFile(path, read)
    assert ("one" in known, "two" in known) == (True, False)
    path.write_text("two\n", encoding="utf-8")
    os.utime(path, ns=(0, 0))
    assert ("one" in known, "two" in known) == (False, True)
    path.write_text("\n", encoding="utf-8")
    assert "two" in known
    path.unlink()
    assert ("two" in known, "one" in known, bool(known)) == (True, False, True)
    assert "two" in known  # said once, though tried again
    assert len(messages) == 2
    assert messages[0] == f"The keys stay as they were: {path} has no keys; write one on each line."
    path.write_text("three\n", encoding="utf-8")
    assert ("two" in known, "three" in known) == (False, True)


def test_the_file_is_looked_at_once_a_second(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "keys"
    path.write_text("one\n", encoding="utf-8")
    known = KeysInFile(path, read)
    monkeypatch.setattr(os, "stat", lambda *_: pytest.fail("looked at"))
    assert "one" in known
