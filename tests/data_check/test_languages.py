"""Languages: sides, single lines and exchanged pairs; nothing is said of languages that are close or unknown."""

import random
from collections import Counter

import pytest

from dragoman.data_check import languages
from dragoman.data_check.exchanged import exchanged_pairs
from dragoman.data_check.languages import LanguageCheck, main_language, main_script
from dragoman.data_check.locations import NumberedPair
from dragoman.data_check.result import Finding, PartResult, Side
from dragoman.text.identification import known_languages, sure_language
from dragoman.text.language_codes import close, known_code
from tests.data_check.corpora import Pairs, clean, examined, german, lines, only

RUSSIAN = "Старая женщина со вчерашнего дня сидит перед вокзалом и ждёт поезда."


@pytest.fixture(scope="module")
def corpus() -> Pairs:
    return clean(601)


def findings(pairs: Pairs, *codes: str | None) -> list[Finding]:
    return list(examined(LanguageCheck, pairs, *codes).findings())


@pytest.mark.slow
@pytest.mark.parametrize(
    "codes", [("en", "fr"), ("eng", "fra"), ("en-GB", "fr_CA"), (None, None), ("en", "xx"), ("tlh", "fr")]
)
def test_right_names_and_unknown_names_are_no_finding(corpus, codes):
    assert findings(corpus, *codes) == []


@pytest.mark.parametrize(
    ("codes", "words"),
    [
        (("fr", "en"), ["from en to fr, not from fr to en", "other order"]),
        (("fra", "eng"), ["from en to fr", "other order"]),
        (("en", "de"), ["a target in fr, not de"]),
        (("ru", "fr"), ["a source in en, not ru"]),
        (("it", "de"), ["a source in en, not it and a target in fr, not de"]),
    ],
)
def test_wrong_names_are_told(corpus, codes, words):
    finding = only(findings(corpus, *codes), "language")
    assert all(word in f"{finding.what} {finding.advice}" for word in words)
    assert finding.share == 1


def test_one_language_on_both_sides_is_told(corpus):
    finding = only(findings([(source, f"{source} Yes.") for source, _ in corpus], None, None), "language")
    assert "both sides in en" in finding.what


def test_lines_in_another_language_are_told_with_their_numbers(corpus):
    pairs = list(corpus)
    for index, text in zip(range(0, 600, 20), german(30), strict=True):
        pairs[index] = (pairs[index][0], text)
    finding = only(findings(pairs, "en", "fr"), "foreign")
    assert "target lines in de, not fr" in finding.what
    assert lines(finding) == [1, 21, 41]
    assert finding.count >= 28
    # Three lines in 600 may be quotations, names or misjudged.
    pairs = list(corpus)
    pairs[:3] = [(source, text) for (source, _), text in zip(corpus, german(3), strict=False)]
    assert findings(pairs, "en", "fr") == []


@pytest.mark.parametrize("codes", [("en", "fr"), (None, None)])
def test_two_languages_in_equal_parts_are_told(corpus, codes):
    pairs = [(s, g if n % 2 else t) for n, ((s, t), g) in enumerate(zip(corpus, german(601), strict=True))]
    finding = only(findings(pairs, *codes), "foreign")
    assert finding.what.startswith("target lines in ")
    assert finding.share == pytest.approx(0.5, abs=0.1)
    # Without a name, either may be the one that is right.
    assert "in de, not fr" in finding.what or codes == (None, None)


def test_another_script_is_told_in_a_language_that_is_not_known(corpus):
    pairs = [
        (source, RUSSIAN) if index % 10 == 3 else (source, target) for index, (source, target) in enumerate(corpus)
    ]
    finding = only(findings(pairs, "en", "xx"), "foreign")
    assert "target lines in CYRILLIC, not LATIN" in finding.what
    assert lines(finding)[0] == 4


@pytest.mark.parametrize(("share", "recall"), [(0.01, 0.9), (0.1, 0.9), (0.3, 0.7)])
def test_exchanged_pairs_are_found_in_any_two_languages(corpus, share, recall):
    """Also in those that nobody knows: here every letter is replaced by the next."""
    nobodys = str.maketrans({chr(code): chr(code + 1) for code in (*range(97, 122), *range(233, 240))})
    chosen = set(random.Random(3).sample(range(1, 602), int(share * 601)))
    pairs = [
        NumberedPair(number, *(text.translate(nobodys) for text in (pair[::-1] if number in chosen else pair)))
        for number, pair in enumerate(corpus, start=1)
    ]
    detected = set(exchanged_pairs(pairs))
    assert detected <= chosen
    assert len(detected) >= recall * len(chosen)


def test_names_and_loans_are_not_exchanged_pairs():
    pairs = [NumberedPair(n, f"the house of {n} is here", f"la maison de {n} est ici") for n in range(97)]
    same = ["Tom Waits", "la maison", "ave caesar morituri te salutant", "the house of", "a b c d e f"]
    assert exchanged_pairs(pairs + [NumberedPair(97 + n, text, text) for n, text in enumerate(same)]) == []


def test_words_do_not_tell_sides_of_one_language_apart():
    pairs = [
        (f"The big dog of the {n} people who live there.", f"A large dog of some {n} people who live there.")
        for n in range(97)
    ]
    pairs[3:6] = [(target, source) for source, target in pairs[3:6]]
    assert [finding.kind for finding in findings(pairs, None, None)] == ["language"]


def test_every_pair_is_equally_likely_to_be_sampled(monkeypatch):
    monkeypatch.setattr(languages, "SAMPLE", 13)
    drawn = Counter()
    for seed in range(503):
        check = LanguageCheck(PartResult("train", "list", Side(None), Side(None)))
        check.sample.random.seed(seed)
        check.add([NumberedPair(number, "x", "y") for number in range(1, 41)])
        check.add([NumberedPair(number, "x", "y") for number in range(41, 98)])
        numbers = [pair.number for pair in check.sample.items]
        assert len(set(numbers)) == 13
        drawn.update(numbers)
    # 503 times 13 of 97: 67.4 each, standard deviation 7.6.
    assert len(drawn) == 97
    assert all(abs(count - 67.4) < 5 * 7.6 for count in drawn.values())


def test_identification_needs_letters_and_certainty():
    assert sure_language("Die alte Frau wartet seit gestern vor dem Bahnhof.") == "de"
    assert sure_language("12 345,67 - (89)") is None
    assert main_language([], []) is None
    assert main_language(["1 2"] * 41, ["de", "fr", "de", None, "fr", "de"]) == "de"
    assert main_language(["1 2"] * 41, ["de", "fr", "it"]) is None
    assert main_language([*german(40), RUSSIAN], []) == "de"
    scripts = {"abc где": "LATIN", "привет": "CYRILLIC", "日本語をカタカナ": "CJK", "1 2": None}
    assert {text: main_script(text) for text in scripts} == scripts


def test_codes_of_file_names_are_understood():
    known = known_languages()
    names = {"fra": "fr", "fre": "fr", "pt_BR": "pt", "zho_Hans": "zh", "jp": "ja", "FR": "fr", "src": None, None: None}
    assert {name: known_code(name, known) for name in names} == names
    assert "zxx" not in known
    assert (close("hr", "sr"), close("no", "da"), close("de", "nl"), close("xx", "xx")) == (True, True, False, True)
