"""Settings as texts and as trees: what is typed is what programs get, and the other way round."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.config.settings import merged, parse_settings, setting, spelled
from dragoman.errors import UsageError


def test_texts_are_a_tree_whose_values_are_yaml():
    texts = ["seed=3", "training.warmup=7", "training.warmup=11", "data.cleaning.keep=0.5", "data.languages=[en, fr]"]
    assert parse_settings(texts) == {
        "seed": 3,
        "training": {"warmup": 11},
        "data": {"cleaning": {"keep": 0.5}, "languages": ["en", "fr"]},
    }
    assert parse_settings(["model.norm_eps=1e-6", "data.source=a: b"]) == {
        "model": {"norm_eps": 1e-6},
        "data": {"source": {"a": "b"}},
    }
    assert parse_settings(["data.source={x"]) == {"data": {"source": "{x"}}  # no YAML, so a text


@pytest.mark.parametrize(
    ("texts", "problem"),
    [
        (["training.warmup"], "`training.warmup` has no value; write `training.warmup=VALUE`"),
        (["seed=1", "seed.x=1"], "`seed.x=1`: `seed` holds a value, not keys"),
    ],
)
def test_a_text_that_is_no_setting_is_refused(texts, problem):
    with pytest.raises(UsageError, match=problem):
        parse_settings(texts)


def test_of_several_trees_the_last_counts_and_none_is_changed():
    first, second = (
        {"data": {"source": "a", "valid": ["x"]}, "model": None},
        {"data": {"source": None}, "model": {"n": 1}},
    )
    whole = merged(first, second)
    assert whole == {"data": {"source": None, "valid": ["x"]}, "model": {"n": 1}}
    whole["data"]["valid"].append("y")
    whole["model"]["n"] = 2
    assert first["data"]["valid"] == ["x"]
    assert second["model"] == {"n": 1}
    with pytest.raises(UsageError, match=r"`seed\.x=1`: `seed` holds a value, not keys"):
        merged({"seed": 3}, {"seed": {"x": 1}})


def test_tables_are_replaced_and_empty_sections_change_nothing():
    recipe = {"decoding": {"glossary": {"a": "b"}}, "model": {"norm": "rms"}}
    assert merged(recipe, {"decoding": {"glossary": {"c": "d"}}})["decoding"]["glossary"] == {"c": "d"}
    emptied = merged(recipe, {"decoding": {"glossary": {}}, "model": {}})
    assert emptied == {"decoding": {"glossary": {}}, "model": {"norm": "rms"}}


def test_any_value_of_yaml_can_be_spelled():
    assert list(spelled(parse_settings(["data.valid=2024-01-01"]))) == ['data.valid="2024-01-01"']


def test_one_setting_is_looked_up_by_its_path():
    tree = {"data": {"cleaning": {"keep": 0.5}, "source": None}}
    assert setting(tree, "data.cleaning.keep") == 0.5
    assert setting(tree, "data.source", "x") is None
    assert setting(tree, "data.source.x", "x") == setting(tree, "training.warmup", "x") == "x"


KEYS = st.text("abc_", min_size=1, max_size=5)
VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.lists(st.text("ab é"))
)


@pytest.mark.slow
@given(st.dictionaries(KEYS, st.one_of(VALUES, st.dictionaries(KEYS, VALUES, min_size=1))))
def test_what_is_spelled_is_read_again(tree):
    assert parse_settings(spelled(tree)) == tree
