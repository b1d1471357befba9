"""When a run ends, and what a schedule is told of it."""

from pathlib import Path

import pytest

from dragoman.errors import UsageError
from dragoman.training.progress import Progress, last_step
from tests.training.runs import Runs, scripted, settings


@pytest.fixture
def runs(tmp_path: Path) -> Runs:
    return Runs(tmp_path)


@pytest.mark.parametrize(
    ("choices", "steps"),
    [
        ({"max_epochs": 3}, None),
        ({"max_epochs": 3, "accumulate": 2}, None),
        ({"max_epochs": 3, "accumulate": 5}, None),
        ({"max_steps": 5, "max_epochs": 3}, 5),
        ({"max_steps": 99, "max_epochs": 2}, None),
        ({"max_steps": 7}, 7),
    ],
)
def test_the_last_step_is_known_before_it_is_taken(runs: Runs, choices: dict[str, int], steps: int | None):
    trainer, _ = runs.trainer(validate_every=100, **choices)
    trainer.train()
    assert trainer.last_step == trainer.progress.step
    assert steps is None or trainer.progress.step == steps


def test_without_a_limit_no_step_is_the_last(runs: Runs):
    assert last_step(settings(max_minutes=5), runs.train) is None


def test_a_schedule_falls_to_0_over_the_epochs_of_a_run(runs: Runs):
    trainer, watcher = runs.trainer(schedule="linear", max_epochs=2, warmup=1, learning_rate=0.008, validate_every=100)
    trainer.train()
    rates = [each["learning_rate"] for each in watcher.of("step")]
    assert rates == pytest.approx([0.008 * left / len(rates) for left in range(len(rates), 0, -1)])


def test_epochs_too_short_for_the_warm_up_are_refused(runs: Runs):
    with pytest.raises(UsageError, match=r"cosine would end inside its training\.warmup of 1,000"):
        runs.trainer(schedule="cosine", max_epochs=2, warmup=1000)
    runs.trainer(schedule="inverse_sqrt", max_epochs=2, warmup=1000)


def test_a_plateau_lowers_the_rate_with_every_so_many_validations_without_a_better_one(runs: Runs):
    choices = {"schedule": "plateau", "plateau_patience": 2, "plateau_factor": 0.25, "warmup": 1}
    scores = scripted(1, 2, 1.9, 1.8, 1.7, 3, 1, 1, 0)
    trainer, watcher = runs.trainer(bleu=scores, max_steps=9, validate_every=1, learning_rate=0.008, **choices)
    trainer.train()
    factors = [each["learning_rate"] / 0.008 for each in watcher.of("step")]
    # Better at 1, 2 and 6; without a better one at 3 and 4, at 5, at 7 and 8.
    assert factors == pytest.approx([1, 1, 1, 1, 1 / 4, 1 / 4, 1 / 4, 1 / 4, 1 / 16])


def test_what_a_checkpoint_does_not_know_starts_anew():
    progress = Progress(step=5, rate_factor=0.5)
    progress.loss_monitor.settled.append("rising")
    progress.load_state_dict({"step": 3, "position": {"epoch": 1, "batch": 2}})
    assert (progress.step, progress.position.batch, progress.rate_factor, progress.loss_monitor.settled) == (
        3,
        2,
        1.0,
        [],
    )


def test_the_score_to_beat_is_known_from_a_checkpoint_of_version_0_1_0():
    progress = Progress()
    progress.load_state_dict({"step": 3, "position": {"epoch": 1, "batch": 2}, "best_bleu": 31.5})
    assert progress.best_scores == {"bleu": 31.5}
    assert progress.is_better({"bleu": 31.6, "loss": -2.0}, "bleu")
    assert not progress.is_better({"bleu": 31.5, "loss": -2.0}, "bleu")
    assert progress.is_better({"bleu": 1.0, "chrf": 2.0, "loss": -2.0}, "chrf")  # which it did not compute
