"""What would help: one doubling of a curve further, with an interval that is honest about noise."""

import json
import math

import numpy as np
import pytest

from dragoman.data.builtin.grammar import generate
from dragoman.metrics.resampling import Interval
from dragoman.runs.outlook import (
    BEYOND,
    CurvePoint,
    curve_sentence,
    gain_of_minutes,
    gain_of_pairs,
    outlook,
    usual_gain_of_pairs,
)
from tests.small import write_pairs


def run(*, slope: float, noise: float = 0.0, validations: int = 12, seed: int = 3, begin: float = 20.0) -> list[dict]:
    """Events of a run whose BLEU rises by `slope` with each doubling of the time until its decay at half-time."""
    dice = np.random.default_rng(seed)
    events: list[dict] = []
    for step in range(10, 1000, 10):
        events.append({"event": "step", "step": step, "seconds": 2.0 * step, "tokens": 100 * step})
    for number in range(1, validations + 1):
        step = 50 * number
        bleu = begin + slope * math.log2(step) + dice.normal(scale=noise)
        events.append({"event": "validation", "step": step, "bleu": bleu, "valid_loss": 1.0})
    return [*events, {"event": "decay", "step": 50 * validations, "last_step": 1000}]


def points(*scores: float, half: float = 0.5) -> list[CurvePoint]:
    return [
        CurvePoint(share, int(8000 * share), score, Interval(score - half, score + half))
        for share, score in zip((0.25, 0.5, 1.0), scores, strict=True)
    ]


@pytest.mark.parametrize("slope", [0.5, 2.0, 6.0])
def test_the_gain_of_twice_the_minutes_follows_from_the_slope_of_the_curve(slope: float) -> None:
    gain = gain_of_minutes(run(slope=slope))
    assert gain.expected == pytest.approx(0.6 * slope, rel=0.01)
    assert gain.low < gain.expected < gain.high
    noisy = gain_of_minutes(run(slope=slope, noise=1.0))
    assert noisy.high - noisy.low > gain.high - gain.low


def test_validations_of_the_decay_do_not_count_and_few_say_nothing() -> None:
    events = run(slope=2.0)
    last = {"event": "validation", "step": 990, "bleu": 90.0, "valid_loss": 1.0}
    assert gain_of_minutes([*events, last]) == gain_of_minutes(events)
    few = gain_of_minutes([*run(slope=2.0, validations=2), last])
    halfway = 20 + 2 * math.log2(100) + (495 - 100) / (990 - 100) * (90 - 20 - 2 * math.log2(100))
    assert few.expected == pytest.approx(0.4 * (90 - halfway))
    assert 0 < few.low < few.expected < few.high
    assert gain_of_minutes(run(slope=2.0, validations=1)) is None
    assert gain_of_minutes([]) is None
    assert gain_of_minutes(run(slope=-3.0, begin=60)).expected == 0


@pytest.mark.parametrize(("score", "expected"), [(8.0, 2.0), (18.0, 1.2), (28.0, 0.4)])
def test_a_model_that_still_learns_ever_faster_is_compared_with_its_last_doubling(score, expected) -> None:
    events = run(slope=0.0, validations=0)
    for step, bleu in ((250, score - 5), (500, score)):
        events.append({"event": "validation", "step": step, "bleu": bleu, "valid_loss": 1.0})
    gain = gain_of_minutes([*events, {"event": "decay", "step": 250, "last_step": 500}])
    assert gain.expected == pytest.approx(5 * expected)
    assert 0 < gain.low < gain.expected < gain.high


def test_a_model_that_has_not_begun_to_learn_says_nothing() -> None:
    events = run(slope=0.0, validations=0)
    events += [{"event": "validation", "step": step, "bleu": 0.3, "valid_loss": 5.0} for step in (100, 250, 500)]
    assert gain_of_minutes(events) is None


def test_validations_at_the_same_time_say_nothing() -> None:
    at_once = [{"event": "validation", "step": 10, "bleu": float(bleu), "valid_loss": 1.0} for bleu in range(5)]
    assert gain_of_minutes([{"event": "step", "step": 10, "seconds": 2.0, "tokens": 9}, *at_once]) is None


def test_a_score_cannot_rise_beyond_the_highest_and_pairs_are_not_compared_with_worse_models() -> None:
    (sentence,) = outlook(run(slope=40.0), 6_000, 97.0)
    assert "would bring some 3.0 to 3.0 BLEU" in sentence
    (sentence,) = outlook(run(slope=40.0), 6_000, 99.8)
    assert "next to nothing" in sentence


def test_the_gain_of_twice_the_pairs_shrinks_as_it_did_before() -> None:
    steady, shrinking = gain_of_pairs(points(20, 25, 30)), gain_of_pairs(points(20, 28, 30))
    assert steady.expected == pytest.approx(3)
    assert shrinking.expected < 0.6 * 2
    assert gain_of_pairs(points(20, 25, 30, half=2.0)).high > steady.high
    worse = gain_of_pairs(points(20, 25, 24))
    assert (worse.expected, worse.low) == (0, 0)


def test_sentences_name_minutes_pairs_and_points() -> None:
    first, second = outlook(run(slope=2.0), 6_000, 30.0)
    assert first.startswith("66 minutes of training instead of 33 would bring some 0.")
    assert "as this run's own curve goes on" in first
    assert second.startswith("Twice the pairs, of the same kind, would bring some 5 BLEU")
    assert outlook([], BEYOND + 1, 30.0) == []
    assert [usual_gain_of_pairs(pairs) for pairs in (10, 1_000, 30_000, BEYOND + 1)] == [None, 5.4, 3.2, None]
    assert "would bring next to nothing" in outlook(run(slope=-3.0, begin=60), BEYOND + 1, 30.0)[0]
    sentence = curve_sentence(points(20, 25, 30))
    assert sentence.startswith("BLEU is 20.0 with 2,000 pairs, 25.0 with 4,000 pairs, 30.0 with 8,000 pairs; ")


@pytest.mark.slow
def test_a_learning_curve_trains_on_parts_and_keeps_what_is_held_out(dragoman, tmp_path) -> None:
    pairs = write_pairs(tmp_path / "pairs.tsv", [*generate(900)])
    options = ("data.languages=[en,fr]", "training.max_steps=4", "--learning-curve", "--output", tmp_path / "run")
    code, out, _ = dragoman("train", pairs, *options, "--json")
    assert code == 0
    curve = json.loads(out.splitlines()[-1])["learning_curve"]
    assert [point["share"] for point in curve] == [0.25, 0.5, 1.0]
    assert curve[0]["pairs"] < 0.6 * curve[1]["pairs"] < 0.36 * curve[2]["pairs"]
    tests = [
        (tmp_path / "run" / "run" / part / "data" / "test.json").read_text()
        for part in (".", "learning-curve/0.25/run", "learning-curve/0.5/run")
    ]
    assert tests[0] == tests[1] == tests[2]


def test_a_learning_curve_needs_files_and_a_new_run(dragoman, tmp_path) -> None:
    code, _, errors = dragoman("train", "--resume", tmp_path, "--learning-curve")
    assert (code, "--learning-curve is for a new run" in " ".join(errors.split())) == (2, True)
