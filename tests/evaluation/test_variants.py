"""Scores of variants of test pairs, beside what they would be if nothing disturbed the model."""

import pytest

from dragoman.evaluation.variants import score_variants

PAIRS = [(f"The house number {word} is red and big.", f"La casa {word} es roja y grande.") for word in "abcdefghijkl"]
WORDS = {"The": "La", "house": "casa", "number": "", "is": "es", "red": "roja", "and": "y", "big": "grande"}


def translate(texts: list[str]) -> list[str]:
    """Translates words that it knows as they are, or in capitals; keeps all others."""
    known = WORDS | {word.upper(): translation.upper() for word, translation in WORDS.items()}
    marked = (text.replace(".", " .").split(" ") for text in texts)
    return [" ".join(filter(None, (known.get(word, word) for word in words))).replace(" .", ".") for words in marked]


@pytest.fixture
def scores() -> dict:
    translations = translate([source for source, _ in PAIRS])
    assert translations == [target for _, target in PAIRS]
    scored = score_variants(translate, PAIRS)
    return {variant.name: variant.to_dict() for variant in scored}


def test_what_disturbs_a_model_costs_it_points_and_nothing_else_does(scores: dict) -> None:
    for name in ("capitals", "no-final-mark", "emoji", "address", "joined"):
        assert scores[name]["bleu"] == pytest.approx(100), name
    for name in ("title", "lower", "typos", "marks"):
        assert scores[name]["bleu"] < 90, name
    assert all(variant["before"] == pytest.approx(100) for variant in scores.values())


def test_each_variant_has_its_number_of_sentences_and_an_interval(scores: dict) -> None:
    assert scores["typos"]["sentences"] == len(PAIRS)
    assert 3 <= scores["joined"]["sentences"] <= 6
    low, high = scores["typos"]["intervals"]["bleu"]
    assert low < scores["typos"]["bleu"] < high


def test_a_translation_without_the_mark_that_goes_is_compared_as_it_is() -> None:
    scored = score_variants(lambda texts: [text.removesuffix(".") for text in translate(texts)], PAIRS)
    before = {variant.name: variant.before.value for variant in scored}
    assert before["no-final-mark"] == pytest.approx(100)
    assert before["typos"] < 100
