"""The check names the letters of a second spelling."""

from tests.data_check.corpora import checked
from tests.spellings import in_two_scripts, mixed, old, texts

NEW = texts(1_500)
OTHERS = texts(1_500, seed=5)


def test_a_second_spelling_is_a_note_with_its_letters_and_lines():
    result = checked([*zip(OTHERS, mixed(NEW), strict=True)])
    (finding,) = [finding for finding in result.findings if finding.kind == "spelling"]
    assert finding.severity == "note"
    assert all(letters in finding.what for letters in ("targets", "qu > k", "hu > w"))
    assert finding.count == sum(old(text) != text for text in NEW[::3])
    assert [example.number for example in finding.examples] == [1, 4, 7]


def test_sources_are_looked_at_as_well():
    result = checked([*zip(mixed(OTHERS), NEW, strict=True)])
    assert ["sources" in finding.what for finding in result.findings if finding.kind == "spelling"] == [True]


def test_a_side_in_two_scripts_is_in_no_wrong_language():
    result = checked([*zip(OTHERS, in_two_scripts(1_500), strict=True)], languages=("en", "hbs"))
    (finding,) = [finding for finding in result.findings if finding.kind == "spelling"]
    assert "Cyrillic > Latin" in finding.what
    assert not [finding for finding in result.findings if "CYRILLIC" in finding.what]
