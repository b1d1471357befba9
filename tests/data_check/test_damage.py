"""Damaged text is seen, and text that only looks unusual is not."""

import pytest

from dragoman.data_check.damage import damages, misread

WORDS = [
    "déjà vu",
    "Größe",
    "l’été",
    "zażółć gęślą",
    "привет",
    "καλημέρα",
    "こんにちは",
    "中文",
    "😀 ok",
    "5 €",
    "naïve",
]


@pytest.mark.parametrize("encoding", ["latin-1", "cp1252"])
@pytest.mark.parametrize("word", WORDS)
def test_utf_8_read_as_something_else_is_seen_in_any_language(word, encoding):
    # Bytes that Windows-1252 has no character for are read as Latin-1 has them, by browsers too.
    read = "".join(bytes([byte]).decode(encoding, "ignore") or chr(byte) for byte in word.encode())
    assert misread(read)
    assert list(damages(word)) == []


@pytest.mark.parametrize(
    "text",
    [
        "« DÉJÀ VÉ»", "“CAFÉ”", "NÃO", "orð…”»", "São Paulo…", "É…", "à « lui »", "20 °C", "AT&T; R&D", "a < b > c",
        "a\rb", "1<2", "https://x.org/?a=b&c=d;", "a\tb", "Ärzte", "où\u00a0?", "\u202fça\u00ad", "<3",
        "< p >", "&;", "& lt;",
    ],
)  # fmt: skip
def test_unusual_text_is_not_damaged(text):
    assert list(damages(text)) == []


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("caf\ufffd", ["replaced"]),
        ("bell\x07", ["control"]),
        ("next\x85line", ["control"]),
        ("stone &amp; tile", ["markup"]),
        ("it&#39;s &#xE9;", ["markup"]),
        ('<a href="x">here</a><br/>', ["markup"]),
        ("<b>caf\ufffd\x00</b>", ["control", "replaced", "markup"]),
        ("cafÃ©\x07", ["misread"]),
    ],
)
def test_each_kind_of_damage_is_named(text, kinds):
    assert list(damages(text)) == kinds
