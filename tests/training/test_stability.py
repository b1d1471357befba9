"""Losses that are no numbers: skipped, counted, rolled back, given up; the same bits when resumed in between."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from dragoman.data.batching import Batch
from dragoman.errors import DragomanError
from dragoman.training.stability import summary_of_troubles
from dragoman.training.trainer import Trainer
from tests.training.runs import Runs, computing_model, equal, scripted, small_model, weights_of

pytestmark = pytest.mark.usefixtures("annotations_unchecked")


@pytest.fixture
def runs(tmp_path: Path) -> Runs:
    return Runs(tmp_path)


def spoil(trainer: Trainer, bad: Callable[[int, float], bool], *, by: float = math.nan) -> None:
    """Multiply the loss by `by` at each step for which `bad(step, factor of the learning rate)`."""
    compute = trainer.executor.loss

    def loss(batch: Batch, **options: Any) -> tuple[float, int]:
        value, count = compute(batch, **options)
        progress = trainer.progress
        spoiled = trainer.model.training and bad(progress.step, progress.rate_factor)
        return (value * by if spoiled else value), count

    trainer.executor.loss = loss


def at(*steps: int) -> Callable[[int, float], bool]:
    """Bad at these steps, as long as the learning rate is the one asked for."""
    return lambda step, factor: step in steps and factor == 1


def texts(watcher: Any) -> list[str]:
    return [event["text"] for event in watcher.of("warning")]


@pytest.mark.parametrize("by", [math.nan, math.inf])
def test_a_bad_step_changes_nothing_but_the_counts(runs: Runs, by: float):
    trainer, watcher = runs.trainer(max_steps=7, ema=0.9)
    spoil(trainer, at(6), by=by)
    for _ in range(5):
        trainer.train_step()
    before, tokens = trainer.state_dict()[0], trainer.progress.tokens
    before = {name: {key: value.clone() for key, value in group.items()} for name, group in before.items()}
    assert trainer.train_step() is None
    after = trainer.state_dict()[0]
    assert all(equal(after[name], before[name]) for name in ("model", "optimizer", "ema"))
    assert (trainer.progress.bad_steps, trainer.progress.skipped_steps, trainer.progress.tokens) == (1, 1, tokens)
    assert trainer.train() == "7 steps"
    assert (trainer.progress.bad_steps, trainer.progress.skipped_steps) == (0, 1)
    assert [text[:20] for text in texts(watcher)] == ["Step 6 was skipped: "]
    assert [event["step"] for event in watcher.of("step")] == [7]
    assert "1 step skipped" in summary_of_troubles(trainer.progress)


def test_a_gradient_that_is_not_finite_is_seen_behind_a_finite_loss(runs: Runs):
    trainer, _ = runs.trainer()
    before = weights_of(trainer.model)
    next(computing_model(trainer).parameters()).register_hook(lambda gradient: gradient * math.inf)
    assert trainer.train_step() is None
    assert equal(weights_of(trainer.model), before)


def test_after_three_in_a_row_the_run_goes_back_and_on_at_half_the_rate(runs: Runs):
    trainer, watcher = runs.trainer(max_steps=9, warmup=1, schedule="constant", learning_rate=0.004)
    spoil(trainer, at(6, 7, 8))
    saved = []
    report = watcher.callbacks.on_event

    def look(event: str, values: dict[str, Any]) -> None:
        if event in ("validation", "roll_back"):
            saved.append(weights_of(trainer.model))
        report(event, values)

    watcher.callbacks.on_event = look
    assert trainer.train() == "9 steps"
    (roll_back,) = watcher.of("roll_back")
    assert roll_back == {"step": 4, "bad_step": 8, "rate_factor": 0.5}
    assert equal(saved[0], saved[1])  # the weights of step 4
    taken = [(event["step"], event["learning_rate"]) for event in watcher.of("step")]
    assert taken == [(s, 0.004) for s in range(1, 6)] + [(s, 0.002) for s in range(5, 10)]
    assert (trainer.progress.skipped_steps, trainer.progress.rate_factor) == (3, 0.5)
    assert texts(watcher)[-1] == "Going back to step 4, and on with 0.5 times the learning rate."


def test_two_bad_steps_and_a_good_one_are_no_reason_to_go_back(runs: Runs):
    trainer, watcher = runs.trainer(max_steps=11)
    spoil(trainer, at(2, 3, 5, 6, 9, 10))
    trainer.train()
    assert watcher.of("roll_back") == []
    assert trainer.progress.skipped_steps == 6


def test_before_the_first_validation_the_run_goes_back_to_its_start(runs: Runs):
    whole, _ = runs.trainer("whole", max_steps=6)
    first = weights_of(whole.model)
    trainer, watcher = runs.trainer(max_steps=6, validate_every=100, ema=0.9)
    spoil(trainer, at(3, 4, 5))
    for _ in range(5):
        trainer.train_step()
    trainer._roll_back()
    assert trainer.progress.step == 0
    assert trainer.progress.position.batch == 0
    assert equal(weights_of(trainer.model), first)
    assert equal(trainer.ema.weights, first)
    assert trainer.state_dict()[0]["optimizer"] == {}
    assert "to the start" in texts(watcher)[-1]
    assert trainer.train() == "6 steps"


def test_a_run_that_only_goes_back_gives_up_and_leaves_whole_checkpoints(runs: Runs):
    trainer, watcher = runs.trainer(max_steps=99, bleu=scripted(1), learning_rate=0.008)
    spoil(trainer, lambda step, factor: step > 5)
    with pytest.raises(DragomanError, match=r"step 8 .* 3 times .*training\.learning_rate=0\.0008") as caught:
        trainer.train()
    assert "\n" not in str(caught.value)
    assert [event["rate_factor"] for event in watcher.of("roll_back")] == [0.5, 0.25, 0.125]
    assert watcher.callbacks.checkpoints.steps() == [4]
    tensors, _ = watcher.callbacks.checkpoints.load_latest()
    assert all(weight.isfinite().all() for weight in tensors["model"].values())


@pytest.mark.first_is_quick
@pytest.mark.parametrize(("scores", "left"), [((1, 2, 3), 0), ((9, 2, 3), 1)])
def test_a_better_validation_makes_up_for_going_back(runs: Runs, scores: tuple[int, ...], left: int):
    trainer, _ = runs.trainer(max_steps=12, bleu=scripted(*scores))
    spoil(trainer, at(5, 6, 7))
    trainer.train()
    assert trainer.progress.roll_backs == left


@pytest.mark.slow
def test_an_absurd_learning_rate_keeps_and_saves_numbers_only(runs: Runs):
    trainer, watcher = runs.trainer(max_steps=40, learning_rate=1e6, warmup=1)
    assert trainer.train() == "40 steps"
    losses = [step["loss"] for step in watcher.of("step")]
    assert all(math.isfinite(loss) for loss in losses)
    assert losses[-1] > 1e6
    tensors, _ = watcher.callbacks.checkpoints.load_latest()
    for weights in [tensors["model"], *watcher.kept]:
        assert all(weight.isfinite().all() for weight in weights.values())


def test_weights_that_are_no_numbers_are_never_kept_or_saved(runs: Runs):
    trainer, watcher = runs.trainer(max_steps=12, bleu=lambda model: float(trainer.progress.step))
    report = watcher.callbacks.on_event

    def break_weights(event: str, values: dict[str, Any]) -> None:
        report(event, values)
        if event == "step" and values["step"] == 8 and not watcher.of("roll_back"):
            with torch.no_grad():
                next(trainer.model.parameters()).fill_(math.nan)

    watcher.callbacks.on_event = break_weights
    assert trainer.train() == "12 steps"
    assert [event["step"] for event in watcher.of("roll_back")] == [4]
    assert [event["step"] for event in watcher.of("validation")] == [4, 8, 12]
    assert all(weight.isfinite().all() for kept in watcher.kept for weight in kept.values())


def test_a_checkpoint_of_an_interruption_is_not_what_a_run_goes_back_to(runs: Runs):
    first, watcher = runs.trainer(max_steps=9)
    watcher.stop_after = 6
    first.train()
    assert watcher.callbacks.checkpoints.steps() == [4, 6]
    second, watcher = runs.resumed(max_steps=9)
    spoil(second, at(7, 8, 9))
    assert second.train() == "9 steps"
    assert [event["step"] for event in watcher.of("roll_back")] == [4]


@pytest.mark.slow
@pytest.mark.parametrize("stop", [5, 8, *(pytest.param(stop, marks=pytest.mark.slow) for stop in (3, 6, 7, 10))])
def test_a_run_stopped_anywhere_in_this_resumes_with_the_same_bits(runs: Runs, stop: int):
    """Steps 5, 6 and 7 are bad until the run has gone back to step 4."""
    choices = {"max_steps": 10, "average": 3, "ema": 0.9, "schedule": "plateau", "plateau_patience": 1}

    def trainer(name: str, *, resumed: bool = False) -> tuple[Trainer, Any]:
        make = runs.resumed if resumed else runs.trainer
        made, watcher = make(name, model=small_model(dropout=0.3), **choices)
        spoil(made, lambda step, factor: step in (5, 6, 7) and made.progress.roll_backs == 0)
        return made, watcher

    whole, _ = trainer("whole")
    assert whole.train() == "10 steps"
    assert whole.progress.skipped_steps == 3
    first, watcher = trainer("run")
    calls = iter(range(1, 99))
    watcher.callbacks.stop_requested = lambda: next(calls) >= stop
    assert first.train() == "interrupted"
    second, _ = trainer("run", resumed=True)
    assert second.train() == "10 steps"
    found, expected = second.state_dict()[0], whole.state_dict()[0]
    assert all(equal(found[name], expected[name]) for name in ("model", "optimizer", "ema"))
    progress = [
        trainer_of_run.progress.state_dict() | {"seconds": 0, "validation_seconds": 0}
        for trainer_of_run in (second, whole)
    ]
    assert progress[0] == progress[1]


@pytest.mark.slow
def test_an_interruption_saves_no_weights_that_are_no_numbers(runs: Runs):
    trainer, watcher = runs.trainer(max_steps=13)
    watcher.stop_after = 6
    step = trainer.train_step

    def overflowing() -> Any:
        metrics = step()
        if trainer.progress.step == 6:
            with torch.no_grad():
                next(trainer.model.parameters()).fill_(math.nan)
        return metrics

    trainer.train_step = overflowing
    assert trainer.train() == "interrupted, not saved"
    resumed, _ = runs.resumed(max_steps=13)
    assert resumed.train() == "13 steps"
