"""XLIFF: which units of both versions are translated, and which way round."""

from pathlib import Path

import pytest

from dragoman.data.bitext import Bitext
from tests.data.readers.files import PACK, languages, refusal, write

OLD = """<?xml version="1.0"?>
<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2">
<file original="a" source-language="en-US" target-language="fr"><body>
<trans-unit id="1"><source>Open <g id="1">the <x id="2"/>file</g>.</source><target>Ouvrez le fichier.</target>
  <alt-trans><source>Open it.</source><target>Ouvrez-le.</target></alt-trans></trans-unit>
<group><trans-unit id="2"><source>Save</source><seg-source>Save</seg-source>
<target state="new">Save</target></trans-unit>
<trans-unit id="3"><source>Close</source></trans-unit></group>
<trans-unit id="4"><source>Yes</source><target state="final"><mrk mtype="seg">Oui</mrk></target></trans-unit>
</body></file>
<file source-language="en" target-language="de"><body>
<trans-unit id="1"><source>No</source><target>Nein</target></trans-unit></body></file>
</xliff>
"""
NEW = """<?xml version="1.0"?>
<xliff version="2.0" srcLang="en" trgLang="fr" xmlns="urn:oasis:names:tc:xliff:document:2.0" xmlns:m="urn:m">
<file id="f"><unit id="1"><originalData><data id="d">&lt;b&gt;</data></originalData>
<m:matches><m:match><source>Open it.</source><target>Ouvrez-le.</target></m:match></m:matches>
<segment state="translated"><source>Open <pc id="1">the <ph id="2"/>file</pc>.</source>
<target>Ouvrez le fichier.</target></segment>
<ignorable><source> </source><target> </target></ignorable>
<segment><source>Yes</source><target>Oui</target></segment></unit>
<unit id="2"><segment state="initial"><source>Save</source><target>Save</target></segment>
<segment><source>Close</source></segment></unit></file>
</xliff>
"""
PAIRS = [("Open the file.", "Ouvrez le fichier."), ("Yes", "Oui")]


@pytest.mark.parametrize("suffix", [".xlf", *(f".xliff{packed}" for packed in PACK)])
def test_translated_segments_of_2_0_are_pairs(tmp_path: Path, suffix: str):
    opened = Bitext.open(write(tmp_path / f"a{suffix}", NEW))
    assert (list(opened), opened.name, languages(opened)) == (PAIRS, "a", ("en", "fr"))
    cleaned = opened.cleaned()
    assert list(cleaned) == PAIRS
    assert cleaned.report.dropped == {"not translated yet": 2}


def test_units_of_1_2_are_pairs_in_the_languages_of_their_file(tmp_path: Path):
    file = write(tmp_path / "a.xliff", OLD)
    assert "a.xliff has 3 languages (en-US, fr, de)" in refusal(file)
    cleaned = Bitext.open(file, languages=("en", "fr")).cleaned()
    assert list(cleaned) == PAIRS
    assert cleaned.report.dropped == {"not translated yet": 2, "in other languages": 1}
    assert list(Bitext.open(file, languages=("de", "en"))) == [("Nein", "No")]


@pytest.mark.parametrize("content", [OLD, NEW])
def test_wanted_languages_turn_the_sides(tmp_path: Path, content: str):
    opened = Bitext.open(write(tmp_path / "a.xlf", content), languages=("fr", "en"))
    assert list(opened) == [pair[::-1] for pair in PAIRS]
    assert languages(opened) == ("fr", "en")


def test_without_a_target_language_the_order_of_the_file_holds(tmp_path: Path):
    content = NEW.replace(' trgLang="fr"', "")
    opened = Bitext.open(write(tmp_path / "a.xlf", content), languages=("en", "fr"))
    assert list(opened) == PAIRS
    assert languages(Bitext.open(write(tmp_path / "a.xlf", content))) == ("en", None)


def test_files_with_nothing_translated_are_refused(tmp_path: Path):
    assert "holds no sentence pairs" in refusal(write(tmp_path / "a.xlf", NEW.replace("target", "note")))
