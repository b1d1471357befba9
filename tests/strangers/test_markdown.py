"""Markdown as strangers write it: what others add to CommonMark, and marks in unusual places."""

import re
import time

import pytest
from markdown_it import MarkdownIt

from dragoman.documents.html import read_html
from dragoman.documents.markdown import read_markdown
from dragoman.documents.markdown_blocks import read_blocks
from dragoman.documents.registry import translate_document
from tests.documents.engines import BACKWARDS, SAME, SHOUTING, by_word, translated


def shout(text):
    return translated(text, "a.md", SHOUTING)


KEPT = [
    "$$\nE = mc^2 where it is\n\\text{so}\n$$\n",
    "$$ a \\text{ is } b $$\n",
    "\\[\na \\text{ is } b\n\\]\n",
    "\\begin{align}\na \\text{ is } b\n\\end{align}\n",
    "[TOC]\n",
    "[[_TOC_]]\n",
    "import Tabs from '@theme/Tabs';\nexport const name = 'some text';\n",
    '---\ntitle: "Some title"\n---\n',
    '+++\ntitle = "Some title"\n+++\n',
    '{\n  "title": "Some title"\n}\n',
    "~~~\nsome code\n~~~\n",
    "> - ```\n>   some code\n>   ```\n",
    "<!-- some comment\n\nof lines -->\n",
    "{% highlight ruby %}\nputs one\n\nputs two\n{% endhighlight %}\n",
    "{{< highlight go >}}\nsome code\n{{< /highlight >}}\n",
    '{{< figure src="a.png" title="b" >}}\n',
    "{{ page.title }}\n",
    "{% include some.html %}\n",
    "{: .some-class }\n",
    "+------+-----+\n| Name | Age |\n+======+=====+\n| Tom  | 12  |\n+------+-----+\n",
    "::: mermaid\ngraph some\n:::\n",
    "* * *\n",
    "[a]: https://example.org/some\n",
    "`some code`, `other code`\n",
]


@pytest.mark.parametrize("text", KEPT)
def test_what_is_no_text_stays(text):
    assert shout(text) == text
    assert shout(f"{text}\nSome text\n") == f"{text}\nSOME TEXT\n"


TRANSLATED = [
    (
        "| a\\|b | c |\n| --- | --- |\n| x | y |\n\n```\na b x y\n```\n",
        "| A\\|B | C |\n| --- | --- |\n| X | Y |\n\n```\na b x y\n```\n",
    ),
    ("a | b\n:-- | --:\nc `x|y` | d\n", None),
    ("| a `b\\|c` |\n| --- |\n", "| A `b\\|c` |\n| --- |\n"),
    (":::tip[Some *title*]\nSome text\n:::\n", ":::tip[SOME *TITLE*]\nSOME TEXT\n:::\n"),
    ("::: warning Some title\nSome text\n:::\n", "::: warning SOME TITLE\nSOME TEXT\n:::\n"),
    ("::: {.warning #x}\nSome text\n:::\n", "::: {.warning #x}\nSOME TEXT\n:::\n"),
    ("> [!TIP]\n> Some text\n> of lines\n", "> [!TIP]\n> SOME TEXT\n> OF LINES\n"),
    ("> [!note]- Some title\n> Some text\n", "> [!note]- SOME TITLE\n> SOME TEXT\n"),
    (
        '!!! note "Some title"\n\n    Some text\n\n    - one item\n\n          code\n',
        '!!! note "SOME TITLE"\n\n    SOME TEXT\n\n    - ONE ITEM\n\n          code\n',
    ),
    ("??? note\n    Some text\n\nMore\n", "??? note\n    SOME TEXT\n\nMORE\n"),
    ('=== "Some tab"\n\n    Some text\n', '=== "SOME TAB"\n\n    SOME TEXT\n'),
    ("# Some title {#some-id .x}\n", "# SOME TITLE {#some-id .x}\n"),
    ("## Some title ##\n", "## SOME TITLE ##\n"),
    ("Some title {#id}\n===\n", "SOME TITLE {#id}\n===\n"),
    ("A [link](x){: .button} and `code`{.py} here\n", "A [LINK](x){: .button} AND `code`{.py} HERE\n"),
    ("Some {{< ref \"x\" >}} and {{ x.y }} text\n", "SOME {{< ref \"x\" >}} AND {{ x.y }} TEXT\n"),
    ("{{< note >}}\nSome text\n{{< /note >}}\n", "{{< note >}}\nSOME TEXT\n{{< /note >}}\n"),
    ('A [link]({{< ref "some page" >}}) here\n', 'A [LINK]({{< ref "some page" >}}) HERE\n'),
    (
        "Some term\nOther term\n: Its meaning\n  goes on\n\n: Another\n",
        "SOME TERM\nOTHER TERM\n: ITS MEANING\n  GOES ON\n\n: ANOTHER\n",
    ),
    ("[^1]: Some note\n\n    goes on\n", "[^1]: SOME NOTE\n\n    GOES ON\n"),
    ("[^a]: Word\n", "[^a]: WORD\n"),
    ("*[HTML]: Some language\n*[CSS]: Other\n", "*[HTML]: SOME LANGUAGE\n*[CSS]: OTHER\n"),
    ("1984\\. A year\n", "1984\\. A YEAR\n"),
    ("One  \ntwo\\\nthree\n", "ONE  \nTWO\\\nTHREE\n"),
    ("Some arr[0] here\n", "SOME ARR[0] HERE\n"),
    (
        '[a]: https://example.org "Some title"\n[b]: /x \'Other\'\n',
        '[a]: https://example.org "SOME TITLE"\n[b]: /x \'OTHER\'\n',
    ),
    ('A [link](x "Some \\"title\\"") and ![some alt](y)\n', 'A [LINK](x "SOME \\"TITLE\\"") AND ![SOME ALT](y)\n'),
    ("A :smile: ==mark== ~~gone~~ x^2^ H~2~O\n", "A :smile: ==MARK== ~~GONE~~ x^2^ H~2~O\n"),
    ("See [[some page|Some text]] and [[other]]\n", "SEE [[some page|SOME TEXT]] AND [[other]]\n"),
    ("Press ++ctrl+c++ or <kbd>some key</kbd>\n", "PRESS ++ctrl+c++ OR <kbd>some key</kbd>\n"),
    ("A \\(x^2\\) and $a b$ here, 5$ and 6$\n", "A \\(x^2\\) AND $a b$ HERE, 5$ AND 6$\n"),
    ("Some `x`![c](d)`x` here\n", "SOME `x`![C](d)`x` HERE\n"),
    ("- [x] done\n- [ ] open\n", "- [x] DONE\n- [ ] OPEN\n"),
    ("| one line\n| other line\n", "| ONE LINE\n| OTHER LINE\n"),
    ("AT&amp;T &lt; x&nbsp;y &copy; z\n", "AT&amp;T &lt; X&nbsp;Y &copy; Z\n"),
    (
        "<Tabs\n  value={x}>\n<Tab label=\"Some label\">Some *text*</Tab>\n<Tab>Other</Tab>\n</Tabs>\n",
        "<Tabs\n  value={x}>\n<Tab label=\"SOME LABEL\">SOME *TEXT*</Tab>\n<Tab>OTHER</Tab>\n</Tabs>\n",
    ),
    ("Some {props.name} text\n", "SOME {props.name} TEXT\n"),
    (
        '<figure markdown="span">\n  ![Some alt](a.png){ width="3" }\n  <figcaption>A *b*</figcaption>\n</figure>\n',
        '<figure markdown="span">\n  ![SOME ALT](a.png){ width="3" }\n  <figcaption>A *B*</figcaption>\n</figure>\n',
    ),
    ("> <div>\n> Some text\n> </div>\n", "> <div>\n> SOME TEXT\n> </div>\n"),
    ('Some <img alt="some alt" src="x"> text\n', 'SOME <img alt="SOME ALT" src="x"> TEXT\n'),
    ("See https://example.org/a_b_c_(d). Now\r\nhere\r\n", "SEE https://example.org/a_b_c_(d). NOW\r\nHERE\r\n"),
    ("Some title\n-----\n\\* no item\n", "SOME TITLE\n-----\n\\* NO ITEM\n"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), [pair for pair in TRANSLATED if pair[1]])
def test_texts_are_translated_and_their_markup_stays(text, expected):
    assert shout(text) == expected
    assert translated(text, "a.md", SAME) == text


@pytest.mark.parametrize("text", ["Type \\:smile: here: now.\n", "Type https\\://a.example: a link.\n"])
def test_a_colon_that_would_make_an_emoji_or_an_address_stays_escaped(text):
    assert translated(text, "a.md", SAME) == text


@pytest.mark.parametrize("text", [text for text, _ in TRANSLATED])
def test_documents_have_the_same_structure_backwards(text):
    assert structure(translated(text, "a.md", BACKWARDS)) == structure(text)


def structure(text):
    """The blocks of a document, and how many of each kind of inline token they have."""
    tokens = MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(text)
    kinds = ("text", "softbreak")
    return [
        (token.type, token.tag, sorted(child.type for child in token.children or () if child.type not in kinds))
        for token in tokens
    ]


def test_badges_are_translated_one_by_one():
    document = read_markdown("[![Build status](a)](b) [![Latest version](c)](d)\n[Home](e) | [About us](f)\n")
    assert [segment.content for segment in document.segments] != [["Build status Latest version Home About us"]]
    assert sorted(segment.content[0] for segment in document.segments) == [
        "About us", "Build status", "Home", "Latest version",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "line", ["# x", "- x", "+ x", "1. x", "2) x", "> x", "```x", "---", "===", ": x", ":::x", "| x", "[a]: x"]
)
def test_a_translation_begins_no_block_by_chance(line):
    engine = by_word(lambda word: line if word == "Start" else word)
    for text, number in (("Start here\n", 0), ("Some words that come first\nStart here and go on so\n", 1)):
        found = translated(text, "a.md", engine)
        assert structure(found) == structure(text), found
        assert number == 0 or "\n" in found.rstrip("\n")


def test_a_heading_is_not_closed_by_chance():
    assert translated("# Word\n", "a.md", by_word(lambda word: f"{word} C #")) == "# Word C \\#\n"


def test_emphasis_beside_characters_without_spaces_is_still_emphasis():
    def japanese(word):
        return word.replace("Word", "これは「語」です").replace("Bold", "重要")

    for text in ("_Bold_ Word\n", "Word **Bold** Word\n"):
        found = translated(text, "a.md", by_word(japanese))
        assert structure(found) == structure(text)


def test_spaces_inside_of_links_and_tags_separate_words():
    assert shout("One<i>, </i>two[ three ](x)four\n") == "ONE<i>,</i> TWO [THREE](x) FOUR\n"


@pytest.mark.parametrize(
    ("text", "engine", "expected"),
    [
        ("Big un*frigging*believable **thing**\n", SHOUTING, "BIG UNFRIGGINGBELIEVABLE **THING**\n"),
        ("Go _on_)*(-)*(two\n", by_word(lambda word: f"{word}x"), "Gox *on*)(twox(-)\n"),
    ],
)
def test_emphasis_that_has_no_place_is_left_out_and_counted(text, engine, expected):
    document = translate_document(text.encode(), "a.md", ("en", "fr"), engine)
    assert document.content.decode() == expected
    (note,) = document.report.notes()
    assert note.startswith("lacks 1 format in its translation")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The ~~old~~**new** house.", [["The ", "old"], ["new", " house."]]),
        ("**new**~~old~~", [["new"], ["old"]]),
        ("See [one](a)[two](b) now.", [["See ", "one"], ["two", " now."]]),
        ("~~re~~done in **b**old", [["re", "done in ", "b", "old"]]),
        ("The <del>old</del><ins>new</ins> house.", [["The ", "old"], ["new", " house."]]),
        ("The <s>old</s><b>new</b> house.", [["The ", "old"], ["new", " house."]]),
    ],
)
def test_what_was_said_and_what_is_said_instead_are_no_one_word(text, expected):
    for document in [read_markdown(text)] + [read_html(f"<p>{text}</p>")] * ("<" in text):
        assert [[part for part in each.content if isinstance(part, str)] for each in document.segments] == expected


def test_lines_of_chinese_are_joined_without_spaces():
    (segment,) = read_markdown("> 这是一个\n> 很长的句子。\n").segments
    assert segment.content == ["这是一个很长的句子。"]


@pytest.mark.parametrize(
    "text",
    [
        "a\n\n> b\nc\n> - d\n>   e\n\n1. f\n\n   g\n     h\n- \n  i\n\tj\n",
        "a | b\n- | -\nc\n# d\n\te\n\nf\n***\ng\n---\n<div>\nh\n\ni\n",
        "[a]: b\n[c]:\n  <d e> 'f\ng'\nh\n\n- - i\n  - > j\nk\n",
    ],
)
def test_blocks_are_those_that_another_parser_finds(text):
    tokens = MarkdownIt("commonmark").enable(["table"]).parse(text)
    expected = [re.sub(r"(?m)^\s+|\s+$", "", token.content) for token in tokens if token.type == "inline"]
    blocks = [block for block in read_blocks(text).texts if block.kind not in ("html", "label")]
    found = ["\n".join(text[start:end].strip() for start, end in block.lines) for block in blocks]
    assert found == expected


@pytest.mark.parametrize(
    "mark",
    [
        "*_", ">", "> ", "[", "](", "[a](", "<!--", "`", "a`", "``` `", "|", "{%", "{{<", "$", "$$\n", "\\[\n",
        "<a b='", "<a ", "![", "[[a|", "- ", "&", "~", "{", "[a](b 'c", "<![CDATA[",
    ],
)  # fmt: skip
def test_a_mark_repeated_takes_no_time_to_speak_of(mark):
    begin = time.process_time()
    text = mark * (2**17 // len(mark))
    assert translated(text, "a.md", SAME) == text
    assert time.process_time() - begin < 5
