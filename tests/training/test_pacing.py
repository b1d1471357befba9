"""When a run ends, by steps, by a clock or because it gets no better, and how its learning rate falls until then."""

from pathlib import Path

import pytest

from dragoman.errors import UsageError
from dragoman.system import ranks
from dragoman.training import pacing
from dragoman.training.ending import last_step
from tests.training.runs import Runs, Watcher, equal, scripted, settings

pytestmark = pytest.mark.usefixtures("annotations_unchecked")


@pytest.fixture
def runs(tmp_path: Path) -> Runs:
    return Runs(tmp_path)


@pytest.mark.first_is_quick
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
    assert trainer.pacing.step_limit == trainer.progress.step
    assert steps is None or trainer.progress.step == steps


def test_without_a_limit_no_step_is_the_last(runs: Runs):
    assert last_step(settings(max_minutes=5), runs.train) is None


def test_a_schedule_falls_to_0_over_the_epochs_of_a_run(runs: Runs):
    trainer, watcher = runs.trainer(schedule="linear", max_epochs=2, warmup=1, learning_rate=0.008, validate_every=100)
    trainer.train()
    rates = [event["learning_rate"] for event in watcher.of("step")]
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
    factors = [event["learning_rate"] / 0.008 for event in watcher.of("step")]
    # Better at 1, 2 and 6; without a better one at 3 and 4, at 5, at 7 and 8.
    assert factors == pytest.approx([1, 1, 1, 1, 1 / 4, 1 / 4, 1 / 4, 1 / 4, 1 / 16])


class Clock:
    """Stands in for the module `time`: steps and validations take so many seconds."""

    def __init__(self, watcher: Watcher, *, step: float = 1.0, validation: float = 0.0):
        self.watcher, self.step, self.validation = watcher, step, validation
        self.slow_after, self.slow = 10**9, 1.0

    def monotonic(self) -> float:
        steps = len(self.watcher.of("step"))
        late = max(0, steps - self.slow_after)
        taken = len(self.watcher.evaluated)
        return self.step * (steps - late + self.slow * late) + self.validation * taken


def by_clock(runs: Runs, monkeypatch, *, name: str = "run", seconds_after: float = 0.0, **times: float):
    """Makes a trainer of `wsd` whose clock goes with its steps."""

    def make(**choices):
        trainer, watcher = runs.trainer(name, schedule="wsd", warmup=1, **choices)
        clock = Clock(watcher, **times)
        monkeypatch.setattr(ranks, "time", clock)
        trainer.pacing._started, trainer.pacing._seconds_after = 0.0, lambda _: seconds_after
        return trainer, watcher, clock

    return make


def rates(watcher: Watcher) -> list[float]:
    return [event["learning_rate"] for event in watcher.of("step")]


@pytest.mark.slow
def test_a_decay_begins_in_time_for_the_last_minute(runs: Runs, monkeypatch):
    """Of 120 seconds 20 are for what comes after, and two for each of the two validations."""
    make = by_clock(runs, monkeypatch, seconds_after=20.0, validation=2.0)
    trainer, watcher, clock = make(max_minutes=2, validate_every=50)
    assert trainer.train() == "2 minutes"
    assert 90 <= trainer.progress.step <= 97
    assert clock.monotonic() <= 100
    (decay,) = watcher.of("decay")
    assert decay["last_step"] == trainer.progress.step
    assert decay["step"] == pytest.approx(decay["last_step"] / 2, abs=2)
    assert rates(watcher)[: decay["step"]] == [1e-3] * decay["step"]
    assert rates(watcher)[-1] == pytest.approx(1e-3 / (decay["last_step"] + 1 - decay["step"]))


@pytest.mark.slow
def test_a_machine_that_becomes_slower_does_not_exceed_the_minutes(runs: Runs, monkeypatch):
    trainer, watcher, clock = by_clock(runs, monkeypatch)(max_minutes=5, validate_every=90)
    clock.slow_after, clock.slow = 170, 3.0
    assert trainer.train() == "5 minutes"
    assert 270 <= clock.monotonic() <= 330
    assert len(watcher.of("decay")) > 1
    assert rates(watcher)[-1] < 0.2 * 1e-3


@pytest.mark.slow
def test_a_machine_that_becomes_faster_uses_all_the_minutes(runs: Runs, monkeypatch):
    trainer, watcher, clock = by_clock(runs, monkeypatch, step=3.0)(max_minutes=10, validate_every=90)
    clock.slow_after, clock.slow = 90, 1 / 3
    assert trainer.train() == "10 minutes"
    assert 540 <= clock.monotonic() <= 610
    assert len(watcher.of("decay")) > 1
    assert trainer.progress.step > 300  # the first plan has 200
    assert rates(watcher)[-1] < 0.1 * 1e-3


def test_minutes_that_are_over_before_the_first_step_leave_a_model(runs: Runs, monkeypatch):
    trainer, watcher, _ = by_clock(runs, monkeypatch, seconds_after=99.0)(max_minutes=0.5)
    assert trainer.train() == "0.5 minutes"
    assert (trainer.progress.step, len(watcher.kept)) == (1, 1)


@pytest.mark.slow
def test_no_better_validations_begin_the_decay(runs: Runs):
    scores = scripted(1, 5, 4, 3, *range(6, 99))
    trainer, watcher = runs.trainer(bleu=scores, schedule="wsd", patience=2, validate_every=3)
    assert trainer.train() == "2 validations without a better BLEU"
    assert [event["step"] for event in watcher.of("decay")] == [12]
    assert trainer.progress.step == 24  # half of it


@pytest.mark.slow
def test_a_run_stopped_in_its_decay_goes_on_with_the_same_bits(runs: Runs, monkeypatch):
    """Although the second command is ten times as slow."""
    make = by_clock(runs, monkeypatch, name="whole")
    whole, _, _ = make(max_minutes=0.4, validate_every=9)
    whole.train()
    first, watcher, _ = by_clock(runs, monkeypatch)(max_minutes=0.4, validate_every=9)
    watcher.stop_after = 16
    assert first.train() == "interrupted"
    second, _, _ = by_clock(runs, monkeypatch, step=1.2)(max_minutes=0.4, validate_every=9)
    second.resume()
    assert second.progress.plan.decay_from < 16
    second.train()
    assert equal(second.state_dict()[0]["model"], whole.state_dict()[0]["model"])


@pytest.mark.slow
@pytest.mark.parametrize("stop", [None, 10])
def test_a_run_that_is_given_more_has_the_bits_of_one_that_had_it_from_the_start(runs: Runs, stop: int | None):
    choices = {"schedule": "wsd", "validate_every": 5}
    whole, _ = runs.trainer("whole", max_steps=24, **choices)
    whole.train()
    first, watcher = runs.trainer(max_steps=12, **choices)
    watcher.stop_after = stop or 99
    first.train()
    assert first.progress.plan.decay_from == 6
    best = dict(first.progress.best_scores)
    second, watcher = runs.trainer(max_steps=24, **choices)
    second.resume()
    assert (second.progress.step, second.progress.best_scores) == (6, best)
    assert second.train() == "24 steps"
    assert equal(second.state_dict()[0]["model"], whole.state_dict()[0]["model"])
    again, _ = runs.trainer(max_steps=24, **choices)
    again.resume()
    assert again.progress.step == 24  # nothing is admitted that was not before


@pytest.mark.first_is_quick
@pytest.mark.parametrize("validate_every", [4, "epoch", None])
def test_each_epoch_is_planned_once(runs: Runs, validate_every: int | str | None):
    """Planning sorts all pairs, which would take longer than a step."""
    planned, plan = [], runs.train._shuffled_batches
    runs.train._shuffled_batches = lambda rng: planned.append(rng) or plan(rng)
    trainer, _ = runs.trainer(max_epochs=4, validate_every=validate_every)
    trainer.train()
    assert trainer.progress.position.epoch == 3
    assert len(planned) == 4


@pytest.mark.slow
def test_validations_take_a_twentieth_of_the_time(runs: Runs, monkeypatch):
    """The first comes after two epochs, but not before step 20. Until then a step takes 27 / 20 seconds, so that a
    twentieth of 104 steps are 7 seconds, which is rounded up to a multiple of 20."""
    trainer, watcher, _ = by_clock(runs, monkeypatch, validation=7.0)(max_steps=250, validate_every=None)
    monkeypatch.setattr(pacing, "FIRST_VALIDATION", (20, 60))
    trainer.train()
    assert [event["step"] for event in watcher.of("validation")] == [20, 120, 240, 250]


def validated_steps(watcher: Watcher) -> list[int]:
    return [event["step"] for event in watcher.of("validation")]


@pytest.mark.parametrize(("last_step", "steps"), [(30, [15, 30]), (110, [50, 100, 110]), (100, [50, 100])])
def test_a_run_validates_where_its_decay_begins_unless_it_has_just_done_so(runs: Runs, last_step, steps):
    trainer, watcher = runs.trainer(schedule="wsd", warmup=1, validate_every=None, max_steps=last_step)
    trainer.train()
    assert [event["step"] for event in watcher.of("decay")] == [last_step // 2]
    assert validated_steps(watcher) == steps
    given, other = runs.trainer("given", schedule="wsd", warmup=1, validate_every=20, max_steps=30)
    given.train()
    assert validated_steps(other) == [20, 30]


@pytest.mark.slow
def test_a_validation_where_the_decay_begins_takes_no_more_time_than_there_is(runs: Runs, monkeypatch):
    make = by_clock(runs, monkeypatch, step=3.0, validation=30.0)
    trainer, watcher, clock = make(max_minutes=4, validate_every=None)
    assert trainer.train() == "4 minutes"
    assert clock.monotonic() <= 250
    (decay,) = watcher.of("decay")
    assert validated_steps(watcher) == [decay["step"], decay["last_step"]]


def test_a_run_that_was_killed_in_that_validation_makes_it_again(runs: Runs):
    class Killed(Exception):
        pass

    def killed(model):
        raise Killed

    options = {"schedule": "wsd", "warmup": 1, "validate_every": None, "max_steps": 30}
    whole, watcher = runs.trainer("whole", **options)
    whole.train()
    first, _ = runs.trainer(bleu=killed, **options)
    with pytest.raises(Killed):
        first.train()
    second, again = runs.trainer(**options)
    second.resume()
    second.train()
    assert validated_steps(again) == validated_steps(watcher) == [15, 30]
    assert equal(second.state_dict()[0]["model"], whole.state_dict()[0]["model"])


def test_r_drop_ends_where_a_run_is_too_slow_for_it(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    choices = {"max_minutes": 2, "validate_every": 20, "r_drop": 1.0}
    make = by_clock(runs, monkeypatch, step=2.0)
    trainer, watcher, _ = make(r_drop_epochs=5.0, **choices)
    trainer.train()
    assert trainer.progress.plan.r_drop_until is None
    assert trainer.executor.options.r_drop == 1.0
    trainer, watcher, _ = by_clock(runs, monkeypatch, name="slow", step=2.0)(r_drop_epochs=500.0, **choices)
    assert trainer.train() == "2 minutes"
    assert trainer.progress.plan.r_drop_until == 20
    assert trainer.executor.options.r_drop == 0.0
    assert any("R-Drop ends at step 20" in event["text"] for event in watcher.of("warning"))
    assert trainer.progress.plan.decay_from  # the plan of the decay has kept it
    same = {"schedule": "wsd", "warmup": 1, "r_drop_epochs": 500.0}
    resumed, _ = runs.resumed("slow", **same, **choices)
    assert resumed.executor.options.r_drop == 0.0


def test_a_run_that_is_given_more_minutes_sees_anew_whether_there_is_time_for_r_drop(
    runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    choices = {"validate_every": 20, "r_drop": 1.0, "r_drop_epochs": 500.0}
    trainer, _, _ = by_clock(runs, monkeypatch, step=2.0)(max_minutes=2, **choices)
    trainer.callbacks.stop_requested = lambda: trainer.progress.step == 22  # before the decay
    trainer.train()
    assert (trainer.progress.plan.r_drop_until, trainer.progress.plan.decay_from) == (20, None)
    for minutes, r_drop in ((2, 0.0), (99, 1.0)):
        again, _, _ = by_clock(runs, monkeypatch, step=2.0)(max_minutes=minutes, **choices)
        again.resume()
        assert again.executor.options.r_drop == r_drop


def test_the_time_of_a_validation_is_none_of_steps_for_r_drop(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    """In 10 minutes there is time for 400 steps and more, although the first validation takes as long as 60 steps."""
    make = by_clock(runs, monkeypatch, step=1.0, validation=60.0)
    trainer, _, _ = make(max_minutes=10, validate_every=200, r_drop=1.0, r_drop_epochs=1.0)
    epochs_of_step = 1 / len(trainer.batches.plan(0))
    trainer.config = trainer.pacing.config = trainer.config.model_copy(update={"r_drop_epochs": 390 * epochs_of_step})
    trainer.train()
    assert trainer.progress.plan.r_drop_until is None
