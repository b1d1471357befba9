"""Sealed folders and files: whatever changes in them afterwards is seen."""

import json
import random
from pathlib import Path

import pytest

from dragoman.errors import DataError
from dragoman.system.seals import LOCK, check_seal, read_in, read_sealed, seal, write_sealed


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    dice = random.Random(7)
    for number in range(5):
        (tmp_path / f"{number}.bin").write_bytes(dice.randbytes(dice.randint(1, 3_001)))
    (tmp_path / "empty").write_bytes(b"")
    seal(tmp_path)
    check_seal(tmp_path)
    return tmp_path


@pytest.mark.parametrize("times", [100, pytest.param(1_000, marks=pytest.mark.slow)])
def test_wrong_bytes_and_cuts_are_seen(folder: Path, times: int):
    dice = random.Random(11)
    files = [file for file in sorted(folder.iterdir()) if file.suffix]
    for _ in range(times):
        file = dice.choice(files)
        whole = file.read_bytes()
        place = dice.randrange(len(whole))
        wrong = whole[:place] + bytes([whole[place] ^ dice.randint(1, 255)]) + whole[place + 1 :]
        for content in (wrong, whole[:place]):
            file.write_bytes(content)
            with pytest.raises(DataError, match="is damaged"):
                check_seal(folder)
        file.write_bytes(whole)


@pytest.mark.parametrize("content", [b"[]", b"1", b'{"0.bin": 1}', b'{"../x": {}}', b"[" * 9_999, b"\xff"])
def test_a_strange_manifest_is_damage(folder: Path, content: bytes):
    (folder / "manifest.json").write_bytes(content)
    with pytest.raises(DataError, match="is damaged"):
        check_seal(folder)


def test_what_is_missing_is_named(folder: Path):
    (folder / "3.bin").unlink()
    with pytest.raises(DataError, match=r"3\.bin is not what was written"):
        check_seal(folder)


VALUE = {"pairs": [1, 2.5, None], "text": "Käse"}


def test_a_file_gives_back_its_value_and_is_json(tmp_path: Path):
    write_sealed(tmp_path / "a.json", VALUE)
    assert read_sealed(tmp_path / "a.json") == VALUE
    assert json.loads((tmp_path / "a.json").read_bytes())["content"] == VALUE


def test_any_wrong_byte_of_a_file_is_seen_before_it_is_parsed(tmp_path: Path, monkeypatch):
    write_sealed(tmp_path / "a.json", VALUE)
    whole = (tmp_path / "a.json").read_bytes()
    monkeypatch.setattr("dragoman.system.seals.json.loads", lambda _: pytest.fail("it was parsed"))
    for place in range(len(whole)):
        for content in (whole[:place], whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :]):
            (tmp_path / "a.json").write_bytes(content)
            with pytest.raises(DataError, match=r"a\.json is damaged"):
                read_sealed(tmp_path / "a.json")


def test_what_has_another_shape_is_refused_as_well(tmp_path: Path):
    write_sealed(tmp_path / "a.json", [1])
    for into in (dict, lambda value: value["a"], lambda value: value.get("a")):
        with pytest.raises(DataError, match=r"a\.json is damaged"):
            read_sealed(tmp_path / "a.json", into=into)


def test_a_file_of_a_folder_is_verified_when_it_is_read(tmp_path: Path):
    (tmp_path / "a.json").write_text("[1]")
    (tmp_path / LOCK).touch()
    seal(tmp_path)
    assert read_in(tmp_path, "a.json") == [1]
    for name, content in (("a.json", "[2]"), ("b.json", "[1]")):
        (tmp_path / name).write_text(content)
        with pytest.raises(DataError, match=f"{name} is not what was written"):
            read_in(tmp_path, name)
    check = LOCK in json.loads((tmp_path / "manifest.json").read_text())
    assert not check, "the file that is locked changes with each process"
