"""Cleaning: each rule at its limit, each switched off, and the memory of pairs that came before."""

import random
import sys

import pytest

from dragoman.config.data import CleaningConfig
from dragoman.data.bitext import Bitext
from dragoman.data.filtering import Seen, reason_to_drop
from dragoman.data.synthetic.grammar import generate

OFF = CleaningConfig(max_characters=None, max_ratio=None, max_copied=None, drop_repeated=False)


@pytest.mark.parametrize(
    ("rule", "kept", "dropped", "reason"),
    [
        ({"max_characters": 13}, ("x" * 13, "y"), ("y", "x" * 14), "a side is longer than 13 characters"),
        # 2.5 x (7 + 10) = 42.5
        ({"max_ratio": 2.5}, ("x" * 42, "y" * 7), ("y" * 7, "x" * 43), "one side is more than 2.5 times as long"),
        ({"max_copied": 5}, ("OK, x", "OK, x"), ("OK, x!", "OK, x!"), "both sides are the same text"),
        ({"max_copied": 0}, ("x", "X"), ("x", "x"), "both sides are the same text"),
    ],
)
def test_a_rule_holds_up_to_its_limit_and_not_when_it_is_off(rule: dict, kept: tuple, dropped: tuple, reason: str):
    rules = OFF.model_copy(update=rule)
    assert reason_to_drop(*kept, rules) is None
    assert reason_to_drop(*dropped, rules).startswith(reason)
    assert reason_to_drop(*dropped, OFF) is None


@pytest.mark.parametrize("mark", [*"\0\x1b\x7f\x85\ufffd\ud800\udfff\uffff"])
def test_damaged_characters_are_dropped_on_either_side_by_any_rules(mark: str):
    for pair in ((f"a{mark}b", "c"), ("c", mark)):
        assert reason_to_drop(*pair, OFF).startswith("damaged characters")
        assert reason_to_drop(*pair, None) is None


@pytest.mark.parametrize("mark", [*"\t\r\u00a0\u00ad\u200b\u200d\u200f\u2028\u202e\ue000\U0001f600\u0301"])
def test_rare_characters_are_no_damage(mark: str):
    assert reason_to_drop(f"a{mark}b", f"a{mark}c", CleaningConfig()) is None


def test_repeated_pairs_are_dropped_after_normalisation_and_other_translations_kept():
    pairs = [("a", "b"), ("a", "c"), (" a", "b"), ("cafe\u0301", "x"), ("caf\u00e9", "x"), ("ab", ""), ("A", "b")]
    cleaned = Bitext(lambda: pairs, name="list").cleaned(CleaningConfig())
    for _ in range(2):
        assert list(cleaned) == [("a", "b"), ("a", "c"), ("caf\u00e9", "x"), ("A", "b")]
        assert cleaned.report.dropped == {"repeats another pair": 2, "target is empty": 1}
    assert len(list(Bitext(lambda: pairs, name="list").cleaned(OFF))) == 6


def test_the_built_in_grammar_loses_nothing_by_the_default_rules():
    pairs = list(generate(503))
    assert list(Bitext(lambda: pairs, name="list").cleaned(CleaningConfig())) == pairs


def test_pairs_seen_before_are_known_however_many_there_are(monkeypatch):
    monkeypatch.setattr(Seen, "RECENT", 7)
    numbers = random.Random(3).choices(range(211), k=1_009)
    seen, known = Seen(), set()
    for number in numbers:
        pair = (str(number), "x")
        assert seen.add([hash(pair)]) == [pair not in known]
        known.add(pair)


def test_a_pair_seen_before_costs_eight_bytes(monkeypatch):
    monkeypatch.setattr(Seen, "RECENT", 101)
    seen = Seen()
    for number in range(101 * 29):
        seen.add([hash((str(number), "a long text that is not kept " * 10))])
    assert seen._sorted.nbytes == 8 * 101 * 29
    assert sys.getsizeof(seen._recent) < 101 * 100
