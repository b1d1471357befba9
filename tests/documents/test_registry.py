"""Documents of every format: what is no text stays byte for byte, and other programs open the result."""

import gzip
import io
import json
import re
import zipfile
from html.parser import HTMLParser

import docx
import odf.opendocument
import odf.style
import odf.text
import polib
import pytest
import yaml
from docx.oxml import OxmlElement
from docx.oxml.ns import qn
from markdown_it import MarkdownIt
from translate.storage.tmx import tmxfile
from translate.storage.xliff import xlifffile

from dragoman.documents import registry
from dragoman.documents.registry import READERS, read_document, translate_document
from dragoman.errors import DataError
from tests.documents import samples
from tests.documents.engines import BACKWARDS, SAME, SHOUTING, by_word, translated

KEPT = {
    "a.txt": samples.TXT, "a.md": samples.MARKDOWN, "a.html": samples.HTML, "a.srt": samples.SRT, "a.vtt": samples.VTT,
    "a.json": samples.JSON, "a.yaml": samples.YAML,
}  # fmt: skip
"""Documents whose texts are replaced."""


@pytest.mark.parametrize("name", KEPT)
def test_the_same_words_give_the_same_document(name):
    assert translated(KEPT[name], name, SAME) == KEPT[name]


@pytest.mark.parametrize("name", KEPT)
def test_all_but_the_texts_stays(name):
    read = READERS[name[1:]]
    for engine in (BACKWARDS, SHOUTING) if name != "a.txt" else (SHOUTING,):  # where a line ends tells what goes on
        result = translated(KEPT[name], name, engine)
        assert result != KEPT[name]
        named = KEPT[name].replace('lang="en"', 'lang="fr"')
        assert skeleton(read(result)) == skeleton(read(named))


def skeleton(document):
    """A document without its texts."""
    parts, last = [], 0
    for segment in sorted(document.segments, key=lambda segment: segment.start):
        if segment.start >= last:  # and not inside of a code, such as the title of a link
            parts.append(document.text[last : segment.start])
            last = segment.end
    return [*parts, document.text[last:]]


def test_plain_text():
    result = translated(samples.TXT, "a.txt", SHOUTING)
    assert "\n- FIRST ITEM: 3 APPLES\n" in result
    assert "\n    1. NESTED ITEM\n" in result
    assert result.startswith("\ufeffA WALK IN THE PARK\n\nON SUNDAY TWO MEN AND A WOMAN WALKED THROUGH THE PARK,")


def test_markdown():
    result = translated(samples.MARKDOWN, "a.md", SHOUTING)
    assert 'A [LINK TO **BOLD** TEXT](https://example.org/a_(b) "TITLE") AND `code`, AN ![IMAGE](a.png).' in result
    assert "> A QUOTATION THAT GOES\n> OVER TWO LINES.\n" in result
    assert "2. ANOTHER ITEM\n   THAT GOES ON\n" in result
    assert "- [ ] A TASK\n" in result
    assert "| `x` | THE **FIRST** THING |\n" in result
    assert '<div title="TOOLTIP TEXT">SOME TEXT IN A <em>BLOCK</em>.</div>' in result
    assert "[^1]: THE FOOTNOTE ITSELF." in result
    shown = MarkdownIt("commonmark").render(result)
    for page, text in {"guide": "USER GUIDE", "next": "NEXT PAGE", "": "BOTH"}.items():
        assert f'<a href="https://example.org{page and "/"}{page}">{text}</a>' in shown.replace("\n", " ")
    assert "[NOTHING]" in shown
    for kept in ('title: "Not translated"', 'print("Not translated")', "    indented code", "[ref]: https"):
        assert kept in result


def test_a_mark_that_a_translation_brings_is_no_markup():
    assert translated("Two words", "a.md", by_word(lambda word: f"*{word}[")) == "\\*Two\\[ \\*words\\["
    assert (
        translated("<p>Two words</p>", "a.html", by_word(lambda word: f"<{word}&"))
        == "<p>&lt;Two&amp; &lt;words&amp;</p>"
    )
    assert translated('"Two words"', "a.json", by_word(lambda word: f'"{word}\\')) == '"\\"Two\\\\ \\"words\\\\"'


def test_web_pages():
    result = translated(samples.HTML, "a.html", SHOUTING)
    assert "<title>THE PAGE &amp; MORE</title>" in result
    assert 'content="WHAT IT IS ABOUT"' in result
    assert '<a href="x?a=1&amp;b=2">WOMAN &lt;3</a> WALK<br>SLOWLY, SEE <code>x = 1</code>.' in result
    assert 'alt="A DOG"' in result
    assert "<li>ONE<li>TWO <b>THINGS</b>" in result
    assert 'SAY <span class="notranslate">Dragoman</span> TWICE.' in result
    for kept in ("Leave this alone", 'alert("no")', "color: red", "a comment", "<pre>not this</pre>", 'value="x"'):
        assert kept in result
    parser = HTMLParser()
    parser.feed(result)
    parser.close()


def test_subtitles():
    result = translated(samples.SRT, "a.srt", SHOUTING)
    assert "A MAN WALKS DOWN THE STREET\r\nAND SEES A <i>DOG</i>.\r\n" in result
    assert "- WHO ARE YOU?\n- {\\an8}NOBODY.\n" in result
    assert re.findall(r"\d+:.*-->.*", result) == re.findall(r"\d+:.*-->.*", samples.SRT)
    assert "<v Mary>THE DOG IS <b>OLD</b>." in translated(samples.VTT, "a.vtt", SHOUTING)


def test_catalogues_are_filled_and_marked_for_review():
    catalogue = polib.pofile(translated(samples.PO, "a.po", SHOUTING))
    result = {entry.msgid: entry for entry in catalogue if not entry.obsolete}
    assert result["Open the file"].msgstr == "OPEN THE FILE"
    assert result['Cannot open <b>%s</b>: "%d" errors\n'].flags == ["fuzzy", "c-format"]
    assert result['Cannot open <b>%s</b>: "%d" errors\n'].msgstr == 'CANNOT OPEN <b>%s</b>: "%d" ERRORS\n'
    assert (result["Done"].msgstr, result["Done"].flags) == ("Fini", [])
    assert result["Old text"].msgstr == "Vieux texte"
    assert result["One dog"].msgstr_plural == {0: "ONE DOG", 1: "%d DOGS"}
    assert result["A long text\nin two lines\n"].msgstr == "A LONG TEXT\nIN TWO LINES\n"
    assert catalogue.metadata["Content-Type"] == "text/plain; charset=UTF-8"
    assert all("fuzzy" in entry.flags for entry in result.values() if entry.msgid != "Done")


def test_files_of_translators_are_filled_and_marked_for_review():
    text = translated(samples.XLIFF, "a.xlf", BACKWARDS)
    assert 'needs-review-translation">garden <x id="2"/> &amp; house <g id="1">red</g> The</target>' in text
    assert 'word <bpt id="1">&lt;b></bpt>bold<ept id="1">&lt;/b></ept> A</target>' in text
    assert '<target state="final">Fini</target>' in text
    units = xlifffile.parsestring(text.encode()).units
    assert [str(unit.target or "") for unit in units][1:4] == ["Fini", "dog A", ""]
    empty = '<file source-language="en"><trans-unit id="1"><source>A dog</source><target xml:lang="fr" state="new"/>'
    text = translated(f'<xliff version="1.2">{empty}</trans-unit></file></xliff>', "a.xlf", BACKWARDS)
    assert '<target xml:lang="fr" state="needs-review-translation">dog A</target>' in text
    text = translated(samples.XLIFF2, "a.xliff", BACKWARDS)
    assert '<target>house<ph id="2"/> <pc id="1">red</pc> The</target>' in text
    bare = re.sub(' trgLang="[^"]*"', "", samples.XLIFF2)
    assert ' trgLang="fr">' in translated(bare, "a.xliff", BACKWARDS)
    assert re.findall(r'<segment id="(..)" state="(\w+)"', text) == [
        ("s1", "translated"), ("s2", "final"), ("s3", "translated")
    ]  # fmt: skip


def test_translation_memories_get_a_variant():
    text = translated(samples.TMX, "a.tmx", BACKWARDS)
    units = tmxfile.parsestring(text.encode(), sourcelanguage="en", targetlanguage="fr").units
    assert len(units) == 3
    assert '<tuv xml:lang="fr"><seg>house <hi>red</hi> The</seg></tuv>' in text
    assert '\n  <tuv xml:lang="fr"><seg>dog <ph>{1}</ph> A</seg></tuv>' in text
    assert text.count("Fini") == 1


def test_strings():
    result = json.loads(translated(samples.JSON, "a.json", SHOUTING))
    assert result["title"] == "THE RED HOUSE"
    assert result["nested"] == {"list": ["ONE DOG", "TWO  SPACES ", True, None, "12:30"], "Save": "SAVE"}
    assert result["html"] == 'CLICK <b>HERE</b>, {name}!\nSECOND LINE "QUOTED" É'
    assert (result["id"], result["url"]) == tuple(json.loads(samples.JSON)[k] for k in ("id", "url"))
    assert result["icu"] == "{n, plural, one {# DOG} other {# DOGS}}"
    values = yaml.safe_load(translated(samples.YAML, "a.yaml", SHOUTING))
    assert (values["title"], values["quoted"], values["double"]) == ("THE RED HOUSE", "IT'S HERE", 'A "WORD" HERE')
    assert values["list"] == ["ONE DOG", "TWO CATS"]
    assert values["block"] == "FIRST LINE\nOF THE TEXT.\n"
    assert values["alias"] == values["anchor"] == "HELLO THERE"


@pytest.mark.parametrize("header", ["|", "|-", ">", ">-", ">+", "|2", ">2-"])
@pytest.mark.parametrize(
    "lines",
    [
        "one\n two",
        "\n one\n\n\n two\nthree",
        "one\ntwo\n\n  more\n  yet\nleft\n",
        "   begins\nless",
        "one\ntwo\n\nthree\n\n\nfour",
    ],
)
def test_blocks_of_yaml_mean_the_same_afterwards(header, lines):
    indented = "".join(f"  {line}\n" if line.strip() else "\n" for line in lines.split("\n"))
    text = f"key: {header}\n{indented}after: 1\n"
    try:
        values = yaml.safe_load(text)
    except yaml.YAMLError:
        return  # a first line with more spaces than the others needs its number in the header
    assert yaml.safe_load(translated(text, "a.yaml", SHOUTING)) == values | {"key": values["key"].upper()}


@pytest.fixture(scope="module")
def word_document() -> bytes:
    document = docx.Document()
    document.add_heading("The red house", 1)
    paragraph = document.add_paragraph("A man and ")
    paragraph.add_run("a woman").bold = True
    paragraph.add_run(" walk ")
    paragraph.add_run("slowly").italic = True
    paragraph.add_run(".")
    paragraph = document.add_paragraph("One")
    paragraph.add_run().add_break()
    paragraph.add_run("two\tthree")
    document.add_table(1, 2).cell(0, 1).text = "Cell & two"
    document.sections[0].header.paragraphs[0].text = "The header"
    output = io.BytesIO()
    document.save(output)
    return output.getvalue()


def test_documents_of_word(word_document):
    same = translate_document(word_document, "a.docx", ("en", "fr"), SAME).content
    assert members(same) == members(word_document)
    result = docx.Document(io.BytesIO(translate_document(word_document, "a.docx", ("en", "fr"), BACKWARDS).content))
    runs = [[(run.text, bool(run.bold), bool(run.italic)) for run in paragraph.runs] for paragraph in result.paragraphs]
    assert runs[0] == [("house red The", False, False)]
    assert runs[1] == [
        ("slowly", False, True), (". walk ", False, False), ("woman a", True, False), (" and man A", False, False)
    ]  # fmt: skip
    assert result.tables[0].cell(0, 1).text == "two & Cell"
    assert result.sections[0].header.paragraphs[0].text == "header The"


BEGIN, SEPARATE, END = (("fldChar", kind) for kind in ("begin", "separate", "end"))
REFERENCE, PAGE, INDEX = (("instrText", codes) for codes in (" REF house \\h ", " PAGE ", " XE house "))
SEE, RED, HOUSE, AS = (("t", text) for text in ("See ", "the red ", "house", ", as a book says."))
FIELDS = {
    "runs": [[SEE], [BEGIN], [REFERENCE], [SEPARATE], [RED], [HOUSE], [END], [AS]],
    "one run": [[SEE], [BEGIN, REFERENCE, SEPARATE, ("t", "the red house"), END], [AS]],
    "a field among codes": [
        [SEE], [BEGIN], [REFERENCE], [BEGIN], [PAGE], [SEPARATE], [("t", "3")], [END], [PAGE], [SEPARATE], [RED],
        [HOUSE], [END], [AS],
    ],
    "a field in a result": [
        [BEGIN], [REFERENCE], [SEPARATE], [RED], [BEGIN], [PAGE], [SEPARATE], [HOUSE], [END], [END], [AS],
    ],
    "no result": [[SEE], [HOUSE], [BEGIN, INDEX, END], [BEGIN], [INDEX], [END], [AS]],
    "more paragraphs": [[BEGIN], [REFERENCE], [SEPARATE], [SEE], [HOUSE], [AS]],
}  # fmt: skip
"""Paragraphs of Word: what stands in each run."""


@pytest.mark.first_is_quick
@pytest.mark.parametrize("runs", FIELDS.values(), ids=FIELDS)
def test_fields_of_word_stay_whole_around_their_words(runs):
    document = docx.Document()
    paragraph = document.add_paragraph()
    for parts in runs:
        run = paragraph.add_run()
        run.bold = any("house" in value for kind, value in parts if kind == "t") or None
        for kind, value in parts:
            element = OxmlElement(f"w:{kind}")
            if kind == "fldChar":
                element.set(qn("w:fldCharType"), value)
            elif kind == "instrText":
                element.text = value
            else:
                run.add_text(value)
                continue
            run._r.append(element)
    document.save(output := io.BytesIO())
    content, languages = output.getvalue(), ("en", "fr")
    assert members(translate_document(content, "a.docx", languages, SAME).content) == members(content)
    shouted = members(translate_document(content, "a.docx", languages, SHOUTING).content)["word/document.xml"]
    assert re.sub(rb"(<w:t\b.*?>).*?<", rb"\1<", shouted) == re.sub(
        rb"(<w:t\b.*?>).*?<", rb"\1<", members(content)["word/document.xml"]
    )
    changed = docx.Document(io.BytesIO(translate_document(content, "a.docx", languages, BACKWARDS).content))
    assert fields_of(changed) == fields_of(document)
    assert changed.paragraphs[0].text.startswith("says. book a as ")


def fields_of(document) -> tuple[list[str], set[str]]:
    """The codes of all fields of a document of Word, and the words inside of fields."""
    codes, words, depth = [], set(), 0
    for element in document.element.body.iter(qn("w:fldChar"), qn("w:instrText"), qn("w:t")):
        if element.tag == qn("w:t"):
            words |= set(re.findall(r"\w+", element.text)) if depth else set()
            continue
        codes.append(element.get(qn("w:fldCharType")) or element.text)
        depth += {"begin": 1, "end": -1}.get(codes[-1], 0)
    return codes, words


def members(content: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def test_open_documents():
    document = odf.opendocument.OpenDocumentText()
    bold = odf.style.Style(name="Bold", family="text")
    document.automaticstyles.addElement(bold)
    paragraph = odf.text.P(text="A man and ")
    paragraph.addElement(odf.text.Span(stylename=bold, text="a woman"))
    paragraph.addText(" walk")
    paragraph.addElement(odf.text.LineBreak())
    paragraph.addText("slowly.")
    note, body = odf.text.Note(noteclass="footnote"), odf.text.NoteBody()
    note.addElement(odf.text.NoteCitation(text="1"))
    body.addElement(odf.text.P(text="The note itself"))
    note.addElement(body)
    paragraph.addElement(note)
    document.text.addElement(paragraph)
    output = io.BytesIO()
    document.save(output)
    content = output.getvalue()
    assert members(translate_document(content, "a.odt", ("en", "fr"), SAME).content) == members(content)
    result = translate_document(content, "a.odt", ("en", "fr"), BACKWARDS).content
    assert zipfile.ZipFile(io.BytesIO(result)).namelist()[0] == "mimetype"
    odf.opendocument.load(io.BytesIO(result))
    text = members(result)["content.xml"].decode()
    assert '<text:span text:style-name="Bold">woman a</text:span> and man A<text:note' in text
    assert "<text:p>itself note The</text:p>" in text


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.json", b"{", "is no JSON"),
        ("a.yaml", b"a: [", "is no YAML"),
        ("a.xlf", b"<xliff><a></xliff>", "is no well-formed XML"),
        ("a.tmx", b'<!DOCTYPE x [<!ENTITY a "b">]><x>&a;</x>', "defines entities"),
        ("a.docx", b"PK\x03\x04nothing", "is no document of an office"),
        ("a.txt", b"\xff\xfe\x00\xd8", "is no text in"),
        ("a.md", b"caf\xe9", "is no text in utf-8, see byte 3"),
    ],
)
def test_what_is_no_document_is_refused_by_name(name, content, words):
    with pytest.raises(DataError, match=f"^{name} {words}"):
        translate_document(content, name, ("en", "fr"), SAME)


def test_encodings_that_documents_declare_are_kept():
    page = '<meta charset="iso-8859-1"><p>Le café</p>'.encode("latin-1")
    assert translate_document(
        page, "a.html", ("en", "fr"), SHOUTING
    ).content == '<meta charset="iso-8859-1"><p>LE CAFÉ</p>'.encode("latin-1")
    text = "\ufeffTwo words".encode("utf-16-le")
    assert translate_document(text, "a.txt", ("en", "fr"), SHOUTING).content == "\ufeffTWO WORDS".encode("utf-16-le")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.json", '{"lang": "en", "port": 80}'),
        ("a.json", '{"@@locale": "en"}'),
        ("a.json", '{"en": {"port": 80}, "de": {"port": 80}}'),
        ("a.yml", "en:\n  port: 80\n"),
        ("a.html", '<html lang="en"><meta charset=shift_jis><p>\u222a 12</p>'),
    ],
)
def test_where_nothing_is_translated_no_byte_changes(name, content):
    """Nor does the name of the language, since it is still that of the texts."""
    encoded = content.replace("\u222a", "\udc81").encode("cp932", "surrogateescape").replace(b"\x81", b"\xfa\x54")
    assert translate_document(encoded, name, ("en", "fr"), SHOUTING).content == encoded


def test_an_office_document_without_words_keeps_its_bytes():
    document = docx.Document()
    document.add_paragraph("12")
    output = io.BytesIO()
    document.save(output)
    with zipfile.ZipFile(output, "a") as archive:
        archive.comment = b"signed"
    assert translate_document(output.getvalue(), "a.docx", ("en", "fr"), SHOUTING).content == output.getvalue()


def test_a_key_of_yaml_that_is_no_text_without_quotes_gets_them():
    content = b"en:\n  title: hello there\n"
    result = translate_document(content, "a.yml", ("en", "no"), SHOUTING).content.decode()
    assert yaml.safe_load(result) == {"no": {"title": "HELLO THERE"}}


def test_references_of_webvtt_are_characters():
    cue = "WEBVTT\n\n00:00:01.000 --> 00:00:02.000\nAT&amp;T and 2 &lt; 3, <i>here</i>&nbsp;now\n"
    assert translated(cue, "a.vtt", SAME) == cue
    shouted = translated(cue, "a.vtt", SHOUTING)
    assert "AT&amp;T AND 2 &lt; 3, <i>HERE</i> NOW" in shouted
    (segment,) = READERS[".vtt"](cue).segments
    assert "".join(part for part in segment.content if isinstance(part, str)) == "AT&T and 2 < 3, here\u00a0now"
    subtitles = cue.removeprefix("WEBVTT\n\n").replace(".000", ",000")  # of SRT, which has none
    assert "AT&AMP;T" in translated(subtitles, "a.srt", SHOUTING)


def test_a_packed_document_is_read_up_to_the_limit_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(registry, "MOST_BYTES", 1000)
    (tmp_path / "a.html").write_bytes(gzip.compress(b"<p>word</p>" * 10_000))
    content = read_document(tmp_path / "a.html")
    assert len(content) == 1001
    with pytest.raises(DataError, match="is larger than"):
        translate_document(content, "a.html", ("en", "fr"), SAME)


@pytest.mark.parametrize("escape", ["\\8", "\\9folder", "\\\u00b2"])
def test_an_escape_that_a_catalogue_does_not_know_is_its_character(escape):
    content = f'msgid "see {escape}"\nmsgstr ""\n'
    assert translated(content, "a.po", SHOUTING).count("SEE") == 1


def test_a_plural_whose_first_line_is_damaged_stays_as_it_is():
    content = 'msgid "one file" broken\nmsgid_plural "many files"\nmsgstr[0] ""\nmsgstr[1] ""\n'
    assert translated(content, "a.po", SHOUTING) == content
