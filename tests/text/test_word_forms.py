"""Forms of words by their spelling."""

import random

import pytest

from dragoman.text.word_forms import are_forms, beginnings_of_forms, count_forms, own_beginning


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("house", "houses"),
        ("rot", "roten"),
        ("Haus", "hauses"),
        ("maison", "Maisons"),
        ("a", "a"),
        ("чат", "чаты"),
        ("Haus", "Häuser"),
        ("Wand", "Wände"),
        ("Mutter", "Mütter"),
        ("gato", "gatas"),
        ("rojo", "roja"),
        ("libro", "libri"),
        ("рука", "руку"),
        ("красный", "красного"),
        ("vert", "vertes"),
        ("canción", "canciones"),
        ("übersetzte", "übersetzen"),
        ("macht", "machen"),
        ("szkoła", "szkołą"),
        ("casă", "casa"),
        ("māja", "mājā"),
        ("счёт", "счет"),
        ("самолёт", "самолета"),
        ("كتاب", "كِتَاب"),
    ],
)
def test_forms_begin_alike(one: str, other: str) -> None:
    assert are_forms(one, other)
    assert are_forms(other, one)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("go", "went"),
        ("der", "den"),
        ("interest", "international"),
        ("", "a"),
        ("ISO", "isolé"),
        ("API", "apice"),
        ("vert", "vers"),
        ("Bank", "Band"),
        ("Hand", "Hanf"),
        ("schön", "schon"),
        ("schön", "Schon"),
        ("drücken", "drucken"),
        ("élève", "élevé"),
        ("Bundesrat", "Bundestag"),
    ],
)
def test_other_words_do_not(one: str, other: str) -> None:
    assert not are_forms(one, other)


def test_terms_are_counted_in_any_form_without_overlap() -> None:
    assert count_forms("rotes Haus", "Die roten Hauses sind rot, ein rotes Haus nicht.") == 2
    assert count_forms("chat", "le château") == 0
    assert count_forms("猫", "我的猫看见猫") == 2
    assert count_forms("", "a b") == 0
    assert count_forms("C++", "In C oder in c") == 0  # which would be another word
    assert count_forms("E-Mail", "zwei E-Mails") == 1
    assert count_forms("école d'été", "les écoles d'été") == 1


def test_the_beginnings_of_a_word_find_all_its_forms():
    rng = random.Random(3)
    words = ["".join(rng.choices("abé", k=rng.randint(1, 9))) for _ in range(600)]
    for word in words[:60]:
        beginnings = {*beginnings_of_forms(word)}
        for other in words:
            assert not are_forms(word, other) or own_beginning(other) in beginnings, (word, other)
