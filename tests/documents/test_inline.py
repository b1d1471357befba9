"""Codes come back into translations: each once, nested as they were, around the words that they were around."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.documents.document import Code
from dragoman.documents.inline import take_out
from dragoman.documents.projection import Projection

B, B_END = Code("<b>", "open", "b"), Code("</b>", "close", "b")
EM, EM_END = Code("<i>", "open", "i"), Code("</i>", "close", "i")
NOTE, BREAK = Code("[1]"), Code("<br>", "break")
SWAPPED = [(0, 0), (2, 1), (1, 2), (3, 3), (4, 4)]


def put(content, target, alignment):
    plain = take_out(content)
    parts = Projection(plain.text, target, alignment).put_in(plain.root)
    return plain.text, "".join(part.markup if isinstance(part, Code) else part for part in parts)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (["The ", B, "red", B_END, " house is old."], "La maison <b>rouge</b> est vieille."),
        (["The ", B, "red", B_END, " ", EM, "house", EM_END, " is old."], "La <i>maison</i> <b>rouge</b> est vieille."),
        (["The ", B, "red ", EM, "house", EM_END, B_END, " is old."], "La <b><i>maison</i> rouge</b> est vieille."),
        ([B, "The red house is old.", B_END], "<b>La maison rouge est vieille.</b>"),
        (["The red house is ", B, "old", B_END, "."], "La maison rouge est <b>vieille</b>."),
        (["The red house is ", B, "old.", B_END], "La maison rouge est <b>vieille.</b>"),
        (["The red house ", B, "is ", EM, "old", EM_END, B_END, "."], "La maison rouge <b>est <i>vieille</i></b>."),
        (["The red house", NOTE, " is old", NOTE, "."], "La maison[1] rouge est vieille[1]."),
        (["The red house is", BREAK, "old."], "La maison rouge est<br>vieille."),
        (["The red house ", NOTE, " is old."], "La maison rouge [1] est vieille."),
        ([NOTE, "The red house is old.", NOTE], "[1]La maison rouge est vieille.[1]"),
        ([EM_END, "The ", B, "red house is old."], "</i>La maison <b>rouge est vieille."),
    ],
)
def test_codes_follow_their_words(content, expected):
    text, translation = put(content, "La maison rouge est vieille.", SWAPPED)
    assert text.replace("  ", " ") == "The red house is old."
    assert translation == expected


def contents():
    """Words, spaces, codes of all kinds, nested and not."""
    leaf = st.one_of(
        st.sampled_from(["a", "b c", " d ", "e.", "  ", "f,g", "«h»"]), st.just(NOTE), st.just(BREAK), st.just(B),
        st.just(EM_END), st.just(Code("<code/>", "word")),
    )  # fmt: skip
    tree = st.recursive(
        st.lists(leaf, max_size=5),
        lambda inner: st.tuples(inner, st.sampled_from([(B, B_END), (EM, EM_END)]), inner).map(
            lambda drawn: [*drawn[0], drawn[1][0], *drawn[2], drawn[1][1]]
        ),
        max_leaves=6,
    )
    return st.lists(tree, max_size=3).map(lambda trees: [part for tree in trees for part in tree])


@pytest.mark.slow
@given(
    contents(),
    st.lists(st.sampled_from(["x", "y.", "«z»", ","]), max_size=8),
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=12),
)
def test_whatever_is_aligned_no_code_is_lost_and_nesting_stays(content, words, alignment):
    target = " ".join(words)
    plain = take_out(content)
    parts = Projection(plain.text, target, alignment).put_in(plain.root)
    codes = [part.markup.strip() for part in parts if isinstance(part, Code) and part.markup]
    source_codes = [part.markup for part in content if isinstance(part, Code)]
    assert sorted(codes) == sorted(source_codes)
    assert not plain.stand_ins
    text = "".join(part for part in parts if isinstance(part, str))
    assert re.sub(r"\s", "", text) == re.sub(r"\s", "", target)
    assert depths(codes) == depths(source_codes)


def depths(codes: list[str]) -> tuple[int, int]:
    """How many codes close nothing, and how many are not closed."""
    stack, lone = [], 0
    for code in codes:
        if code in ("<b>", "<i>"):
            stack.append(code)
        elif code in ("</b>", "</i>"):
            name = code.replace("/", "")
            if name in stack:
                del stack[len(stack) - 1 - stack[::-1].index(name) :]
            else:
                lone += 1
    return lone, len(stack)
