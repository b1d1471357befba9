"""Language codes: which mean the same, and which two of a file are source and target."""

import tomllib
from importlib.resources import files

import pytest

from dragoman.errors import DataError
from dragoman.text.language_codes import TWO_LETTERS, choose_languages, same_language, variety


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("en", "en-US", True),
        ("EN_us", "en-US", True),
        ("eng", "en-GB", True),
        ("ger", "deu", True),
        ("zh", "zh-Hant-TW", True),
        ("en-US", "en-GB", False),
        ("zh-Hans", "zh-Hant-TW", False),
        ("en", "enm", False),
        ("", "en", False),
    ],
)
def test_codes_are_compared_loosely_both_ways(one: str, other: str, same: bool):
    assert same_language(one, other) is same
    assert same_language(other, one) is same


def test_of_two_languages_the_first_is_the_source_unless_others_are_wanted():
    assert choose_languages(["fr-FR", "en", "fr", "EN-us"], None, "f") == ("fr-FR", "en")
    assert choose_languages(["fr-FR", "en", "de"], ("de", "fr"), "f") == ("de", "fr-FR")


def test_no_more_of_a_file_is_read_than_it_takes_to_find_the_wanted_languages():
    codes = iter(["fr", "de", "en-GB", "it", "fr"])
    assert choose_languages(codes, ("en", "fr"), "f") == ("en-GB", "fr")
    assert list(codes) == ["it", "fr"]


@pytest.mark.parametrize(
    ("codes", "wanted", "words"),
    [
        (["en", "fr", "de"], None, "memory.tmx has 3 languages (en, fr, de); .* 'data.languages=[en,fr]'"),
        (["en", "en-GB"], None, "memory.tmx has text in en alone"),
        (["en", "fr"], ("en", "it"), "memory.tmx has no text in 'it', only in en, fr; set data.languages"),
        ([f"a{letter}" for letter in "abcdefghijklmnopq"], None, "17 languages (.*, al and 5 more)"),
    ],
)
def test_a_choice_that_is_not_clear_is_left_to_the_user(codes: list[str], wanted: tuple | None, words: str):
    pattern = words.translate(str.maketrans({c: f"\\{c}" for c in "()[]"}))
    with pytest.raises(DataError, match=pattern):
        choose_languages(codes, wanted, "memory.tmx")


# ---- beside the library langcodes -----------------------------------------------------------------------------------


def test_codes_and_scripts_are_those_of_the_registry():
    """`langcodes` has the registry of IANA and the likely subtags of Unicode."""
    langcodes = pytest.importorskip("langcodes")
    known = sorted(set(TWO_LETTERS.values()))
    assert {code: variety(code).script for code in known} == {
        code: langcodes.Language.get(code).maximize().script.casefold() for code in known
    }
    for name, code in TWO_LETTERS.items():
        theirs = langcodes.standardize_tag(name) if len(name) <= 3 else code
        # What it leaves is a code of a country or of one language of a group, which people use for the language.
        assert theirs in (code, name) or (name, theirs) in {("nob", "nb"), ("tgl", "fil")}, name


def test_codes_of_pretrained_models_are_those_of_others() -> None:
    """A language has the same two letters whichever model names it."""
    langcodes = pytest.importorskip("langcodes")
    known = tomllib.loads(files("dragoman.interop.imports").joinpath("pretrained.toml").read_text())["languages"]
    nllb = {code.partition("_")[0] for code in known["nllb"].split()}
    letters = {langcodes.standardize_tag(code): code for code in nllb}
    for two, three in letters.items():
        if len(two) == 2:
            assert same_language(two, three), (two, three)
    assert [same_language(*pair) for pair in (("gn", "grn_Latn"), ("ti", "tir_Ethi"), ("su", "sun"))] == [True] * 3
