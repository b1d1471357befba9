"""XLIFF, TMX and pieces of XML as other tools write them: nothing human is overwritten, no code is lost."""

import re
import time
from collections import Counter

import pytest

from dragoman.documents import xml
from dragoman.documents.document import FormatError
from dragoman.documents.registry import translate_document
from dragoman.documents.translate import translate_documents
from dragoman.documents.xml import read_fragment
from dragoman.errors import DataError
from tests.documents.engines import BACKWARDS, SAME, SHOUTING, by_word

GERMAN = by_word(lambda word: "süß→")


def old(units: str, attributes: str = 'source-language="en" target-language="fr"') -> str:
    """A file of XLIFF 1.2."""
    return f'<xliff version="1.2"><file {attributes}><body>{units}</body></file></xliff>'


def unit(inner: str, attributes: str = "") -> str:
    return f'<trans-unit id="1"{attributes}>{inner}</trans-unit>'


def new(segments: str, attributes: str = 'srcLang="en" trgLang="fr"') -> str:
    """A file of XLIFF 2."""
    return f'<xliff version="2.0" {attributes}><file id="f"><unit id="u">{segments}</unit></file></xliff>'


def memory(units: str, doctype: str = "") -> str:
    return f'<?xml version="1.0"?>\n{doctype}<tmx version="1.4"><header srclang="en"/><body>{units}</body></tmx>'


def read(content: str | bytes, name: str = "a.xlf", engine=BACKWARDS, languages=("en", "fr")) -> str:
    content = content.encode() if isinstance(content, str) else content
    return translate_document(content, name, languages, engine).content.decode()


DONE = [
    unit("<source>Good morning</source><target>Buenos días</target>"),
    unit('<source>Good morning</source><target state="translated">Buenos días</target>'),
    unit('<source>Good morning</source><target state="translated">Good morning</target>'),
    unit('<source>Good morning</source><target state="needs-review-translation">Buenos días</target>'),
    unit('<source>Good morning</source><target state="needs-adaptation">Buenos días</target>'),
    unit("<source>Good morning</source><target>Good morning</target>", ' approved="yes"'),
    unit('<source>Good morning</source><target state="new">Buenos días</target>'),
    unit('<source>Good morning</source><target state="final"/>'),
    unit("<target>Buenos días</target><source>Good morning</source>"),
    unit("<source>Good day</source><target><mrk mtype='protected'>Hola</mrk></target>"),
    unit(
        "<source>A b. C d.</source><seg-source><mrk mtype='seg' mid='0'>A b.</mrk> <mrk mtype='seg' mid='1'>C d.</mrk>"
        "</seg-source><target><mrk mtype='seg' mid='0'>E.</mrk> <mrk mtype='seg' mid='1'>F.</mrk></target>"
    ),
]
DONE_IN_2 = [
    "<segment><source>Good morning</source><target>Buenos días</target></segment>",
    '<segment state="initial"><source>Good morning</source><target>Buenos días</target></segment>',
    '<segment state="translated"><source>Good morning</source><target>Good morning</target></segment>',
    '<segment state="final"><source>Good morning</source><target/></segment>',
]


@pytest.mark.parametrize("content", [*map(old, DONE), *map(new, DONE_IN_2)])
def test_a_translation_stays_whatever_the_file_says_of_it(content):
    translated = translate_document(content.encode(), "a.xlf", ("en", "fr"), BACKWARDS)
    assert translated.content.decode() == content
    assert translated.report.done in (1, 2)


@pytest.mark.parametrize(
    "target",
    [
        "",
        "<target/>",
        "<target></target>",
        "<target> </target>",
        '<target state="new">Good morning</target>',
        '<target state="needs-translation">Good morning</target>',
        "<target>Good  morning</target>",
        "<target>__Good morning</target>",
        '<target><x id="1"/></target>',
    ],
)
def test_a_missing_translation_or_a_copy_of_the_source_is_filled(target):
    found = read(old(unit(f"<source>Good morning</source>{target}")))
    assert '<target state="needs-review-translation">morning Good</target>' in found


def test_in_xliff_2_a_copy_is_filled_and_ignorables_stay():
    content = new(
        '<segment state="initial" subState="a:b"><source>Good morning</source><target>Good morning</target></segment>'
        "<ignorable><source> - </source></ignorable><segment><source>A dog</source></segment>"
    )
    found = read(content)
    assert found.count('<segment state="translated">') == 2
    assert "<target>morning Good</target>" in found
    assert "<ignorable><source> - </source></ignorable>" in found


def test_what_is_not_to_be_translated_stays():
    group = f'<group translate="no"><group>{unit("<source>A dog</source>")}</group></group>'
    content = old(group + unit("<source>A b</source>", ' translate="no"'))
    assert read(content) == content
    source = 'The <mrk mtype="protected">Big Dog</mrk> and <mrk translate="no">so on</mrk> barks'
    target = read(old(unit(f"<source>{source}</source>"))).partition("<target")[2]
    assert '<mrk mtype="protected">Big Dog</mrk>' in target
    assert '<mrk translate="no">so on</mrk>' in target
    proposal = "<alt-trans><source>A cat</source><target>Un chat</target></alt-trans>"
    assert proposal in read(old(unit(f"<source>A dog</source>{proposal}<note>A note</note>")))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (old(unit("<source>Der Hund</source>"), 'source-language="de" target-language="fr"'), "from de to fr"),
        (old(unit("<source>A dog</source>"), 'source-language="en" target-language="it"'), "from en to it"),
        (new("<segment><source>Der Hund</source></segment>", 'srcLang="de"'), "from de to some language"),
    ],
)
def test_files_in_other_languages_are_refused(content, words):
    with pytest.raises(DataError, match=f"says that it is {words}, and the model translates from en to fr; choose"):
        read(content)
    assert "<target" in read(content, languages=(None, None))


@pytest.mark.parametrize(
    ("named", "model"),
    [
        ("en-GB", "en-US"),
        ("en-US", "en"),
        ("en", "en-GB"),
        ("de-AT", "de-DE"),
        ("ZH-hans-CN", "zh"),
        ("zh-SG", "zh-CN"),
    ],
)
def test_regions_of_a_language_agree(named, model):
    content = old(unit("<source>A dog</source>"), f'source-language="{named}" target-language="{named}"')
    assert ">dog A</target>" in read(content, languages=(model, model))
    content = memory(f'<tu><tuv xml:lang="{named}"><seg>A dog</seg></tuv></tu>')
    assert "<seg>dog A</seg>" in read(content, "a.tmx", languages=(model, "fr"))


@pytest.mark.parametrize(
    ("named", "model"), [("zh-Hant", "zh-Hans"), ("zh-TW", "zh-CN"), ("sr-Latn", "sr-Cyrl"), ("sr", "sr-Latn")]
)
def test_scripts_of_a_language_do_not(named, model):
    with pytest.raises(DataError, match=f"says that it is from en to {named}"):
        read(
            old(unit("<source>A dog</source>"), f'source-language="en" target-language="{named}"'),
            languages=("en", model),
        )
    with pytest.raises(DataError, match=f"has texts in {named}, and none in {model}"):
        read(memory(f'<tu><tuv xml:lang="{named}"><seg>A dog</seg></tuv></tu>'), "a.tmx", languages=(model, "fr"))


def test_regions_agree_and_a_missing_target_language_is_named():
    assert "dog A" in read(old(unit("<source>A dog</source>"), 'source-language="en-US" target-language="fr-CA"'))
    assert '<file source-language="en" target-language="fr">' in read(
        old(unit("<source>A dog</source>"), 'source-language="en"')
    )
    assert 'target-language="fr"' in read(
        old(unit("<source>A dog</source>"), 'source-language="en" target-language=""')
    )
    assert ' trgLang="fr">' in read(new("<segment><source>A dog</source></segment>", 'srcLang="en"'))
    nothing = old(unit("<source>123</source>"), 'source-language="en"')
    assert read(nothing) == nothing


def test_of_several_files_those_in_the_languages_are_filled():
    other = (
        '<file source-language="en" target-language="de"><body><trans-unit><source>A cat</source></trans-unit></body>'
    )
    content = old(unit("<source>A dog</source>")).replace("</xliff>", f"{other}</file></xliff>")
    translated = translate_document(content.encode(), "a.xlf", ("en", "fr"), BACKWARDS)
    assert translated.content.decode().endswith(f"{other}</file></xliff>")
    assert "has 1 text in other languages, left unchanged." in translated.report.notes()


@pytest.mark.parametrize(
    "source",
    [
        'There are <x id="10"/> files',
        'Hello <x id="INTERPOLATION" equiv-text="{{ name }}"/>, <x id="START_LINK_1"/>come<x id="CLOSE_LINK"/>!',
        'One <g id="1">two <g id="2">three</g></g> four <bx id="3"/>five<ex id="3"/> six',
        'A <bpt id="1">&lt;b title="<sub>the tip</sub>"&gt;</bpt>bold<ept id="1">&lt;/b&gt;</ept> word',
        'A <it id="1" pos="open">&lt;i&gt;</it>word <ph id="2">&lt;br/&gt;</ph>and another',
        'It is <mrk mtype="x-term">a term</mrk> <!-- note --> here <?pi x?> now',
        '<pc id="1">All of it</pc> and <sc id="2"/>some<ec startRef="2"/> <cp hex="001F"/>more',
        "Tags &lt;b&gt; and &quot;quotes&quot; &#233; &#x1F600; &gt; a",
        "  Spaces  around\n   and inside ",
        "<![CDATA[Some <b>bold</b> text]]>",
        "<![CDATA[Some]]> mixed <![CDATA[text]]>",
    ],
)
def test_codes_occur_as_often_and_unchanged_text_is_spelled_as_it_was(source):
    content = old(unit(f"<source>{source}</source>"))
    assert f"<source>{source}</source>" in read(content, engine=SAME)
    assert re.search(r"<target[^>]*>(.*)</target>", read(content, engine=SAME), re.DOTALL)[1] == source
    for engine in (BACKWARDS, SHOUTING):
        target = re.search(r"<target[^>]*>(.*)</target>", read(content, engine=engine), re.DOTALL)[1]
        marks = r"<(?!!\[CDATA)[^>]*>"
        if "CDATA" not in source:
            assert Counter(re.findall(marks, target)) == Counter(re.findall(marks, source))


def test_sections_of_plain_text_stay_sections():
    found = read(old(unit("<source> <![CDATA[Big & bold]]> </source>")))
    assert '<target state="needs-review-translation"> <![CDATA[bold & Big]]> </target>' in found


def test_outer_spaces_and_lines_of_preserved_text_stay():
    found = read(old(unit("<source>Name: Tom\n  City: Boston \n</source>", ' xml:space="preserve"')))
    assert ">Tom Name:\n  Boston City: \n</target>" in found


def test_sentences_without_numbers_are_all_translated():
    source = '<mrk mtype="seg">Red dog.</mrk> <mrk mtype="seg">Old cat.</mrk>'
    found = read(old(unit(f"<source>x</source><seg-source>{source}</seg-source>")))
    assert '<mrk mtype="seg">dog. Red</mrk> <mrk mtype="seg">cat. Old</mrk></target>' in found


def test_segmented_sources_have_targets_of_the_same_segments():
    source = '<mrk mtype="seg" mid="0">Red dog.</mrk> <g id="1"><mrk mtype="seg" mid="1">Old cat.</mrk></g>'
    inner = f'<source>Red dog. <g id="1">Old cat.</g></source><seg-source>{source}</seg-source>'
    expected = '<mrk mtype="seg" mid="0">dog. Red</mrk> <g id="1"><mrk mtype="seg" mid="1">cat. Old</mrk></g></target>'
    assert expected in read(old(unit(inner)))
    half = '<target><mrk mtype="seg" mid="0">Chien rouge.</mrk> <g id="1"><mrk mtype="seg" mid="1"/></g></target>'
    translated = translate_document(old(unit(inner + half)).encode(), "a.xlf", ("en", "fr"), BACKWARDS)
    assert expected.replace("dog. Red", "Chien rouge.") in translated.content.decode()
    assert (translated.report.done, translated.report.translated) == (1, 1)


@pytest.mark.parametrize(
    ("source", "target"),
    [
        (
            '{N, plural, =0 {} =1 {one <x id="START_B"/>big<x id="CLOSE_B"/> file} other {<x id="I"/> &amp; files #}}',
            '{N, plural, =0 {} =1 {file <x id="START_B"/>big<x id="CLOSE_B"/> one} other {# files &amp; <x id="I"/>}}',
        ),
        (
            '{g, select, male {{n, plural, one {his cat} other {his <x id="1"/> cats}}} other {<x id="2"/> it is}}',
            '{g, select, male {{n, plural, one {cat his} other {cats <x id="1"/> his}}} other {is it <x id="2"/>}}',
        ),
        ("<g id='1'>{n, plural, other {it''s # files}}</g>", "<g id='1'>{n, plural, other {files # it''s}}</g>"),
        ("{n, plural, other {&lt;b&gt;a b&lt;/b&gt; c}}", "{n, plural, other {c &lt;b&gt;b a&lt;/b&gt;}}"),
        (" <![CDATA[{n, plural, other {a & <b>b</b>}}]]>", " <![CDATA[{n, plural, other {<b>b</b> & a}}]]>"),
    ],
)
def test_messages_of_icu_are_translated_branch_by_branch(source, target):
    content = old(unit(f"<source>{source}</source>"))
    assert f'review-translation">{target}</target>' in read(content)
    assert f'review-translation">{source}</target>' in read(content, engine=SAME)
    tmx = memory(f'<tu><tuv xml:lang="en"><seg>{source}</seg></tuv></tu>')
    assert f'<tuv xml:lang="fr"><seg>{target}</seg></tuv>' in read(tmx, "a.tmx")


def test_messages_of_which_a_sentence_would_be_cut_stay():
    message = "You have {N, plural, =1 {one file} other {many files}}"
    sentences = '<mrk mtype="seg" mid="1">{}</mrk> <mrk mtype="seg" mid="2">{}</mrk>'
    content = old(unit(f"<source>{message}</source>"))
    translated = translate_document(content.encode(), "a.xlf", ("en", "fr"), BACKWARDS)
    assert translated.content.decode() == content
    assert "has 1 text with ICU forms in the midst of a sentence" in translated.report.notes()[0]
    parts = f"<seg-source>{sentences.format(message, 'A dog')}</seg-source><target>{sentences.format('', '')}</target>"
    assert sentences.format("", "dog A") in read(old(unit(f"<source>x</source>{parts}")))
    content = memory(f'<tu><tuv xml:lang="en"><seg>{message}</seg></tuv></tu>')
    assert read(content, "a.tmx") == content


CROSSED = [
    'One <bx id="1"/>two <g id="2">three<ex id="1"/> four</g> five',
    'One <g id="2">two <bx id="1"/>three</g> four<ex id="1"/> five',
    'One <bpt id="1">&lt;b></bpt>two <g id="2">three<ept id="1">&lt;/b></ept> four</g> five',
    'One <x id="START_BOLD"/>two <mrk mtype="x">three<x id="CLOSE_BOLD"/> four</mrk> five',
    'One <sm id="1"/>two <pc id="2">three<em startRef="1"/> four</pc> five',
    'One <sc id="1"/>two <mrk id="2">three<ec startRef="1"/> four</mrk> five',
    'One <sm id="1" translate="no"/>two <pc id="2">three<em startRef="1"/> four</pc> five',
    'One <bx id="1"/>two <g id="2">three<bx id="1"/> four</g> five<ex id="1"/> six<ex id="1"/>',
]


@pytest.mark.parametrize("source", CROSSED)
def test_codes_that_cross_elements_leave_the_elements_whole(source):
    for engine in (BACKWARDS, SHOUTING, SAME):
        found = read(old(unit(f"<source>{source}</source>")), engine=engine)
        xml.parse(found)
        assert Counter(re.findall("<[^>]*>", source)) == Counter(
            re.findall("<[^>]*>", re.search("<target[^>]*>(.*)</target>", found)[1])
        )


def test_ranges_that_are_not_to_be_translated_stay():
    source = 'One <sm id="1" translate="no"/>Big Dog<em startRef="1"/> or <sm id="2"/>red cat<em startRef="2"/>'
    target = '<sm id="2"/>cat red<em startRef="2"/> or <sm id="1" translate="no"/>Big Dog<em startRef="1"/> One'
    assert f"<target>{target}</target>" in read(new(f"<segment><source>{source}</source></segment>"))
    open_end = '<segment><source>One <sm id="1" translate="no"/>Big Dog</source></segment>'
    assert '<sm id="1" translate="no"/>Big Dog' in read(new(open_end)).partition("<target")[2]


def test_spaces_that_count_in_a_source_count_in_its_target():
    found = read(new('<segment><source xml:space="preserve">A b.\nC d.</source></segment>'))
    assert '<target xml:space="preserve">b. A\nd. C</target>' in found


@pytest.mark.parametrize("bad", ["&#x1F;", "\x0b", "&#xD83D;", "&#0;", "\ufffe"])
def test_a_character_that_xml_forbids_costs_its_unit_only(bad):
    damaged, sound = unit(f"<source>Bad{bad} text</source>"), unit("<source>A dog</source>")
    translated = translate_document(old(damaged + sound).encode(), "a.xlf", ("en", "fr"), BACKWARDS)
    assert damaged in translated.content.decode()
    assert ">dog A</target>" in translated.content.decode()
    assert "characters that XML forbids" in translated.report.notes()[0]
    tmx = memory(
        f'<tu><tuv xml:lang="en"><seg>Bad{bad} text</seg></tuv></tu><tu><tuv xml:lang="en"><seg>A dog</seg></tuv></tu>'
    )
    found = read(tmx, "a.tmx")
    assert f"Bad{bad} text" in found
    assert found.count("<tuv") == 3


@pytest.mark.parametrize(
    "doctype",
    [
        '<!DOCTYPE tmx SYSTEM "tmx14.dtd">',
        '<!DOCTYPE tmx PUBLIC "-//LISA OSCAR:1998//DTD for TMX//EN" "http://a.example/tmx14.dtd">',
        '<!DOCTYPE tmx [<!ELEMENT seg ANY> <!-- don\'t > --> <!ATTLIST seg a CDATA "x>y">]>',
    ],
)
def test_document_types_are_no_entities(doctype):
    content = memory('<tu><tuv xml:lang="en"><seg>A &eacute; dog</seg></tuv></tu>', doctype + "\n")
    content = content if "SYSTEM" in doctype or "PUBLIC" in doctype else content.replace("&eacute; ", "")
    assert re.search(r'<tuv xml:lang="fr"><seg>dog .*A</seg></tuv>', read(content, "a.tmx"))


def test_entities_are_refused():
    for name in ("a.tmx", "a.xlf"):
        with pytest.raises(DataError, match="defines entities"):
            read('<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>', name)
        with pytest.raises(DataError, match="defines entities"):
            read('<!DOCTYPE a [<!ENTITY b SYSTEM "file:///etc/passwd">]><a>&b;</a>', name)


def test_memories_in_other_languages_are_refused_and_empty_variants_filled():
    with pytest.raises(DataError, match=r"a\.tmx has texts in de, it, and none in en"):
        read(
            memory('<tu><tuv xml:lang="de"><seg>Hund</seg></tuv><tuv xml:lang="it"><seg>cane</seg></tuv></tu>'), "a.tmx"
        )
    with pytest.raises(DataError, match=r"has texts in no language that it names, and none in en"):
        read(memory("<tu><tuv><seg>Hund</seg></tuv></tu>"), "a.tmx")
    half = '<tu><tuv lang="en"><seg>A dog</seg></tuv><tuv lang="fr"><seg/></tuv></tu>'
    assert '<tuv lang="fr"><seg>dog A</seg></tuv>' in read(memory(half), "a.tmx")
    assert '<tuv lang="fr"><seg>cat A</seg></tuv>' in read(
        memory('<tu><tuv lang="en"><seg>A cat</seg></tuv></tu>'), "a.tmx"
    )


@pytest.mark.parametrize(
    ("variants", "is_filled"),
    [
        ('<tuv lang="en-US"><seg>A b</seg></tuv><tuv lang="fr"><seg> </seg></tuv>', True),
        ('<tuv lang="en-US"><seg>A b <ph x="1"/></seg></tuv><tuv lang="fr"><seg><ph x="1"/></seg></tuv>', True),
        ('<tuv lang="en-US"><seg>A b</seg></tuv><tuv lang="fr"><seg>C d</seg></tuv><tuv lang="fr"><seg/></tuv>', False),
        ('<tuv lang="en-US"><seg/></tuv><tuv lang="en"><seg>A b</seg></tuv>', True),
        ('<tuv lang="en-GB"><seg>C d</seg></tuv><tuv lang="en-US"><seg>A b</seg></tuv>', True),
    ],
)
def test_a_unit_of_a_memory_is_filled_where_no_variant_has_words(variants, is_filled):
    found = read(memory(f"<tu>{variants}</tu>"), "a.tmx", languages=("en-US", "fr"))
    assert ("b A" in found) == is_filled
    assert "d C" not in found


def test_a_new_variant_has_the_prefix_of_the_others():
    content = '<t:tmx xmlns:t="x"><t:tu><t:tuv xml:lang="en"><t:seg>A b</t:seg></t:tuv></t:tu></t:tmx>'
    assert '<t:tuv xml:lang="fr"><t:seg>b A</t:seg></t:tuv>' in read(content, "a.tmx")


@pytest.mark.parametrize("encoding", ["iso-8859-1", "utf-16", "utf-8-sig", "windows-1252"])
def test_encodings_are_kept_and_what_they_lack_is_spelled(encoding):
    declared = encoding.removesuffix("-sig")
    content = f'<?xml version="1.0" encoding="{declared}"?>' + old(unit("<source>Le caf\u00e9</source>"))
    found = translate_document(content.encode(encoding), "a.xlf", ("en", "fr"), GERMAN).content.decode(encoding)
    assert "caf\u00e9" in found
    assert ("süß→ süß→" if "utf" in encoding else "süß&#8594; süß&#8594;") in found


@pytest.mark.parametrize("name", ["a.xlf", "a.tmx"])
def test_only_the_declaration_names_the_encoding_of_xml(name):
    text = '<?xml version="1.0"?><!-- <meta charset="latin-1"> charset=latin-1\\n é -->'
    text += old("") if name == "a.xlf" else memory("").partition("?>")[2]
    assert read(text, name) == text
    python = old("").replace("<xliff", '<?xml version="1.0" encoding="punycode"?><xliff')
    assert read(python) == python


def test_names_with_prefixes_and_marks_in_attributes():
    content = (
        '<x:xliff xmlns:x="urn:x" version="1.2"><x:file source-language="en" target-language="fr" original="a > b">'
        "<x:trans-unit id='1 > 0'><x:source>A dog</x:source></x:trans-unit></x:file></x:xliff>"
    )
    assert '<x:target state="needs-review-translation">dog A</x:target>' in read(content)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.xlf", old(unit("<source>" + "<g>" * 100_000 + "x" + "</g>" * 100_000 + "</source>"))),
        ("a.tmx", "<tmx>" * 100_000 + "</tmx>" * 100_000),
    ],
)
def test_deep_nesting_gives_a_sentence(name, content):
    with pytest.raises(DataError, match="has too many elements inside of each other"):
        read(content, name)


@pytest.mark.first_is_quick
@pytest.mark.parametrize(
    "source",
    [
        'a word <x id="1"/>' * 4_000,
        "a <bpt id='1'/>" * 4_000,
        "a word" + " \n" * 20_000,
        "a word " + ">" * 100_000,
        "a<!-- b -->" * 5_000,
        "<![CDATA[a b]]>" * 5_000,
        "&amp;" * 20_000 + " word",
    ],
)
def test_repeated_marks_take_no_time_to_speak_of(source):
    content = old(unit(f"<source>{source}</source>", ' xml:space="preserve"'))
    started = time.process_time()
    read(content, engine=SAME)
    assert time.process_time() - started < 5


def fragment(text: str, **options) -> str:
    (same,) = translate_documents([read_fragment(text, **options)], SAME)
    assert same == text
    return translate_documents([read_fragment(text, **options)], BACKWARDS)[0]


@pytest.mark.parametrize(
    ("text", "options", "expected"),
    [
        ('There are <x id="10"></x> files', {}, 'files <x id="10"></x> are There'),
        ("Click <g1>here</g1> &amp; go", {}, "go &amp; <g1>here</g1> Click"),
        ("One <keep>Foo Bar</keep> two", {"ignored": ["keep"]}, "two <keep>Foo Bar</keep> One"),
        ("One two<br/>three four", {"splitting": ["br"]}, "two One<br/>four three"),
        ("One <a>two</a> three", {"splitting": ["a"]}, "One <a>two</a> three"),
        ("<doc><title>A b</title><par>C d. E f.</par></doc>", {}, "<doc><title>b A</title><par>f. E d. C</par></doc>"),
        ("<doc>\n <par>A <b>b</b></par>\n</doc>", {}, "<doc>\n <par><b>b</b> A</par>\n</doc>"),
        ("<par>A b</par> <par>C d</par>", {}, "<par>d C</par> <par>b A</par>"),
        ("A <![CDATA[b c]]> d<!-- e f -->", {}, "d <![CDATA[b c]]> A<!-- e f -->"),
        ("<p>{n, plural, one {a b} other {c d}}</p>", {}, "<p>{n, plural, one {b a} other {d c}}</p>"),
        ("<p>Hi {n, plural, one {a b} other {c d}}</p>", {}, "<p>Hi {n, plural, one {a b} other {c d}}</p>"),
        ("A &nbsp; b &brand; c", {}, "c &brand; b &nbsp; A"),
        ('<?xml version="1.0"?><d><p>A b</p></d>', {}, '<?xml version="1.0"?><d><p>b A</p></d>'),
        (" plain text ", {}, " text plain "),
        ("", {}, ""),
    ],
)
def test_pieces_of_xml(text, options, expected):
    assert fragment(text, **options) == expected


def test_tags_that_never_split_do_not():
    text = "<par>A b</par><par>C d</par>"
    assert len(read_fragment(text, non_splitting=["par"]).segments) == 1
    assert len(read_fragment(text, outline=False).segments) == 1
    assert len(read_fragment(text).segments) == 2


@pytest.mark.parametrize("text", ["<a>", "</_><_>", "a < b", "a & b", "<a></b>", "<a>" * 1_000 + "</a>" * 1_000])
def test_what_is_no_xml_gets_a_sentence(text):
    with pytest.raises(FormatError, match=r"is no well-formed XML|too many elements"):
        read_fragment(text)


def sentence(number: int, text: str = "") -> str:
    """A sentence as translation programs mark it in a unit."""
    return f'<mrk mtype="seg" mid="{number}">{text}</mrk>'


@pytest.mark.parametrize("ending", ["sdlxliff", "mqxliff", "mxliff"])
def test_files_of_translation_programs_are_filled_but_where_they_are_locked(ending: str):
    trados = (
        "<trans-unit id='1'><source>Good morning. Old dog. A cat.</source>"
        f"<seg-source>{sentence(1, 'Good morning.')} {sentence(2, 'Old dog.')} {sentence(3, 'A cat.')}</seg-source>"
        f"<target>{sentence(1)} {sentence(2)} {sentence(3, 'Un chat.')}</target>"
        "<sdl:seg-defs><sdl:seg id='1'/><sdl:seg id='2' locked='true'/><sdl:seg id='3' conf='Translated'/>"
        "</sdl:seg-defs></trans-unit>"
    )
    memoq = "<trans-unit id='2' mq:locked='locked'><source>Old dog</source><target/></trans-unit>"
    phrase = "<trans-unit id='3' m:confirmed='0' m:locked='false'><source>Old dog</source><target/></trans-unit>"
    content = (
        '<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2" xmlns:sdl="http://a" xmlns:mq="MQ"'
        ' xmlns:m="http://b"><file original="a" source-language="en" target-language="fr" datatype="x"><body>'
        f"{trados}{memoq}{phrase}</body></file></xliff>"
    )
    done = read(content, f"a.{ending}", SHOUTING)
    assert f"{sentence(1, 'GOOD MORNING.')} {sentence(2)} {sentence(3, 'Un chat.')}</target>" in done
    assert memoq in done
    assert "m:locked='false'><source>Old dog</source><target state=\"needs-review-translation\">OLD DOG<" in done
    assert "<sdl:seg id='1'/><sdl:seg id='2' locked='true'/>" in done


@pytest.mark.parametrize(
    "unit_",
    [
        "<trans-unit id='1' m:confirmed='1'><source>Old dog</source><target>Old dog</target></trans-unit>",
        "<trans-unit id='1' mq:status='Proofread'><source>Old dog</source><target>Old dog</target></trans-unit>",
        "<group locked='True'><trans-unit id='1'><source>Old dog</source></trans-unit></group>",
        *[
            f"<trans-unit id='1'><source>Old dog</source><seg-source>{sentence(1, 'Old dog')}</seg-source>{target}"
            f"<sdl:seg-defs><sdl:seg id='1' {status}/></sdl:seg-defs></trans-unit>"
            for target, status in (
                (f"<target>{sentence(1, 'Old dog')}</target>", "conf='ApprovedSignOff'"),
                ("", "locked='true'"),
                ("<target/>", "conf='Draft' locked='TRUE'"),
            )
        ],
    ],
)
def test_what_a_person_has_confirmed_or_locked_stays(unit_: str):
    document = old(unit_).replace("<xliff", '<xliff xmlns:sdl="http://a" xmlns:mq="MQ" xmlns:m="http://b"')
    assert read(document, "a.sdlxliff", SHOUTING) == document
