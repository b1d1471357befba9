"""JSON: which fields are the sides, and what each line or item may be."""

import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dragoman.data.bitext import Bitext
from dragoman.data.readers import jsonl
from tests.data.readers.files import PACK, languages, refusal, write

same_folder = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50, deadline=None)


def lines(*records: Any) -> str:
    return "".join(json.dumps(record) + "\n" for record in records)


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        ([{"translation": {"en": "Go.", "fr": "Va !"}}, {"translation": {"fr": "Oui.", "en": "Yes."}}], ("en", "fr")),
        ([{"id": 7, "source": "Go.", "target": "Va !"}, {"target": "Oui.", "source": "Yes."}], (None, None)),
        ([{"tgt": "Va !", "src": "Go."}, {"src": "Yes.", "tgt": "Oui.", "x": {}}], (None, None)),
        ([{"id": 1, "en-US": "Go.", "fr_FR": "Va !"}, {"fr_FR": "Oui.", "en-US": "Yes."}], ("en-US", "fr_FR")),
        ([{"ts": "8:30", "to": "a", "en": "Go.", "fr": "Va !"}, {"en": "Yes.", "fr": "Oui."}], ("en", "fr")),
        ([{"to": "Go.", "en": "Va !"}, {"to": "Yes.", "en": "Oui."}], ("to", "en")),
    ],
)
@pytest.mark.parametrize("suffix", ["", *PACK])
def test_the_sides_are_found_by_their_names(tmp_path: Path, records: list, expected: tuple, suffix: str):
    opened = Bitext.open(write(tmp_path / f"a.jsonl{suffix}", lines(*records)))
    assert list(opened) == list(opened) == [("Go.", "Va !"), ("Yes.", "Oui.")]
    assert (opened.name, languages(opened)) == ("a", expected)


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
    ("source", "target", "expected"),
    [
        ("sentence1", "sentence2", (None, None)), ("input", "output", (None, None)), ("Source", "Target", (None, None)),
        ("text", "translation", (None, None)), ("source_text", "target_text", (None, None)),
        ("English", "french", ("en", "fr")), ("en_text", "fr_text", ("en", "fr")), ("eng", "fra", ("eng", "fra")),
    ],
)  # fmt: skip
def test_other_usual_names_are_known(tmp_path: Path, source: str, target: str, expected: tuple):
    records = [{"id": str(n), "label": "x", target: t, source: s} for n, (s, t) in enumerate([("a", "b"), ("c", "d")])]
    opened = Bitext.open(write(tmp_path / "a.jsonl", lines(*records)), languages=expected if expected[0] else None)
    assert list(opened) == [("a", "b"), ("c", "d")]
    assert languages(opened) == expected


def test_fields_can_be_chosen(tmp_path: Path):
    file = write(
        tmp_path / "a.jsonl", lines({"question": "a", "n": 5, "answer": "b"}, {"answer": "d", "question": "c"})
    )
    assert "fields (question, n, answer); choose two texts, such as --columns question,answer, or" in refusal(file)
    assert list(Bitext.open(file, columns=("answer", "question"))) == [("b", "a"), ("d", "c")]


@pytest.mark.parametrize("indent", [None, 2, "\t"])
@pytest.mark.parametrize("chunk", [3, 61, 1 << 16])
@pytest.mark.parametrize("suffix", [".json", ".jsonl.gz"])
def test_an_array_is_read_piece_by_piece(tmp_path: Path, monkeypatch, indent, chunk: int, suffix: str):
    monkeypatch.setattr(jsonl, "CHUNK", chunk)
    records = [{"en": f'number "{n}" ]}}, é', "fr": f"nombre\n{n}", "x": [{}, []]} for n in range(23)]
    opened = Bitext.open(write(tmp_path / f"a{suffix}", "\ufeff " + json.dumps(records, indent=indent) + "\n"))
    assert list(opened) == [(record["en"], record["fr"].replace("\n", " ")) for record in records]
    assert [opened.unit, *(number for number, _ in opened.entries())] == ["item", *range(1, 24)]


def test_an_array_of_any_length_needs_little_memory(tmp_path: Path):
    record = {"source": "a sentence of some length, as there are many", "target": "a translation of that"}
    opened = Bitext.open(write(tmp_path / "a.json", json.dumps([record] * 20_011)))
    tracemalloc.start()
    try:
        assert sum(1 for _ in opened) == 20_011
        assert tracemalloc.get_traced_memory()[1] < 800_000  # the file has 2 million bytes
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ('[{"src": "a", "tgt": "b"}, {"src": ', "item 2 is not JSON"),
        ('[{"src": "a", "tgt": "b"}', "item 2 is not JSON"),
        ('[["a", "b"]]', "item 1 is JSON but no object"),
        ("[]", "an empty array"),
        (b'[{"src": "a", "tgt": "caf\xe9"}]', "cannot be read after item 0 ('utf-8' codec can't decode byte 0xe9"),
    ],
)
def test_a_broken_array_is_refused_by_its_item(tmp_path: Path, content: str | bytes, words: str):
    assert words in refusal(write(tmp_path / "a.json", content))


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
        ('{"id": "x1", "en": "a", "txt": "b"}\n', "line 1 has no two sides among its fields (id, en, txt)"),
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
