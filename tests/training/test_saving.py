"""What a run writes when the disk is too full for all of it."""

import math
from pathlib import Path
from typing import Any

import pytest

from dragoman.errors import ResourceError
from dragoman.storage import checkpoints as storage
from dragoman.storage.checkpoints import Checkpoints
from tests.training.runs import Runs, equal, weights_of

pytestmark = pytest.mark.usefixtures("annotations_unchecked")


@pytest.fixture
def runs(tmp_path: Path) -> Runs:
    return Runs(tmp_path)


class Disk:
    """Has room for so many bytes in a folder."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch):
        self.folder, self.size = folder, math.inf
        monkeypatch.setattr(storage, "check_space", self.check_space)

    def used(self) -> int:
        return sum(file.stat().st_size for file in self.folder.rglob("*") if file.is_file())

    def check_space(self, _: Path, size: int) -> None:
        if self.used() + size > self.size:
            raise ResourceError("The disk is full.")


@pytest.mark.slow
def test_snapshots_and_old_checkpoints_make_room_for_a_new_one(runs: Runs, monkeypatch: pytest.MonkeyPatch):
    whole, _ = runs.trainer("whole", max_steps=13)
    whole.train()
    disk = Disk(runs.folder / "run", monkeypatch)
    first, watcher = runs.trainer(max_steps=13, average=3)
    watcher.stop_after = 5
    assert first.train() == "interrupted"
    saved = watcher.callbacks
    assert (saved.checkpoints.steps(), saved.snapshots.steps()) == ([4, 5], [4])

    disk.size = disk.used()
    second, watcher = runs.resumed(max_steps=13, average=3)
    assert second.train() == "13 steps"
    saved = watcher.callbacks
    assert (saved.checkpoints.steps(), saved.snapshots.steps()) == ([12, 13], [])
    assert watcher.warnings == [
        "No snapshot was written at step 8: The disk is full.",
        "The disk is full; the snapshots for the average make room for checkpoints.",
    ]
    assert equal(weights_of(second.model), weights_of(whole.model))

    disk.size = disk.used() + 100
    third, watcher = runs.resumed(max_steps=17)
    assert third.train() == "17 steps"
    assert watcher.callbacks.checkpoints.steps() == [16, 17]
    assert watcher.warnings == []


def test_a_failure_is_told_once_until_it_is_over(runs: Runs, monkeypatch: pytest.MonkeyPatch):
    save = Checkpoints.save

    def failing(self: Checkpoints, step: int, *rest: Any) -> None:
        if step in (8, 12, 20):
            raise OSError(30, "Read-only file system")
        save(self, step, *rest)

    monkeypatch.setattr(Checkpoints, "save", failing)
    trainer, watcher = runs.trainer(max_steps=21)
    assert trainer.train() == "21 steps"
    warning = "No checkpoint was written at step {}: [Errno 30] Read-only file system"
    assert watcher.warnings == [warning.format(8), warning.format(20)]


def test_a_model_that_could_not_be_kept_is_kept_when_the_run_is_resumed(runs: Runs):
    def full(_: Any) -> None:
        raise ResourceError("The disk is full.")

    first, watcher = runs.trainer(max_steps=8, bleu=lambda _: 7.0 * first.progress.step)
    watcher.callbacks.keep_best = full
    assert first.train() == "8 steps"
    assert (first.progress.best_step, watcher.callbacks.checkpoints.steps()) == (0, [4, 8])

    second, watcher = runs.resumed(max_steps=8, bleu=lambda _: 7.0)
    assert second.train() == "8 steps"
    assert equal(watcher.kept[0], weights_of(first.model))
    third, watcher = runs.resumed(max_steps=8, bleu=lambda _: 9.0)
    assert third.train() == "8 steps"
    assert watcher.kept == []
