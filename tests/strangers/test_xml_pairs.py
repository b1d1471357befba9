"""Pairs from XLIFF and TMX as other tools write them: what is translated, and what a damaged character costs."""

from pathlib import Path

import pytest

from dragoman.data.bitext import Bitext
from dragoman.errors import DataError
from dragoman.formats.xliff import progress

UNITS = [
    ("<source>Good morning</source><target>Buenos días</target>", "", True),
    ("<target>Buenos días</target><source>Good morning</source>", "", True),
    ("<source>OK</source><target>OK</target>", ' approved="yes"', True),
    ('<source>OK</source><target state="translated">OK</target>', "", True),
    ("<source>Good morning</source><target>Good morning</target>", "", False),
    ("<source>Good morning</source><target>__Good morning</target>", "", False),
    ('<source>Good morning</source><target state="needs-translation">Buenas</target>', "", False),
    ("<source>Good morning</source><target/>", "", False),
]


@pytest.mark.parametrize(("inner", "attributes", "is_pair"), UNITS)
def test_pairs_are_what_documents_call_translated(tmp_path: Path, inner: str, attributes: str, is_pair: bool):
    sound = "<trans-unit><source>Yes</source><target>Sí</target></trans-unit>"
    body = f"<trans-unit{attributes}>{inner}</trans-unit>{sound}"
    file = tmp_path / "a.xlf"
    file.write_text(
        f'<xliff version="1.2"><file source-language="en" target-language="es">{body}</file></xliff>', encoding="utf-8"
    )
    assert len(list(Bitext.open(file))) == 1 + is_pair


@pytest.mark.parametrize(
    ("target", "state", "expected"),
    [
        ("Hola", None, "done"),
        ("Hola", "new", "draft"),
        ("Hola", "initial", "draft"),
        ("Hola", "x-checked", "done"),
        ("Hello", "x-checked", "done"),
        ("Hello", "new", "missing"),
        (" Hello\n", None, "missing"),
        ("", "translated", "missing"),
        ("", "final", "done"),
    ],
)
def test_how_far_a_translation_is(target: str, state: str | None, expected: str):
    assert progress("Hello", target, state) == expected


def memory(*texts: str) -> str:
    units = "".join(
        f'<tu><tuv xml:lang="en"><seg>{text}</seg></tuv><tuv xml:lang="fr"><seg>x</seg></tuv></tu>' for text in texts
    )
    return f'<?xml version="1.0" encoding="UTF-8"?>\n<!DOCTYPE tmx SYSTEM "tmx14.dtd">\n<tmx><body>{units}</body></tmx>'


@pytest.mark.parametrize("bad", ["&#x1F;", "\x0b", "&#xDC00;", "&#11;", "\uffff", "&#x110000;"])
def test_a_character_that_xml_forbids_costs_its_unit(tmp_path: Path, bad: str):
    file = tmp_path / "a.tmx"
    file.write_text(memory("one", f"two{bad}", "three &#233;&#x1F600;"), encoding="utf-8")
    cleaned = Bitext.open(file).cleaned()
    assert [source for source, _ in cleaned] == ["one", "three é😀"]
    assert cleaned.report.dropped == {"has a character that XML forbids": 1}


def test_references_across_two_parts_of_a_file_are_read(tmp_path: Path, monkeypatch):
    file = tmp_path / "a.tmx"
    file.write_text(memory("one", "two&#x1F;", "three&#x41;"), encoding="utf-8")
    for size in range(1, 40):
        monkeypatch.setattr("dragoman.formats.xml.CHUNK", 256 + size)
        assert [source for source, _ in Bitext.open(file)] == ["one", "threeA"]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "shift_jis", "gb18030", "utf-8-sig"])
def test_memories_in_other_encodings_are_read(tmp_path: Path, encoding: str):
    file = tmp_path / "a.tmx"
    file.write_bytes(memory("日本語").replace("UTF-8", encoding.removesuffix("-sig")).encode(encoding))
    assert list(Bitext.open(file)) == [("日本語", "x")]


def test_bytes_of_another_encoding_are_named_with_their_line(tmp_path: Path):
    file = tmp_path / "a.tmx"
    file.write_bytes(memory("café").encode("latin-1"))
    with pytest.raises(DataError, match=r"a\.tmx, line 3 is not valid utf-8 \(byte 0xE9\); save the file as UTF-8"):
        list(Bitext.open(file))
    assert list(Bitext.open(file, replace_bad_bytes=True)) == [("caf\N{REPLACEMENT CHARACTER}", "x")]
