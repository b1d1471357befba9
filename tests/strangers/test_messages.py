"""Messages of software as strangers write them: catalogues, JSON and YAML."""

import json
import time

import polib
import pytest
import yaml

from dragoman.documents.messages import SkippedValues, is_language, pieces_of
from dragoman.documents.registry import translate_document
from dragoman.errors import DataError
from tests.documents.engines import BACKWARDS, SAME, SHOUTING, translated

JSON = {
    "accelerator": "&Open\tCtrl+O",
    "lines": "  Name: Tom\n\tCity: Boston\n",
    "typed": "One line\\nAnother line",
    "forms": "{n, plural, =0 {no file} one {# file} other {# files in {folder}}}",
    "nested": "{g, select, male {{n, plural, one {his # cat} other {his # cats}}} other {their cats}}",
    "bars": "{0} nobody here|[1,*] :count people here",
    "html": '<a href="{url}">See the <b>guide</b></a><br/>for %s and %1$s',
    "marks": "Hi $t(key), @:other.key and @.lower:key, [[x]] ~y~ #{a} %{b} ${c} $D$ %count% %L1 :smile: <0>there</0>",
    "id": "icon-home",
    "big": 12345678901234567890.10,
}


@pytest.mark.parametrize("spell", [lambda text: text, lambda text: text.replace("\n", "\r\n")])
def test_nothing_but_the_texts_of_json_changes(spell):
    text = spell(json.dumps(JSON, indent=1).replace("/", "\\/"))
    assert translated(text, "a.json", SAME) == text
    found = json.loads(translated(text, "a.json", SHOUTING))
    assert found["accelerator"] == "&OPEN\tCTRL+O"
    assert found["lines"] == "  NAME: TOM\n\tCITY: BOSTON\n"
    assert found["typed"] == "ONE LINE\\nANOTHER LINE"
    assert found["forms"] == "{n, plural, =0 {NO FILE} one {# FILE} other {# FILES IN {folder}}}"
    assert found["nested"].count("HIS # CAT") == 2
    assert found["bars"] == "{0} NOBODY HERE|[1,*] :count PEOPLE HERE"
    assert found["html"] == '<a href="{url}">SEE THE <b>GUIDE</b></a><br/>FOR %s AND %1$s'
    assert found["id"] == JSON["id"]
    found = json.loads(translated(text, "a.json", BACKWARDS))
    for part in [
        "$t(key)",
        "@:other.key",
        "@.lower:key",
        "[[x]]",
        "~y~",
        "#{a}",
        "%{b}",
        "${c}",
        "$D$",
        "%count%",
        "%L1",
        ":smile:",
        "<0>",
        "</0>",
    ]:
        assert found["marks"].count(part) == 1


def test_files_keep_their_spelling_of_characters():
    assert translated('{"a": "caf\\u00e9 open"}', "a.json", SHOUTING) == '{"a": "CAF\\u00c9 OPEN"}'
    assert translated('{"a": "café open"}', "a.json", SHOUTING) == '{"a": "CAFÉ OPEN"}'


def test_what_describes_a_message_is_no_message():
    arb = '{"@@locale": "en", "hi": "Hello there", "@hi": {"description": "Says hello to you"}}'
    assert translated(arb, "a.json", SHOUTING) == arb.replace("Hello there", "HELLO THERE").replace('"en"', '"fr"')
    chrome = '{"hi": {"message": "Hello $NAME$ there", "description": "Says hello", "placeholders": {}}}'
    assert translated(chrome, "a.json", SHOUTING) == chrome.replace("Hello $NAME$ there", "HELLO $NAME$ THERE")


def test_resources_of_flutter_are_read_and_those_of_another_language_refused():
    arb = '{"@@locale": "LANGUAGE", "n": "{n, plural, =1{one dog} other{{n} dogs}}", "@n": {"description": "All dogs"}}'
    expected = arb.replace("one dog", "ONE DOG").replace("} dogs", "} DOGS").replace("LANGUAGE", "fr")
    assert translated(arb.replace("LANGUAGE", "en_GB"), "a.arb", SHOUTING) == expected
    with pytest.raises(DataError, match="says that it is in de, and the model translates from en; give the file with"):
        translated(arb.replace("LANGUAGE", "de"), "a.arb", SHOUTING)


def test_of_texts_in_several_languages_those_of_the_source_are_translated():
    regions = '{"en-GB": {"a": "Hello you"}, "en-US": {"a": "Hello you"}}'
    for model, other in (("en-US", "en-GB"), ("en-GB", "en-US")):
        found = json.loads(translate_document(regions.encode(), "a.json", (model, "fr"), SHOUTING).content)
        assert found == {other: {"a": "Hello you"}, "fr": {"a": "HELLO YOU"}}
    assert translate_document(b'{"en-GB": {"a": "b c"}}', "a.json", ("en-US", "fr"), SHOUTING).content.decode() == (
        '{"fr": {"a": "B C"}}'
    )
    for name, text in (
        ("a.json", '{"de": {"a": "b c"}, "it": {"a": "b c"}}'),
        ("a.yaml", "de:\n  a: b\nit:\n  a: b\n"),
    ):
        with pytest.raises(DataError, match="has texts in de, it, and none in en, which the model translates from"):
            translated(text, name, SHOUTING)
    with pytest.raises(DataError, match="has texts in fr, and none in en"):
        translated('{"fr": {"a": "b c"}}', "a.json", SHOUTING)
    for usual in ('{"io": {"a": "b c"}, "os": {"a": "b c"}}', '{"to": {"a": "b c"}, "id": {"a": "b c"}}'):
        assert translated(usual, "a.json", SHOUTING) == usual.replace("b c", "B C")
    with pytest.raises(DataError, match="has texts in io, fr, and none in en"):
        translated('{"io": {"a": "b c"}, "fr": {"a": "b c"}}', "a.json", SHOUTING)


def test_a_language_at_the_top_becomes_the_other_one():
    assert translated('{"en": {"a": "Hello you"}}', "a.json", SHOUTING) == '{"fr": {"a": "HELLO YOU"}}'
    assert translated("en:\n  a: Hello %{x}\n", "a.yaml", SHOUTING) == "fr:\n  a: HELLO %{x}\n"
    both = "en:\n  a: Hello you\nde:\n  a: Hallo du\n"
    assert translated(both, "a.yaml", SHOUTING) == "fr:\n  a: HELLO YOU\nde:\n  a: Hallo du\n"
    with pytest.raises(DataError, match="has texts in fr beside those in en"):
        translated(both.replace("de:", "fr:"), "a.yaml", SHOUTING)


@pytest.mark.parametrize(
    "text",
    [
        "共有3个文件",
        "Loading...",
        "Yes/No",
        "Wi-Fi",
        "Sign-in",
        "3D",
        "Save",
        "OK",
        "Total: {{n}}",
        "U.S.",
        "Don't",
        "It''s {n}",
        "file(s)",
        "(optional)",
        "and/or",
        "Größe",
        "&Open",
        "_Save",
        "Step1",
        "A well-known fact",
        "Name:",
        "Read more…",
        "C++",
    ],
)
def test_what_is_language_is_translated(text):
    assert is_language(text)
    assert len(pieces_of(text, SkippedValues())) == 1


@pytest.mark.parametrize(
    "text",
    [
        "icon-home",
        "camelCase",
        "snake_case",
        "CONSTANT_X",
        "#fff",
        "en-US",
        "v1.2.3",
        "deadbeef",
        "aGVsbG8gd29ybGQgaGVsbG8=",
        "text/html",
        "a=b",
        "utf8",
        "btn btn-primary",
        "YYYY-MM-DD",
        "dd MMM yyyy",
        "Europe/Berlin",
        "Ctrl+S",
        "src/components",
        "index.html",
        "100px",
        "foo()",
    ],
)
def test_what_looks_like_an_identifier_is_left_and_counted(text):
    assert translated(json.dumps([text]), "a.json", SHOUTING) == json.dumps([text])
    report = translate_document(json.dumps([text, "two words"]).encode(), "a.json", ("en", "fr"), SHOUTING).report
    assert report.translated == 1


def test_values_that_are_left_are_said():
    report = translate_document(b'["icon-home", "icon-x", "a word"]', "a.json", ("en", "fr"), SHOUTING).report
    (note,) = report.notes()
    assert note == "has 2 values that look like identifiers, such as 'icon-home', and were left as they are."


YAML = """%YAML 1.1
---
# a comment
plain: Hello %{name}
wrapped: one long line
  that goes on
quoted: 'It''s here'
double: "Name: Tom\\n  City: \\u00e9 Boston"
number: '12'
switch: on
tagged: !!str Some words
anchor: &a Hello there
alias: *a
folded: >
  Two lines of
  a text.

  Another text.
literal: |
  Name: Tom
    City: Boston
forms: '{n, plural, one {# file} other {# files}}'
...
---
second: The other document
"""


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_nothing_but_the_texts_of_yaml_changes(newline):
    text = YAML.replace("\n", newline)
    assert translated(text, "a.yaml", SAME) == text
    first, second = yaml.safe_load_all(translated(text, "a.yaml", SHOUTING))
    assert first["literal"] == "NAME: TOM\n  CITY: BOSTON\n"
    assert first["double"] == "NAME: TOM\n  CITY: É BOSTON"
    assert first["folded"] == "TWO LINES OF A TEXT.\nANOTHER TEXT.\n"
    assert first["forms"] == "{n, plural, one {# FILE} other {# FILES}}"
    assert (first["plain"], first["wrapped"]) == ("HELLO %{name}", "ONE LONG LINE THAT GOES ON")
    assert (first["number"], first["switch"], first["alias"]) == ("12", True, "HELLO THERE")
    assert second == {"second": "THE OTHER DOCUMENT"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: '{n, plural, one {it''s one} other {it is}}'\n", "a: '{n, plural, one {IT''S ONE} other {IT IS}}'\n"),
        ("a: 'one''s line\\nAnother: it''s'\n", "a: 'ONE''S LINE\\nANOTHER: IT''S'\n"),
        ("a: You have {n, plural, one {a dog} other {# dogs}}\n", None),
        ("a: 'You''ve {n, plural, one {a dog} other {# dogs}}'\n", None),
        ("a: '{n, plural, one {a dog}\n  other {# dogs}}'\n", None),
        ("a: >2\n  {n, plural, one {a dog} other {# dogs}}\n", None),
    ],
)
def test_messages_of_icu_in_yaml_are_translated_by_branch_or_left(text, expected):
    result = translate_document(text.encode(), "a.yaml", ("en", "fr"), SHOUTING)
    assert result.content.decode() == (expected or text)
    assert expected or "ICU forms" in result.report.notes()[0]


PO = """msgid ""
msgstr ""
"Language: \\n"
"Content-Type: text/plain; charset=UTF-8\\n"

#, c-format
msgctxt "menu"
msgid ""
"_Open %s\\n"
"  from a long "
"list\\t<b>now</b>\\n"
msgstr ""

msgid "{n, plural, one {# file} other {# files}}"
msgstr ""

msgid "You have {n, plural, one {# file} other {# files}} here"
msgstr ""

#, fuzzy
#~ msgid "Gone"
#~ msgstr "Parti"

msgid "Done"
msgstr "Fini"

#, fuzzy
msgid "Draft"
msgstr "Brouillon"
"""


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_catalogues_are_filled_line_by_line(newline):
    result = translate_document(PO.replace("\n", newline).encode(), "a.po", ("en", "fr"), SHOUTING)
    catalogue = polib.pofile(result.content.decode().replace("\r", ""))
    entries = {entry.msgid: entry for entry in catalogue if not entry.obsolete}
    assert catalogue.metadata["Language"] == "fr"
    assert [entry.msgstr for entry in entries.values()] == [
        "_OPEN %s\n  FROM A LONG LIST\t<b>NOW</b>\n",
        "{n, plural, one {# FILE} other {# FILES}}",
        "",
        "Fini",
        "Brouillon",
    ]
    assert "fuzzy" not in entries["Done"].flags
    assert result.report.done == 2
    (note,) = result.report.notes()
    assert "ICU forms in the midst of a sentence" in note


def test_the_same_words_are_spelled_as_in_the_source():
    text = translated(PO, "a.po", SAME)
    assert 'msgstr ""\n"_Open %s\\n"\n"  from a long "\n"list\\t<b>now</b>\\n"\n' in text


def test_a_catalogue_of_other_languages_is_refused():
    with pytest.raises(DataError, match="says that it is from some language to de, and the model translates from en"):
        translated(PO.replace("Language: ", "Language: de"), "a.po", SHOUTING)
    assert '"Language: fr\\n"' in translated(PO.replace("Language: ", "Language: en_US"), "a.po", SHOUTING)


@pytest.mark.parametrize(
    ("named", "model", "is_filled"),
    [
        ("de_AT", "de-DE", True),
        ("zh_CN", "zh-Hans", True),
        ("sr@latin", "sr-Latn", True),
        ("sr_RS@cyrillic", "sr", True),
        ("ca@valencia", "ca", True),
        ("sr@latin", "sr", False),
        ("zh_TW", "zh-CN", False),
    ],
)
def test_the_script_of_a_catalogue_counts_and_its_region_does_not(named, model, is_filled):
    text = f'msgid ""\nmsgstr ""\n"Language: {named}\\n"\n\nmsgid "A dog"\nmsgstr ""\n'
    if is_filled:
        found = translate_document(text.encode(), "a.po", ("en", model), SHOUTING).content.decode()
        assert f'"Language: {named}\\n"' in found
        assert 'msgstr "A DOG"' in found
    else:
        with pytest.raises(DataError, match="says that it is from some language to"):
            translate_document(text.encode(), "a.po", ("en", model), SHOUTING)


def test_a_catalogue_of_the_source_in_another_region_is_filled():
    text = PO.replace("Language: ", "Language: en_GB").encode()
    found = translate_document(text, "a.po", ("en-US", "fr"), SHOUTING).content.decode()
    assert '"Language: fr\\n"' in found


PLURAL = """msgid ""
msgstr ""
"Language: {language}\\n"
"Content-Type: text/plain; charset=CHARSET\\n"
"Plural-Forms: {rule}\\n"

msgid "One dog"
msgid_plural "%d dogs"
msgstr[0] ""
msgstr[1] ""

msgid "A cat"
msgstr ""
"""


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize(
    ("target", "count"), [("ru", 3), ("ja", 1), ("ar", 6), ("fr", 2), ("pt-BR", 2), ("sr-Latn", 3)]
)
@pytest.mark.parametrize(
    ("language", "rule"),
    [
        ("", "nplurals=INTEGER; plural=EXPRESSION;"),
        ("en", 'nplurals=2; plural=(n "\n"!= 1);'),
    ],
)
def test_a_template_gets_the_forms_of_its_language(target, count, newline, language, rule):
    text = PLURAL.format(language=language, rule=rule).replace("\n", newline)
    found = translate_document(text.encode(), "a.pot", ("en", target), SHOUTING).content.decode()
    assert ("\r" in found) == (newline == "\r\n")
    catalogue = polib.pofile(found.replace("\r", ""))
    assert catalogue.metadata["Plural-Forms"].startswith(f"nplurals={count};")
    assert catalogue.metadata["Content-Type"].endswith("charset=UTF-8")
    first, second = catalogue
    forms = ["ONE DOG", *["%d DOGS"] * (count - 1)] if count > 1 else ["%d DOGS"]
    assert first.msgstr_plural == dict(enumerate(forms))
    assert second.msgstr == "A CAT"


@pytest.mark.slow
def test_a_long_header_takes_no_time_to_speak_of():
    text = PLURAL.format(language="", rule="x").replace("Plural-Forms: x\\n", 'Plural-Forms: x"\n"' * 20_000)
    started = time.process_time()
    translated(text, "a.po", SHOUTING)
    assert time.process_time() - started < 5


def test_forms_that_a_catalogue_has_stay():
    text = PLURAL.format(language="ru", rule="nplurals=2; plural=(n > 1);")
    found = translate_document(text.encode(), "a.po", ("en", "ru"), SHOUTING)
    assert "nplurals=2; plural=(n > 1);" in found.content.decode()
    assert found.content.decode().count("msgstr[") == 2
    done = '\nmsgid "One bird"\nmsgid_plural "%d birds"\nmsgstr[0] "One bird"\nmsgstr[1] "%d birds"\n'
    text = PLURAL.format(language="en", rule="nplurals=2; plural=(n != 1);") + done
    report = translate_document(text.encode(), "a.po", ("en", "ru"), SHOUTING).report
    assert report.notes() == ["has a header Plural-Forms of another language; write that of ru into it."]


def test_a_catalogue_without_anything_to_fill_stays():
    text = PLURAL.format(language="", rule="nplurals=INTEGER; plural=EXPRESSION;").partition("\n\n")[0] + "\n"
    assert translated(text + '\nmsgid "A dog"\nmsgstr "Un chien"\n', "a.po", SHOUTING).startswith(text)


def test_one_damaged_line_is_one_line():
    report = translate_document(b'msgid "A dog"\nx\nmsgstr ""\n', "a.po", ("en", "fr"), SHOUTING).report
    assert report.notes() == ["has a line that belongs to no message, line 2; its message is left unchanged."]


@pytest.mark.parametrize(
    ("source", "translation", "expected"),
    [
        ("&Save", "Guardar", "&Guardar"),
        ("Save _As", "Guardar como", "Gu_ardar como"),
        ("E_xit", "Exit", "E_xit"),
        ("_Save", "Сохранить", "_Сохранить"),
        ("&Open", "打开", "打开(&O)"),
    ],
)
def test_a_translation_has_the_mark_of_its_key(source, translation, expected):
    (piece,) = pieces_of(source, SkippedValues())
    assert piece.wrap(translation) == expected


@pytest.mark.parametrize("text", ["AT&T", "snake_case_name", "a _b_ c", "Q&A", "R&D and more"])
def test_other_marks_are_no_keys(text):
    assert [piece.wrap("x") for piece in pieces_of(text, SkippedValues())] == ["x"]


def test_apostrophes_in_branches_quote_nothing():
    (piece,) = pieces_of("{n, select, other {the {name}}}", SkippedValues())
    assert piece.wrap("l'{name}") == "l''{name}"
    assert piece.wrap("les chiens'") == "les chiens''"


@pytest.mark.first_is_quick
@pytest.mark.parametrize(
    "part", ["<a b=c ", "{a, plural, x {", "&A", "A_b", ":a", "[[", "a|", "yy", "<!--", "{0} ", "\\n"]
)
def test_no_long_message_takes_long(part):
    started = time.process_time()
    pieces_of(part * (100_000 // len(part)), SkippedValues(), bars=True)
    is_language(part * (100_000 // len(part)))
    is_language(part * (199 // len(part)))
    assert time.process_time() - started < 2


@pytest.mark.parametrize("quotes", ['"', "'"])
def test_languages_in_quotes_are_languages(quotes):
    text = f"{quotes}en{quotes}:\n  a: Hello you\n"
    assert translated(text, "a.yaml", SHOUTING) == text.replace("en", "fr").replace("Hello you", "HELLO YOU")
    with pytest.raises(DataError, match="has texts in fr beside those in en"):
        translated(f"{text}{quotes}fr{quotes}:\n  a: Bonjour\n", "a.yaml", SHOUTING)
