"""One language in Cyrillic and in Latin letters is written in one of them; two languages are left alone."""

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
    assert SERBIAN("<nik> a neka@nik.je i https://nik.je/a") == "<nik> а neka@nik.je и https://nik.je/a"


def test_some_texts_in_the_other_script_are_not_enough():
    assert learn_respelling([*IN_LATIN, *IN_CYRILLIC[:20]]) is None
    assert learn_respelling([*IN_LATIN[:40], *IN_CYRILLIC[40:42]]) is None
    assert learn_respelling([]) is None


@pytest.mark.parametrize("seed", [7, 8])
def test_another_language_in_the_other_script_is_no_spelling(seed: int):
    other = in_cyrillic(700, seed=seed)
    assert learn_respelling([*IN_LATIN, *other]) is None
    short = ["a le i ale, la " + text[:9] for text in IN_LATIN]
    assert learn_respelling([*short, *other]) is None


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
        ("Ъ", "", "", "А", ""),
    ],
)
def test_the_case_of_letters_that_take_the_place_of_others(old: str, new: str, before: str, after: str, expected: str):
    assert in_same_case(old, new, before, after) == expected
