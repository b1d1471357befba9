"""Runs that are interrupted, resumed, or cannot write: nothing is lost, the bits are the same."""

from pathlib import Path
from typing import Any

import pytest
import torch

from dragoman.data.batching import TokenBatches, TokenStore
from dragoman.errors import ResourceError, UsageError
from dragoman.model import Transformer
from dragoman.storage.checkpoints import Checkpoints
from dragoman.system import ranks
from dragoman.training import advice
from dragoman.training.executors import TOKENS_PER_COPY
from dragoman.training.trainer import Trainer
from tests.training.runs import (
    Runs,
    Watcher,
    equal,
    random_pairs,
    scripted,
    small_model,
    weights_of,
)

pytestmark = pytest.mark.usefixtures("annotations_unchecked")


@pytest.fixture
def runs(tmp_path: Path) -> Runs:
    return Runs(tmp_path)


def without_seconds(events: list[tuple[str, dict[str, Any]]]) -> list[tuple[str, dict[str, Any]]]:
    return [(name, values | {"seconds": 0}) for name, values in events]


def dropping(seed: int) -> Transformer:
    return small_model(seed=seed, dropout=0.3, attention_dropout=0.2, projection_dropout=0.1)


@pytest.mark.first_is_quick
@pytest.mark.parametrize("stop", [4, 10, *(pytest.param(stop, marks=pytest.mark.slow) for stop in (3, 5))])
def test_a_run_that_was_stopped_and_resumed_has_the_same_bits(runs: Runs, stop: int):
    """After a validation (step 4) and between two, in all three epochs."""
    choices = {"max_steps": 13, "accumulate": 2, "average": 3, "weight_decay": 0.01}
    whole, watcher = runs.trainer("whole", model=dropping(1), **choices)
    assert whole.train() == "13 steps"

    first, first_watcher = runs.trainer(model=dropping(1), **choices)
    first_watcher.stop_after = stop
    assert first.train() == "interrupted"
    assert first.progress.step == stop
    second, second_watcher = runs.resumed(model=dropping(2), **choices)
    assert second.train() == "13 steps"

    assert second.progress.position.epoch > 1
    for tensors in ("model", "optimizer"):
        assert equal(second.state_dict()[0][tensors], whole.state_dict()[0][tensors])
    events = first_watcher.events + second_watcher.events
    assert without_seconds(events) == without_seconds(watcher.events)
    kept = first_watcher.kept + second_watcher.kept
    assert len(kept) == len(watcher.kept)
    assert all(map(equal, kept, watcher.kept))
    progress = [trainer.progress.state_dict() | {"seconds": 0, "validation_seconds": 0} for trainer in (second, whole)]
    assert progress[0] == progress[1]


@pytest.mark.first_is_quick
@pytest.mark.parametrize(
    "choices",
    [
        pytest.param({"optimizer": "sgd"}, marks=pytest.mark.slow),
        pytest.param({"optimizer": "sgd", "momentum": 0.0}, marks=pytest.mark.slow),
        pytest.param({"optimizer": "rmsprop"}, marks=pytest.mark.slow),
        {"optimizer": "muon"},
        pytest.param({"schedule": "cosine"}, marks=pytest.mark.slow),
        {"schedule": "plateau", "plateau_patience": 1},
        {"ema": 0.9, "average": 3},
        {"r_drop": 2.0},
    ],
    ids=lambda choices: " ".join(map(str, choices.values())),
)
def test_every_way_to_train_resumes_with_the_same_bits(runs: Runs, choices: dict[str, Any]):
    assert_resumed_with_the_same_bits(runs, choices)


@pytest.mark.slow
@pytest.mark.usefixtures("two_threads")
@pytest.mark.parametrize("precision", ["float32", pytest.param("bfloat16", marks=pytest.mark.slow)])
def test_copies_in_several_processes_resume_with_the_same_bits(runs: Runs, precision: str):
    choices = {"max_tokens": 2 * TOKENS_PER_COPY, "precision": precision, "accumulate": 2}
    trainers = assert_resumed_with_the_same_bits(runs, choices)
    for trainer in trainers:
        assert len(trainer.executor.copies) == 2
        trainer.executor.close()


def assert_resumed_with_the_same_bits(runs: Runs, choices: dict[str, Any]) -> list[Trainer]:
    """A run of 13 steps, and one that is stopped after 7; returns their trainers."""
    choices = {"max_steps": 13, "validate_every": 2} | choices
    whole, watcher = runs.trainer("whole", model=dropping(1), **choices)
    whole.train()
    first, first_watcher = runs.trainer(model=dropping(1), **choices)
    first_watcher.stop_after = 7
    first.train()
    second, second_watcher = runs.resumed(model=dropping(2), **choices)
    second.train()
    tensors, expected = second.state_dict()[0], whole.state_dict()[0]
    assert tensors.keys() == expected.keys()
    assert all(equal(tensors[name], expected[name]) for name in expected)
    events = first_watcher.events + second_watcher.events
    assert without_seconds(events) == without_seconds(watcher.events)
    assert equal(second_watcher.kept[-1] if second_watcher.kept else first_watcher.kept[-1], watcher.kept[-1])
    progress = [trainer.progress.state_dict() | {"seconds": 0, "validation_seconds": 0} for trainer in (second, whole)]
    assert progress[0] == progress[1]
    assert (progress[0]["rate_factor"] < 1) == (whole.config.schedule == "plateau")
    return [whole, first, second]


def test_a_checkpoint_from_before_these_options_is_resumed(runs: Runs):
    first, watcher = runs.trainer(max_steps=4)
    first.train()
    tensors, state = watcher.callbacks.checkpoints.load_latest()
    for name in ("rate_factor", "bad_steps", "skipped_steps", "roll_backs", "too_large", "left_out", "loss_monitor"):
        del state[name]
    second, _ = runs.trainer("second", max_steps=8, ema=0.9)
    second.load_state_dict(tensors, state)
    assert second.train() == "8 steps"


def test_moments_of_another_optimizer_are_refused(runs: Runs):
    first, _ = runs.trainer(max_steps=4)
    first.train()
    with pytest.raises(UsageError, match=r"training\.optimizer=rmsprop"):
        runs.resumed(optimizer="rmsprop")
    second, _ = runs.resumed(optimizer="adamw", max_steps=8)
    assert second.train() == "8 steps"


@pytest.mark.first_is_quick
@pytest.mark.parametrize(("before", "after"), [("sgd", "muon"), ("muon", "sgd"), ("muon", "adam"), ("adam", "muon")])
def test_no_optimizer_is_given_the_moments_of_another(runs: Runs, before: str, after: str):
    first, _ = runs.trainer(max_steps=4, optimizer=before)
    first.train()
    with pytest.raises(UsageError, match=rf"training\.optimizer={after}"):
        runs.resumed(optimizer=after)


@pytest.mark.first_is_quick
@pytest.mark.parametrize(("before", "after"), [("bleu", "loss"), ("loss", "bleu")])
def test_a_run_that_monitors_something_else_goes_on_comparing_with_what_it_kept(runs: Runs, before: str, after: str):
    first, watcher = runs.trainer(max_steps=8, monitor=before, bleu=scripted(20, 21))
    first.train()
    best = min((v for v in watcher.of("validation") if v["better"]), key=lambda v: v["valid_loss"])
    second, watcher = runs.resumed(max_steps=20, monitor=after, bleu=scripted(5, 22, 6))
    second.train()
    found = [(v["better"], v["bleu"], v["valid_loss"]) for v in watcher.of("validation")]
    if after == "bleu":
        assert [better for better, *_ in found] == [False, True, False]
    else:
        lowest = best["valid_loss"]
        for better, _, loss in found:
            assert better == (loss < lowest)
            lowest = min(loss, lowest)
        assert any(better for better, *_ in found)


def test_a_sampled_run_that_only_has_to_be_finished_is_finished(runs: Runs, tmp_path: Path, monkeypatch):
    """Nothing of an epoch is read before its last validation, which looks at the frequencies of tokens."""
    monkeypatch.setattr(advice, "NOVICE", 1)
    monkeypatch.setattr(advice, "FEWEST_STEPS", 3)

    class Sampled:
        def __init__(self, store: TokenStore):
            self.store = store

        def __len__(self) -> int:
            return len(self.store)

        def epoch(self, number: int) -> TokenStore:
            return self.store

    def sampled() -> TokenBatches:
        stores = (Sampled(TokenStore(tmp_path / "train" / side)) for side in ("source", "target"))
        return TokenBatches(*stores, max_tokens=31, seed=3)

    first, watcher = runs.trainer(batches=sampled(), max_steps=50, validate_every=40)
    watcher.stop_after = 7
    first.train()
    second, _ = runs.resumed(batches=sampled(), max_steps=1, validate_every=40)
    assert second.train() == "1 steps"


def test_the_last_validation_outlives_interruptions(runs: Runs):
    """It is where a run goes back to; two later checkpoints must not push it out."""
    for stop in (5, 6, 7):
        trainer, watcher = runs.trainer(max_steps=13) if stop == 5 else runs.resumed(max_steps=13)
        watcher.stop_after = stop
        trainer.train()
    assert watcher.callbacks.checkpoints.steps() == [4, 6, 7]


def test_the_optimizer_is_resumed_with_its_moments(runs: Runs):
    first, _ = runs.trainer(max_steps=7, validate_every=7)
    first.train()
    second, _ = runs.resumed(model=small_model(seed=5))
    moments = second.state_dict()[0]["optimizer"]
    assert equal(moments, first.state_dict()[0]["optimizer"])
    parameters = len(list(second.model.parameters()))
    assert len(moments) == 3 * parameters  # two moments and the number of steps
    assert {int(v) for name, v in moments.items() if name.endswith(".step")} == {7}


def test_an_interruption_saves_and_does_not_validate(runs: Runs):
    trainer, watcher = runs.trainer(max_steps=13)
    watcher.stop_after = 2
    assert trainer.train() == "interrupted"
    assert watcher.of("validation") == []
    assert watcher.callbacks.checkpoints.steps() == [2]
    tensors, state = watcher.callbacks.checkpoints.load_latest()
    assert equal(tensors["model"], weights_of(trainer.model))
    assert state["step"] == 2


def test_a_stop_that_comes_while_the_trainer_looks_loses_nothing(runs: Runs):
    """A signal may arrive between any two lines."""
    trainer, watcher = runs.trainer(max_steps=13)
    answers = iter([False, True])
    watcher.callbacks.stop_requested = lambda: next(answers, True)
    assert trainer.train() == "interrupted"
    assert watcher.callbacks.checkpoints.steps()[-1:] == [trainer.progress.step]


def test_a_run_interrupted_in_its_last_step_is_finished_when_resumed(runs: Runs):
    first, watcher = runs.trainer(max_steps=7)
    watcher.stop_after = 7
    assert first.train() == "interrupted"
    second, watcher = runs.resumed(max_steps=7)
    assert second.train() == "7 steps"
    assert watcher.of("step") == []
    assert [v["step"] for v in watcher.of("validation")] == [7]


def test_a_finished_run_that_is_resumed_stays_as_it_is(runs: Runs):
    first, _ = runs.trainer(max_steps=9)
    first.train()
    second, watcher = runs.resumed(max_steps=9)
    assert second.train() == "9 steps"
    assert equal(weights_of(second.model), weights_of(first.model))
    assert watcher.events == []
    assert second.progress.stale == first.progress.stale


def test_resuming_with_larger_batches_goes_on(runs: Runs):
    """`dragoman train --resume RUN training.max_tokens=...` makes an epoch of fewer batches."""

    def batches(max_tokens: int) -> TokenBatches:
        return runs.batches(f"budget-{max_tokens}", random_pairs(29, seed=73), max_tokens=max_tokens)

    first, watcher = runs.trainer(max_steps=13, batches=batches(16))
    watcher.stop_after = 7
    first.train()
    large = batches(97)
    assert len(large.plan(0)) < first.progress.position.batch
    second, _ = runs.resumed(max_steps=13, batches=large)
    assert second.train() == "13 steps"


class Clock:
    """Stands in for the module `time`; a step takes half a minute."""

    def __init__(self, watcher: Watcher, now: float):
        self.watcher, self.now = watcher, now

    def monotonic(self) -> float:
        return self.now + 30 * len(self.watcher.of("step"))


def test_max_minutes_counts_the_time_before_a_resume(runs: Runs, monkeypatch):
    options = {"max_minutes": 5, "validate_every": 100}
    first, watcher = runs.trainer(**options)
    first.pacing._started = 1000
    monkeypatch.setattr(ranks, "time", Clock(watcher, now=1000))
    watcher.stop_after = 4
    assert first.train() == "interrupted"
    assert first.progress.seconds == 90  # at the end of a step its report is still to come
    second, watcher = runs.resumed(**options)
    second.pacing._started = 9_000_000
    monkeypatch.setattr(ranks, "time", Clock(watcher, now=9_000_000))
    assert second.train() == "5 minutes"
    assert second.progress.step == 4 + 7  # a validation is expected to take some of the last half minute
    assert watcher.of("step")[-1]["seconds"] == 270


@pytest.mark.first_is_quick
@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), ResourceError("full")])
def test_a_checkpoint_that_cannot_be_written_warns_and_training_goes_on(runs: Runs, error: Exception, monkeypatch):
    whole, _ = runs.trainer("whole", max_steps=13)
    whole.train()
    save = Checkpoints.save

    def failing(self: Checkpoints, step: int, *rest: Any) -> None:
        if step == 8:
            raise error
        save(self, step, *rest)

    monkeypatch.setattr(Checkpoints, "save", failing)
    trainer, watcher = runs.trainer(max_steps=13)
    assert trainer.train() == "13 steps"
    assert equal(weights_of(trainer.model), weights_of(whole.model))
    (warning,) = watcher.warnings
    assert str(error) in warning
    assert "step 8" in warning
    assert watcher.callbacks.checkpoints.steps() == [12, 13]


def test_while_none_can_be_written_the_checkpoint_before_stays(runs: Runs, monkeypatch):
    first, watcher = runs.trainer(max_steps=4)
    first.train()

    def full(*_: Any) -> None:
        raise ResourceError("The disk is full.")

    monkeypatch.setattr(Checkpoints, "save", full)
    second, watcher = runs.resumed(max_steps=13, average=3)
    assert second.train() == "13 steps"
    assert len(watcher.warnings) == 2  # of a checkpoint and a snapshot, once each
    tensors, state = watcher.callbacks.checkpoints.load_latest()
    assert state["step"] == 4
    assert equal(tensors["model"], weights_of(first.model))


def test_a_folder_that_cannot_be_made_warns_too(runs: Runs):
    runs.folder.joinpath("run").mkdir()
    runs.folder.joinpath("run", "checkpoints").write_text("in the way", encoding="utf-8")
    trainer, watcher = runs.trainer(max_steps=4)
    assert trainer.train() == "4 steps"
    assert len(watcher.warnings) == 1


def test_a_damaged_last_checkpoint_costs_one_interval(runs: Runs):
    first, watcher = runs.trainer(max_steps=8)
    first.train()
    file = runs.folder / "run" / "checkpoints" / "step_00000008" / "optimizer.safetensors"
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    second, watcher = runs.resumed(model=small_model(seed=5), max_steps=8)
    assert second.progress.step == 4
    assert len(watcher.warnings) == 1
    second.train()
    assert equal(weights_of(second.model), weights_of(first.model))


def test_checkpoints_hold_what_is_needed_and_weights_once(runs: Runs):
    """A shared and tied table is one tensor."""
    trainer, _ = runs.trainer()
    trainer.train_step()
    tensors, state = trainer.state_dict()
    names = [name for name in tensors["model"] if "table" in name or "projection.weight" in name]
    assert len(names) == 1
    assert all(isinstance(value, torch.Tensor) for value in tensors["optimizer"].values())
    assert state["position"] == {"epoch": 0, "batch": 1}


def test_a_checkpoint_behind_damaged_ones_is_kept(runs: Runs):
    first, watcher = runs.trainer(max_steps=12)
    first.train()
    checkpoints = watcher.callbacks.checkpoints
    for step in checkpoints.steps():
        (checkpoints.folder / f"step_{step:08d}" / "state.json").write_text("x")
    second, watcher = runs.trainer(max_steps=12)
    watcher.stop_after = 3
    assert second.train() == "interrupted"
    assert watcher.callbacks.checkpoints.steps() == [3]


def test_an_interruption_that_could_not_be_saved_says_so(runs: Runs, monkeypatch):
    trainer, watcher = runs.trainer(max_steps=13)
    watcher.stop_after = 6
    save = watcher.callbacks.checkpoints.save

    def full(step: int, *parts: Any) -> None:
        if step == 6:
            raise ResourceError("The disk is full.")
        save(step, *parts)

    monkeypatch.setattr(watcher.callbacks.checkpoints, "save", full)
    assert trainer.train() == "interrupted, not saved"
    assert watcher.callbacks.checkpoints.steps() == [4]


def test_a_run_whose_matrices_are_all_frozen_is_resumed(runs: Runs):
    """Only embeddings learn, and they have AdamW beside Muon."""
    model = small_model()
    for name, weight in model.named_parameters():
        weight.requires_grad_(".embedding." in name)
    trainer, _ = runs.trainer(model=model, optimizer="muon", max_steps=3)
    trainer.train()
    again = small_model()
    for name, weight in again.named_parameters():
        weight.requires_grad_(".embedding." in name)
    resumed, _ = runs.resumed(model=again, optimizer="muon", max_steps=5)
    assert resumed.train() == "5 steps"


def test_a_decay_that_has_begun_ends_at_a_lower_limit(runs: Runs):
    choices = {"schedule": "wsd", "warmup": 1, "validate_every": 100}
    trainer, _ = runs.trainer(max_steps=20, **choices)
    trainer.callbacks.stop_requested = lambda: trainer.progress.step == 12
    trainer.train()
    assert trainer.progress.plan.decay_from == 10
    again, _ = runs.trainer(max_steps=15, **choices)
    again.resume()
    assert again.train() == "15 steps"
    assert again.progress.step == 15


def test_a_limit_that_was_lowered_can_be_raised_again(runs: Runs):
    choices = {"schedule": "wsd", "warmup": 1, "validate_every": 100}
    trainer, _ = runs.trainer(max_steps=20, **choices)
    trainer.callbacks.stop_requested = lambda: trainer.progress.step == 12
    trainer.train()
    for steps in (15, 18):
        again, _ = runs.trainer(max_steps=steps, **choices)
        again.resume()
        assert again.train() == f"{steps} steps"
        assert again.progress.step == steps
