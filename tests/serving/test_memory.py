"""Corrections are kept, answered with, shown beside others, and trained on."""

import random
import sqlite3
from contextlib import closing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.data.bitext import Bitext
from dragoman.errors import DataError, DragomanError
from dragoman.storage.memory import LOG, Memory, difference
from tests.serving.conftest import Words, multipart

PAIR = {"source": "en", "target": "fr"}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "memory"


@pytest.fixture
def remembering(serve, path):
    memory = Memory(path)
    yield serve(Words("en", "fr"), memory=memory)
    memory.close()


def test_a_correction_is_the_answer_from_then_on(remembering):
    request = {"q": ["The red house.", "A dog."]} | PAIR
    assert "fromMemory" not in remembering.ask("POST", "/translate", request)[1]
    kept = {"q": " The red house. ", "s": "La maison rouge.", "who": "me"} | PAIR
    assert remembering.ask("POST", "/suggest", kept)[:2] == (200, {"success": True})
    answer = remembering.ask("POST", "/translate", request)[1]
    assert answer == {"translatedText": ["La maison rouge.", "A DOG."], "fromMemory": [True, False]}
    again = kept | {"s": "La rouge maison."}
    remembering.ask("POST", "/suggest", again)
    assert remembering.ask("POST", "/translate", request)[1]["translatedText"][0] == "La rouge maison."
    assert remembering.ask("GET", "/frontend/settings")[1]["suggestions"] is True


def test_the_texts_of_html_and_of_documents_are_answered_from_it_too(remembering):
    for source, target in (("The red house.", "La maison rouge."), ("A cat.", "<i>Un</i> chat.")):
        remembering.ask("POST", "/suggest", {"q": source, "s": target} | PAIR)
    pages = ["<p>The <a href=x>red</a> house.</p><p>A dog.</p>", "<h1> <b>The red\nhouse.</b></h1>", "A cat.", "<br>"]
    _, answer, _ = remembering.ask("POST", "/translate", {"q": pages, "format": "html"} | PAIR)
    assert answer["translatedText"] == [
        "<p>La <a href=x>maison</a> rouge.</p><p>A DOG.</p>",
        "<h1> <b>La maison rouge.</b></h1>",
        "&lt;i&gt;Un&lt;/i&gt; chat.",
        "<br>",
    ]
    assert answer["fromMemory"] == [False, True, True, False]
    kind, form = multipart(PAIR, "a.md", b"# The *red* house.\n\nA dog.\n\n- A cat.\n")
    _, answer, _ = remembering.ask("POST", "/translate_file", form, Content_Type=kind)
    _, content, _ = remembering.ask("GET", "/" + answer["translatedFileUrl"].split("/", 3)[3])
    assert content.decode() == "# La *maison* rouge.\n\nA DOG.\n\n- \\<i>Un\\</i> chat.\n"
    assert remembering.models[0].batches == [["A dog."], ["A dog."]]


def test_near_entries_are_shown_with_their_similarity(remembering):
    for source in ("The red house is old.", "The green house is old.", "Nothing like it at all"):
        remembering.ask("POST", "/suggest", {"q": source, "s": f"[{source}]"} | PAIR)
    answer = remembering.ask("POST", "/translate", {"q": "The red house is very old.", "similar": 2} | PAIR)[1]
    assert answer["translatedText"] == "THE RED HOUSE IS VERY OLD."
    assert [entry["target"] for entry in answer["similar"]] == ["[The red house is old.]", "[The green house is old.]"]
    assert 0.6 < answer["similar"][1]["similarity"] < answer["similar"][0]["similarity"] < 1
    assert answer["similar"][1]["difference"] == [
        ["same", "The "], ["removed", "green"], ["added", "red"], ["same", " house is "], ["added", "very "],
        ["same", "old."],
    ]  # fmt: skip


@pytest.mark.parametrize("text", ["我们今天去看红色的房子。", "私たちは赤い家を見ます。", "เราไปดูบ้านสีแดง"])
def test_near_entries_are_found_in_scripts_without_spaces(path, text):
    memory = Memory(path)
    for source in (text[:3] + text[5:], "不一样的句子", text[:3] + text[5:]):
        memory.add(("zh", "en"), source, "x")
    assert [entry.source for entry in memory.similar(("zh", "en"), text)] == [text[:3] + text[5:]]
    memory.close()


@given(texts=st.lists(st.text(alphabet="ab 。猫", max_size=12), min_size=2, max_size=2))
def test_a_difference_holds_both_texts(texts):
    parts = difference(*texts)
    assert ["".join(part for kind, part in parts if kind != missing) for missing in ("added", "removed")] == texts


def test_it_is_exported_and_trained_on(remembering, path, tmp_path):
    pairs = [("A & B <c>", "D\tE"), ("Zwei\nZeilen", "deux"), ("odd \x01 character", 'a "b"')]
    for source, target in pairs:
        assert remembering.ask("POST", "/suggest", {"q": source, "s": target} | PAIR)[0] == 200
    kept = [("A & B <c>", "D E"), ("Zwei Zeilen", "deux"), ("odd  character", 'a "b"')]
    for ending in ("tsv", "tmx"):
        status, content, _ = remembering.ask("GET", f"/memory.{ending}")
        assert status == 200
        (tmp_path / f"m.{ending}").write_bytes(content)
        read = [tuple(" ".join(text.split()) for text in pair) for pair in Bitext.open(tmp_path / f"m.{ending}")]
        assert read == [tuple(" ".join(text.split()) for text in pair) for pair in kept]
    memory = Bitext.open(path)
    assert (memory.source_language, memory.target_language) == ("en", "fr")
    assert len(list(memory)) == 3
    assert remembering.ask("GET", "/memory.exe")[0] == 404


def test_blank_corrections_are_refused(remembering):
    assert remembering.ask("POST", "/suggest", {"q": "A dog.", "s": " "} | PAIR)[0] == 400


def test_a_file_that_fails_is_said_and_the_server_lives(remembering, path):
    with sqlite3.connect(path) as connection:
        connection.execute("DROP TABLE words")
    status, answer, _ = remembering.ask("POST", "/suggest", {"q": "A dog.", "s": "Un chien."} | PAIR)
    assert (status, answer["error"]) == (503, "The translation memory fails: no such table: words.")
    assert remembering.ask("POST", "/translate", {"q": "A dog."} | PAIR)[0] == 200
    with sqlite3.connect(path) as connection:
        connection.execute("DROP TABLE pairs")
    for format_ in ("text", "html"):
        status, answer, _ = remembering.ask("POST", "/translate", {"q": "A dog.", "format": format_} | PAIR)
        assert (status, "no such table: pairs" in answer["error"]) == (503, True)
    _, lines, _ = remembering.ask("POST", "/translate", {"q": ["A dog."], "stream": True} | PAIR)
    assert b"no such table: pairs" in lines


def test_nothing_is_kept_unless_asked_for(serve):
    running = serve(Words())
    answer = running.ask("POST", "/suggest", {"q": "a", "s": "b"} | PAIR)
    assert answer[:2] == (403, {"error": "Suggestions are disabled on this server."})
    assert running.ask("GET", "/memory.tsv")[0] == 404


def test_wrong_suggestions_are_refused(remembering):
    for fields in ({"s": "b"}, {"q": "a"}, {"q": "a", "s": "x" * 5_001}, {"q": "a", "s": "b", "target": "de"}):
        assert remembering.ask("POST", "/suggest", PAIR | fields)[0] == 400
    assert list(remembering.server.memory.pairs()) == []


def test_another_database_is_no_memory(path, tmp_path):
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE x (y)")
    connection.close()
    with pytest.raises(DataError, match="is a database of another program"):
        Memory(path)
    with pytest.raises(DataError, match="is a database of another program"):
        Bitext.open(path)
    (tmp_path / "text").write_text("no database " * 100, encoding="utf-8")
    with pytest.raises(DataError, match="cannot be a translation memory"):
        Memory(tmp_path / "text")


@pytest.mark.parametrize("times", [30, pytest.param(500, marks=pytest.mark.slow)])
def test_any_damaged_byte_costs_entries_and_never_answers_with_another_text(path, times):
    memory = Memory(path)
    entries = [("en", "fr", f"The house {number}.", f"La maison {number}.") for number in range(12)]
    for entry in entries:
        memory.add(entry[:2], *entry[2:])
    memory.close()
    whole, dice, lost = path.read_bytes(), random.Random(5), 0
    # The first bytes are the header, by which SQLite knows its files.
    places = [place for place, byte in enumerate(whole) if byte and place >= 100]
    for place in dice.choices(places, k=times):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1 << dice.randrange(8)]) + whole[place + 1 :])
        try:
            memory = Memory(path)
            kept = [*memory.pairs()]
            answers = {entry[2]: memory.find(("en", "fr"), entry[2]) for entry in entries}
            near = memory.similar(("en", "fr"), "The house 3.")
            memory.close()
            trained = [*Bitext.open(str(path))]
        except DragomanError:
            continue
        lost += len(kept) < len(entries)
        assert {*kept} <= {*entries}
        assert {*trained} <= {entry[2:] for entry in entries}
        assert all(answer in (None, dict(entry[2:] for entry in entries)[text]) for text, answer in answers.items())
        assert {(entry.source, entry.target) for entry in near} <= {entry[2:] for entry in entries}
    assert lost, "no damage was seen"


@pytest.mark.parametrize("value", [None, b"\xff\xfe", 7, 2.5])
def test_what_is_no_text_is_left_out(path, value, monkeypatch):
    messages: list[str] = []
    monkeypatch.setattr(LOG, "warning", messages.append)
    memory = Memory(path)
    memory.add(("en", "fr"), "A dog.", "Un chien.")
    memory.add(("en", "fr"), "A cat.", "Un chat.")
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA ignore_check_constraints = 1")
        connection.execute("PRAGMA writable_schema = 1")
        connection.execute("UPDATE sqlite_master SET sql = replace(sql, ' NOT NULL', '') WHERE name = 'pairs'")
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE pairs SET target = ? WHERE source = 'A dog.'", (value,))
    assert memory.find(("en", "fr"), "A dog.") is None
    assert [entry.target for entry in memory.pairs()] == ["Un chat."]
    assert [entry.target for entry in memory.similar(("en", "fr"), "A cat!")] == ["Un chat."]
    assert memory.similar(("en", "fr"), "A dog!") == []
    assert "some of its entries are left out" in "".join(messages)
    memory.close()
    assert [*Bitext.open(str(path), languages=("en", "fr"))] == [("A cat.", "Un chat.")]


def test_a_memory_of_an_older_version_is_read_and_gets_its_checksums(path):
    memory = Memory(path)
    memory.add(("en", "fr"), "A dog.", "Un chien.")
    memory.close()
    with sqlite3.connect(path) as connection:
        connection.execute("ALTER TABLE pairs DROP COLUMN mark")
    assert [*Bitext.open(str(path), languages=("en", "fr"))] == [("A dog.", "Un chien.")]
    memory = Memory(path)
    assert memory.find(("en", "fr"), "A dog.") == "Un chien."
    with sqlite3.connect(path) as connection:
        ((mark,),) = connection.execute("SELECT mark FROM pairs")
        assert len(mark) == 8
        connection.execute("UPDATE pairs SET target = 'Un chat.'")
    assert memory.find(("en", "fr"), "A dog.") is None
    memory.close()


def test_an_answer_from_it_has_the_spaces_of_the_text_and_all_fields_of_others(serve, path):
    with closing(Memory(path)) as memory:
        running = serve(Words("en", "fr", has_confidence=True), memory=memory)
        running.ask("POST", "/suggest", {"q": "A dog.", "s": "Un chien."} | PAIR)
        request = {"q": ["  A dog.\n", "A cat."], "confidence": True, "alignments": True} | PAIR
        _, answer, _ = running.ask("POST", "/translate", request)
        assert answer["translatedText"] == ["  Un chien.\n", "A CAT."]
        assert answer["confidence"][0] == 1.0
        assert answer["alignments"][0] == []
        _, answer, _ = running.ask("POST", "/translate", {"q": ["A dog.", "A cat."], "alternatives": 1} | PAIR)
        assert [len(scores) for scores in answer["scores"]] == [0, 2]  # no model has scored the first one
        _, answer, _ = running.ask("POST", "/translate", {"q": "A dog.", "prefix": "LE"} | PAIR)
        assert answer["translatedText"] != "Un chien."


def test_nothing_is_kept_for_texts_of_which_nothing_can_be_written(remembering):
    for fields in ({"q": "\u0001", "s": "Hallo"}, {"q": "Real text", "s": "\u0001 "}):
        status, told, _ = remembering.ask("POST", "/suggest", fields | PAIR)
        assert (status, told["error"]) == (400, "Invalid request: q and s must have text")
    _, answer, _ = remembering.ask("POST", "/translate", {"q": ["", "   ", "Real text"]} | PAIR)
    assert answer["translatedText"] == ["", "   ", "REAL TEXT"]
