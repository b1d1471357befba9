"""Documents as a whole: their encodings, and what a person is told about them."""

import pytest

from dragoman.documents.document import Document, Segment
from dragoman.documents.registry import translate_document
from dragoman.documents.translate import Report, translate_documents
from tests.documents.engines import SAME, SHOUTING

UTF = ["utf-8", "utf-8-sig", "utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"]


@pytest.mark.parametrize("marked", [True, False])
@pytest.mark.parametrize("encoding", UTF)
@pytest.mark.parametrize("name", ["a.txt", "a.srt", "a.json", "a.yml"])
def test_every_utf_is_read_and_written_with_and_without_its_mark(name: str, encoding: str, marked: bool):
    text = {
        "a.txt": "Two words and a café\n",
        "a.srt": "1\n00:00:01,000 --> 00:00:02,000\nTwo words\n",
        "a.json": '{"a key": "Two words"}\n',
        "a.yml": "a key: Two words\nother:\n  - more words\n  - 'and more'\n",
    }[name]
    mark = "\ufeff" if marked and encoding != "utf-8-sig" else ""
    content = (mark + text).encode(encoding)
    assert translate_document(content, name, ("en", "fr"), SAME).content == content
    shouted = translate_document(content, name, ("en", "fr"), SHOUTING).content
    assert "TWO WORDS" in shouted.decode(encoding)
    assert shouted.startswith(mark.encode(encoding))


def told(document: Document) -> str:
    report = Report()
    translate_documents([document], SHOUTING, report)
    return report.outcome("a.po", "b.po")


def test_three_outcomes_are_three_sentences():
    assert told(Document("two words", [Segment(0, 9, ["two words"])])) == "b.po is a.po in the other language."
    assert told(Document("12", [])) == "a.po has no text to translate; b.po is the same document."
    done = "a.po has 1 text with a translation and none without; b.po is the same document."
    assert told(Document("deux mots", [], done=1)) == done


def test_remarks_of_a_format_are_told_once():
    report = Report()
    documents = [Document("a", [], notes=["has 2 values that are no language."])] * 2
    translate_documents(documents, SHOUTING, report)
    assert report.notes() == ["has 2 values that are no language."]
