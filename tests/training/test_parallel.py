"""Runs on several ranks, in forked processes as torchrun would start them, equal those of a single process."""

import json
import math
import os
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from dragoman.data.batching import Batch
from dragoman.errors import DataError, UsageError
from dragoman.system import ranks as module
from dragoman.system.ranks import ALONE, ProcessGroup, Ranks, open_ranks, unsharded
from dragoman.training.executors import Executor
from tests.training.runs import Runs, random_pairs, small_model

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="forks")
STEPS = 36


class Launcher:
    """Starts ranks and waits for them."""

    def __init__(self, folder: Path):
        self.folder = folder
        with socket.socket() as free:
            free.bind(("localhost", 0))
            self.port = free.getsockname()[1]

    def start(self, size: int, work: Callable[[Ranks], Any]) -> list[int]:
        """Fork `size` ranks; what `work` returns on each is kept as JSON."""
        return [self._fork(index, size, work) for index in range(size)]

    def run(self, size: int, work: Callable[[Ranks], Any]) -> list[Any]:
        """What `work` returns on each rank."""
        children = self.start(size, work)
        assert [self.code(child) for child in children] == [0] * size, self.said()
        return [json.loads((self.folder / f"{index}.json").read_text()) for index in range(size)]

    def code(self, child: int, seconds: float = 60) -> int | None:
        """The exit code of a rank, None if it does not end in time."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            found, status = os.waitpid(child, os.WNOHANG)
            if found:
                return os.waitstatus_to_exitcode(status)
            time.sleep(0.02)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        return None

    def said(self) -> str:
        return "".join(path.read_text() for path in sorted(self.folder.glob("*.log")))

    def _fork(self, index: int, size: int, work: Callable[[Ranks], Any]) -> int:
        child = os.fork()
        if child:
            return child
        code = 1
        try:
            sys.stderr = open(self.folder / f"{index}.log", "w")  # noqa: SIM115 - the process ends with it
            os.environ |= {"RANK": str(index), "WORLD_SIZE": str(size), "LOCAL_RANK": str(index)}
            os.environ |= {"MASTER_ADDR": "localhost", "MASTER_PORT": str(self.port)}
            torch.set_num_threads(1)
            with open_ranks() as ranks:
                (self.folder / f"{index}.json").write_text(json.dumps(work(ranks)))
            code = 0
        except BaseException as error:
            code = getattr(error, "exit_code", 1)
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)


@pytest.fixture
def launcher(tmp_path: Path) -> Launcher:
    return Launcher(tmp_path)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    return Runs(tmp_path_factory.mktemp("pairs"))


def train(runs: Runs, ranks: Ranks, name: str, *, stop_after: float = math.inf, **choices: Any) -> dict[str, Any]:
    """Train as a rank; returns the losses, numbers that any bit of the weights changes, and how often it wrote."""
    options = {"max_steps": STEPS, "patience": 100, "max_tokens": 31} | choices
    options["batches"] = runs.batches(f"few-{os.getpid()}", random_pairs(29, seed=73), max_tokens=13)
    trainer, watcher = runs.trainer(name, ranks=ranks, model=small_model(dropout=0.0), **options)
    watcher.stop_after = stop_after
    trainer.resume()
    trainer.train()
    trainer.executor.close()
    digest = [float(unsharded(weight.detach()).double().abs().sum()) for weight in trainer.model.parameters()]
    losses = {event["step"]: event["loss"] for event in watcher.of("step")}
    warned = [event["text"] for event in watcher.of("warning")]
    return {"losses": list(losses.values()), "weights": digest, "kept": len(watcher.kept), "warned": warned}


@pytest.fixture(scope="module")
def alone(runs: Runs) -> dict[str, Any]:
    torch.set_num_threads(1)
    return train(runs, ALONE, "alone")


@pytest.mark.parametrize(
    ("size", "parallel"),
    [(2, "ddp"), *(pytest.param(*case, marks=pytest.mark.slow) for case in ((3, "ddp"), (2, "fsdp")))],
)
def test_the_losses_of_several_ranks_are_those_of_one(size: int, parallel: str, launcher: Launcher, runs: Runs, alone):
    """Batches have one to six rows, so that ranks have different numbers of tokens, or none."""
    found = launcher.run(size, lambda ranks: train(runs, ranks, f"{parallel}-{size}", parallel=parallel))
    for rank in found:
        assert rank["losses"] == pytest.approx(alone["losses"], rel=1e-6)
        assert rank["weights"] == found[0]["weights"]
    assert [bool(rank["kept"]) for rank in found] == [True] + [False] * (size - 1)


@pytest.mark.slow
def test_a_run_goes_on_with_another_number_of_ranks(launcher: Launcher, runs: Runs, alone):
    launcher.run(2, lambda ranks: train(runs, ranks, "moved", stop_after=17))
    found = launcher.run(3, lambda ranks: train(runs, ranks, "moved", stop_after=31))
    assert found[1]["losses"] == pytest.approx(alone["losses"][17:31], rel=1e-6)
    (warning,) = found[0]["warned"]
    assert "2 times" in warning
    assert "goes on with 3 times" in warning
    assert train(runs, ALONE, "moved")["losses"] == pytest.approx(alone["losses"][31:], rel=1e-6)


@pytest.mark.slow
def test_sharded_weights_are_saved_and_resumed_like_whole_ones(launcher: Launcher, runs: Runs):
    choices = {"optimizer": "muon", "ema": 0.9, "average": 2, "max_steps": 12}
    expected = train(runs, ALONE, "whole", **choices)["losses"]
    first = launcher.run(3, lambda ranks: train(runs, ranks, "sharded", stop_after=5, parallel="fsdp", **choices))
    second = launcher.run(2, lambda ranks: train(runs, ranks, "sharded", stop_after=9, parallel="fsdp", **choices))
    last = train(runs, ALONE, "sharded", **choices)
    found = first[0]["losses"] + second[1]["losses"] + last["losses"]
    assert found == pytest.approx(expected, rel=1e-3)  # Muon rounds to half precision


@pytest.mark.slow
def test_a_batch_that_does_not_fit_on_one_rank_is_halved(launcher: Launcher, runs: Runs, alone, monkeypatch):
    attempt = Executor.loss

    def loss(self: Executor, batch: Batch, **options: Any) -> tuple[float, int]:
        if os.environ.get("RANK") == "1" and len(batch.labels) > 1:
            raise MemoryError
        return attempt(self, batch, **options)

    monkeypatch.setattr(Executor, "loss", loss)
    found = launcher.run(2, lambda ranks: train(runs, ranks, "halved"))
    assert found[0]["losses"] == pytest.approx(alone["losses"], rel=1e-6)


@pytest.mark.first_is_quick
@pytest.mark.parametrize("lost_by", ["SIGKILL", "SIGSTOP", "an error"])
def test_a_lost_rank_ends_all_others(lost_by: str, launcher: Launcher, runs: Runs, monkeypatch):
    monkeypatch.setattr(module, "BEAT", 0.1)
    monkeypatch.setattr(module, "SILENCE", 1.5)

    def work(ranks: Ranks) -> None:
        while True:
            if ranks.index == 1 and time.monotonic() > until:
                if lost_by == "an error":
                    raise DataError("no pairs")
                os.kill(os.getpid(), getattr(signal, lost_by))
            ranks.once(lambda: None)

    until = time.monotonic() + 0.5
    first, lost, last = launcher.start(3, work)
    assert [launcher.code(first, 20), launcher.code(last, 20)] == [4, 4]
    assert launcher.code(lost, 0.5) == {"SIGKILL": -9, "an error": 3}.get(lost_by)
    said = (launcher.folder / "0.log").read_text()
    reason = {"SIGSTOP": "Rank 1 has shown no sign of life", "an error": "no pairs"}.get(lost_by, "")
    assert reason in said
    assert "the same command goes on from there" in said


@pytest.mark.slow
def test_a_rank_that_is_left_alone_does_not_wait_for_ever(launcher: Launcher, monkeypatch):
    monkeypatch.setattr(module, "JOINING", 1.0)
    child = launcher._fork(1, 2, lambda ranks: None)
    assert launcher.code(child, 20) == 4
    assert "Not all ranks have joined" in launcher.said()


def test_an_error_of_rank_0_is_told_once(launcher: Launcher):
    def fail() -> None:
        raise DataError("no pairs")

    children = launcher.start(2, lambda ranks: ranks.once(fail))
    assert [launcher.code(child) for child in children] == [3, 3]
    assert "no pairs" not in (launcher.folder / "1.log").read_text()


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({}, "RANK is no number"),
        ({"RANK": "x"}, "RANK is no number"),
        ({"RANK": "0", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "x"}, "MASTER_PORT is no number"),
        ({"RANK": "0", "MASTER_PORT": "2", "LOCAL_RANK": "x", "MASTER_ADDR": "a"}, "LOCAL_RANK is no number"),
        ({"RANK": "0", "MASTER_PORT": "29500"}, "MASTER_ADDR is not"),
    ],
)
def test_an_environment_that_no_launcher_has_set_is_told_in_words(variables, words, monkeypatch):
    for name in ("RANK", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    for name, value in ({"WORLD_SIZE": "2"} | variables).items():
        monkeypatch.setenv(name, value)
    with pytest.raises(UsageError, match=words):
        ProcessGroup()
