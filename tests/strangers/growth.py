"""Texts of strangers that grow by repeating something, and what reads them: formats of documents and of pairs,
settings, and the rules for texts.

Every seed goes into every reader: a mark of Markdown means nothing in a table, and a reader that looks for it there all
the same should not take long either.
"""

import io
import json
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from xml.sax.saxutils import escape, quoteattr

from dragoman.config.data import CleaningConfig
from dragoman.config.recipes import parse_yaml
from dragoman.data.filtering import reason_to_drop
from dragoman.decoding.alignment import word_spans
from dragoman.decoding.translation import Translation
from dragoman.decoding.units import Splitter, join
from dragoman.documents.literals import lacking, without_surplus
from dragoman.text.characters import normalised, one_line
from dragoman.text.lines import broken_like
from dragoman.text.sentences import cut, split
from dragoman.text.spelling import Speller
from dragoman.text.stops import Marks, with_mark, without_added_stop
from dragoman.text.tokenizers.placeholders import Verbatim, literal_spans, mask, mask_pair, unmask
from dragoman.text.truecasing import CaseTable, Truecaser

MARKS = Marks(".", "?", {"a": True})


@dataclass(frozen=True)
class Seed:
    """A text of any length."""

    unit: str
    """What is repeated."""
    begin: str = ""
    middle: str = "word "
    end: str = ""
    """What is repeated behind the middle, as often."""

    def grown(self, size: int) -> str:
        """A text of about so many characters."""
        times = max(1, size // (len(self.unit) + len(self.end)))
        return self.begin + _repeated(self.unit, times) + self.middle + _repeated(self.end, times)


def _repeated(unit: str, times: int) -> str:
    """A text many times; a § in it is the number of the repetition."""
    return unit * times if "§" not in unit else "".join(unit.replace("§", str(number)) for number in range(times))


def seeds(*units: str) -> list[Seed]:
    return [Seed(unit) for unit in units]


TEXTS = [
    # Spaces, line ends, letters, digits and marks.
    Seed("1 + ", middle="1a"), Seed(" ", "a\nb", "c"), Seed(" ", "a"),
    Seed(" ", "a", "b"), Seed("\n", "a"), Seed("\t", "a"), Seed("\u00a0", "a"), Seed("\u200b", "a"),
    Seed("\u0301", "a"), Seed("\u202e", "a"), Seed("\ufe0f", "a"), Seed("\u3000", "a"), Seed("\r", "a"), *seeds("a",
        "a ", "a\n", "a\n\n", "A", "1", "1 ", "1.", "1,", "a.", "a. ", "A. ", "A.", "a, ", "Mr. ", "1. ", ".", "...",
        "?!", "-", "--", "- ", "a-", "a'", "'", '"', '" ', "“", "„a“ ", "«", "(", "((a", ")", "(a) ", "/", "a/", "\\",
        "\\\\", "\\n", "\\\"", ":", "a:", ":a", "::", ";", ",", "=", "a=", "+", "~", "~~", "^", "@", "a@", "a@b.",
        "#", "# ", "##", "%", "$", "|", "|a", "| a |", "&", "é", "日", "日。", "한", "ก", "А", "😀", "👩\u200d",
        "\ufeff", "\u2028", "\ud7ff", "<", ">", "a>"),
    # Placeholders and messages.
    *seeds("{", "{{", "{{{{", "}", "}}", "{}", "{0}", "{a}", "{a", "{a ", "{{a", "{{a}}", "%", "%s", "%(", "%(a",
        "%(a)s", "%%%%", "%1$", "$", "$$", "$$$", "${", "${a", "$a", "$(", "$a$", "[[", "[[a", "{%", "{% a",
        "{% a %}", "{#", "<%", "<%=", "%{", "%{a", "{a, plural, ", "{a, plural, one {", "{a, select, x {b} ",
        "{n, plural, one {a} other {b}} ", "'{", "{'", "#{", "@:", "@:a ", "http://", "http://a", "http://a.b/",
        "http://a/(", "www.", "a@b.c ", "+49 ", "12:", "1-", "1/", "1e", "0x", "$t(", "{0, number, "),
    Seed("{a, plural, other {", end="}}"), Seed("{a, select, other {", end="}}"), Seed("{", end="}"), Seed("{{",
        end="}}"),
    # Markdown.
    *seeds("*", "**", "*a ", "*a", "a*", "* ", "**a ", "*a **", "_", "_a ", "__a ", "a_", "*_", "`", "`a", "`` ",
        "``a`", "`a` ", "~~a ", "[", "[a", "[a](", "[a](b", "[a](<", "[a](b \"", "[a][", "[]", "](", "![", "![[",
        "![a](", "[^", "[^a]", "[^a]: ", "[a]: b\n", "[a]: ", "> ", ">", "> a\n", "- a\n", "-\n", "* a\n", "+ ",
        "1. a\n", "1) ", "a\n- ", "\t- ", "    a\n", "```", "```\n", "~~~\n", "---\n", "===\n", "a\n===\n", "#\n",
        "# a\n", "| a | b |\n", "|-|\n", "|", "a|", "<a", "<a ", "<a b", "<a>", "<!", "<!-", "<?", "<http://", "&a",
        "&#", "&#1", "&#x", "&amp;", "&amp", "&lt;", "  \n", "\\\n", "\\*", "::: ", ":::\n", "=> ", "^a", "==", "$a",
        "$$a", "{: ", "{.a ", "a\n: b\n", "[[a|", "- [ ] ", "(c)"), Seed("[", end="]"), Seed("[", end="](a)"),
    Seed("![", end="](a)"), Seed("*", end="*"), Seed("**a ", end="**"), Seed("*a _", end="_*"), Seed("(", "[a](",
        end=")"), Seed("*a **b ", middle="x", end="c***d** "), Seed("> ", middle="\n> a\n"), Seed("- "), Seed("1. "),
    Seed("`", middle="a ", end=""), Seed("<b>", end="</b>"), Seed("<b>a ", end="</b>"), Seed("<b>", "| a |\n|-|\n"),
    Seed("|", "| a |\n|-|\n|"),
    # HTML and XML.
    *seeds("<", "</", "</a", "</a>", "<a ", "<a b=", "<a b='", '<a b="', "<a b='c' ", "<a/>", "<br>", "<p>", "<p>a",
        "<b>", "<b>a", "<i><b>", "<p><b>a</p>", "<!-- ", "<!--", "<!-- -->", "<!-->", "-->", "--!>", "<![CDATA[",
        "<![CDATA[a]]>", "]]>", "<!DOCTYPE ", "<!a", "<?a", "<?a ?>", "<script>", "<script", "</script>", "<style>",
        "<textarea>", "<title>", "<pre>", "<table>", "<td>", "<tr><td>a", "<li>a", "<ul><li>", "<select>",
        "<option>a", "<svg>", "<math>", "<template>", "<img alt='a' ", "<img alt='a'>", "<img alt='", "<code>",
        "<code>a</code> ", "<span translate=no>", "<a href=x>a ", "<a href=x>", "<input value=a>", "&", "&a;",
        "&nbsp;", "&#", "&#38;", "&quot;"), Seed("a ", "<a ", ">"), Seed("a='b' ", "<a ", ">"), Seed("a", "<a b='",
        "'>c"), Seed("a ", "<!-- ", " -->"), Seed("a", "<![CDATA[", "]]>"), Seed("<", "<!-- "), Seed("a=", "<a "),
    Seed("'", "<a "), Seed("<div>", end="</div>"), Seed("<p>a <b>", end="</b></p>"), Seed("<ul><li>",
        end="</li></ul>"), Seed("<b>a <i>b", end="</b> c</i>"),
    # Subtitles, catalogues, JSON, YAML, tables.
    *seeds("1\n00:00:01,000 --> 00:00:02,000\na\n\n", "00:00:01,000 --> 00:00:02,000\n", "00:", "-->", "- a\n- b\n",
        "{\\an8}", "{\\", "[a", "(a", "A: ", "♪ ", "<v ", "<00:", "<c.a>", "NOTE\n", 'msgid "a"\n',
        'msgid "a"\nmsgstr ""\n\n', '"a"\n', '"', 'msgstr[0] "a"\n', "#\n", "#~ ", "#| ", "#, ", "#: ",
        'msgctxt "a"\n', 'msgid_plural "a"\n', '{"a": ', '["', '"a", ', '{"a": "b"}\n', "[[", '{"a":[', "\\u0041",
        "\\ud800", "\\u", "null,", "a: ", "a: b\n", "- ", "? ", "?\n", "& ", "&a ", "*a ", "a: &a b\n", "[a, ",
        "{a: ", "a: |\n  b\n", "a: >\n", "'a': ", '"a": ', "!!str ", "!a ", "---\n", "...\n", "%a\n", "a: b #",
        "  a:\n", "<<: ", "a\tb\n", "a\t", "\t", "a,b\n", "a,", '"a",', '""', '"a\n', ";", "a;b\n", "sep=;\n"),
]  # fmt: skip

OFFICE = [
    *seeds('<w:bookmarkStart w:id="§" w:name="b§"/><w:r><w:t>a b </w:t></w:r>',
        '<w:bookmarkEnd w:id="§"/><w:r><w:t>a b </w:t></w:r>', "<w:r><w:t>a b </w:t></w:r>",
        "<w:r><w:rPr><w:b/></w:rPr><w:t>a b </w:t></w:r><w:r><w:t>c </w:t></w:r>", "<w:r><w:tab/></w:r>",
        "<w:r><w:br/><w:t>a</w:t></w:r>", '<w:commentRangeStart w:id="§"/><w:r><w:t>a </w:t></w:r>',
        '<w:permStart w:id="§"/><w:r><w:t>a </w:t></w:r><w:permEnd w:id="§"/>',
        '<w:hyperlink w:anchor="a"><w:r><w:t>a b</w:t></w:r></w:hyperlink>',
        '<w:r><w:fldChar w:fldCharType="begin"/></w:r>',
        '<w:r><w:fldChar w:fldCharType="begin"/></w:r><w:r><w:instrText>PAGE</w:instrText></w:r>'
        '<w:r><w:fldChar w:fldCharType="end"/></w:r>',
        '<w:ins w:id="§"><w:r><w:t>a </w:t></w:r></w:ins>',
        '<w:del w:id="§"><w:r><w:delText>a </w:delText></w:r></w:del>', "<w:proofErr/>", "<w:r><w:t/></w:r>",
        "<w:r><w:footnoteReference w:id='1'/></w:r><w:r><w:t>a </w:t></w:r>", "</w:p><w:p><w:r><w:t>a b</w:t></w:r>",
        "<w:r><w:sym/></w:r>", '<w:r><w:drawing><wp:docPr xmlns:wp="w" id="§" descr="a word"/></w:drawing></w:r>'),
    Seed('<w:bookmarkStart w:id="§" w:name="b§"/><w:r><w:t>a b </w:t></w:r>', middle="<w:r><w:t>word</w:t></w:r>",
        end='<w:bookmarkEnd w:id="§"/><w:r><w:t>c d </w:t></w:r>'), Seed('<w:smartTag><w:r><w:t>a b </w:t></w:r>',
        middle="", end="</w:smartTag>"), Seed('<w:hyperlink><w:r><w:t>a </w:t></w:r>', middle="",
        end="<w:r><w:t>b </w:t></w:r></w:hyperlink>"), Seed("<w:sdt><w:sdtContent><w:r><w:t>a </w:t></w:r>",
        middle="", end="</w:sdtContent></w:sdt>"), Seed("<w:tbl><w:tr><w:tc><w:p><w:r><w:t>a b</w:t></w:r></w:p>",
        "</w:p>", middle="", end="</w:tc></w:tr></w:tbl>"),
    # OpenDocument.
    *seeds('<text:span>a b </text:span>', '<text:bookmark-start text:name="b§"/>a b ',
        '<text:bookmark text:name="b§"/>a ', "<text:s/>", "<text:tab/>a ", "<text:line-break/>a ",
        '<text:a>a b</text:a> ', "<text:note><text:note-body><text:p>a b</text:p></text:note-body></text:note> c ",
        "</text:p><text:p>a b", "<text:soft-page-break/>a "), Seed('<text:bookmark-start text:name="b§"/>a b ',
        middle="word", end='<text:bookmark-end text:name="b§"/>c d '), Seed("<text:span>a b ",
        end="c d </text:span>"), Seed("<text:a>a ", end="</text:a>"),
    # Exchange formats.
    *seeds('<x id="§"/>a ', '<x id="§"/>', '<g id="§">a b</g> ', '<bpt id="§"/>a b ', '<ept id="§"/>a ',
        '<bpt id="§"/>a b <ept id="§"/>', '<ph id="§">{0}</ph> ', '<mrk mtype="seg" mid="§">a b</mrk> ',
        '<sc id="§"/>a b ', '<ec startRef="§"/>a ', '<hi>a b</hi> ', '<it pos="begin">x</it>a ', '<sub>a b</sub> ',
        "</source><source>a", '</source></trans-unit><trans-unit id="§"><source>a b',
        "</seg></tuv><tuv xml:lang='fr'><seg>a", "</seg></tuv></tu><tu><tuv xml:lang='en'><seg>a b"),
    Seed('<g id="§">a b ', end="c d </g>"), Seed('<pc id="§">a b ', end="c d </pc>"), Seed('<bpt id="§"/>a b ',
        end='<ept id="§"/>c d '), Seed('<mrk mid="§">a ', end="b </mrk>"), Seed("<hi>a b ", end="c d </hi>"),
    Seed('<sc id="§"/>a b ', end='<ec startRef="§"/>c d '), Seed("<group>", "</source></trans-unit>",
        "<trans-unit><source>a", "</group>"), Seed("x§='a' ", "<x ", "/>"), Seed("<sub>a <ph>", end="</ph></sub>"),
]  # fmt: skip
"""Seeds of the formats that are XML; they stand where a text stands."""

DOCX = (
    '<w:document xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"><w:body><w:p>{}</w:p></w:body>'
    "</w:document>"
)
ODT = (
    '<office:document-content xmlns:office="urn:oasis:names:tc:opendocument:xmlns:office:1.0" '
    'xmlns:text="urn:oasis:names:tc:opendocument:xmlns:text:1.0"><office:body><office:text><text:p>{}</text:p>'
    "</office:text></office:body></office:document-content>"
)
XLIFF = (
    '<xliff version="1.2"><file source-language="en" target-language="fr"><body><trans-unit id="1"><source>{}</source>'
    "</trans-unit></body></file></xliff>"
)
XLIFF2 = (
    '<xliff version="2.0" srcLang="en" trgLang="fr"><file id="f"><unit id="u"><segment><source>{}</source></segment>'
    "</unit></file></xliff>"
)
TMX = '<tmx version="1.4"><header srclang="en"/><body><tu><tuv xml:lang="en"><seg>{}</seg></tuv></tu></body></tmx>'
CUE = "1\n00:00:01,000 --> 00:00:02,000\nA word {}\n\n2\n00:00:03,000 --> 00:00:04,000\nand more\n"


def _json(text: str) -> str:
    return json.dumps({"a": "two words", "b": text, "c": [text[:99]]})


def _po(text: str) -> str:
    head = 'msgid ""\nmsgstr "Content-Type: text/plain; charset=UTF-8\\n"\n\n'
    return f'{head}msgid {json.dumps(text, ensure_ascii=False)}\nmsgstr ""\n'


def _block(text: str) -> str:
    return "a: |\n" + "".join(f"  {line}\n" for line in text.split("\n")) + "b: two words\n"


DOCUMENTS: dict[str, tuple[str, Callable[[str], str]]] = {
    "Markdown": ("a.md", str), "words of Markdown": ("a.md", "Two words {} and more\n".format),
    "a list of Markdown": ("a.md", "- a\n- {}\n".format), "a table of Markdown": ("a.md",
        "| a | b |\n|---|---|\n| {} | c |\n".format), "a heading of Markdown": ("a.md", "# A {}\n".format),
    "HTML": ("a.html", str), "a paragraph of HTML": ("a.html", "<p>Two words {} and more</p>".format),
    "text of HTML": ("a.html", lambda text: f"<p>Two {escape(text)} words</p>"), "an attribute of HTML": ("a.html",
        lambda text: f"<p>A <img alt={quoteattr(text)}> word</p>"), "text": ("a.txt", str), "SRT": ("a.srt", str),
    "a cue of SRT": ("a.srt", CUE.format), "a cue of VTT": ("a.vtt", ("WEBVTT\n\n" + CUE).format), "PO": ("a.po",
        str), "a message of PO": ("a.po", _po), "JSON": ("a.json", str), "a value of JSON": ("a.json", _json),
    "a value of ARB": ("a.arb", _json), "YAML": ("a.yaml", str), "a value of YAML": ("a.yaml", _json),
    "a block of YAML": ("a.yaml", _block), "TMX": ("a.tmx", TMX.format), "text of TMX": ("a.tmx",
        lambda text: TMX.format(escape(text))), "XLIFF": ("a.xlf", XLIFF.format), "text of XLIFF": ("a.xlf",
        lambda text: XLIFF.format(escape(text))), "XLIFF 2": ("a.xlf", XLIFF2.format), "text of XLIFF 2": ("a.xlf",
        lambda text: XLIFF2.format(escape(text))), "DOCX": ("a.docx", DOCX.format), "text of DOCX": ("a.docx",
        lambda text: DOCX.format(f"<w:r><w:t>{escape(text)}</w:t></w:r>")), "ODT": ("a.odt", ODT.format),
    "text of ODT": ("a.odt", lambda text: ODT.format(escape(text))),
}  # fmt: skip
"""Kinds of documents: their names, and documents with a text at one place."""


def document(kind: str, text: str) -> tuple[str, bytes]:
    name, form = DOCUMENTS[kind]
    content = form(text).encode()
    return name, packed({"a.docx": "word/document.xml", "a.odt": "content.xml"}[name], content) if name in (
        "a.docx",
        "a.odt",
    ) else content


def packed(name: str, content: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(name, content)
    return file.getvalue()


def swapped(texts: list[str]) -> Iterator[Translation]:
    """Another text of as many words, each linked to its own."""
    for text in texts:
        links = [(number, number) for number in range(len(word_spans(text)))]
        yield Translation(text.swapcase() + "?", 0.0, 0.0, [], links)


PAIRS: dict[str, tuple[str, Callable[[str], str]]] = {
    "TSV": ("a.tsv", str), "a field of TSV": ("a.tsv", "A word {0}\tUn mot {0}\n".format), "CSV": ("a.csv", str),
    "a field of CSV": ("a.csv", lambda text: f'en,fr\n"{text.replace(chr(34), chr(34) * 2)}",b\n'),
    "JSON lines": ("a.jsonl", str), "a value of JSON lines": ("a.jsonl", lambda text: json.dumps({"en": text,
        "fr": text}) + "\n"), "pairs of TMX": ("a.tmx", TMX.format), "pairs of XLIFF": ("a.xlf", XLIFF.format),
    "pairs of PO": ("a.po", str), "a pair of PO": ("a.po", lambda text: _po(text).replace('msgstr ""',
        f"msgstr {json.dumps(text)}")),
}  # fmt: skip


def _spelled(text: str) -> None:
    Speller(["a", "b", "'", '"', "…", "-"], verbatim=Verbatim())(normalised(text))


def _cased(text: str) -> None:
    Truecaser(CaseTable(words=["a"], capitals=True, initials=True), "en")(text)
    CaseTable.learn([text])


def _masked(text: str) -> None:
    prepared = mask(text)
    unmask(prepared.text, prepared)
    mask_pair(text, text, practice=True)


def _units(text: str) -> None:
    units, _ = Splitter("en", 100, count=len, tag=lambda text: "").split(text)
    parts = [Translation(unit.text, 0.0, 0.0, [], [(0, 0)]) for unit in units]
    join(parts, [unit.text for unit in units], 1.0)


def _inline(text: str) -> None:
    literals = {start: text[start:end] for start, end in literal_spans(text)}
    without_surplus(text, [(n, n) for n in range(len(word_spans(text)))], dict.fromkeys(literals.values(), 1))
    lacking(text, literals)


RULES: dict[str, Callable[[str], object]] = {
    "spelling": _spelled, "case": _cased, "placeholders": _masked, "sentences": lambda text: split(text, "en"),
    "Japanese sentences": lambda text: split(text, "ja"), "parts that fit": lambda text: cut(text,
        lambda part: len(part) < 100), "units": _units, "placeholders of a translation": _inline,
    "a recipe": parse_yaml, "stop": lambda text: without_added_stop(with_mark(text, MARKS), text),
    "line breaks": lambda text: broken_like(text.swapcase(), text), "one line": one_line,
    "rules of cleaning": lambda text: reason_to_drop(text, text.swapcase(), CleaningConfig(), ("en", "fr")),
}  # fmt: skip
