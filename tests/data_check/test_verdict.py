"""The verdict: from the measured figures of docs/performance.md, honest about size, sentences and problems."""

import re
from pathlib import Path

import pytest

from dragoman.data_check import training_warnings
from dragoman.data_check.result import Finding
from dragoman.data_check.verdict import expectation, expectations, verdict

PAGE = (Path(__file__).parents[2] / "docs" / "performance.md").read_text(encoding="utf-8")


def test_figures_are_those_of_the_page():
    measured = re.findall(r"^\| (Multi30k|Tatoeba)[^|]*\|[^|]*\| ([\d.]+) \|", PAGE, re.MULTILINE)
    text = " ".join(expectation.text for expectation in expectations())
    assert len(measured) >= 3
    assert all(f"{float(bleu):.0f} " in text for _, bleu in measured)


@pytest.mark.parametrize(
    ("pairs", "words"),
    [
        (1_000, "few pairs"),
        (9_999, "few pairs"),
        (10_000, "29,000 image captions"),
        (99_999, "29,000 image captions"),
        (100_000, "167,130"),
        (1_000_000, "4.5 million"),
        (10_000_000, "36 million"),
    ],
)
def test_what_to_expect_follows_from_the_number_of_different_pairs(pairs, words):
    trainable, sentences = verdict(pairs, [], words=12.0, needed=10)
    assert trainable
    assert f"{pairs:,} different pairs" in sentences[0]
    assert words in sentences[0]
    assert "Nothing speaks against" in sentences[-1]


@pytest.mark.parametrize("pairs", [10, 999])
def test_too_few_pairs_for_a_translator_are_never_called_fit(pairs):
    trainable, sentences = verdict(pairs, [], words=12.0, needed=10)
    assert trainable  # the commands can be tried out
    assert f"{pairs} different pairs are too few for a translator" in sentences[0]
    assert sentences[-1] == "Train on it only to try the commands out."
    assert "too few for a translator" in training_warnings(pairs, [], [])[0]


def test_longer_sentences_than_those_measured_are_said_to_be_harder():
    assert "harder" in expectation(29_000, words=31.0)[1]
    assert "harder" not in expectation(29_000, words=12.0)[1]
    assert "same kind" in expectation(29_000, words=12.0)[1]


def test_fewer_pairs_than_those_measured_are_said_to_give_less():
    assert "fewer pairs" in expectation(12_000, words=12.0)[1]
    assert "fewer pairs" not in expectation(29_000, words=12.0)[1]


@pytest.mark.parametrize(
    ("pairs", "held_out", "trainable"), [(9, False, False), (10, False, True), (1, True, True), (0, True, False)]
)
def test_too_few_pairs_cannot_be_trained_on(pairs, held_out, trainable):
    is_trainable, sentences = verdict(pairs, [], words=12.0, needed=1 if held_out else 10)
    assert is_trainable == trainable
    assert ("Cannot" in sentences[0]) == (not trainable)


def test_problems_come_first_and_notes_do_not_count():
    def finding(severity: str) -> Finding:
        return Finding("x", severity, "pairs", 1, [], 10, "do")

    assert "the 2 problems" in verdict(50_000, [finding("problem")] * 2, words=12.0, needed=10)[1][-1]
    assert "the problem above" in verdict(50_000, [finding("problem")], words=12.0, needed=10)[1][-1]
    assert "Nothing speaks against" in verdict(50_000, [finding("note")], words=12.0, needed=10)[1][-1]


def test_training_is_warned_of_few_pairs_and_of_a_test_that_leaks():
    assert training_warnings(10_000, ["a", "b"], ["c"]) == []
    (few,) = training_warnings(9_999, [], [])
    assert "9,999 pairs" in few
    (leak,) = training_warnings(50_000, ["Go.", "Stay."], ["go. ", "Else", "STAY."])
    assert "2 of the 3 test sentences" in leak
    (leak,) = training_warnings(50_000, ["a", "b"], ["c", "d", "e"], leaked=2)
    assert "2 of the 3 test pairs have a source sentence that is trained on" in leak
