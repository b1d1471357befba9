"""How long a training will still take: figures derived by hand."""

import pytest

from dragoman.terminal.remaining import Limits, Remaining


def after(limits: Limits, *steps: tuple[int, int, float, int]) -> Remaining:
    """After steps of (step, epoch, seconds, tokens)."""
    remaining = Remaining(limits)
    for step, epoch, seconds, tokens in steps:
        remaining.step({"step": step, "epoch": epoch, "seconds": seconds, "tokens": tokens})
    return remaining


@pytest.mark.parametrize(
    ("limits", "text"),
    [
        (Limits(), ""),
        (Limits(max_seconds=100), "1:10 left"),  # 100 - 30
        (Limits(max_steps=17), "0:21 left"),  # 7 more steps of 3 seconds
        (Limits(max_epochs=4), "1:10 left"),  # 4 epochs of 500 tokens, at 30 seconds for 600, are 100 seconds
        (Limits(max_steps=17, max_seconds=45), "0:15 left"),  # what comes first
        (Limits(max_seconds=20), "0:00 left"),  # overdue, during the last validation
    ],
)
def test_the_time_left_follows_from_the_limits(limits, text):
    remaining = after(limits, (1, 0, 3.0, 66), (8, 1, 24.0, 500), (10, 1, 30.0, 600))
    assert remaining.text() == text


def test_nothing_is_known_before_the_first_step():
    assert Remaining(Limits(max_seconds=100)).text() == ""


def test_patience_gives_a_bound_once_the_pace_of_validations_is_known():
    remaining = after(Limits(patience=3), (5, 0, 10.0, 50))
    remaining.validation(better=True)
    assert remaining.text() == ""
    remaining.step({"step": 10, "epoch": 0, "seconds": 24.0, "tokens": 100})
    remaining.validation(better=False)
    remaining.step({"step": 11, "epoch": 0, "seconds": 26.0, "tokens": 110})
    assert remaining.text() == "at least 0:26 left"  # 24 + 2 more validations of 14 seconds - 26


def test_patience_promises_nothing_while_the_best_validation_is_unknown_or_an_epoch_may_end_first():
    for limits, better in ((Limits(patience=3), False), (Limits(patience=3, max_epochs=2), True)):
        remaining = after(limits, (5, 0, 10.0, 50))
        for _ in range(2):
            remaining.validation(better=better)
        assert remaining.text() == ""
