"""TensorBoard reads back what was written."""

import warnings
from pathlib import Path

import pytest

from dragoman.storage.tensorboard import EventFile


def step(number: int, **values: float) -> dict:
    seconds, tokens = 2.0 * number, 700 * number
    return {"step": number, "loss": 7 / number, "learning_rate": 1e-3, "seconds": seconds, "tokens": tokens} | values


def curves(folder: Path) -> dict[str, list[tuple[int, float]]]:
    """Steps and values of each curve that TensorBoard shows for a folder."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    events = EventAccumulator(str(folder))
    events.Reload()
    return {name: [(e.step, e.value) for e in events.Scalars(name)] for name in events.Tags()["scalars"]}


def test_the_curves_of_a_run_are_read_back(tmp_path: Path):
    with EventFile(tmp_path) as file:
        file.forget_after(0)
        for number in range(1, 41):
            file.write("step", step(number))
        file.write("validation", {"step": 40, "valid_loss": 2.5, "bleu": 31.25, "chrf": 50.5, "samples": []})
        file.write("warning", {"step": 40, "text": "careful"})
    shown = curves(tmp_path)
    assert dict(shown["loss/training"]) == pytest.approx({10: 0.7, 20: 0.35, 30: 7 / 30, 40: 0.175})
    assert [value for _, value in shown["learning rate"]] == pytest.approx([1e-3] * 4)
    assert shown["tokens per second"] == [(20, 350), (30, 350), (40, 350)]
    assert shown["loss/validation"] == [(40, 2.5)]
    assert shown["validation/BLEU"] == [(40, 31.25)]
    assert shown["validation/chrF++"] == [(40, 50.5)]


def test_the_time_of_a_validation_does_not_slow_the_steps(tmp_path: Path):
    with EventFile(tmp_path) as file:
        file.forget_after(0)
        for number in (10, 20):
            file.write("step", step(number))
        file.write("validation", {"step": 20, "valid_loss": 2.5, "bleu": 31.25})
        for number in (30, 40):
            file.write("step", step(number, seconds=1000.0 + 4 * number))
    assert curves(tmp_path)["tokens per second"] == [(20, 350), (40, 175)]


def test_steps_may_be_drawn_more_often(tmp_path: Path):
    with EventFile(tmp_path, every=3) as file:
        file.forget_after(0)
        for number in range(1, 11):
            file.write("step", step(number))
    assert [number for number, _ in curves(tmp_path)["loss/training"]] == [3, 6, 9]


def test_steps_that_are_done_again_replace_those_before(tmp_path: Path):
    with EventFile(tmp_path) as file:
        file.forget_after(0)
        for number in (10, 20, 30):
            file.write("step", step(number))
        file.forget_after(10)  # the run went back
        file.write("step", step(20, loss=0.5))
    with EventFile(tmp_path) as file:
        file.forget_after(20)  # and was resumed
        file.write("step", step(30, loss=0.25))
    shown = curves(tmp_path)["loss/training"]
    assert [number for number, _ in shown] == [10, 20, 30]
    assert dict(shown) == pytest.approx({10: 0.7, 20: 0.5, 30: 0.25})


def test_what_a_full_disk_refused_is_not_said_again_at_the_end(tmp_path: Path, monkeypatch):
    def full(*_) -> None:
        raise OSError(28, "No space left on device")

    with EventFile(tmp_path) as file:
        file.forget_after(0)
        monkeypatch.setattr(file.writer, "add_scalar", full)
        monkeypatch.setattr(file.writer, "close", full)
        with pytest.raises(OSError, match="No space"):
            file.write("step", step(10))
