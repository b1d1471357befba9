"""The edit distance in bits, compared with the table that defines it."""

from hypothesis import given
from hypothesis import strategies as st

from dragoman.text.edit_distance import Compared

tokens = st.lists(st.integers(0, 4), max_size=90)


def by_table(one: list[int], other: list[int]) -> int:
    """The last cell of the usual table of edit distances between all beginnings."""
    row = list(range(len(other) + 1))
    for number, item in enumerate(one, start=1):
        following = [number]
        for place, other_item in enumerate(other):
            following.append(min(row[place + 1] + 1, following[-1] + 1, row[place] + (item != other_item)))
        row = following
    return row[-1]


@given(tokens, tokens)
def test_the_distance_is_that_of_the_table(one: list[int], other: list[int]) -> None:
    assert Compared(one).distance(other) == by_table(one, other)


@given(tokens, tokens)
def test_similarity_is_the_share_that_is_not_edited(one: list[int], other: list[int]) -> None:
    similarity = Compared(one).similarity(other)
    assert similarity == Compared(other).similarity(one)
    assert 0 <= similarity <= 1
    assert (similarity == 1) == (one == other)


def test_words_can_be_compared() -> None:
    assert Compared(list("the red")).similarity(list("the green")) == 1 - 3 / 9
