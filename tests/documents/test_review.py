"""Confidence in documents: other programs read it beside each translation, and what cannot be trusted stays."""

from collections.abc import Iterator
from dataclasses import replace

import polib
import pytest
from translate.storage.xliff import xlifffile
from translate.storage.xliff2 import Xliff2File

from dragoman.decoding.translation import Translation
from dragoman.documents.registry import translate_document
from dragoman.documents.translate import Engine
from dragoman.errors import DataError
from tests.documents import samples
from tests.documents.engines import SHOUTING, translated

CONFIDENCE = {"sure": 0.93, "doubtful": 0.41}
PO = """msgid ""
msgstr "Content-Type: text/plain; charset=UTF-8\\n"

#: a.c:1
msgid "sure"
msgstr ""

# A note.
#, c-format
msgid "doubtful"
msgstr ""

msgid "sure and one"
msgid_plural "doubtful and many"
msgstr[0] ""
msgstr[1] ""
"""
UNITS = "".join(f'<trans-unit id="{text}"><source>{text} <x id="1"/></source></trans-unit>' for text in CONFIDENCE)
XLIFF = f"""<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2"><file original="a" source-language="en"
 target-language="fr" datatype="plaintext"><body>{UNITS}</body></file></xliff>"""
SEGMENTS = "".join(f'<unit id="{text}"><segment><source>{text}</source></segment></unit>' for text in CONFIDENCE)
XLIFF_2 = f"""<xliff version="2.0" xmlns="urn:oasis:names:tc:xliff:document:2.0" srcLang="en" trgLang="fr">
<file id="f">{SEGMENTS}</file></xliff>"""


def engine(only_above: float | None = None) -> Engine:
    """Shouts, with the confidence that a text names by its first word."""

    def translate(texts: list[str]) -> Iterator[Translation]:
        for text, translation in zip(texts, SHOUTING.translate(texts), strict=True):
            confidence = CONFIDENCE.get(text.split()[0], 1.0)
            is_left = only_above is not None and confidence <= only_above
            yield replace(
                translation,
                text=text if is_left else translation.text,
                confidence=confidence,
                untranslated=is_left or None,
            )

    return Engine(translate, copies=True, has_confidence=True, only_above=only_above)


def test_a_catalogue_has_the_confidence_as_a_comment_and_all_are_to_be_reviewed() -> None:
    entries = list(polib.pofile(translated(PO, "a.po", engine())))
    assert [entry.tcomment for entry in entries] == [
        "Dragoman: confidence 0.93", "A note.\nDragoman: confidence 0.41", "Dragoman: confidence 0.41",
    ]  # fmt: skip
    assert all(entry.fuzzy for entry in entries)
    assert [entry.msgstr for entry in entries[:2]] == ["SURE", "DOUBTFUL"]


def test_above_a_limit_nothing_is_to_be_reviewed_and_the_rest_stays_empty() -> None:
    done = translate_document(PO.encode(), "a.po", ("en", "fr"), engine(0.9))
    sure, doubtful, plural = polib.pofile(done.content.decode())
    assert (sure.msgstr, sure.fuzzy, sure.tcomment) == ("SURE", False, "Dragoman: confidence 0.93")
    assert (doubtful.msgstr, doubtful.tcomment) == ("", "A note.")
    assert plural.msgstr_plural == {0: "", 1: ""}
    left = [(text["text"], text["confidence"]) for text in done.report.untranslated]
    assert left == [("doubtful", 0.41), ("doubtful and many", 0.41)]
    assert done.report.translated == 1
    (note,) = done.report.notes()
    assert "has 2 texts whose translation cannot be trusted" in note
    assert '"doubtful" (0.410)' in note


@pytest.mark.parametrize("only_above", [None, 0.9])
def test_a_match_of_xliff_has_its_quality_and_its_codes(only_above: float | None) -> None:
    store = xlifffile.parsestring(translated(XLIFF, "a.xlf", engine(only_above)).encode())
    sure, doubtful = store.units
    (match,) = sure.getalttrans()
    assert match.xmlelement.get("match-quality") == "93"
    assert match.target.strip() == sure.target.strip() == "SURE"
    codes = [list(target.iter("{*}x")) for target in sure.xmlelement.iter("{*}target")]
    assert [len(of_target) for of_target in codes] == [1, 1]
    state = sure.xmlelement.find(f"{{{sure.namespace}}}target").get("state")
    assert state == ("translated" if only_above else "needs-review-translation")
    assert (doubtful.target or "").strip() == ("" if only_above else "DOUBTFUL")


@pytest.mark.parametrize("only_above", [None, 0.9])
def test_a_segment_of_xliff_2_has_it_as_its_sub_state(only_above: float | None) -> None:
    content = translated(XLIFF_2, "a.xlf", engine(only_above))
    store = Xliff2File.parsestring(content.encode())
    assert [unit.target for unit in store.units] == ["SURE", None if only_above else "DOUBTFUL"]
    assert content.count('state="translated" subState="dragoman:confidence-93"') == 1
    assert content.count("subState") == (1 if only_above else 2)


def test_what_a_memory_had_says_so() -> None:
    memory = {"sure": "CERTAIN", "sure {1}": "CERTAIN {1}", "doubtful": None}
    remembering = replace(SHOUTING, known=memory.get, has_memory=True)
    sure, doubtful, plural = polib.pofile(translated(PO, "a.po", remembering))
    assert (sure.msgstr, sure.tcomment, sure.fuzzy) == ("CERTAIN", "Dragoman: from the translation memory", True)
    assert (doubtful.tcomment, plural.tcomment) == ("A note.", "")
    units = xlifffile.parsestring(translated(XLIFF, "a.xlf", remembering).encode()).units
    targets = [unit.xmlelement.find("{*}target") for unit in units]
    assert [target.get("state-qualifier") for target in targets] == ["exact-match", None]
    assert targets[0].text == "CERTAIN "
    content = translated(XLIFF_2, "a.xlf", remembering)
    assert content.count('<segment state="translated" subState="dragoman:memory"><source>sure</source>') == 1
    assert content.count("subState") == 1
    half = UNITS.partition("</trans-unit>")[0].partition("<source>")[0] + (
        "<source>sure. doubtful.</source><seg-source><mrk mtype='seg' mid='0'>sure</mrk> "
        "<mrk mtype='seg' mid='1'>doubtful</mrk></seg-source><target><mrk mtype='seg' mid='0'/> "
        "<mrk mtype='seg' mid='1'>Fini.</mrk></target></trans-unit>"
    )
    assert "exact-match" not in translated(XLIFF.replace(UNITS, half), "a.xlf", remembering)
    both = replace(engine(), known=memory.get, has_memory=True)
    comments = [entry.tcomment for entry in polib.pofile(translated(PO, "a.po", both))]
    assert comments[:2] == ["Dragoman: from the translation memory", "A note.\nDragoman: confidence 0.41"]


def test_with_a_memory_too_a_text_that_is_too_long_is_refused_before_others_are_translated() -> None:
    document = XLIFF.replace(UNITS, f"<trans-unit id='1'><source>{'a ' * 600_000}</source></trans-unit>")
    remembering = Engine(lambda texts: pytest.fail("translated"), copies=True, has_memory=True)
    with pytest.raises(DataError, match="has a text of more than 1,048,576 characters"):
        translated(document, "a.xlf", remembering)


@pytest.mark.parametrize("name", ["a.md", "a.html", "a.srt", "a.json", "a.txt"])
def test_other_documents_keep_what_cannot_be_trusted(name: str) -> None:
    contents = {
        "a.json": '{"a": "sure", "b": "doubtful"}',
        "a.srt": samples.SRT,
        "a.html": "<p>sure</p><p>doubtful</p>",
    }
    content = contents.get(name, "sure\n\ndoubtful\n")
    done = translate_document(content.encode(), name, ("en", "fr"), engine(0.9))
    if name != "a.srt":
        assert "SURE" in done.content.decode()
        assert "doubtful" in done.content.decode()
        assert len(done.report.untranslated) == 1
    assert translated(content, name, engine()) == translated(content, name, SHOUTING)


def test_comments_and_marks_stand_before_the_former_text_of_a_message() -> None:
    """As gettext wants it: nothing may come between them and the message."""
    header = 'msgid ""\nmsgstr "Content-Type: text/plain; charset=UTF-8\\n"\n\n'
    former = f'{header}#| msgid "was"\n#| "once"\nmsgid "sure"\nmsgstr ""\n'
    for engine_ in (engine(), engine(0.9), SHOUTING):
        lines = translated(former, "a.po", engine_).splitlines()
        assert lines[lines.index('#| "once"') + 1] == 'msgid "sure"'
        assert polib.pofile("\n".join(lines))[0].msgstr == "SURE"
    assert "#, fuzzy" in translated(former, "a.po", SHOUTING)


def test_copies_for_a_match_do_not_count_as_texts() -> None:
    with_matches = translate_document(XLIFF.encode(), "a.xlf", ("en", "fr"), engine()).report
    without = translate_document(XLIFF.encode(), "a.xlf", ("en", "fr"), SHOUTING).report
    assert (with_matches.translated, with_matches.restored) == (without.translated, without.restored) == (2, 0)


def test_a_unit_in_sentences_is_trusted_if_all_of_them_are() -> None:
    def unit(*texts: str) -> str:
        marks = "".join(f'<mrk mtype="seg" mid="{number}">{text}</mrk>' for number, text in enumerate(texts))
        empty = "".join(f'<mrk mtype="seg" mid="{number}"/>' for number in range(len(texts)))
        return (
            f'<trans-unit id="1"><source>{" ".join(texts)}</source><seg-source>{marks}</seg-source>'
            f"<target>{empty}</target></trans-unit>"
        )

    def state(*texts: str) -> str:
        document = XLIFF.replace(UNITS, unit(*texts))
        (found,) = xlifffile.parsestring(translated(document, "a.xlf", engine(0.9)).encode()).units
        return found.xmlelement.find("{*}target").get("state")

    assert state("sure a", "sure b") == "translated"
    assert state("sure a", "doubtful b") == "needs-review-translation"


def test_a_unit_of_a_memory_that_is_not_to_be_trusted_gets_no_variant() -> None:
    units = "".join(f'<tu><tuv xml:lang="en"><seg>{text}</seg></tuv></tu>' for text in ("sure", "doubtful"))
    content = f'<tmx version="1.4"><header srclang="en"/><body>{units}</body></tmx>'
    done = translate_document(content.encode(), "a.tmx", ("en", "fr"), engine(0.9))
    assert done.content.decode().count("<tuv") == 3
    assert "<seg>SURE</seg>" in done.content.decode()
    assert done.content.decode().count("doubtful") == 1
    assert len(done.report.untranslated) == 1
