"""Documents that somebody made to break something, or that merely look strange."""

import io
import re
import zipfile

import pytest

from dragoman.documents import office, xml
from dragoman.documents.document import Code
from dragoman.documents.odt import read_odt
from dragoman.documents.registry import translate_document
from dragoman.errors import DataError
from tests.documents.engines import BACKWARDS, SAME, SHOUTING, by_word, translated


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        (
            '<p>See <img alt="the red house" src=x> over there.</p>',
            '<p>SEE <img alt="THE RED HOUSE" src=x> OVER THERE.</p>',
        ),
        (
            '<p>Click <a href=x title=\'Go "home"\'>here</a> now.</p><p>And <b title="x y">so</b> on.</p>',
            '<p>CLICK <a href=x title=\'GO "HOME"\'>HERE</a> NOW.</p><p>AND <b title="X Y">SO</b> ON.</p>',
        ),
        (
            "<p>Hi <!-- <b>old</b> --> you.</p><p>All is well.</p>",
            "<p>HI <!-- <b>old</b> --> YOU.</p><p>ALL IS WELL.</p>",
        ),
        ("<p>Hello <?php echo $name; ?>, welcome.</p>", "<p>HELLO <?php echo $name; ?>, WELCOME.</p>"),
        ("<p>Now type <code>ls</code></p>", "<p>NOW TYPE <code>ls</code></p>"),
        ("<p>Hello <![CDATA[x y]]> there.</p>", "<p>HELLO <![CDATA[x y]]> THERE.</p>"),
    ],
)
def test_what_stands_inside_of_a_sentence_stays(page, expected):
    assert translated(page, "a.html", SHOUTING) == expected


def test_marks_that_nothing_opens_or_closes_are_text():
    text = "See https://a.example/b_(c) and 2*3 *now* [^1]\n\n[^1]: Note\n"
    assert translated(text, "a.md", SAME) == text
    assert translated("Take 2*3 red dogs\n", "a.md", BACKWARDS) == "dogs red 2*3 Take\n"


LOSING = by_word(lambda word: re.sub(r"[<>&/].*", "", word))
"""Loses what is to be copied."""


def test_an_attribute_is_translated_and_no_other_one_of_its_value():
    page = '<p>Search <input name="search" placeholder="search"> here</p>'
    assert translated(page, "a.html", SHOUTING) == '<p>SEARCH <input name="search" placeholder="SEARCH"> HERE</p>'


def test_two_ends_of_a_stretch_keep_their_order():
    start, end = '<office:document-content xmlns:office="o" xmlns:text="t">', "</office:document-content>"
    text = f"{start}<text:p>It is <text:a>March 2024</text:a> now</text:p>{end}"
    (segment,) = read_odt(text).segments
    assert [part.kind for part in segment.content if isinstance(part, Code)] == ["open", "close"]
    unit = '<trans-unit id="1"><source>A <bpt id="1"/>red house<ept id="1"/> now</source></trans-unit>'
    text = translated(f'<xliff version="1.2"><file>{unit}</file></xliff>', "a.xlf", BACKWARDS)
    assert 'now <bpt id="1"/>house red<ept id="1"/> A</target>' in text


def test_too_many_elements_are_refused(monkeypatch):
    monkeypatch.setattr(xml, "MOST_ELEMENTS", 10)
    with pytest.raises(DataError, match="has more than 10 elements; cut it into parts"):
        translated("<tmx>" + "<a/>" * 30 + "</tmx>", "a.tmx", SHOUTING)


@pytest.mark.parametrize("name", ["undefined", "punycode", "none", "idna", "unicode_escape"])
def test_an_encoding_that_is_none_is_not_used(name):
    assert "A HOUSE" in translated(f'<meta charset="{name}"><p>A house</p>', "a.html", SHOUTING)


def test_a_placeholder_that_was_lost_comes_back_as_text():
    page = translated("<p>Look &lt;script&gt;alert(1)&lt;/script&gt; here.</p>", "a.html", LOSING)
    assert "&lt;script&gt;" in page
    assert "<script" not in page
    unit = (
        "<xliff version='1.2'><file><body><trans-unit id='1'><source>See https://a.example/?x=1&amp;y=2 now.</source>"
    )
    result = translated(f"{unit}</trans-unit></body></file></xliff>", "a.xlf", by_word(lambda word: word[:3]))
    assert "https://a.example/?x=1&amp;y=2" in result.partition("<target")[2]


def archive(content: bytes, packing: int = zipfile.ZIP_DEFLATED) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", packing) as file:
        file.writestr("word/document.xml", content)
    return packed.getvalue()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (archive(b"<a/>", zipfile.ZIP_BZIP2), "is packed as no office packs"),
        (archive(bytes(2**22)), "has more than 1 MiB of files"),
        (archive(bytes(2**22)).replace((2**22).to_bytes(4, "little"), (10).to_bytes(4, "little")), "a.docx"),
        (archive(b"<a>" * 100)[:60] + b"\xff" * 20 + archive(b"<a>" * 100)[80:], "is no document of an office"),
    ],
)
def test_archives_are_counted_while_they_are_unpacked(content, words, monkeypatch):
    monkeypatch.setattr(office, "MOST_BYTES", 2**20)
    monkeypatch.setattr(office, "MOST_RATIO", 2**20)
    with pytest.raises(DataError, match=words):
        translate_document(content, "a.docx", ("en", "fr"), SAME)


@pytest.mark.parametrize("name", ["a.docx", "a.odt"])
def test_archives_that_are_packed_too_well_are_refused_before_they_are_unpacked(name, monkeypatch):
    content = archive(bytes(2**23))
    monkeypatch.delattr(zipfile.ZipFile, "open")
    with pytest.raises(DataError, match=f"^{name} has files of more than 100 times its size"):
        translate_document(content, name, ("en", "fr"), SAME)


def test_formats_inside_of_each_other_stay():
    content = "<b>" * 3_000 + "two words" + "</b>" * 3_000
    assert translated(content, "a.html", SHOUTING) == content.replace("two words", "TWO WORDS")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        (
            "a.xlf",
            "<xliff><trans-unit><source>" + "<g>" * 3_000 + "x" + "</g>" * 3_000 + "</source></trans-unit></xliff>",
        ),
    ],
)
def test_elements_too_deep_inside_of_each_other_are_refused(name, content):
    with pytest.raises(DataError, match="too many elements inside of each other"):
        translated(content, name, SHOUTING)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.po", '"#\n' * 4_000),
        ("a.po", "#\n" * 4_000),
        ("a.json", '{"a": "' + "1" * 20_000 + ' a"}'),
        ("a.html", "<p>a word" + "<br>" * 20_000),
        ("a.md", "a word " + "{%" * 8_000),
    ],
)
def test_repeated_marks_take_no_time_to_speak_of(name, content):
    assert translated(content, name, SAME).rstrip() == content.rstrip()


@pytest.mark.parametrize(("name", "inner"), [("group", "trans-unit"), ("unit", "segment")])
def test_units_inside_of_what_is_not_translated_stay(name, inner):
    content = f'<xliff><{name} translate="no"><{inner}><source>a word</source></{inner}></{name}></xliff>'
    assert translated(content, "a.xlf", SHOUTING) == content


def test_a_comment_inside_of_a_message_is_not_copied_into_its_translation():
    message = 'msgid "one file"\n# see "the manual"\nmsgstr ""\n'
    filled = '#, fuzzy\nmsgid "one file"\n# see "the manual"\nmsgstr "ONE FILE"\n'
    assert translated(message, "a.po", SHOUTING) == filled


def test_catalogues_with_carriage_returns():
    entry = 'msgid "one file"\r\nmsgid_plural "many files"\r\nmsgstr[0] ""\r\nmsgstr[1] ""\r\n'
    result = translated(entry, "a.po", SHOUTING)
    assert 'msgstr[0] "ONE FILE"\r\nmsgstr[1] "MANY FILES"' in result
