"""Streams that cannot spell a character, that are full, or that are closed."""

import io
import json
import math
import os
import sys
from types import SimpleNamespace

import pytest

from dragoman.system.streams import fails, is_utf8, json_line, results, settle_streams, spelled

TEXT = "Größe ▁ ΑΒΓ 语 😀 \udcff"
"""The last one is a byte of a file name that is no text."""


@pytest.fixture
def stdout(monkeypatch):
    """A function that makes stdout a stream of an encoding, and gives its bytes."""

    def open_(encoding: str, errors: str = "strict") -> io.BytesIO:
        content = io.BytesIO()
        stream = io.TextIOWrapper(content, encoding=encoding, errors=errors, write_through=True)
        monkeypatch.setattr(sys, "stdout", stream)
        return content

    return open_


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252", "cp437", "utf-8", "utf-16", "koi8-r"])
def test_every_text_is_written_in_every_encoding(stdout, encoding):
    content = stdout(encoding)
    settle_streams()
    print(TEXT)
    assert content.getvalue().decode(encoding).startswith("Gr")
    assert "\\udcff" in content.getvalue().decode(encoding)


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252", "utf-8", "utf-16", "koi8-r"])
def test_json_says_the_same_in_every_encoding(stdout, encoding):
    content = stdout(encoding)
    settle_streams()
    print(json_line({TEXT: [TEXT, 1.5]}))
    assert json.loads(content.getvalue().decode(encoding)) == {TEXT: [TEXT, 1.5]}


def test_json_is_legible_where_it_can_be(stdout):
    stdout("utf-8")
    assert json_line("é") == '"é"'
    stdout("latin-1")
    assert json_line("é") == r'"\u00e9"'


def test_a_stream_without_an_encoding_or_of_an_unknown_one_is_no_error():
    assert is_utf8(io.StringIO())
    assert not is_utf8(SimpleNamespace(encoding="of-our-own"))


def test_closed_streams_are_opened(monkeypatch):
    monkeypatch.setattr(sys, "stdout", None)
    settle_streams()
    with sys.stdout:
        print("to nobody")


def test_translations_are_utf_8_in_files_whatever_the_locale_is(monkeypatch, tmp_path):
    with open(tmp_path / "out", "w+", encoding="latin-1") as file:
        monkeypatch.setattr(sys, "stdout", file)
        with results() as out:
            print(TEXT, file=out)
    assert (tmp_path / "out").read_text("utf-8") == TEXT.replace("\udcff", "\\udcff") + "\n"


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no device that is always full")
def test_a_full_disk_behind_stdout_is_told_by_its_name(monkeypatch):
    file = open("/dev/full", "w")  # noqa: SIM115
    monkeypatch.setattr(sys, "stdout", file)
    with pytest.raises(OSError, match="stdout"), results() as out:
        out.write("x" * 100_000)
    print("x")
    assert fails(file)
    with pytest.raises(OSError, match="No space"):
        file.close()


def test_columns_are_as_wide_as_what_is_written(stdout):
    stdout("ascii")
    assert spelled("▁x") == r"\u2581x"
    stdout("utf-8")
    assert spelled("▁x") == "▁x"


def test_numbers_that_are_not_finite_are_null():
    assert json.loads(json_line({"a": [1.5, math.inf, (math.nan, "x")], "b": -math.inf})) == {
        "a": [1.5, None, [None, "x"]], "b": None
    }  # fmt: skip
