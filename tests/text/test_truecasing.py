"""Truecasing: unusual case becomes that of the training sources, and everything else stays as it is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.text.truecasing import CaseTable, Truecaser, in_capitals

SOURCES = [
    "I saw Tom in Paris, and he was not tired.",
    "The dog saw Tom, not the US army.",
    "Don't you think that I'm tired?",
    "In Paris, the dog didn't bark. You said I'm tired, but you don't bark.",
    "He saw the big red dog again, and the US army of Paris.",
    "Was the big red dog in Paris again?",
    "NOTHING TO SEE HERE, NOTHING",
]
ENGLISH = Truecaser(CaseTable.learn(SOURCES), "en", ["<2de>", "_to_"])
GERMAN = [
    "Ich habe das Haus auf der Straße gesehen.",
    "Das Haus auf der Straße ist groß.",
    "Wir sehen das alte Auto und die alte Katze.",
    "Er hat das Auto mit der Katze, Garten, Zaun, Baum, Dach, Boot, Wald, Berg, Tal, Turm, Hof und einem Schloss.",
    "Er kam mit einem Boot.",
]


@pytest.mark.parametrize(
    ("text", "usual"),
    [
        ("I SAW TOM IN PARIS.", "I saw Tom in Paris."),
        ("“I'M TIRED. DON'T BARK!” THE US ARMY SAID", "“I'm tired. Don't bark!” the US army said"),
        ("3 DOGS SAW TOM", "3 dogs saw Tom"),
        ("<b>THE DOG</b> SAW {name}, ME@X.ORG", "<b>The dog</b> saw {name}, ME@X.ORG"),
        ("<2de> THE DOG_to_ TOM", "<2de> The dog_to_ Tom"),
        ("THE ZYGOTE OF PARIS", "The zygote of Paris"),
        ("THE U.S. ARMY SAW AB12CD, F-16 AND TOM F. ZYGOTE", "The U.S. army saw AB12CD, F-16 and Tom F. zygote"),
        ("THE DOG, E.G. TOM. AT 5 P.M. TOM BARKED... AND TOM?", "The dog, E.G. Tom. At 5 P.M. Tom barked... and Tom?"),
    ],
)
def test_a_sentence_in_capitals_gets_its_usual_case(text: str, usual: str) -> None:
    assert ENGLISH(text) == (usual, True)


@pytest.mark.parametrize(
    ("text", "usual"),
    [
        ("The Big Red Dog Saw Tom", "The big red dog saw Tom"),
        ("Big Dog Zygote of the Army", "Big dog Zygote of the army"),  # unknown words may be names
        ("The US Dog Saw Big Red Tom", "The US dog saw big red Tom"),
        ("i'm tired. tom saw the dog", "I'm tired. Tom saw the dog"),
        ("the US army is NOT tired", "the US army is not tired"),
        ("He saw the BIG dog AGAIN", "He saw the big dog again"),
        ("AGAIN, Tom saw it", "Again, Tom saw it"),
    ],
)
def test_other_unusual_case_becomes_usual_and_is_not_for_the_translation(text: str, usual: str) -> None:
    assert ENGLISH(text) == (usual, False)


@pytest.mark.parametrize(
    "text",
    [
        *SOURCES[:-1],
        *("NASA", "USA, NASA", "The XYZ army", "IN and dogs", "T-shirt", "Tom Hanks and Meg Ryan saw New York"),
        *("Big Dog", "2024", "", "👍", "狗", "iPhone", "See www.example.org/a", "Paris"),
    ],
)
def test_a_text_in_usual_case_stays_as_it_is(text: str) -> None:
    assert ENGLISH(text) == (text, False)


@given(text=st.text(max_size=40))
def test_only_case_changes(text: str) -> None:
    assert ENGLISH(text)[0].casefold() == text.casefold()


def test_german_nouns_keep_their_capitals() -> None:
    german = Truecaser(CaseTable.learn(GERMAN), "de")
    # Rare words are nouns, and STRASSE is how capitals spell Straße.
    assert german("DAS HAUS AUF DER STRASSE MIT EINEM BALKON")[0] == "Das Haus auf der Straße mit einem Balkon"
    assert in_capitals("Die Straße", "de") == "DIE STRASSE"


def test_turkish_has_two_letters_i() -> None:
    sources = ["Ali ılık bir çay içti.", "Bir kız ılık bir çay içti.", "Ali bir kız gördü, bir çay içti."]
    turkish = Truecaser(CaseTable.learn(sources), "tur")
    assert turkish("KIZ ILIK BİR ÇAY İÇTİ.") == ("Kız ılık bir çay içti.", True)
    assert turkish("ılık çay")[0] == "Ilık çay"
    assert in_capitals("ılık bir çay iç: <b>x</b> a.i@x.org", "tr") == "ILIK BİR ÇAY İÇ: <b>X</b> a.i@x.org"


def test_sources_without_capitals_make_every_sentence_lower_case() -> None:
    lower = Truecaser(CaseTable.learn(["the dog saw tom .", "a cat saw the dog ."] * 2), "en")
    assert lower("The Dog saw Tom.") == ("the dog saw tom.", False)
    assert lower("THE DOG") == ("the dog", True)


@pytest.mark.parametrize(
    "sources", [["狗看见猫。", "他在 USB 里。"] * 20, ["رأى الكلب قطة"] * 3, [], ["1984", "ⓐ"], ["ALL CAPS"] * 3]
)
def test_sources_without_case_teach_nothing(sources: list[str]) -> None:
    assert Truecaser(CaseTable.learn(sources), None)("THE DOG") == ("THE DOG", False)
