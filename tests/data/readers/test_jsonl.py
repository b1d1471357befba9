"""JSON lines: which fields are the sides, and what each line may be."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dragoman.data.bitext import Bitext
from tests.data.readers.files import PACK, languages, refusal, write

same_folder = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50, deadline=None)


def lines(*records: Any) -> str:
    return "".join(json.dumps(record) + "\n" for record in records)


@pytest.mark.parametrize(
    ("records", "found"),
    [
        ([{"translation": {"en": "Go.", "fr": "Va !"}}, {"translation": {"fr": "Oui.", "en": "Yes."}}], ("en", "fr")),
        ([{"id": 7, "source": "Go.", "target": "Va !"}, {"target": "Oui.", "source": "Yes."}], (None, None)),
        ([{"tgt": "Va !", "src": "Go."}, {"src": "Yes.", "tgt": "Oui.", "x": {}}], (None, None)),
        ([{"id": 1, "en-US": "Go.", "fr_FR": "Va !"}, {"fr_FR": "Oui.", "en-US": "Yes."}], ("en-US", "fr_FR")),
    ],
)
@pytest.mark.parametrize("suffix", ["", *PACK])
def test_the_sides_are_found_by_their_names(tmp_path: Path, records: list, found: tuple, suffix: str):
    opened = Bitext.open(write(tmp_path / f"a.jsonl{suffix}", lines(*records)))
    assert list(opened) == list(opened) == [("Go.", "Va !"), ("Yes.", "Oui.")]
    assert (opened.name, languages(opened)) == ("a", found)


def test_wanted_languages_choose_among_many_and_their_order(tmp_path: Path):
    records = [{"translation": {"en": "Go.", "de": "Geh.", "fr": "Va !"}}, {"translation": {"en": "No.", "fr": "Non."}}]
    file = write(tmp_path / "a.jsonl", lines(*records))
    assert "a.jsonl, line 1 has 3 languages (en, de, fr)" in refusal(file)
    opened = Bitext.open(file, languages=("fra", "en-GB"))
    assert list(opened) == [("Va !", "Go."), ("Non.", "No.")]
    assert languages(opened) == ("fra", "en-GB")
    assert list(Bitext.open(file, languages=("de", "en"))) == [("Geh.", "Go."), ("", "No.")]


def test_line_breaks_in_a_text_are_spaces_and_blank_lines_are_nothing(tmp_path: Path):
    file = write(tmp_path / "a.jsonl", "\n" + lines({"src": "a\n b", "tgt": "c"}) + "  \n" + lines({"src": None}))
    assert list(Bitext.open(file)) == [("a b", "c"), ("", "")]


text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n"))


@given(pairs=st.lists(st.tuples(text, text), min_size=1), ascii_only=st.booleans())
@same_folder
def test_what_is_written_as_json_is_read_again(tmp_path: Path, pairs: list[tuple[str, str]], ascii_only: bool):
    records = (json.dumps({"source": s, "target": t}, ensure_ascii=ascii_only) + "\n" for s, t in pairs)
    assert list(Bitext.open(write(tmp_path / "a.jsonl", "".join(records)))) == pairs


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ('{"src": "a", "tgt": "b"}\n{"src": "a", "tgt"', "line 2 is not JSON (Expecting ':' delimiter"),
        ('{"src": "a", "tgt": "b"}\n["a", "b"]\n', "line 2 is JSON but no object"),
        ('{"src": "a", "tgt": "b"}\n\n{"src": "a", "tgt": 5}\n', "line 3 has no text in `src` and `tgt`"),
        ('{"translation": {"en": "a", "fr": "b"}}\n{"translation": "a"}', "line 2 has no text in `en` and `fr`"),
        (
            '\n{"text": "a", "label": "b"}\n',
            "line 2 has no two sides among its fields (text, label); choose two texts, such as --columns text,label",
        ),
        ('{"id": 5, "en": "a"}\n', "line 1 has no two sides"),
        ("\n \n", "blank lines only"),
        ("", "a.jsonl is empty"),
        ("[" * 100_003, "item 1 is not JSON"),
    ],
)
def test_other_lines_are_refused_by_their_number(tmp_path: Path, content: str, words: str):
    assert words in refusal(write(tmp_path / "a.jsonl", content))


def test_a_second_file_beside_one_with_both_sides_is_refused(tmp_path: Path):
    file = write(tmp_path / "a.jsonl.gz", lines({"src": "a", "tgt": "b"}))
    assert "has both languages already; leave out b.jsonl" in refusal(file, "b.jsonl")


def test_half_a_character_is_replaced_and_can_be_written_again(tmp_path: Path):
    path = write(tmp_path / "pairs.jsonl", '{"source": "Yes \\ud83d", "target": "Oui \\ud83d\\ude00"}\n')
    assert list(Bitext.open(path)) == [("Yes \ufffd", "Oui \U0001f600")]
