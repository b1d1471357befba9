"""Cleaning: each rule at its limit, each switched off, and the memory of pairs that came before."""

import random
import sys

import pytest

from dragoman.config.data import CleaningConfig, DataConfig
from dragoman.data.bitext import Bitext
from dragoman.data.builtin.grammar import generate
from dragoman.data.corpora import open_corpora
from dragoman.data.filtering import Seen, reason_to_drop
from dragoman.errors import DataError

GERMAN = "Die alte Frau wartet seit gestern vor dem Bahnhof."
ENGLISH = "The old woman has been waiting at the station since yesterday."
FRENCH = "La vieille femme attend devant la gare depuis hier."
OFF = CleaningConfig(max_characters=None, max_ratio=None, max_copied=None, drop_repeated=False)


@pytest.mark.parametrize(
    ("rule", "kept", "dropped", "reason"),
    [
        ({"max_characters": 13}, ("x" * 13, "y"), ("y", "x" * 14), "a side is longer than 13 characters"),
        # 2.5 x (7 + 10) = 42.5
        ({"max_ratio": 2.5}, ("x" * 42, "y" * 7), ("y" * 7, "x" * 43), "one side is more than 2.5 times as long"),
        ({"max_copied": 5}, ("OK, x", "OK, x"), ("OK, x!", "OK, x!"), "both sides are the same text"),
        ({"max_copied": 0}, ("x", "X"), ("x", "x"), "both sides are the same text"),
        # Two of five words, and three.
        (
            {"max_overlap": 0.4},
            ("a b c d e", "A B f g h i"),
            ("a b c d e", "a b c g h i"),
            "more than 40% of the words",
        ),
        # Numbers and marks do not count, and four words are too few.
        ({"max_overlap": 0.4}, ("1 2 3 4 5 6 !", "1 2 3 4 5 6 !"), ("a b c d e", "e d c b a"), "more than 40%"),
        ({"max_overlap": 0.4}, ("a b c d", "a b c d"), ("a b c d e f", "おはよう the a b c です"), "more than 40%"),
        # Half of the characters, but no two in a row; and text that was left as it is.
        (
            {"max_overlap": 0.4},
            ("我今天去学校", "私は今日学に行く校"),
            ("我们今天去学校", "我们今天去学校です"),
            "more than 40%",
        ),
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


@pytest.mark.parametrize(
    ("source", "target", "reason"),
    [
        (ENGLISH, FRENCH, None),
        (ENGLISH, GERMAN, "target is in another language than fr"),
        (ENGLISH, ENGLISH, None),  # is for other rules, as many copies are names
        (FRENCH, ENGLISH, "source is in another language than en"),
        (ENGLISH, "Старая женщина ждёт поезда.", "target is in another language than fr"),
        ("Tom Cruise met Angela Merkel in Berlin.", "Tom Cruise a rencontré Angela Merkel à Berlin.", None),
        ("Angela Merkel, Wolfgang Schäuble", "Angela Merkel, Wolfgang Schäuble", None),
        ("Der Spiegel wrote about it.", "Der Spiegel en a parlé.", None),
        ("12 345,67 - (89) 12 345,67", "12 345,67 - (89) 12 345,67", None),
        ("Hallo, Welt!", "Hallo, Welt!", None),
    ],
)
def test_a_side_in_another_language_is_dropped_if_that_is_sure(source: str, target: str, reason: str | None):
    rules = OFF.model_copy(update={"check_languages": True})
    for languages in (("en", "fr"), ("eng", "fr-FR")):
        expected = reason and reason.replace("than fr", f"than {languages[1]}").replace(
            "than en", f"than {languages[0]}"
        )
        assert reason_to_drop(source, target, rules, languages) == expected
    assert reason_to_drop(source, target, rules, ("tlh", None)) is None
    assert reason_to_drop(source, target, OFF, ("en", "fr")) is None


def test_languages_that_are_close_are_not_told_apart():
    rules = OFF.model_copy(update={"check_languages": True})
    danish, norwegian = (
        "Jeg ved ikke, hvorfor hun ikke kom i går aftes.",
        "Jeg vet ikke hvorfor hun ikke kom i går kveld.",
    )
    for languages in (("da", "no"), ("no", "da"), ("nb", "da")):
        assert reason_to_drop(danish, norwegian, rules, languages) is None


def test_languages_are_checked_by_the_label_of_a_pair_or_those_of_its_corpus(tmp_path):
    table = "".join(f"{s}\t{t}\t{code}\n" for s, t, code in [(ENGLISH, FRENCH, "fr"), (ENGLISH, GERMAN, "de")] * 2)
    (tmp_path / "table.tsv").write_text(table + f"{ENGLISH}\t{GERMAN}\tfr\n", encoding="utf-8")
    options = {"source": str(tmp_path / "table.tsv"), "columns": (1, 2), "language_column": 3}
    cleaned = open_corpora(
        DataConfig(**options, languages=("en", "fr"), cleaning={"check_languages": True, "drop_repeated": False})
    )
    assert len(list(cleaned)) == 4
    assert cleaned.report.dropped == {"target is in another language than fr": 1}


@pytest.mark.parametrize(
    ("languages", "words"),
    [
        (None, "pairs does not say its languages, but data.cleaning.check_languages compares with them; set"),
        (("en", "tlh"), "The language 'tlh' of pairs is none that can be identified; leave out"),
    ],
)
def test_languages_to_check_must_be_known(tmp_path, languages: tuple | None, words: str):
    (tmp_path / "pairs.tsv").write_text(f"{ENGLISH}\t{FRENCH}\n", encoding="utf-8")
    data = DataConfig(source=str(tmp_path / "pairs.tsv"), languages=languages, cleaning={"check_languages": True})
    with pytest.raises(DataError, match=words):
        open_corpora(data)
