"""Plain text as letters, tables and books have it."""

import pytest

from dragoman.documents.plain import read_text
from tests.documents.engines import SAME, SHOUTING, by_word, translated


def texts(text):
    return [segment.content[0] for segment in read_text(text).segments]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Name\tAge of it\nTom\t12\n", ["Name", "Age of it", "Tom"]),
        ("Name      Age\nTom Li    old\n", ["Name", "Age", "Tom Li", "old"]),
        ("Name  Age\nToms  old\n", ["Name", "Age", "Toms", "old"]),
        ("It is so.  And so on\n", ["It is so.  And so on"]),
        ("+-----+-----+\n| One | two |\n+-----+-----+\n", ["One", "two"]),
        ("1. Open the door.\n2. Close it.\n", ["Open the door.", "Close it."]),
        ("A. Smith said so.\n(1) One\n1.2. Two\n", ["A. Smith said so.", "One", "Two"]),
        (
            "A title that is wide enough for having been wrapped by a person at the\nName: Tom Li\n",
            ["A title that is wide enough for having been wrapped by a person at the", "Name: Tom Li"],
        ),
        ("½\n1º\nⅣ\n", []),
        ("one\ftwo\u2028three\rfour\n", ["one", "two", "three", "four"]),
        ("*****\n  12\n", []),
        (
            "> A quoted line of a letter that was wrapped at seventy columns by\n> somebody\n",
            ["A quoted line of a letter that was wrapped at seventy columns by somebody"],
        ),
        (
            "A title of more than forty columns by somebody\n"
            "The text is wrapped at about eighty columns, so that the title was not wrapped\n",
            [
                "A title of more than forty columns by somebody",
                "The text is wrapped at about eighty columns, so that the title was not wrapped",
            ],
        ),
        (
            "これは長い文章です。それで、ここで折り返されて、次の行に続いている文章で\nした。\n",
            ["これは長い文章です。それで、ここで折り返されて、次の行に続いている文章でした。"],
        ),
    ],
)
def test_texts(text, expected):
    assert texts(text) == expected
    assert translated(text, "a.txt", SAME) == text


def test_columns_stay_in_their_places():
    text = "Name      Age\nTom Li    old\n"
    longer = by_word(lambda word: f"{word}xx")
    assert translated(text, "a.txt", longer) == "Namexx    Agexx\nTomxx Lixx  oldxx\n"
    assert translated("| One | two |\n", "a.txt", by_word(lambda word: word[:2])) == "| On  | tw  |\n"


def test_a_quotation_is_wrapped_as_a_quotation():
    text = "> A quoted line of a letter that was wrapped at seventy columns by\n> somebody else\n"
    found = translated(text, "a.txt", SHOUTING)
    assert found == text.upper()
