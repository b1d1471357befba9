"""Pairs and documents agree on what is text of a sentence, and what is an inline code."""

from pathlib import Path

import pytest

from dragoman.data.readers.tmx import open_tmx
from dragoman.data.readers.types import ReaderOptions
from dragoman.data.readers.xliff import open_xliff
from dragoman.formats.inline_codes import KINDS, MARKUP
from tests.documents.engines import SHOUTING, translated

TMX = '<tmx version="1.4"><header/><body><tu>{}</tu></body></tmx>'
XLIFF = '<xliff version="1.2"><file source-language="en" target-language="fr"><body>{}</body></file></xliff>'


@pytest.mark.parametrize("name", sorted(MARKUP))
def test_the_content_of_a_code_is_no_text(tmp_path: Path, name: str):
    sentence = f'one <{name} id="1">code</{name}> two'
    shouted = sentence.replace("one", "ONE").replace("two", "TWO")
    source = f'<tuv xml:lang="en"><seg>{sentence}</seg></tuv>'
    assert f"<seg>{shouted}</seg>" in translated(TMX.format(source), "a.tmx", SHOUTING)
    unit = '<trans-unit id="1"><source>{}</source>{}</trans-unit>'
    assert f">{shouted}</target>" in translated(XLIFF.format(unit.format(sentence, "")), "a.xlf", SHOUTING)

    memory, file = tmp_path / "a.tmx", tmp_path / "a.xlf"
    memory.write_text(TMX.format(source + source.replace('"en"', '"fr"').replace("one", "un")), encoding="utf-8")
    target = f"<target>{sentence.replace('one', 'un')}</target>"
    file.write_text(XLIFF.format(unit.format(sentence, target)), encoding="utf-8")
    options = ReaderOptions(languages=("en", "fr"))
    for reader in (open_tmx(memory, options), open_xliff(file, options)):
        ((_, pair),) = reader.read()
        assert [text.split() for text in pair] == [["one", "two"], ["un", "two"]]


@pytest.mark.parametrize("name", sorted(KINDS.keys() - MARKUP))
def test_words_in_an_element_that_is_no_code_here_are_text(tmp_path: Path, name: str):
    """Strangers write HTML into segments: their `em` holds words."""
    file = tmp_path / "a.xlf"
    unit = '<trans-unit id="1"><source>one <{0}>two</{0}></source><target>un <{0}>deux</{0}></target></trans-unit>'
    file.write_text(XLIFF.format(unit.format(name)), encoding="utf-8")
    ((_, pair),) = open_xliff(file, ReaderOptions(languages=("en", "fr"))).read()
    assert pair == ("one two", "un deux")
