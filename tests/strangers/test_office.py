"""Documents of Word and OpenDocument as strangers write them: formats, fields, boxes, parts and languages."""

import io
import re
import time
import zipfile

import docx
import pytest
from docx.oxml import parse_xml

from dragoman.documents.document import FormatError
from dragoman.documents.docx import read_docx
from dragoman.documents.odt import read_odt
from dragoman.documents.registry import translate_document
from dragoman.documents.translate import translate_documents
from dragoman.errors import DataError
from tests.documents.engines import BACKWARDS, SAME, SHOUTING

SPACES = {
    "w": "http://schemas.openxmlformats.org/wordprocessingml/2006/main",
    "wp": "http://schemas.openxmlformats.org/drawingml/2006/wordprocessingDrawing",
    "a": "http://schemas.openxmlformats.org/drawingml/2006/main",
    "m": "http://schemas.openxmlformats.org/officeDocument/2006/math",
    "c": "http://schemas.openxmlformats.org/drawingml/2006/chart",
    "mc": "http://schemas.openxmlformats.org/markup-compatibility/2006",
    "v": "urn:schemas-microsoft-com:vml",
}
BEGIN, SEPARATE, END = (f'<w:fldChar w:fldCharType="{kind}"/>' for kind in ("begin", "separate", "end"))


def word(body, engine=BACKWARDS):
    """The paragraphs of a document of Word after they were translated."""
    namespaces = " ".join(f'xmlns:{name}="{uri}"' for name, uri in SPACES.items())
    start = f"<w:body {namespaces}>"
    (text,) = translate_documents([read_docx(f"{start}{body}</w:body>")], engine)
    parse_xml(text)
    return text.removeprefix(start).removesuffix("</w:body>")


def run(text, properties=""):
    """A run of Word; text may have elements."""
    inside = "".join(
        part if part.startswith("<") else f'<w:t xml:space="preserve">{part}</w:t>'
        for part in re.split("(<.*>)", text)
        if part
    )
    return f"<w:r>{f'<w:rPr>{properties}</w:rPr>' if properties else ''}{inside}</w:r>"


def field(codes, result):
    """A field in runs of its own; its result is given as runs."""
    return f"{run(BEGIN)}{run(f'<w:instrText> {codes} </w:instrText>')}{run(SEPARATE)}{result}{run(END)}"


def formats(paragraph):
    """The words of a paragraph of Word, each with the properties of its run."""
    found = []
    for properties, inside in re.findall(r"<w:r>(?:<w:rPr>(.*?)</w:rPr>)?(.*?)</w:r>", paragraph):
        found += [(word_, properties) for word_ in re.sub("<.*?>", "", inside).split()]
    return found


BOLD, ITALIC = "<w:b/>", "<w:i/>"


def test_a_run_without_properties_does_not_take_those_of_the_next_one():
    body = run("big ", BOLD) + run("and red") + run(" houses", BOLD) + run(" stand", ITALIC) + run(" here")
    found = formats(word(f"<w:p>{body}</w:p>"))
    assert found == [("here", ""), ("stand", ITALIC), ("houses", BOLD), ("red", ""), ("and", ""), ("big", BOLD)]


def test_runs_that_people_see_no_difference_between_are_one_text():
    german = '<w:lang w:val="de-DE"/>'
    body = (
        f"<w:p>{run('See the Hel', german)}"
        f'<w:proofErr w:type="spellStart"/><w:r w:rsidR="00A1"><w:rPr><w:noProof/></w:rPr><w:t>lo</w:t></w:r>'
        '<w:r><w:rPr><w:rFonts w:hint="eastAsia"/></w:rPr><w:t xml:space="preserve"> page</w:t></w:r></w:p>'
    )
    assert re.sub("<.*?>", "", word(body)) == "page Hello the See"
    assert word(body).count("<w:t") == 1


def test_the_document_stays_where_the_translation_is_the_same():
    body = f"<w:p>\n {run('Hel')}<w:proofErr w:type='x'/>{run('lo', '<w:noProof/>')} {run('you', BOLD)}</w:p>"
    assert word(body, SAME) == body


@pytest.mark.parametrize("codes", ["PAGE", "NUMPAGES", "DATE \\@ yyyy", "MERGEFIELD name", "SEQ Figure", "PAGEREF _1"])
def test_results_of_fields_that_are_computed_are_copied(codes):
    own = field(codes, run("now x"))
    found = word(f"<w:p>{run('Look at ')}{own}{run(' of it')}</w:p>")
    assert own in found
    assert re.sub("<.*?>", "", found.replace(own, "F")) == "it of F at Look"
    simple = f'<w:fldSimple w:instr=" {codes} ">{run("now x")}</w:fldSimple>'
    assert simple in word(f"<w:p>{run('Look at ')}{simple}{run(' of it')}</w:p>", SHOUTING)


def test_results_of_fields_that_people_read_are_translated():
    own = field('HYPERLINK "https://a.example"', run("the red house", BOLD))
    found = word(f"<w:p>{run('See ')}{own}{run(' now')}</w:p>")
    assert re.search(f"{SEPARATE}</w:r><w:r><w:rPr>{BOLD}</w:rPr><w:t>house red the</w:t></w:r><w:r>{END}", found)
    assert '<w:instrText> HYPERLINK "https://a.example" </w:instrText>' in found


def test_entries_of_contents_are_translated_and_their_numbers_stay():
    page = field("PAGEREF _Toc1 \\h", run("7"))
    entry = f'<w:hyperlink w:anchor="_Toc1">{run("The red house")}{run("<w:tab/>")}{page}</w:hyperlink>'
    first = run(BEGIN) + run("<w:instrText> TOC \\o </w:instrText>") + run(SEPARATE)
    body = f"<w:p>{first}{entry}</w:p><w:p>{entry}</w:p><w:p>{run(END)}</w:p>"
    assert word(body) == body.replace("The red house", "house red The").replace(' xml:space="preserve">house', ">house")


def test_codes_of_a_field_that_goes_across_paragraphs_are_no_text():
    body = (
        f"<w:p>{run('One two')}{run(BEGIN)}{run('<w:instrText> IF </w:instrText>')}{run(BEGIN)}{run(SEPARATE)}"
        f"{run('in codes')}{run(END)}</w:p><w:p>{run('still codes')}{run(SEPARATE)}{run('a result')}{run(END)}</w:p>"
    )
    found = word(body, SHOUTING)
    assert re.findall("<w:t[^>]*>(.*?)<", found) == ["ONE TWO", "in codes", "still codes", "A RESULT"]


def test_a_field_whose_parts_are_changes_of_their_own_stays_whole():
    parts = [run(BEGIN), run("<w:instrText>PAGE</w:instrText>"), run(SEPARATE), run("3 of x"), run(END)]
    own = "".join(f'<w:ins w:id="{number}">{part}</w:ins>' for number, part in enumerate(parts))
    assert own in word(f"<w:p>{run('on page ')}{own}{run(' there')}</w:p>")


@pytest.mark.parametrize("element", ["<w:noBreakHyphen/>", "<w:softHyphen/>"])
def test_hyphens_stay_inside_of_their_words(element):
    found = word(f"<w:p><w:r><w:t>a co</w:t>{element}<w:t>op house</w:t></w:r></w:p>")
    assert re.sub(" xml:space.*?>", ">", found) == (
        f"<w:p><w:r><w:t>house co</w:t>{element}<w:t>op a</w:t></w:r></w:p>"
    )


def test_tabs_and_page_breaks_divide_texts_and_line_breaks_do_not():
    inside = "<w:t>Name here</w:t><w:tab/><w:t>my date</w:t><w:br w:type='page'/>"
    inside += "<w:t>in two</w:t><w:br/><w:t>lines</w:t>"
    found = re.sub(" xml:space.*?>", ">", word(f"<w:p><w:r>{inside}</w:r></w:p>"))
    assert found.startswith("<w:p><w:r><w:t>here Name</w:t><w:tab/><w:t>date my</w:t><w:br w:type='page'/><w:t>lines")
    assert re.sub("<.*?>", " ", found).split() == ["here", "Name", "date", "my", "lines", "two", "in"]
    assert found.count("<w:br/>") == 1


@pytest.mark.parametrize(
    "atom",
    [
        run('<w:sym w:font="Wingdings" w:char="F04A"/>'),
        "<m:oMath><m:r><m:t>x is y</m:t></m:r></m:oMath>",
        run(f"<w:ruby><w:rt>{run('kan ji')}</w:rt><w:rubyBase>{run('a b')}</w:rubyBase></w:ruby>"),
        '<w:del w:id="1"><w:r><w:delText>gone now</w:delText></w:r></w:del>',
        f'<w:moveFrom w:id="1">{run("moved away")}</w:moveFrom>',
        run('<w:footnoteReference w:id="2"/>', '<w:rStyle w:val="FootnoteReference"/>'),
        run('<w:drawing><wp:inline><wp:docPr id="1" name="Picture 1"/></wp:inline></w:drawing>'),
        '<w:sdt><w:sdtPr><w:date/></w:sdtPr><w:sdtContent>' + run("1 May") + "</w:sdtContent></w:sdt>",
    ],
    ids=["symbol", "formula", "ruby", "deletion", "move", "note", "picture", "date"],
)  # fmt: skip
def test_what_is_no_text_stays_as_it_is(atom):
    found = word(f"<w:p>{run('one two')}{atom}{run(' three', BOLD)}</w:p>")
    own = atom if atom in found else re.sub("^<w:r>|</w:r>$", "", atom)
    assert own in found
    assert formats(found.replace(own, "")) == [("three", BOLD), ("two", ""), ("one", "")]


def test_boxes_keep_their_words():
    inside = run("the red ") + run("house", BOLD)
    for box in (
        f'<w:hyperlink w:anchor="x">{inside}</w:hyperlink>',
        f'<w:ins w:id="1" w:author="x">{inside}</w:ins>',
        f'<w:smartTag w:element="x"><w:smartTagPr/>{inside}</w:smartTag>',
        f'<w:customXml w:element="x"><w:customXmlPr/>{inside}</w:customXml>',
        f"<w:sdt><w:sdtPr><w:showingPlcHdr/></w:sdtPr><w:sdtContent>{inside}</w:sdtContent></w:sdt>",
    ):
        found = word(f"<w:p>{run('See ')}{box}{run(' now')}</w:p>")
        opening, closing = box.split(inside)
        assert opening in found
        assert formats(found.partition(opening)[2].partition(closing)[0]) == [("house", BOLD), ("red", ""), ("the", "")]


def test_ranges_stay_around_their_words():
    body = (
        f'<w:p>{run("See ")}<w:bookmarkStart w:id="1" w:name="b"/>{run("the red")}{run(" house", BOLD)}'
        f'<w:bookmarkEnd w:id="1"/><w:commentRangeStart w:id="1"/>{run(" over")}<w:commentRangeEnd w:id="1"/>'
        f"{run(' there')}</w:p>"
    )
    found = word(body)
    assert [word_ for word_, _ in formats(re.search("<w:bookmarkStart.*<w:bookmarkEnd", found)[0])] == [
        "house", "red", "the"
    ]  # fmt: skip
    assert [word_ for word_, _ in formats(re.search("<w:commentRangeStart.*<w:commentRangeEnd", found)[0])] == ["over"]


def test_text_boxes_are_translated_by_themselves_in_both_of_their_forms():
    box = f"<w:txbxContent><w:p>{run('in the box')}</w:p></w:txbxContent>"
    shape = (
        f'<w:r><mc:AlternateContent><mc:Choice>{box}</mc:Choice><mc:Fallback><v:shape alt="A red house">{box}</v:shape>'
    )
    body = f"<w:p>{run('Out of it')}{shape}</mc:Fallback></mc:AlternateContent></w:r>{run(' all')}</w:p>"
    found = word(body)
    assert found.count("box the in") == 2
    assert 'alt="house red A"' in found
    assert re.sub("<.*?>", "", re.sub("<mc:.*/mc:AlternateContent>", "", found)) == "all it of Out"


def test_descriptions_of_pictures_are_translated_and_names_of_files_are_not():
    picture = (
        '<w:drawing><wp:docPr id="1" name="Picture 1" descr="A &quot;red&quot; house" title="photo.png"/></w:drawing>'
    )
    found = word(f"<w:p>{run(picture)}{run('below it')}</w:p>", SHOUTING)
    assert 'name="Picture 1" descr="A &quot;RED&quot; HOUSE" title="photo.png"' in found


def test_lines_to_write_on_stay():
    line = run("          ", "<w:u/>")
    found = word(f"<w:p>{run('Your name ')}{line}{run(' and date')}</w:p>")
    assert line in found
    assert [word_ for word_, _ in formats(found)] == ["date", "and", "name", "Your"]


def test_charts_are_translated():
    chart = (
        "<c:title><a:p><a:pPr/><a:r><a:rPr lang='en-US' dirty='0'/><a:t>Red ho</a:t></a:r>"
        "<a:r><a:rPr lang='de-DE'/><a:t>uses</a:t></a:r><a:endParaRPr/></a:p></c:title>"
        "<c:strCache><c:pt><c:v>First year</c:v></c:pt></c:strCache>"
        "<c:numCache><c:pt><c:v>1 a</c:v></c:pt></c:numCache>"
    )
    found = word(chart)
    assert "<a:t>houses Red</a:t>" in found
    assert "<c:v>year First</c:v>" in found
    assert "<c:v>1 a</c:v>" in found


def archive(**files):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as file:
        for name, content in files.items():
            file.writestr(name.replace("__", "/").replace("_xml", ".xml").replace("Types", "[Content_Types]"), content)
    return packed.getvalue()


def members(content):
    with zipfile.ZipFile(io.BytesIO(content)) as file:
        return {name: file.read(name) for name in file.namelist()}


MAIN = "application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"
PARAGRAPH = f'<w:p xmlns:w="{SPACES["w"]}"><w:r><w:t>a red house</w:t></w:r></w:p>'


@pytest.mark.parametrize(
    "kind",
    [
        f'<Override PartName="/Word/document2.xml" ContentType="{MAIN}"/>',
        f'<Default Extension="xml" ContentType="{MAIN}"/>',
    ],
)
@pytest.mark.parametrize(
    "encoded", [PARAGRAPH.encode(), b"\xef\xbb\xbf" + PARAGRAPH.encode(), ("\ufeff" + PARAGRAPH).encode("utf-16-le")]
)
def test_the_main_part_is_found_by_its_type_in_any_encoding(kind, encoded):
    content = archive(Types_xml=f"<Types>{kind}</Types>", word__document2_xml=encoded)
    found = members(translate_document(content, "a.docx", ("en", "fr"), SHOUTING).content)["word/document2.xml"]
    assert found == encoded.replace(b"a red house", b"A RED HOUSE").replace(
        "a red house".encode("utf-16-le"), "A RED HOUSE".encode("utf-16-le")
    )


@pytest.mark.parametrize("encoding", ["utf-16-be", "utf-32-le", "iso-8859-1"])
def test_parts_of_a_document_are_read_in_every_encoding_that_xml_declares(encoding):
    declared = f'<?xml version="1.0" encoding="{encoding[:-3] if "utf" in encoding else encoding}"?>'
    content = archive(content_xml=f"{declared}{OFFICE}<text:p>Le caf\u00e9</text:p></office:x>".encode(encoding))
    found = members(translate_document(content, "a.odt", ("en", "fr"), SHOUTING).content)["content.xml"]
    assert "LE CAF\u00c9" in found.decode(encoding)


ENCRYPTED = b"\xd0\xcf\x11\xe0" + bytes(2000) + "EncryptedPackage".encode("utf-16-le")


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.docx", ENCRYPTED, "is protected by a password; save it without one"),
        ("a.docx", b"\xd0\xcf\x11\xe0" + bytes(2000), "is a document of an old Word"),
        ("a.docx", b"{\\rtf1 x}", "is RTF"),
        ("a.odt", archive(content_xml=b"\x01\x02", **{"META-INF__manifest_xml": b"<x><m:encryption-data/></x>"}),
         "is protected by a password; save it without one"),
        ("a.docx", archive(content_xml=b"<a/>"), "has no text of Word in it"),
        ("a.odt", archive(word__document_xml=b"<a/>"), "has no text of OpenDocument in it"),
        ("a.odt", archive(content_xml=b"\xff\xfe\x00\xd8"), "has a file content.xml that is no text in utf-16"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_said_in_a_sentence(name, content, words):
    with pytest.raises(DataError, match=f"^{name} {words}"):
        translate_document(content, name, ("en", "fr"), SAME)


def word_document():
    document = docx.Document()
    document.add_paragraph("A red house")
    document.save(output := io.BytesIO())
    return output.getvalue()


@pytest.mark.first_is_quick
@pytest.mark.parametrize(
    ("languages", "expected"),
    [
        (("en", "fr"), 'w:val="fr" w:eastAsia="en-US" w:bidi="ar-SA"'),
        (("en", "pt-BR"), 'w:val="pt-BR" w:eastAsia="en-US" w:bidi="ar-SA"'),
        (("en", "he"), 'w:val="en-US" w:eastAsia="en-US" w:bidi="he"'),
        (("en", "ja"), 'w:val="en-US" w:eastAsia="ja" w:bidi="ar-SA"'),
        (("de", "fr"), 'w:val="en-US" w:eastAsia="en-US" w:bidi="ar-SA"'),
        ((None, None), 'w:val="en-US" w:eastAsia="en-US" w:bidi="ar-SA"'),
    ],
)
def test_the_language_of_word_becomes_that_of_the_translation(languages, expected):
    content = word_document()
    assert b'<w:lang w:val="en-US" w:eastAsia="en-US" w:bidi="ar-SA"/>' in members(content)["word/styles.xml"]
    found = members(translate_document(content, "a.docx", languages, SHOUTING).content)
    assert re.search(r"<w:lang ([^/]*)/>", found["word/styles.xml"].decode())[1] == expected
    assert members(translate_document(content, "a.docx", languages, SAME).content) == members(content)


OFFICE = (
    '<office:x xmlns:office="o" xmlns:text="t" xmlns:style="s" xmlns:fo="f" xmlns:draw="d" xmlns:svg="v" xmlns:dc="dc">'
)


def open_document(body, engine=BACKWARDS):
    """The paragraphs of an OpenDocument text after they were translated."""
    (text,) = translate_documents([read_odt(f"{OFFICE}{body}</office:x>")], engine)
    return text.removeprefix(OFFICE).removesuffix("</office:x>")


@pytest.mark.parametrize(
    "inside",
    [
        "<draw:rect>{}</draw:rect>",
        "<draw:custom-shape>{}</draw:custom-shape>",
        "<draw:g><draw:ellipse>{}</draw:ellipse></draw:g>",
        "<draw:frame><draw:text-box>{}</draw:text-box></draw:frame>",
        "<text:note><text:note-citation>1</text:note-citation><text:note-body>{}</text:note-body></text:note>",
        "<office:annotation><dc:creator>A B</dc:creator>{}</office:annotation>",
        "<text:unknown>{}</text:unknown>",
    ],
)
def test_paragraphs_inside_of_paragraphs_are_translated_by_themselves(inside):
    own = "<text:p>In the box</text:p>"
    found = open_document(f"<text:p>Out of it {inside.format(own)} all</text:p>")
    assert inside.format("<text:p>box the In</text:p>") in found
    assert re.sub("<.*?>", "", found.replace(inside.format("<text:p>box the In</text:p>"), "")).split() == [
        "all", "it", "of", "Out"
    ]  # fmt: skip
    twice = inside.format(f"<text:p>Two <draw:rect>{own}</draw:rect></text:p>")
    assert "<text:p>box the In</text:p>" in open_document(f"<text:p>Out {twice}</text:p>")


@pytest.mark.parametrize("name", ["page-number", "date", "bookmark-ref", "sequence", "author-name", "expression"])
def test_fields_of_open_documents_are_copied(name):
    own = f"<text:{name}>one two</text:{name}>"
    assert re.sub(own, "F", open_document(f"<text:p>Look at {own} here</text:p>")) == "<text:p>here F at Look</text:p>"


def test_open_documents_divide_texts_at_tabs_and_keep_spaces():
    found = open_document('<text:p>Name here<text:tab/>my<text:s text:c="3"/>own<text:line-break/>date</text:p>')
    assert found.startswith("<text:p>here Name<text:tab/>")
    assert re.sub("<.*?>", " ", found).split() == ["here", "Name", "date", "own", "my"]
    assert {'<text:s text:c="3"/>', "<text:line-break/>"} <= set(re.findall("<.*?>", found))


def test_spans_that_differ_in_revisions_alone_are_one_text():
    styles = "".join(
        f'<style:style style:name="{name}" style:family="text"><style:text-properties {properties}/></style:style>'
        for name, properties in {
            "R1": 'rsid="1"', "R2": 'rsid="2" fo:language="de"', "B1": 'fo:bold="1" rsid="1"', "B2": 'fo:bold="1"'
        }.items()
    )  # fmt: skip

    def span(style, text):
        return f'<text:span text:style-name="{style}">{text}</text:span>'

    body = f"<text:p>{span('R1', 'Hel')}{span('R2', 'lo')} my {span('B1', 'fri')}{span('B2', 'end')}</text:p>"
    assert open_document(styles + body) == f"{styles}<text:p>{span('B1', 'friend')} my Hello</text:p>"
    assert open_document(styles + body, SAME) == styles + body


def test_changes_ranges_and_titles_of_open_documents():
    removed = "<text:tracked-changes><text:deletion><text:p>gone now</text:p></text:deletion></text:tracked-changes>"
    assert open_document(removed, SHOUTING) == removed
    body = '<text:p>See <text:bookmark-start text:name="b"/>the house<text:bookmark-end text:name="b"/> now</text:p>'
    assert '<text:bookmark-start text:name="b"/>house the<text:bookmark-end text:name="b"/>' in open_document(body)
    frame = "<draw:frame><draw:image/><svg:title>A house</svg:title><svg:desc>in red</svg:desc></draw:frame>"
    found = open_document(f"<text:p>Look {frame}</text:p>", SHOUTING)
    assert "<svg:title>A HOUSE</svg:title><svg:desc>IN RED</svg:desc>" in found


def test_the_language_of_an_open_document_becomes_that_of_the_translation():
    tag = '<style:text-properties fo:language="{}" fo:country="{}" style:language-asian="zh" style:country-asian="CN"/>'
    content = archive(
        content_xml=f"{OFFICE}<text:p>a house</text:p></office:x>",
        styles_xml=f"{OFFICE}{tag.format('en', 'US')}</office:x>",
    )
    found = members(translate_document(content, "a.odt", ("en", "fr"), SHOUTING).content)
    assert found["styles.xml"].decode() == f"{OFFICE}{tag.format('fr', 'none')}</office:x>"
    assert members(translate_document(content, "a.odt", ("en", "fr"), SAME).content) == members(content)


@pytest.mark.parametrize(
    "text",
    [
        "<w:p>" * 300 + run("a b") + "</w:p>" * 300,
        "<w:p>" + "<w:hyperlink>" * 2_000 + run("a b") + "</w:hyperlink>" * 2_000 + "</w:p>",
    ],
    ids=["paragraphs", "links"],
)
def test_deep_nesting_is_refused(text):
    with pytest.raises((FormatError, RecursionError)):
        word(text)


@pytest.mark.parametrize(
    "text",
    [
        "<w:p>" + run("a " + " " * 300_000 + "b") + "</w:p>",
        "<w:p>" + run(BEGIN) * 2_000 + run("a b") + "</w:p>",
        "<w:p>" + run("a") + run(END) * 2_000 + run("b") + "</w:p>",
        "<w:p>" + "".join(run("ab ", f'<w:sz w:val="{number}"/>') for number in range(2_000)) + "</w:p>",
        "<w:p>" + '<w:bookmarkStart w:id="1"/>' * 2_000 + run("a b") + "</w:p>",
        "<w:p>" + run("ab<w:tab/>" * 2_000) + "</w:p>",
        "<w:p>" + run("ab<w:softHyphen/>" * 4_000) + "</w:p>",
        "<w:p>" + run(f"{BEGIN}<w:instrText>QUOTE</w:instrText>{SEPARATE}ab c{END}" * 2_000) + "</w:p>",
    ],
    ids=["spaces", "begins", "ends", "formats", "bookmarks", "tabs", "hyphens", "fields"],
)
def test_hostile_paragraphs_take_no_time_to_speak_of(text):
    start = time.process_time()
    word(text, SHOUTING)
    assert time.process_time() - start < 10
