"""A sealed folder: whatever changes in it afterwards is seen."""

import random
from pathlib import Path

import pytest

from dragoman.errors import DataError
from dragoman.system.seals import check_seal, seal


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
