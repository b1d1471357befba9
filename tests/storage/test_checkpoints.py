"""Checkpoints are read back as they were written, whatever happens meanwhile; damaged ones are refused."""

import errno
import hashlib
import json
import os
import pickle
import random
import re
import shutil
import signal
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save as safetensors_of
from torch import Tensor

from dragoman.errors import DataError, ResourceError
from dragoman.storage.checkpoints import Checkpoints
from dragoman.system.atomic import write_file
from tests.storage.crashes import disk_with, each_crash, in_child, interrupt_before, posix
from tests.storage.models import Bomb

# Crashes happen in forked children, which start no threads.
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning"),
    pytest.mark.usefixtures("annotations_unchecked"),
]

# ---- what is written is read back ------------------------------------------------------------


def groups_of(step: int) -> dict[str, dict[str, Tensor]]:
    """Two groups that say which step they are of."""
    weights = torch.full((13, 7), float(step))
    moments = {"0.step": torch.tensor(float(step)), "0.exp_avg": torch.full((5,), step / 2)}
    return {"model": {"a.weight": weights, "bias": torch.arange(11.0)}, "optimizer": moments}


def save(checkpoints: Checkpoints, step: int, mark: int | None = None) -> None:
    """`mark` tells several checkpoints of one step apart."""
    mark = step if mark is None else mark
    checkpoints.save(step, groups_of(mark), {"mark": mark, "seconds": 0.1})


def mark_of(loaded: tuple[dict[str, dict[str, Tensor]], dict[str, Any]] | None) -> int | None:
    """The mark with which a checkpoint was saved; fails unless tensors and state are those of this mark, to the bit."""
    if loaded is None:
        return None
    groups, state = loaded
    expected = groups_of(state["mark"])
    assert state == {"mark": state["mark"], "seconds": 0.1}
    assert {name: group.keys() for name, group in groups.items()} == {
        name: group.keys() for name, group in expected.items()
    }
    for name, group in expected.items():
        for key, value in group.items():
            assert torch.equal(groups[name][key], value)
    return state["mark"]


class Log(list[str]):
    """Collects warnings."""

    def __call__(self, message: str) -> None:
        self.append(message)


@pytest.fixture
def warned() -> Log:
    return Log()


@pytest.fixture
def checkpoints(tmp_path: Path, warned: Log) -> Checkpoints:
    return Checkpoints(tmp_path / "run" / "checkpoints", warn=warned)


def test_a_checkpoint_is_read_back_to_the_bit(checkpoints: Checkpoints, warned: Log) -> None:
    groups = {
        "model": {"half": torch.randn(5, 3).bfloat16(), "turned": torch.randn(3, 7).T},
        "optimizer": {"0.step": torch.tensor(17), "1.flag": torch.tensor([True, False])},
        "nothing": {},
    }
    state = {"best_bleu": -float("inf"), "seconds": 0.1 + 0.2, "position": {"epoch": 2**53 + 1}}
    checkpoints.save(7, groups, state)
    for loaded, read in (checkpoints.load(7), checkpoints.load_latest()):
        assert read == state
        assert loaded.keys() == groups.keys()
        for name, group in groups.items():
            assert loaded[name].keys() == group.keys()
            for key, value in group.items():
                assert loaded[name][key].dtype == value.dtype
                assert torch.equal(loaded[name][key], value)
    assert warned == []


def test_no_checkpoints_are_none(checkpoints: Checkpoints, warned: Log) -> None:
    assert checkpoints.steps() == []
    assert checkpoints.load_latest() is None
    checkpoints.prune(set())
    with pytest.raises(DataError, match="step_00000007"):
        checkpoints.load(7)
    assert warned == []


def test_steps_are_in_order_of_number(checkpoints: Checkpoints) -> None:
    for step in (9, 100, 10, 123_456_789, 11):
        save(checkpoints, step)
    assert checkpoints.steps() == [9, 10, 11, 100, 123_456_789]
    assert mark_of(checkpoints.load_latest()) == 123_456_789
    checkpoints.prune({10, 100, 5})
    assert checkpoints.steps() == [10, 100]
    assert mark_of(checkpoints.load_latest()) == 100


def test_a_step_saved_again_is_replaced(checkpoints: Checkpoints) -> None:
    save(checkpoints, 5)
    save(checkpoints, 5, mark=6)
    assert checkpoints.steps() == [5]
    assert mark_of(checkpoints.load_latest()) == 6


def test_strangers_in_the_folder_are_left_alone(checkpoints: Checkpoints, warned: Log) -> None:
    save(checkpoints, 3)
    (checkpoints.folder / "step_00000009").write_text("a file")
    (checkpoints.folder / "step_old").mkdir()
    (checkpoints.folder / "notes").mkdir()
    assert checkpoints.steps() == [3]
    save(checkpoints, 5)
    checkpoints.prune({5})
    names = {path.name for path in checkpoints.folder.iterdir()}
    assert names == {"step_00000005", "step_00000009", "step_old", "notes"}
    assert mark_of(checkpoints.load_latest()) == 5
    assert warned == []


def test_leftovers_are_ignored_and_then_removed(checkpoints: Checkpoints, warned: Log) -> None:
    save(checkpoints, 3)
    for name in ("step_00000005.123.tmp", f"step_00000007.{os.getpid()}.tmp"):
        shutil.copytree(checkpoints.folder / "step_00000003", checkpoints.folder / name)
    assert checkpoints.steps() == [3]
    assert mark_of(checkpoints.load_latest()) == 3
    save(checkpoints, 7)
    names = {path.name for path in checkpoints.folder.iterdir()}
    assert names == {"step_00000003", "step_00000007"}
    assert mark_of(checkpoints.load_latest()) == 7
    assert warned == []


# ---- damage ----------------------------------------------------------------------------------


def falls_back(checkpoints: Checkpoints, warned: Log) -> bool:
    """Whether step 5 is refused and step 3 given, with a warning that names step 5."""
    warned.clear()
    with pytest.raises(DataError, match=r"step_00000005 is damaged"):
        checkpoints.load(5)
    assert mark_of(checkpoints.load_latest()) == 3
    assert len(warned) == 1
    return "step_00000005" in warned[0]


@pytest.fixture
def two(checkpoints: Checkpoints) -> list[Path]:
    """Steps 3 and 5 are saved; the files of step 5."""
    save(checkpoints, 3)
    save(checkpoints, 5)
    files = sorted((checkpoints.folder / "step_00000005").iterdir())
    assert [file.name for file in files] == [
        "manifest.json",
        "model.safetensors",
        "optimizer.safetensors",
        "state.json",
    ]
    return files


def test_a_wrong_byte_anywhere_is_seen(checkpoints: Checkpoints, two: list[Path], warned: Log) -> None:
    dice = random.Random(7)
    for file in two:
        whole = file.read_bytes()
        middle = dice.sample(range(1, len(whole) - 1), min(14, len(whole) - 2))
        for place in [0, *middle, len(whole) - 1]:
            for flip in (0x01, 0xFF):  # to another letter or digit, and to no text at all
                damaged = bytearray(whole)
                damaged[place] ^= flip
                file.write_bytes(damaged)
                assert falls_back(checkpoints, warned), f"{file.name}, byte {place}"
        file.write_bytes(whole)
    assert mark_of(checkpoints.load_latest()) == 5


def test_a_missing_or_cut_file_is_seen(checkpoints: Checkpoints, two: list[Path], warned: Log) -> None:
    for file in two:
        whole = file.read_bytes()
        for length in (0, 1, 8, len(whole) // 2, len(whole) - 1):
            file.write_bytes(whole[:length])
            assert falls_back(checkpoints, warned), f"{file.name} cut to {length}"
        file.write_bytes(whole + b"\0")
        assert falls_back(checkpoints, warned)
        file.unlink()
        assert falls_back(checkpoints, warned), f"no {file.name}"
        file.mkdir()
        assert falls_back(checkpoints, warned), f"{file.name} is a folder"
        file.rmdir()
        file.write_bytes(whole)
    assert mark_of(checkpoints.load_latest()) == 5


STRANGE = [b"[]", b"7", b"null", b"{}", b'{"state.json": 7}', b"\xff", b"[" * 10_007]


@pytest.mark.parametrize("text", STRANGE)
def test_a_strange_manifest_is_damage(checkpoints: Checkpoints, two: list[Path], warned: Log, text: bytes) -> None:
    two[0].write_bytes(text)
    assert falls_back(checkpoints, warned)


def test_a_file_that_the_manifest_does_not_know_is_not_read(checkpoints: Checkpoints, two: list[Path]) -> None:
    (two[0].parent / "stray.safetensors").write_bytes(safetensors_of({"weight": torch.zeros(3)}))
    tensors, _ = checkpoints.load(5)
    assert "stray" not in tensors
    assert mark_of(checkpoints.load(5)) == 5


@pytest.mark.parametrize("number", [1, 2, 3])
def test_damage_is_told_by_name(checkpoints: Checkpoints, two: list[Path], number: int) -> None:
    file = two[number]
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(DataError, match=file.name):
        checkpoints.load(5)
    file.unlink()
    with pytest.raises(DataError, match=file.name):
        checkpoints.load(5)


def test_if_all_are_damaged_each_is_told(checkpoints: Checkpoints, two: list[Path], warned: Log) -> None:
    for file in checkpoints.folder.glob("*/state.json"):
        file.write_bytes(b"")
    assert checkpoints.load_latest() is None
    assert len(warned) == 2
    assert "step_00000005" in warned[0]
    assert "step_00000003" in warned[1]


def test_no_pickle_is_read(checkpoints: Checkpoints, two: list[Path], tmp_path: Path) -> None:
    # Even one that the manifest vouches for.
    data = pickle.dumps(Bomb(tmp_path / "canary"))
    two[1].write_bytes(data)
    manifest = json.loads(two[0].read_bytes())
    manifest[two[1].name] = {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    two[0].write_text(json.dumps(manifest))
    with pytest.raises(DataError):
        checkpoints.load(5)
    assert not (tmp_path / "canary").exists()


# ---- crashes ---------------------------------------------------------------------------------


@pytest.mark.first_is_quick
@posix
@pytest.mark.parametrize("before", [(), (2, 3)])
def test_a_crash_at_any_moment_of_a_save_loses_nothing(
    checkpoints: Checkpoints, warned: Log, before: tuple[int, ...]
) -> None:
    def prepare() -> None:
        shutil.rmtree(checkpoints.folder, ignore_errors=True)
        for step in before:
            save(checkpoints, step)

    outcomes = []
    for code in each_crash(lambda: save(checkpoints, 5), prepare):
        mark = mark_of(checkpoints.load_latest())
        assert mark == 5 or mark == (before[-1] if before else None)
        assert code == 9 or mark == 5
        outcomes.append(mark)
        save(checkpoints, 7)  # a crash is in nobody's way
        assert mark_of(checkpoints.load_latest()) == 7
        assert not list(checkpoints.folder.glob("*.tmp"))
    assert outcomes == sorted(outcomes, key=lambda mark: mark == 5)
    assert len(outcomes) > 20
    assert warned == []


@pytest.mark.slow
@posix
def test_a_crash_while_a_step_is_saved_again_loses_nothing(checkpoints: Checkpoints) -> None:
    # A resumed run that has nothing left to do saves its last step once more.
    def prepare() -> None:
        shutil.rmtree(checkpoints.folder, ignore_errors=True)
        save(checkpoints, 5)

    lost = [
        call
        for call, _ in enumerate(each_crash(lambda: save(checkpoints, 5, mark=6), prepare))
        if mark_of(checkpoints.load_latest()) not in (5, 6)
    ]
    assert lost == []


@pytest.mark.slow
@posix
def test_a_crash_at_any_moment_of_pruning_spares_what_is_kept(checkpoints: Checkpoints) -> None:
    def prepare() -> None:
        for step in (2, 3, 5):
            save(checkpoints, step)

    for _ in each_crash(lambda: checkpoints.prune({3, 5}), prepare):
        assert mark_of(checkpoints.load(3)) == 3
        assert mark_of(checkpoints.load_latest()) == 5


@pytest.mark.slow
@posix
def test_an_error_at_any_moment_of_a_save_loses_nothing(checkpoints: Checkpoints) -> None:
    failed: list[bool] = []

    def fail() -> None:
        if not failed:
            failed.append(True)
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    def attempt(call: int) -> None:
        interrupt_before(call, fail)
        save(checkpoints, 5)
        os._exit(2 if failed else 0)  # 2: failed where it does not matter

    call, code = 0, 1
    while code:
        shutil.rmtree(checkpoints.folder, ignore_errors=True)
        save(checkpoints, 3)
        code = in_child(partial(attempt, call))
        assert mark_of(checkpoints.load_latest()) in ((3, 5) if code == 1 else (5,))
        save(checkpoints, 7)
        assert mark_of(checkpoints.load_latest()) == 7
        call += 1
    assert call > 20


@pytest.mark.slow
@posix
def test_killed_at_random_a_run_loses_nothing_it_was_told_is_saved(checkpoints: Checkpoints, warned: Log) -> None:
    dice = random.Random(11)
    step = 1
    save(checkpoints, step)
    for _ in range(8):
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                while True:
                    step += 1
                    save(checkpoints, step)
                    os.write(writing, step.to_bytes(4, "big"))
                    checkpoints.prune(set(checkpoints.steps()[-2:]))
            finally:
                os._exit(1)
        os.close(writing)
        with os.fdopen(reading, "rb", buffering=0) as pipe:
            saved = pipe.read(4)
            time.sleep(dice.uniform(0.0, 0.1))
            os.kill(child, signal.SIGKILL)
            saved += pipe.readall()
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
        last = int.from_bytes(saved[-4:], "big")
        step = mark_of(checkpoints.load_latest())
        assert step in (last, last + 1)
    assert step > 8
    assert warned == []


@posix
def test_everything_is_on_the_disk_before_it_has_its_name(
    checkpoints: Checkpoints, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced, moved = set(), []
    fsync, rename = os.fsync, os.rename

    def record_sync(descriptor: int) -> None:
        synced.add(os.fstat(descriptor).st_ino)
        fsync(descriptor)

    def record_rename(source: Path, target: Path) -> None:
        parts = [source, *Path(source).iterdir()]
        assert {part.stat().st_ino for part in map(Path, parts)} <= synced
        synced.clear()
        moved.append(Path(target).name)
        rename(source, target)

    monkeypatch.setattr(os, "fsync", record_sync)
    monkeypatch.setattr(os, "rename", record_rename)
    save(checkpoints, 5)
    assert moved == ["step_00000005"]
    assert synced == {checkpoints.folder.stat().st_ino}


# ---- full disks ------------------------------------------------------------------------------


@pytest.mark.parametrize("share", [0.0, 0.5, 1.1])
def test_a_full_disk_is_told_before_anything_is_written(
    checkpoints: Checkpoints, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, share: float
) -> None:
    file, size = tmp_path / "model.safetensors", 30_000_000
    file.write_bytes(b"old")
    save(checkpoints, 3)
    disk_with(monkeypatch, lambda: share * size)
    big = {"model": {"weight": torch.zeros(size // 4)}}
    for folder, attempt in (
        (tmp_path, lambda: write_file(file, bytes(size))),
        (checkpoints.folder, lambda: checkpoints.save(5, big, {})),
    ):
        with pytest.raises(ResourceError) as caught:
            attempt()
        message = str(caught.value)
        assert str(folder) in message
        needed, free = (float(number) for number in re.findall(r"([\d.]+) MB", message))
        assert free == pytest.approx(share * 30, abs=0.5)
        assert 30 <= needed <= 37
        assert free < needed, "a message that contradicts itself"
    assert file.read_bytes() == b"old"
    assert checkpoints.steps() == [3]
    assert mark_of(checkpoints.load_latest()) == 3
    assert not [path for path in tmp_path.rglob("*") if path.name.endswith(".tmp")]


def test_leftovers_make_room_for_what_is_saved(checkpoints: Checkpoints, monkeypatch: pytest.MonkeyPatch) -> None:
    # The half checkpoint of a killed run fills the disk: it must go before anyone asks for room.
    save(checkpoints, 3)
    leftover = checkpoints.folder / "step_00000005.123.tmp"
    leftover.mkdir()
    (leftover / "model.safetensors").write_bytes(bytes(100_003))
    disk_with(
        monkeypatch,
        lambda: 100_003 - sum(f.stat().st_size for f in leftover.glob("*")),
    )
    save(checkpoints, 5)
    assert mark_of(checkpoints.load_latest()) == 5


@pytest.mark.slow
@posix
def test_a_disk_that_is_full_at_any_byte_keeps_the_old(checkpoints: Checkpoints, tmp_path: Path) -> None:
    file = tmp_path / "model.safetensors"
    file.write_bytes(b"old")
    save(checkpoints, 3)
    big = {"model": {"weight": torch.zeros(70_001)}}

    def attempt(limit: int) -> None:
        import resource  # not on Windows

        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        for action in (
            lambda: checkpoints.save(5, big, {}),
            lambda: write_file(file, bytes(280_004)),
        ):
            with pytest.raises((OSError, ResourceError)):
                action()
        assert not [path for path in tmp_path.iterdir() if path.name.endswith(".tmp")]

    for limit in (0, 1, *range(4099, 280_004, 65_537)):
        assert in_child(partial(attempt, limit)) == 0
        assert file.read_bytes() == b"old"
        assert checkpoints.steps() == [3]
        assert mark_of(checkpoints.load_latest()) == 3
    save(checkpoints, 5)
    assert mark_of(checkpoints.load_latest()) == 5
    assert not list(checkpoints.folder.glob("*.tmp"))
