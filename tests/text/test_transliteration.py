"""One language in Cyrillic and in Latin letters is written in one of them; two languages are left alone."""

import random
from dataclasses import replace

import pytest

from dragoman.text.characters import in_same_case
from dragoman.text.respelling import Respelling, learn_respelling
from dragoman.text.transliteration import CYRILLIC, LATIN, Transliteration, script_of
from tests.spellings import in_cyrillic, in_latin, in_two_scripts

IN_LATIN, IN_CYRILLIC, MIXED = in_latin(1_500), in_cyrillic(1_500), in_two_scripts(1_500)
SERBIAN = Transliteration(
    CYRILLIC,
    {"и": "i", "н": "n", "ј": "j", "њ": "nj", "е": "e", "к": "k", "ц": "c", "а": "a", "г": "g", "о": "o"},
    {"injekcija": "инјекција"},
    kept=("<nik>",),
)


def learned(written: list[str], like: list[str] | None = None, language: str | None = None) -> Respelling:
    respelling = learn_respelling(written, like=like or [], language=language)
    assert respelling is not None
    return respelling


def test_the_texts_are_as_they_should_be():
    assert ("Š" in "".join(IN_LATIN), "Њ" in "".join(IN_CYRILLIC)) == (True, True)
    assert {script_of(text) for text in IN_LATIN} == {LATIN}
    assert {script_of(text) for text in IN_CYRILLIC} == {CYRILLIC}


def test_the_script_of_most_is_written_unless_other_texts_or_the_code_say_which():
    mostly_cyrillic = [*IN_CYRILLIC, *IN_LATIN[::4]]
    for to_latin in (
        learned(MIXED),
        learned(mostly_cyrillic, like=IN_LATIN[:20]),
        learned(mostly_cyrillic, language="sr_Latn"),
    ):
        assert str(to_latin) == "Cyrillic > Latin"
        assert [to_latin(text) for text in [*IN_CYRILLIC, *IN_LATIN]] == [*IN_LATIN, *IN_LATIN]
    for to_cyrillic in (
        learned(mostly_cyrillic),
        learned(MIXED, like=IN_CYRILLIC[:20]),
        learned(MIXED, language="sr-Cyrl"),
    ):
        assert str(to_cyrillic) == "Latin > Cyrillic"
        assert [to_cyrillic(text) for text in [*IN_CYRILLIC, *IN_LATIN]] == [*IN_CYRILLIC, *IN_CYRILLIC]


def test_nothing_is_replaced_if_what_is_wanted_comes_in_both():
    assert learn_respelling(MIXED, like=MIXED[:100]) is None


def test_words_that_were_not_seen_are_written_letter_by_letter_and_in_their_case():
    to_latin, to_cyrillic = learned(MIXED), learned(MIXED, language="sr-Cyrl")
    for latin, cyrillic in (("njaš", "њаш"), ("Njaš", "Њаш"), ("NJAŠ", "ЊАШ"), ("ŠANJ", "ШАЊ"), ("Nja.", "Ња.")):
        assert (to_latin(cyrillic), to_cyrillic(latin)) == (latin, cyrillic)


def test_a_text_with_an_unknown_letter_stays_and_in_a_latin_one_such_a_word():
    to_latin, to_cyrillic = learned(MIXED), learned(MIXED, language="sr-Cyrl")
    assert to_latin("Мата ѣ наба.") == "Мата ѣ наба."
    assert to_cyrillic("Mata Windows naba.") == "Мата Windows наба."


def test_known_words_tell_which_letters_belong_together_and_some_texts_stay():
    assert SERBIAN("Injekcija konja. INJEKCIJA") == "Инјекција коња. ИНЈЕКЦИЈА"
    assert SERBIAN("Nik II. a COII na nik.com, N.") == "Ник II. а ЦОИИ на nik.com, Н."
    assert SERBIAN("<nik> a neka@nik.je i https://nik.je/a") == "<nik> а neka@nik.je и https://nik.je/a"


def test_some_texts_in_the_other_script_are_not_enough():
    assert learn_respelling([*IN_LATIN, *IN_CYRILLIC[:20]]) is None
    assert learn_respelling([*IN_LATIN[:40], *IN_CYRILLIC[40:42]]) is None
    assert learn_respelling([]) is None


def test_another_language_in_the_other_script_is_no_spelling():
    other = in_cyrillic(700, seed=7)
    assert learn_respelling([*IN_LATIN, *other]) is None
    with_names = [f"{text} {text} {name}" for text, name in zip(other, IN_LATIN, strict=False)]
    assert learn_respelling([*IN_LATIN, *with_names]) is None


@pytest.mark.parametrize(("common", "is_one_language"), [(0.9, True), (0.6, True), (0.3, False)])
def test_two_fifths_of_the_words_must_be_known(common: float, is_one_language: bool):
    draw = random.Random(3)
    related = [
        " ".join(word if draw.random() < common else word[:3] + "ао" + word[3:] for word in text.split())
        for text in IN_CYRILLIC[:500]
    ]
    assert (learn_respelling([*IN_LATIN, *related]) is not None) == is_one_language


def test_a_letter_in_two_latin_ones_is_read_from_both():
    """Tatar is such a language: its q and k are к."""
    latin = [text.replace("ka", "qa").replace("Ka", "Qa") for text in IN_LATIN]
    to_cyrillic = learned([*IN_CYRILLIC, *latin[::4]])
    assert [to_cyrillic(text) for text in latin] == IN_CYRILLIC


def test_capitals_of_languages_that_tell_two_letters_i():
    turkic = Transliteration(CYRILLIC, {"и": "i", "ы": "ı", "т": "t"}, {}, casing="tr")
    assert turkic("İtı. ITI iti") == "Иты. ЫТЫ ити"
    assert replace(turkic, into=LATIN)("Иты. ЫТЫ ити") == "İtı. ITI iti"


def test_all_apostrophes_are_one():
    uzbek = Transliteration(CYRILLIC, {"ў": "o'", "з": "z", "қ": "q", "й": "y", "ё": "yo"}, {"yo'q": "йўқ"})
    assert [uzbek(f"O{mark}z, yo{mark}q") for mark in "'’ʼ‘ʻ"] == ["Ўз, йўқ"] * 5
    assert uzbek("Oʻz d’Artagnan") == "Ўз d’Artagnan"


def test_a_converted_text_is_in_its_normal_form():
    assert replace(SERBIAN, into=LATIN)("Но\u0301га") == "N\u00f3ga"


@pytest.mark.parametrize(
    ("old", "new", "before", "after", "expected"),
    [
        ("њ", "nj", "", "", "nj"),
        ("Њ", "nj", "", "е", "Nj"),
        ("Њ", "nj", "", "Е", "NJ"),
        ("Њ", "nj", "О", "", "NJ"),
        ("Њ", "nj", "О", ".", "NJ"),
        ("Њ", "nj", "", "", "Nj"),
        ("Nj", "њ", "", "e", "Њ"),
        ("NJ", "њ", "", "", "Њ"),
        ("", "ь", "n", "", "ь"),
        ("", "ь", "N", "Ç", "Ь"),
        ("", "ь", "N", ".", "Ь"),
        ("", "ь", "N", "e", "ь"),
        ("Ъ", "", "", "А", ""),
    ],
)
def test_the_case_of_letters_that_take_the_place_of_others(old: str, new: str, before: str, after: str, expected: str):
    assert in_same_case(old, new, before, after) == expected
