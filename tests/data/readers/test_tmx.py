"""Translation memories: which variants become pairs, what of their markup is text, what is refused."""

import time
import tracemalloc
import xml.etree.ElementTree as ElementTree
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dragoman.data.bitext import Bitext
from dragoman.data.readers import tmx, xml_units
from dragoman.errors import DataError
from dragoman.formats import xml
from tests.data.readers.files import PACK, languages, refusal, write

same_folder = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40, deadline=None)
HEAD = (
    '<?xml version="1.0" encoding="UTF-8"?>\n<tmx version="1.4">\n<header srclang="{}" segtype="sentence"/>\n<body>\n'
)
TAIL = "</body>\n</tmx>\n"


def unit(**variants: str) -> str:
    """A unit with the note that tools add; en_US is written en-US."""
    inner = "".join(
        f'<tuv xml:lang="{code.replace("_", "-")}"><note>no text</note><seg>{text}</seg></tuv>'
        for code, text in variants.items()
    )
    return f"<tu><prop>no text</prop>{inner}</tu>\n"


def memory(*units: str, source: str = "*all*") -> str:
    return HEAD.format(source) + "".join(units) + TAIL


@pytest.mark.parametrize("suffix", ["", *PACK])
def test_the_source_is_what_the_header_says(tmp_path: Path, suffix: str):
    units = unit(fr="Va !", en_US="Go."), unit(en_US="Yes &amp; no.", fr="Oui\n  et non.")
    opened = Bitext.open(write(tmp_path / f"a.tmx{suffix}", memory(*units, source="EN")))
    assert list(opened) == list(opened) == [("Go.", "Va !"), ("Yes & no.", "Oui et non.")]
    assert (opened.name, languages(opened)) == ("a", ("en-US", "fr"))
    assert languages(Bitext.open(write(tmp_path / "b.tmx", memory(*units)))) == ("fr", "en-US")


def test_of_many_languages_two_are_chosen_and_other_units_counted(tmp_path: Path):
    units = unit(en="Go.", de="Geh.", fr="Va !"), unit(en_GB="Yes.", de="Ja."), unit(EN="No.", fr_CA="Non."), unit()
    file = write(tmp_path / "a.tmx", memory(*units))
    assert "a.tmx has 3 languages (en, de, fr)" in refusal(file)
    assert "a.tmx has no text in 'it', only in en, de, fr" in refusal(file, languages=("en", "it"))
    cleaned = Bitext.open(file, languages=("fr", "en")).cleaned()
    assert list(cleaned) == [("Va !", "Go."), ("Non.", "No.")]
    assert cleaned.report.dropped == {"unit has no text in fr": 2}
    assert cleaned.report.read == 4


def test_languages_that_only_later_units_have_do_not_count(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(tmx, "LANGUAGE_UNITS", 13)
    units = [unit(en="Go.", fr="Va !")] * 13 + [unit(it="Vai !")]
    file = write(tmp_path / "a.tmx", memory(*units))
    assert sum(1 for _ in Bitext.open(file)) == 13
    assert "a.tmx holds no sentence pairs" in refusal(file, languages=("fr", "it"))
    assert "no text in 'de', only in en, fr, it" in refusal(file, languages=("en", "de"))


@pytest.mark.parametrize(
    ("segment", "text"),
    [
        ('<bpt i="1">&lt;b&gt;</bpt>W<ept i="1">&lt;/b&gt;</ept>ord', "Word"),
        ('Press <ph x="1">{0}</ph>.', "Press ."),
        ('two<ph type="lb">\n</ph><ph/>lines<ut>x</ut>', "two lines"),
        ('a<it pos="begin">&lt;i&gt;</it>b', "ab"),
        ('<hi type="x">all <hi>of</hi></hi> it', "all of it"),
        ("a <ph>footnote <sub>of <ph>another</ph> text</sub></ph>b", "a b"),
        ("&#x41;&lt;b&gt; <![CDATA[<c>&amp;]]><!-- none -->", "A<b> <c>&amp;"),
        ("", ""),
    ],
)
def test_codes_are_no_text_and_what_they_enclose_is(tmp_path: Path, segment: str, text: str):
    file = write(tmp_path / "a.tmx", memory(unit(en=segment, fr="x")))
    assert list(Bitext.open(file, languages=("en", "fr"))) == [(text, "x")]


text = st.text(st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\ufffe\uffff"))


@given(pairs=st.lists(st.tuples(text, text), min_size=1), encoding=st.sampled_from(["utf-8", "utf-16", "us-ascii"]))
@same_folder
def test_what_an_xml_library_writes_is_read_again(tmp_path: Path, pairs: list[tuple[str, str]], encoding: str):
    root = ElementTree.Element("tmx")
    for pair in pairs:
        unit = ElementTree.SubElement(root, "tu")
        for language, side in zip(("en", "fr"), pair, strict=True):
            variant = ElementTree.SubElement(unit, "tuv", {"xml:lang": language})
            ElementTree.SubElement(variant, "seg").text = side
    ElementTree.ElementTree(root).write(tmp_path / "a.tmx", encoding=encoding, xml_declaration=True)
    assert list(Bitext.open(tmp_path / "a.tmx")) == pairs


@given(position=st.integers(0, 10_000), new=st.binary(max_size=7), length=st.integers(0, 7))
@same_folder
def test_a_damaged_file_is_read_or_refused(tmp_path: Path, position: int, new: bytes, length: int):
    content = memory(*[unit(en=f"<bpt>x</bpt>{n}", fr="é") for n in range(23)]).encode()
    position %= len(content)
    (tmp_path / "a.tmx").write_bytes(content[:position] + new + content[position + length :])
    with suppress(DataError):
        assert len(list(Bitext.open(tmp_path / "a.tmx"))) <= 23


@pytest.mark.parametrize("doctype", ['<!DOCTYPE tmx SYSTEM "tmx11.dtd">', "<!DOCTYPE tmx [<!ELEMENT tmx ANY>]>"])
def test_a_document_type_is_of_no_account(tmp_path: Path, doctype: str):
    """OmegaT writes one, and no file has to be there."""
    (tmp_path / "tmx11.dtd").write_text("no definition of a document type", encoding="utf-8")
    content = memory(unit(en="Yes.", fr="Oui.")).replace("\n", f"\n{doctype}\n", 1)
    for name in ("a.tmx", "a.xml"):
        assert list(Bitext.open(write(tmp_path / name, content))) == [("Yes.", "Oui.")]


LAUGHS = "".join(f'<!ENTITY a{n} "{f"&a{n - 1};" * 10}">' for n in range(1, 23))


@pytest.mark.parametrize(
    "doctype",
    [
        f'<!DOCTYPE tmx [<!ENTITY a0 "ha">{LAUGHS}]>',
        '<!DOCTYPE tmx [<!ENTITY a22 SYSTEM "file:///etc/passwd">]>',
    ],
)
def test_entities_are_refused_at_once(tmp_path: Path, doctype: str):
    content = memory(unit(en="&a22;", fr="x")).replace("\n", f"\n\n{doctype}\n", 1)
    started = time.process_time()
    assert "a.tmx, line 3 defines entities" in refusal(write(tmp_path / "a.tmx", content))
    assert time.process_time() - started < 5  # forever, if they were resolved


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (memory(unit(en="a", fr="b"), "<tu>\n</body>"), "a.tmx, line 7 is no well-formed XML (mismatched tag)"),
        (memory(unit(en="a", fr="b")).removesuffix("</tmx>\n"), "line 7 is no well-formed XML (no element found)"),
        (memory(unit(en="a", fr="b&c")), "line 5 is no well-formed XML (not well-formed (invalid token))"),
        (memory(unit(en="a", fr="b\x0bc")), "a.tmx holds no sentence pairs"),
        (
            memory(unit(en="a", fr="b")).replace("UTF-8", "klingon", 1),
            "line 1 cannot be read: unknown encoding: klingon",
        ),
        (memory(unit(en="a")), "a.tmx has text in en alone"),
        (memory("<seg>outside of units</seg>"), "a.tmx has text in no language that it names"),
        (memory(unit(en="a"), unit(fr="b")), "a.tmx holds no sentence pairs"),
    ],
)
def test_other_files_are_refused(tmp_path: Path, content: str, words: str):
    assert words in refusal(write(tmp_path / "a.tmx", content))


def test_a_packed_memory_that_breaks_off_is_refused(tmp_path: Path):
    file = write(tmp_path / "a.tmx.xz", memory(*[unit(en=f"{n}", fr="b") for n in range(101)]))
    file.write_bytes(file.read_bytes()[:-40])
    assert "cannot be read on" in refusal(file)


def test_a_segment_without_end_is_refused(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(xml_units, "MAX_TEXT", 1_009)
    assert len(list(Bitext.open(write(tmp_path / "a.tmx", memory(unit(en="x" * 1_008, fr="y")))))) == 1
    message = refusal(write(tmp_path / "a.tmx", memory(unit(en="x" * 1_009, fr="y"))))
    assert "a.tmx, line 5 cannot be read: a unit has more than 1,009 characters" in message


def test_a_unit_that_fills_the_memory_is_refused(tmp_path: Path):
    one = '<tuv xml:lang="en"><seg>a</seg></tuv>'
    assert "a unit has more than 1,000 segments" in refusal(
        write(tmp_path / "a.tmx", memory(f"<tu>{one * 1_001}</tu>"))
    )
    deep = f"<tu>{'<note>' * 1_001}{'</note>' * 1_001}</tu>"
    assert "more than 1,000 elements stand inside of each other" in refusal(write(tmp_path / "a.tmx", memory(deep)))


@pytest.mark.parametrize("begin", ["<!-- ", '<prop x="', "<tu"])
def test_a_tag_without_end_is_refused_before_it_fills_the_memory(tmp_path: Path, monkeypatch, begin: str):
    monkeypatch.setattr(xml, "MAX_TAG", 1 << 20)
    content = memory(unit(en="a", fr="b"), begin + "x" * 1_000_003 + "\n", unit(en="a", fr="b"))
    assert "no well-formed XML" in refusal(write(tmp_path / "a.tmx.gz", content))
    content = memory(unit(en="a", fr="b"), begin + "x" * 2_000_003 + "\n", unit(en="a", fr="b"))
    assert "a.tmx.gz, line 6 cannot be read: a tag or comment is longer" in refusal(
        write(tmp_path / "a.tmx.gz", content)
    )


def test_a_pass_needs_no_memory_for_the_file(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(xml, "CHUNK", 4_099)
    units = (unit(en=f"sentence number {n}", fr=f"phrase numéro {n}") for n in range(503))
    bitext = Bitext.open(write(tmp_path / "a.tmx", memory(*units)))
    tracemalloc.start()
    try:
        assert sum(1 for _ in bitext) == 503
        assert tracemalloc.get_traced_memory()[1] < 100_000  # the file would add 90,000, its tree a million
    finally:
        tracemalloc.stop()
