"""Pages as strangers write them: what people read is translated, all else stays, and nothing is lost."""

import time
from collections import Counter
from html import unescape

import pytest

from dragoman.documents.document import Code
from dragoman.documents.html import closed_up, inline_tag, read_html
from dragoman.documents.registry import translate_document
from tests.documents.engines import BACKWARDS, SAME, SHOUTING, by_word, translated

PAGES = {
    # Elements that are not translated end where HTML's rules say so.
    '<p translate="no">One<p>Two': '<p translate="no">One<p>TWO',
    "<ul><li translate=no>One<li>Two</ul>": "<ul><li translate=no>One<li>TWO</ul>",
    "<dl><dt translate=no>One<dd>Two</dl>": "<dl><dt translate=no>One<dd>TWO</dl>",
    "<table><tr><td translate=no>a b<th>c d<tr translate=no><td>e f<tbody><tr><td>g h</table>i j": (
        "<table><tr><td translate=no>a b<th>C D<tr translate=no><td>e f<tbody><tr><td>G H</table>I J"
    ),
    "<table><tr><td><table translate=no><tr><td>in</table>out</table>": (
        "<table><tr><td><table translate=no><tr><td>in</table>OUT</table>"
    ),
    "<select><optgroup translate=no label=One><option>Two<optgroup label=Three><option>Four</select>": (
        "<select><optgroup translate=no label=One><option>Two<optgroup label=THREE><option>FOUR</select>"
    ),
    "<head translate=no><title>One</title><p>Two": "<head translate=no><title>One</title><p>TWO",
    "<head class=notranslate><title>One</title>Two": "<head class=notranslate><title>One</title>TWO",
    "<div><p translate=no>One</div>Two": "<div><p translate=no>One</div>TWO",
    "<div><span translate=no>One</div>Two": "<div><span translate=no>One</div>TWO",
    "<p>One <code>two<p>Three": "<p>ONE <code>two<p>THREE",
    "<a translate=no><div>One</a>Two</div>Three": "<a translate=no><div>One</a>TWO</div>THREE",
    "<svg translate=no><path>One<p>Two": "<svg translate=no><path>One<p>TWO",
    "<h2 translate=no>One</h3>Two": "<h2 translate=no>One</h3>TWO",
    "<p>One</span> two</b>.": "<p>ONE</span> TWO</b>.",
    "<P TRANSLATE=NO>One</P><p CLASS='x NoTranslate'>Two</p>Three": (
        "<P TRANSLATE=NO>One</P><p CLASS='x NoTranslate'>Two</p>THREE"
    ),
    # Translated inside of what is not.
    '<div translate=no>One <b translate="yes">two</b> three <i translate>four <img alt=five></i><img alt=six></div>': (
        '<div translate=no>One <b translate="yes">TWO</b> three <i translate>FOUR <img alt=FIVE></i><img alt=six></div>'
    ),
    "<p>One <span class=notranslate>two <b translate=yes>three</b></span> four": (
        "<p>ONE <span class=notranslate>two <b translate=yes>THREE</b></span> FOUR"
    ),
    "<p>One <span translate=no>two <b translate=yes>three</span> four": (
        "<p>ONE <span translate=no>two <b translate=yes>THREE</span> FOUR"
    ),
    "<div translate=no><p translate=''>One</p><p>Two</div>": "<div translate=no><p translate=''>ONE</p><p>Two</div>",
    "<pre translate=yes>one\n  two</pre>": "<pre translate=yes>ONE\n  TWO</pre>",
    # Attributes that people read.
    '<input type=SUBMIT value=Send><input type=button value="Go on"><input value=Keep>': (
        '<input type=SUBMIT value=SEND><input type=button value="GO ON"><input value=Keep>'
    ),
    "One <img src=a.png alt=Dog> and <img alt=Dogs data-alt=Dog> two": (
        "ONE <img src=a.png alt=DOG> AND <img alt=DOGS data-alt=Dog> TWO"
    ),
    '<table summary="One"><th abbr="Two">Three<td title=\'It &amp; "that"\'>': (
        '<table summary="ONE"><th abbr="TWO">THREE<td title=\'IT &amp; "THAT"\'>'
    ),
    '<p aria-label="One" aria-description="Two" aria-placeholder="Three" aria-roledescription="Four">': (
        '<p aria-label="ONE" aria-description="TWO" aria-placeholder="THREE" aria-roledescription="FOUR">'
    ),
    '<meta name=Description content="One"><meta property="og:title" content="Two"><meta name=x content="Three">': (
        '<meta name=Description content="ONE"><meta property="og:title" content="TWO"><meta name=x content="Three">'
    ),
    "<p title='One </ two > three'>": "<p title='ONE </ TWO > THREE'>",
    '<iframe title="One">two</iframe><p title="a" title="b">': (
        '<iframe title="ONE">two</iframe><p title="A" title="b">'
    ),
    # What is read though it looks as if it were not, and the other way round.
    "<noscript>One <b>two</b></noscript><template><p>Three</template>": (
        "<noscript>ONE <b>TWO</b></noscript><template><p>THREE</template>"
    ),
    "<textarea>One\n <two</textarea>": "<textarea>ONE\n &lt;TWO</textarea>",
    "<title>One </p two</title>": "<title>ONE &lt;/P TWO</title>",
    "See <svg><title>One</title><text>Two</text><desc>Three</desc><style>a</style></svg> four": (
        "SEE <svg><title>ONE</title><text>TWO</text><desc>THREE</desc><style>a</style></svg> FOUR"
    ),
    "<svg><title/><path/></svg><p>One": "<svg><title/><path/></svg><p>ONE",
    "<button>One</button><button>Two</button>": "<button>ONE</button><button>TWO</button>",
    "<!--[if IE]><p>One</p><![endif]--><![if !IE]>Two<![endif]><p>Three": (
        "<!--[if IE]><p>One</p><![endif]--><![if !IE]>TWO<![endif]><p>THREE"
    ),
    "<!--><p>One</p>--><p>Two<!-- never closed <p>three": "<!--><p>ONE</p>--><p>TWO<!-- never closed <p>three",
    "<script>if (a <b) '</p>'</SCRIPT >One<style>p</style>": "<script>if (a <b) '</p>'</SCRIPT >ONE<style>p</style>",
    "One <a href='": "ONE <a href='",
    "a < b, 3 > 2 & R&D now": "A < B, 3 > 2 & R&D NOW",
    '<?xml version="1.0"?><script src="a"/><title/><p>One</p>': (
        '<?xml version="1.0"?><script src="a"/><title/><p>ONE</p>'
    ),
    # Code of templates.
    "One {{ name|upper }} {% if a > b %}two{% endif %}{# note #}": (
        "ONE {{ name|upper }} {% if a > b %}TWO{% endif %}{# note #}"
    ),
    "<div {% if a > b %}class='c'{% endif %} {{ attributes }}>One": (
        "<div {% if a > b %}class='c'{% endif %} {{ attributes }}>ONE"
    ),
    '<a href="{{ url("x") }}" title="Hi {{ n|d("y") }} there">One</a>': (
        '<a href="{{ url("x") }}" title="HI {{ n|d("y") }} THERE">ONE</a>'
    ),
    "<p class='<?= $a->b ? \"c\" : 'd' ?>'>One <?php echo $x->y; ?> two <% if a > b %>": (
        "<p class='<?= $a->b ? \"c\" : 'd' ?>'>ONE <?php echo $x->y; ?> TWO <% if a > b %>"
    ),
    "One ${user.name} two [[ three ]] <{{ tag }} class='four'>five</{{ tag }}>": (
        "ONE ${user.name} TWO [[ three ]] <{{ tag }} class='four'>FIVE</{{ tag }}>"
    ),
    "<p>One<?php if ($a) { echo '<b>two</b>'; }": "<p>ONE<?php if ($a) { echo '<b>two</b>'; }",
    # Readings of characters.
    "<ruby>one<rp>(</rp><rt>two<rp>)</ruby> three": "<ruby>ONE<rp>(</rp><rt>two<rp>)</ruby> THREE",
}  # fmt: skip
"""Pages, and how they are in capitals."""


@pytest.mark.parametrize("page", PAGES)
def test_what_people_read_is_translated_and_all_else_stays(page):
    assert translated(page, "a.html", SHOUTING) == PAGES[page]


@pytest.mark.parametrize("page", PAGES)
def test_an_engine_that_changes_nothing_gives_equal_bytes(page):
    assert translated(page, "a.html", SAME) == page


@pytest.mark.parametrize("page", PAGES)
def test_no_tag_is_lost_or_added_whatever_order_the_words_have(page):
    found = translated(page, "a.html", BACKWARDS)
    assert Counter("".join(unescape(found).split())) == Counter("".join(unescape(page).split()))


@pytest.mark.parametrize(
    ("page", "texts"),
    [
        ("<nav><a>Home</a><a>About us</a></nav>", ["Home", "About us"]),
        ("<a>Home</a> | <a>About us</a> · <a>More</a>", ["Home", "About us", "More"]),
        ("<p><span><a>Home</a>\n<a><i class=icon></i> About us</a></span>", ["Home", "About us"]),
        ("<span class=badge>New</span><span>3 items</span>", ["New", "3 items"]),
        ("<span class='tag big'>New</span> <span class=tag>cheap</span>", ["New", "cheap"]),
        ("<b>Name</b> / <i>first or last</i>", ["Name", "first or last"]),
        ("<label><input type=radio> Yes</label><label><input type=radio> No</label>", ["Yes", "No"]),
        ("<input type=radio> Yes <input type=radio> No", ["Yes", "No"]),
        ("By <a>Tom</a><a>Follow</a>", ["By Tom", "Follow"]),
        ("<my-item>Home</my-item><my-item>About</my-item>", ["Home", "About"]),
        ("<a>1</a> <a>2</a> <a>Next page</a>", ["Next page"]),
        ("First line<br>goes on<br><br>Second", ["First line goes on", "Second"]),
        ("Text<img>more<wbr>words<br>here", ["Text more words here"]),
        ("<p>The <b>red</b> <i>house</i> is old.", ["The red house is old."]),
        ("<p><b>Note:</b> <i>the house</i>", ["Note: the house"]),
        ("<p>See <a>one</a> <a>two</a> for more", ["See one two for more"]),
        ("<p><b>W</b><i>orld</i> <b>U</b><i>S</i>", ["World US"]),
        ("Hello<span> </span>world", ["Hello world"]),
        ("<code>x</code> is <i></i>a <tt>name</tt>", ["{1} is a name"]),
        ("One<i>, </i>two <b>three </b>four<a> five</a>", ["One two three four five"]),
        ("This<i>—</i>that<b>/</b>other e<i>\xad</i>mail", ["This that other email"]),
        ("<td>½<td>1º<td>²<td>Ⅳ<td>One", ["One"]),
    ],
)
def test_what_only_touches_is_no_sentence(page, texts):
    asked = []
    engine = by_word(str)
    translate_document(
        page.encode(),
        "a.html",
        ("en", "fr"),
        type(engine)(lambda each: asked.extend(each) or engine.translate(each), True),
    )
    assert sorted(asked) == sorted(texts)


def test_blanks_around_the_texts_of_a_row_stay():
    assert translated("<a>Home </a><a> About</a>", "a.html", SHOUTING) == "<a>HOME </a><a> ABOUT</a>"


def test_a_page_says_that_it_is_in_the_target_language():
    page = (
        "<html lang='en-US' xml:lang=en><meta http-equiv=Content-Language content=en>"
        "<meta property=og:locale content=en_US><p lang=de>Hallo</p><p lang=fr>Bonjour</p>"
        "A <i lang=en>word</i> or <i lang=la>verbum</i> <q lang=de>x <b lang=en>y</b></q>"
    )
    expected = (
        "<html lang='fr' xml:lang=fr><meta http-equiv=Content-Language content=fr>"
        "<meta property=og:locale content=fr><p lang=de>Hallo</p><p lang=fr>Bonjour</p>"
        "A <i lang=fr>WORD</i> OR <i lang=la>verbum</i> <q lang=de>x <b lang=fr>Y</b></q>"
    )
    assert translated(page, "a.html", SHOUTING) == expected
    assert translated(page, "a.html", SAME) == page
    assert read_html(page, ("en", "fr")).done == 1


def test_a_page_that_names_another_language_is_translated_and_the_person_told():
    content = b"<html lang=de><p>One</p></html>"
    document = translate_document(content, "a.html", ("en", "fr"), SHOUTING)
    assert document.content == b"<html lang=de><p>ONE</p></html>"
    assert document.report.notes() == ["says that its language is 'de'; it was translated from 'en'."]


@pytest.mark.parametrize(
    ("language", "written"), [("pt_BR", "pt-BR"), ("deu", "de"), ("zh-Hant", "zh-Hant"), ("fr", "fr")]
)
def test_a_language_is_named_as_html_names_it(language, written):
    page = b"<html lang=en>One"
    assert f"lang={written}>" in translate_document(page, "a.html", ("en", language), SHOUTING).content.decode()


def test_references_are_spelled_as_in_the_source():
    page = "<p title='&ldquo;a&quot; &amp; b'>caf&eacute; &copy; 20&nbsp;km &lt;b&gt; R&amp;D &#8212; <b>x</b>"
    assert translated(page, "a.html", BACKWARDS) == (
        "<p title='b &amp; &ldquo;a&quot;'><b>x</b> &#8212; R&amp;D &lt;b&gt; km&nbsp;20 &copy; caf&eacute;"
    )


def test_a_character_that_the_encoding_lacks_becomes_a_reference():
    engine = by_word(lambda word: f"“{word} ж”")
    page = b'<meta charset="iso-8859-1"><p title="caf\xe9">One</p>'
    expected = '<meta charset="iso-8859-1"><p title="“café &#1078;”">“One &#1078;”</p>'.encode("cp1252")
    assert translate_document(page, "a.html", ("en", "fr"), engine).content == expected
    page = "<meta charset=x-sjis><p>日本 One</p>".encode("cp932")
    assert translate_document(page, "a.html", ("en", "fr"), SHOUTING).content == page.replace(b"One", b"ONE")


@pytest.mark.parametrize("label", ["iso-8859-1", "ascii", "latin1", "us-ascii", "windows-1252"])
def test_latin_1_on_the_web_is_windows_1252(label):
    page = f"<meta charset={label}><p>\u201cOne\u201d \u2014 caf\u00e9".encode("cp1252")
    assert translate_document(page, "a.html", ("en", "fr"), BACKWARDS).content == (
        f"<meta charset={label}><p>caf\u00e9 \u2014 \u201cOne\u201d".encode("cp1252")
    )
    undefined = page + b" \x81"
    assert translate_document(undefined, "a.html", ("en", "fr"), SAME).content == undefined


def test_inline_tags_are_codes_by_their_elements():
    kinds = {
        "<b>": "open", "</b>": "close", "<img alt=x>": "alone", "<br/>": "break", "<x id=1 />": "alone",
        "<!-- x -->": "alone", "<?php echo 1 ?>": "word", "<wbr>": "alone", "<code>": "open",
        "</code>": "close", "<": "alone",
    }  # fmt: skip
    assert {markup: inline_tag(markup).kind for markup in kinds} == kinds
    assert inline_tag("<SPAN>").name == inline_tag("</span>").name == "span"


def test_elements_that_are_not_translated_are_closed_up():
    spelled = [
        "A ",
        "<code class=x>",
        "x ",
        "<code>",
        "y",
        "</code>",
        "</code>",
        " <",
        "<b>",
        "c",
        "</b>",
        "<i translate=no>",
        "d",
    ]
    content = [inline_tag(part) if part.startswith("<") and part != " <" else part for part in spelled]
    closed = closed_up(content)
    assert [part.kind if isinstance(part, Code) else part for part in closed] == [
        "A ", "word", " <", "open", "c", "close", "word"
    ]  # fmt: skip
    assert [part.markup for part in closed if isinstance(part, Code)] == [
        "<code class=x>x <code>y</code></code>", "<b>", "</b>", "<i translate=no>d"
    ]  # fmt: skip
    assert closed_up([inline_tag("<b translate=yes>"), "x"])[1] == "x"


def page_of(pattern: str) -> str:
    return pattern * (10_000 // len(pattern))


HOSTILE = [
    "<!--", "<![CDATA[", "<", "&", "</", "<a ", '<a "', '<a b="', "<a b='", "{{", "{%", "${", "[[", "<?php ", "<%",
    "<b>", "<div>", "<b><div>x", "<img alt=a>x ", "<svg><title>a", "<table><tr><td>a", "<script>", "<title>",
    "<b translate=no>a", "<b translate=no>a<b translate=yes>b", "<i></i>", "<x><x>a</x>", "<a>x</a> ",
    "<span class=badge class=", "<td>a", "<q lang=de>a<q lang=en>b", "<span>a</span>", "&#9", "<svg><foreignobject>a",
    "<h1>", "</b>", "<a {{", "<a b={{",
]  # fmt: skip


@pytest.mark.first_is_quick
@pytest.mark.parametrize("pattern", HOSTILE)
def test_a_repeated_mark_takes_time_in_proportion(pattern):
    page = page_of(pattern)
    seconds = []
    for text in (page, page * 8):
        start = time.process_time()
        read_html(text, ("en", "fr"))
        seconds.append(time.process_time() - start)
    assert seconds[1] < 40 * seconds[0] + 0.5


@pytest.mark.slow
@pytest.mark.parametrize(
    "page",
    [
        "<div>" * 40_000 + "two words" + "</div>" * 40_000,
        "<b><div>" * 20_000 + "x" + "</b>" * 20_000,
        "<b translate=no><div>" * 8_000 + "x" + "</b>" * 8_000,
        "<b translate=no>a <i translate=yes>b " * 10_000 + "</i></b>" * 10_000,
        "<p title='" + "a b " * 100_000 + "'>x",
        "<p title='" + "{{" * 100_000 + "'>x",
        "&#" + "9" * 100_000 + "; one",
        "<x>a</x><x>" * 8_000 + "b" + "</x>" * 8_000,
        "<span>" * 8_000 + "<p>a" * 8_000,
    ],
    ids=["depth", "crossed", "untranslated", "alternating", "value", "braces", "digits", "rows", "paragraphs"],
)
def test_a_hostile_page_is_read_soon(page):
    start = time.process_time()
    read_html(page, ("en", "fr"))
    assert time.process_time() - start < 10
