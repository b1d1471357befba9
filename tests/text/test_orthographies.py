"""Spellings are found by their letters, and written as one; what is no spelling is left alone."""

import random
from collections.abc import Callable
from dataclasses import replace
from itertools import cycle

import pytest

from dragoman.text import respelling
from dragoman.text.orthographies import Neighbours, Replacement, SpellingStep
from dragoman.text.respelling import Respelling, learn_respelling
from tests.spellings import mixed, old, texts

NEW = texts(1_500)


def learned_from(written: list[str], like: list[str] | None = None) -> Respelling:
    learned = learn_respelling(written, like=like or [])
    assert learned is not None
    return learned


def test_the_letters_of_a_second_spelling_are_found_and_undone():
    learned = learned_from(mixed(NEW))
    assert {*str(learned).split(", ")} == {"qu > k", "c > k", "hu > w"}
    assert [learned(text) for text in mixed(NEW)] == NEW
    unseen = texts(500, seed=2)
    assert [learned(old(text)) for text in unseen] == unseen
    assert [learned(text) for text in unseen] == unseen


def test_the_spelling_of_most_is_written_unless_other_texts_say_which():
    most_old = [new if number % 3 == 0 else old(new) for number, new in enumerate(NEW)]
    to_old, to_new = learned_from(most_old), learned_from(most_old, like=NEW[:50])
    assert [to_old(text) for text in NEW] == [old(text) for text in NEW]
    assert [to_new(text) for text in most_old] == NEW


def test_nothing_is_replaced_if_what_is_wanted_comes_in_both():
    assert learn_respelling(mixed(NEW), like=mixed(NEW[:300])) is None
    assert learn_respelling(mixed(NEW), like=mixed(NEW[:300], every=30)) is not None
    for too_few in (["???"], [*map(old, NEW[:2])]):
        assert learn_respelling(mixed(NEW), like=too_few) == learn_respelling(mixed(NEW))


def test_a_third_spelling_is_undone_as_well():
    third = [text.replace("s", "z").replace("S", "Z").replace("j", "h").replace("J", "H") for text in NEW]
    several = [
        (old(new), other, new, new)[number % 4] for number, (new, other) in enumerate(zip(NEW, third, strict=True))
    ]
    learned = learned_from(several)
    assert len(learned.steps) == 2
    # Letters that never stand side by side in the usual words are left.
    assert sum(learned(text) == new for text, new in zip(several, NEW, strict=True)) > 0.99 * len(NEW)


def test_texts_in_one_spelling_have_none_to_learn():
    assert learn_respelling(NEW) is None
    assert learn_respelling([]) is None
    assert learn_respelling(["", "12 + 3 = ?", "k"] * 500) is None


@pytest.mark.parametrize("endings", [("o", "a"), ("os", "as"), ("", "s"), ("en", "ika")])
def test_endings_that_agree_within_a_sentence_are_no_spelling(endings: tuple[str, str]):
    agreeing = [
        " ".join(word + ending for word in text.rstrip(".").split())
        for text, ending in zip(NEW, cycle(endings), strict=False)
    ]
    assert learn_respelling(agreeing) is None


def test_two_kinds_of_text_with_words_of_their_own_are_no_spellings():
    news = ["".join(chr(ord(letter) + 1) if letter in "aeiou" else letter for letter in text) for text in texts(1_500)]
    assert learn_respelling([*NEW[:750], *texts(750, seed=9)]) is None
    assert learn_respelling([*NEW[:750], *(text[::-1] for text in news[750:])]) is None


def test_another_language_with_some_words_in_common_is_no_spelling():
    own = texts(1_500, seed=9)  # with other words
    mostly_other = [
        " ".join([*other.split(), *text.split()[:1]]) for other, text in zip(map(old, own), NEW, strict=True)
    ]
    assert learn_respelling([*NEW, *mostly_other[:700]]) is None
    assert learn_respelling([*NEW, *map(old, NEW[:700])]) is not None


def test_a_few_texts_in_another_spelling_are_left_to_the_model():
    assert learn_respelling(mixed(NEW, every=60)) is None


@pytest.mark.parametrize("capitals", [str.upper, str.title, str.capitalize])
def test_capitals_stay(capitals: Callable[[str], str]):
    to_new, to_old = learned_from(mixed(NEW)), learned_from(mixed(NEW), like=[*map(old, NEW[:50])])
    for text in texts(200, seed=2):
        assert to_new(capitals(old(text))) == capitals(text)
        assert to_old(capitals(text)) == capitals(old(text))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("MAQUIC.", "MAKIK."), ("Quic", "Kik"), ("TOHUEC-RA", "TOWEK-RA"), ("QU", "K"),
        ("caca@coca.com caca", "caca@coca.com kaka"),
        ("https://coca.org/quema: Quema", "https://coca.org/quema: Kema"), ("", ""), ("¿...?", "¿...?"),
    ],
)  # fmt: skip
def test_capitals_at_the_end_of_words_and_addresses(text: str, expected: str):
    step = learned_from(mixed(NEW)).steps[0]
    assert isinstance(step, SpellingStep)
    anywhere = replace(step, usual=(), neighbours=Anywhere(frozenset(), frozenset()))
    assert anywhere(text) == expected


class Anywhere(Neighbours):
    """Letters may stand beside any others."""

    def admit(self, before: str, new: str, after: str) -> bool:
        return True


def test_an_apostrophe_that_is_a_quotation_mark_and_the_dotless_i_of_turkish_stay():
    anywhere = Anywhere(frozenset(), frozenset())
    assert (
        anywhere.replace("He said: ‘I don’t’, rock ’n roll", Replacement("’", "'"))
        == "He said: ‘I don't’, rock ’n roll"
    )
    assert anywhere.replace("kış kiş KİŞ", Replacement("i", "y")) == "kış kyş KİŞ"


def test_letters_stay_where_the_usual_spelling_has_them():
    kept = [text.replace("s", "ch") for text in NEW]
    learned = learned_from(mixed(kept))
    assert sum(learned(text) == new for text, new in zip(mixed(kept), kept, strict=True)) > 0.99 * len(kept)
    assert sum("kh" in learned(text) for text in mixed(kept)) == 0


def test_new_letters_are_composed_with_the_marks_beside_them():
    anywhere = Anywhere(frozenset(), frozenset())
    assert anywhere.replace("bɛ\u0300", Replacement("ɛ", "e")) == "bè"


def test_symbols_of_the_user_stay_and_letters_in_addresses_tell_nothing():
    learned = learn_respelling(mixed(NEW), kept=["__quema__"])
    assert learned is not None
    assert learned("__quema__ quema") == "__quema__ kema"
    assert learned("Tahua https://kiwi.org quema.") == "Tawa https://kiwi.org kema."


def test_what_is_learned_follows_from_the_texts_and_not_from_their_order():
    shuffled = mixed(NEW)
    random.Random(4).shuffle(shuffled)
    assert learn_respelling(shuffled) == learn_respelling(mixed(NEW))


def test_of_many_texts_only_so_many_are_read(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(respelling, "MOST_TEXTS", 40)
    read = iter(cycle(NEW))
    learn_respelling(read)
    assert next(read) == NEW[40]
