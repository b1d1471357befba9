"""Texts, pairs and languages as a program gives them: wrong ones are named by their position, never guessed at."""

import math
from typing import Any

import pytest

from dragoman.decoding.inputs import checked_languages, checked_pairs, checked_texts
from dragoman.errors import DataError, DragomanError, UsageError

pytestmark = pytest.mark.usefixtures("annotations_unchecked")


@pytest.mark.parametrize(
    ("texts", "kind", "message"),
    [
        ("A cat.", UsageError, r"a single text; write \[text\]"),
        (b"A cat.", UsageError, "a single text"),
        ({"en": "A cat."}, UsageError, "The texts are a dict"),
        (None, UsageError, "The texts are None; give a list"),
        (3, UsageError, "The texts are 3"),
        (["a", None], DataError, "Item 1 of the texts is None; each must be a text"),
        (["a", "b", 3], DataError, "Item 2 of the texts is 3"),
        ([math.nan], DataError, "Item 0 of the texts is nan"),
        ([["a"]], DataError, "Item 0 of the texts is "),
        ([b"a"], DataError, "Item 0 of the texts is b'a'"),
    ],
)
def test_what_is_no_list_of_texts_is_refused(texts: Any, kind: type[DragomanError], message: str) -> None:
    with pytest.raises(kind, match=message):
        list(checked_texts(texts))


def test_a_table_is_not_its_column_names() -> None:
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"en": ["A cat.", "Two dogs."], "n": [1, 2]})
    with pytest.raises(UsageError, match=r"a table; give one of its columns, such as table\['en'\]"):
        checked_texts(table)
    assert list(checked_texts(table["en"])) == ["A cat.", "Two dogs."]
    with pytest.raises(UsageError, match="The pairs are"):
        list(checked_pairs(table))
    table.loc[1, "en"] = None
    with pytest.raises(DataError, match="Item 1"):
        list(checked_texts(table["en"]))


def test_texts_are_checked_as_they_are_read() -> None:
    checked = checked_texts(iter(["a", 3]))
    assert next(checked) == "a"
    with pytest.raises(DataError):
        next(checked)


@pytest.mark.parametrize("pair", [("a",), "ab", ("a", None), ("a", "b", "c"), {"a": 1, "b": 2}, 3])
def test_what_is_no_pair_is_named(pair: Any) -> None:
    with pytest.raises(DataError, match="Item 1 of the pairs is"):
        list(checked_pairs([("a", "b"), pair]))
    assert list(checked_pairs([["a", "b"], ("c", "d")])) == [("a", "b"), ("c", "d")]


@pytest.mark.parametrize("languages", ["fr", "en-fr", ("en",), ("en", "fr", "de"), ("en", 3), None, 3])
def test_languages_are_two(languages: Any) -> None:
    with pytest.raises(UsageError, match="`languages` is"):
        checked_languages(languages)
    assert checked_languages(["en", None]) == ("en", None)
