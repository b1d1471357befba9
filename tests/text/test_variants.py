"""Variants of pairs: written as people type them."""

import random

import pytest

from dragoman.text.labels import label
from dragoman.text.variants import (
    _FINAL_MARK,
    DESCRIPTIONS,
    JOINED,
    NEIGHBOURS,
    VARIANTS,
    Pair,
    address,
    capitals,
    emoji,
    lower,
    marks,
    no_final_mark,
    title,
    typos,
    varied,
)

PAIRS = [
    ('I can\'t see "the big dog" - really...', "Je ne vois pas le gros chien."),
    ("Everybody likes strawberries!", "Tout le monde aime les fraises !"),
    ("我喜欢茶。", "J'aime le thé."),
    ("No mark", "Sans point."),
]


@pytest.mark.parametrize(
    ("change", "number", "changed"),
    [
        (capitals, 1, ("EVERYBODY LIKES STRAWBERRIES!", "TOUT LE MONDE AIME LES FRAISES !")),
        (title, 1, ("Everybody Likes Strawberries!", "Tout Le Monde Aime Les Fraises !")),
        (title, 0, ('I Can\'t See "The Big Dog" - Really...', "Je Ne Vois Pas Le Gros Chien.")),
        (lower, 1, ("everybody likes strawberries!", "Tout le monde aime les fraises !")),
        (no_final_mark, 0, ('I can\'t see "the big dog" - really', "Je ne vois pas le gros chien")),
        (no_final_mark, 1, ("Everybody likes strawberries", "Tout le monde aime les fraises")),
        (no_final_mark, 2, ("我喜欢茶", "J'aime le thé")),
        (no_final_mark, 3, PAIRS[3]),
        (capitals, 2, ("我喜欢茶。", "J'AIME LE THÉ.")),
    ],
)
def test_a_variant_is_the_same_text_written_otherwise(change, number: int, changed: Pair) -> None:
    assert change(*PAIRS[number], random.Random(1)) == changed


def test_marks_and_a_space_are_as_word_processors_write_them() -> None:
    source, target = marks(*PAIRS[0], random.Random(1))
    assert source.replace("\N{NO-BREAK SPACE}", " ") == "I can’t see “the big dog” – really…"
    assert source.count("\N{NO-BREAK SPACE}") == 1
    assert target == PAIRS[0][1]


@pytest.mark.parametrize("change", [emoji, address])
def test_what_is_added_is_added_to_both_sides(change) -> None:
    source, target = change(*PAIRS[1], random.Random(1))
    added = source.removeprefix(PAIRS[1][0])
    assert added.startswith(" ")
    assert target == PAIRS[1][1] + added


def test_a_typo_is_one_mistake_in_a_long_word_behind_its_first_letter() -> None:
    rng = random.Random(5)
    made = set()
    for _ in range(500):
        source, target = typos("the strawberry was red 1234", "x", rng)
        first, word, *rest = source.split(" ")
        assert (first, rest, target) == ("the", ["was", "red", "1234"], "x")
        assert word[0] == "s"
        assert word != "strawberry"
        assert abs(len(word) - len("strawberry")) <= 1
        made.add(word)
    assert {"strawbery", "srtawberry", "strawberrry"} < made
    assert any(len(word) == 10 and sorted(word) != sorted("strawberry") for word in made)


def test_longer_texts_have_more_typos() -> None:
    words = [f"{'abcdefghij'[index]}onderful" for index in range(10)]  # ninety letters
    source, _ = typos(" ".join(words), "x", random.Random(2))
    assert sum(word not in words for word in source.split(" ")) == 3


@pytest.mark.parametrize("text", ["我喜欢茶。", "a bc def 12", "हिन्दी भाषा", "ภาษาไทยสวย"])
def test_where_nobody_mistypes_letters_there_are_no_typos(text: str) -> None:
    assert typos(text, "x", random.Random(1)) == (text, "x")


def test_letters_have_those_beside_them_on_the_keyboard() -> None:
    assert set(NEIGHBOURS["g"]) == {*"tyfhvb"}
    assert set(NEIGHBOURS["a"]) == {*"qwsz"}
    assert all(letter in NEIGHBOURS[other] for letter in NEIGHBOURS for other in NEIGHBOURS[letter])


def test_a_question_without_a_mark_is_translated_as_a_question() -> None:
    assert no_final_mark("Where is it?", "Où est-ce ?", random.Random(1)) == ("Where is it", "Où est-ce ?")


def test_variants_hold_the_pairs_that_they_change_and_say_which() -> None:
    variants = {variant.name: variant for variant in varied(PAIRS)}
    assert variants.keys() == DESCRIPTIONS.keys() == {*(variant.name for variant in VARIANTS), JOINED}
    assert variants["lower"].rows == [(0,), (1,), (3,)]
    assert variants["lower"].targets[1,] == PAIRS[1][1]
    assert [source for source, _ in variants["no-final-mark"].pairs] == [
        'I can\'t see "the big dog" - really', "Everybody likes strawberries", "我喜欢茶",
    ]  # fmt: skip
    assert varied(PAIRS) == varied(PAIRS)
    assert varied(PAIRS, seed=2) != varied(PAIRS)


def test_neighbours_are_joined_and_each_stands_in_one_line_at_most() -> None:
    pairs = [(f"a{number}.", f"b{number}.") for number in range(300)]
    (joined,) = (variant for variant in varied(pairs, space="") if variant.name == JOINED)
    for rows, (source, target) in zip(joined.rows, joined.pairs, strict=True):
        assert 2 <= len(rows) <= 4
        assert source == " ".join(f"a{row}." for row in rows)
        assert target == "".join(f"b{row}." for row in rows)
    used = [row for rows in joined.rows for row in rows]
    assert used == sorted(set(used))
    assert len(used) >= 299


def test_labels_stay_where_they_are_and_only_sources_of_one_label_are_joined() -> None:
    pairs = [
        (f"{label(None, 'fr')} Good morning.", "Bonjour."),
        (f"{label(None, 'de')} Good morning.", "Guten Morgen."),
    ]
    variants = {variant.name: variant for variant in varied(pairs)}
    assert variants["capitals"].pairs[0] == (f"{label(None, 'fr')} GOOD MORNING.", "BONJOUR.")
    assert JOINED not in variants
    (joined,) = (variant for variant in varied(pairs[:1] * 4) if variant.name == JOINED)
    assert joined.pairs[0][0].count(label(None, "fr")) == 1


def test_final_marks_are_found_in_time_that_grows_with_the_text():
    """Checked by what is tried: each run of spaces from its first one alone."""
    assert _FINAL_MARK.sub("", "Wait  for it  ...") == "Wait  for it"
    assert _FINAL_MARK.sub("", " \t" * 60_000 + "x") == " \t" * 60_000 + "x"
