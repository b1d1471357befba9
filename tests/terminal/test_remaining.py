"""How long a training will still take: figures derived by hand."""

import pytest

from dragoman.config.training import TrainingConfig
from dragoman.terminal.remaining import time_left

STEP = {"step": 10, "seconds": 30.0}


@pytest.mark.parametrize(
    ("max_seconds", "steps", "text"),
    [
        (None, None, ""),
        (100, None, "1:10 left"),  # 100 - 30
        (None, 21.0, "0:21 left"),
        (45, 21.0, "0:15 left"),  # what comes first
        (20, None, "0:00 left"),  # overdue, during the last validation
    ],
)
def test_the_time_left_follows_from_the_limits(max_seconds, steps, text):
    config = TrainingConfig(max_minutes=max_seconds and max_seconds / 60)
    assert time_left(config, steps, STEP, []) == text


def test_patience_gives_a_bound_once_the_pace_of_validations_is_known():
    config, validations = TrainingConfig(patience=3), [{"seconds": 10.0, "better": True}]
    assert time_left(config, None, STEP, validations) == ""
    validations.append({"seconds": 24.0, "better": False})
    assert time_left(config, None, STEP, validations) == "at least 0:22 left"  # 24 + 2 more validations of 14 s - 30
    assert time_left(config, 3.0, STEP, validations) == "0:03 left"  # which is known, and counts alone


def test_patience_promises_nothing_while_the_best_validation_is_unknown():
    assert time_left(TrainingConfig(patience=3), None, STEP, [{"seconds": 10.0, "better": False}] * 2) == ""
