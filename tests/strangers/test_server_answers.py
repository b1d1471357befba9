"""What a server answers to lists of several languages, with the memory of earlier models, and about documents."""

import asyncio
import threading
import time

import pytest

from dragoman.serving.detection import detect_among
from dragoman.serving.kept_documents import KeptDocuments
from dragoman.serving.limits import Limits, Refusal
from dragoman.serving.server import in_turn
from dragoman.storage.memory import Memory
from tests.serving.conftest import Words, multipart, serve  # noqa: F401
from tests.waiting import wait_until

AUTO = {"source": "auto", "target": "fr"}
GERMAN = "Guten Morgen, wie geht es Ihnen heute?"
ENGLISH = "Hello my dear friend, how are you?"


@pytest.fixture(scope="module")
def running(serve):  # noqa: F811
    return serve(Words("en", "fr"), Words("zh", "fr"), Words("ja", "fr"))


def test_a_text_in_a_foreign_language_stays_as_it_is_among_others(running):
    told = running.ask("POST", "/translate", AUTO | {"q": [ENGLISH, GERMAN, ""]})[1]
    assert told["translatedText"] == [ENGLISH.upper(), GERMAN, ""]
    assert [found["language"] for found in told["detectedLanguage"]] == ["en", "de", "en"]
    told = running.ask("POST", "/v2/translate", {"text": [GERMAN, ENGLISH], "target_lang": "FR"})[1]
    assert [(found["detected_source_language"], found["text"]) for found in told["translations"]] == [
        ("DE", GERMAN), ("EN", ENGLISH.upper())
    ]  # fmt: skip
    told = running.ask("POST", "/language/translate/v2", {"q": [f"<b>{GERMAN}</b>", ENGLISH], "target": "fr"})[1]
    assert told["data"]["translations"][0] == {
        "translatedText": f"<b>{GERMAN}</b>", "detectedSourceLanguage": "de"
    }  # fmt: skip


@pytest.mark.parametrize("texts", [GERMAN, [GERMAN], [GERMAN, GERMAN, "", "***"]])
def test_what_has_no_text_to_translate_is_refused(running, texts):
    status, told, _ = running.ask("POST", "/translate", AUTO | {"q": texts})
    assert (status, "seems to be in German" in told["error"]) == (400, True)


@pytest.mark.parametrize("text", ["你好", "你好嗎", "您好", "謝謝", "你好世界", "早上好"])
def test_chinese_is_chinese_among_the_served_languages(running, text):
    (first, *_) = running.ask("POST", "/detect", {"q": text})[1]
    assert first["language"] == "zh"
    assert running.ask("POST", "/translate", AUTO | {"q": text})[1]["detectedLanguage"]["language"] == "zh"
    assert detect_among(text, ["ja", "zh", "en"]).confidence > 0.2
    assert detect_among("你好", ["zh", "yue"]).language == "yue"  # where both are served they are told apart


def test_entries_with_the_codes_of_an_earlier_model_are_found(serve, tmp_path):  # noqa: F811
    memory = Memory(tmp_path / "memory")
    for languages, target in (
        (("en", "pt"), "Uma casa."),
        (("en", "pt-PT"), "Uma casa de Portugal."),
        (("en", "zh"), "一座房子。"),
        (("en", "zh-Hant"), "一座房子 (TW)"),
        (("en-US", "de"), "Ein Haus."),
    ):
        memory.add(languages, "A house.", target)
    running = serve(Words("en", "pt-BR"), Words("en", "zh-Hans"), Words("en", "de"), Words("en", "fr"), memory=memory)

    def ask(target, **fields):
        told = running.ask("POST", "/translate", {"q": "A house.", "source": "en", "target": target} | fields)[1]
        return told["translatedText"]

    assert [ask(target) for target in ("pt-BR", "zh", "de", "fr")] == [
        "Uma casa.", "一座房子。", "Ein Haus.", "A HOUSE."
    ]  # fmt: skip
    near = {"q": "A small house.", "source": "en", "target": "pt", "similar": 3}
    assert [entry["target"] for entry in running.ask("POST", "/translate", near)[1]["similar"]] == ["Uma casa."]
    running.ask("POST", "/suggest", {"q": "A house.", "s": "Uma casa do Brasil.", "source": "en", "target": "pt"})
    assert ask("pt-BR") == "Uma casa do Brasil."
    memory.close()


@pytest.mark.slow
def test_the_texts_of_a_request_are_compared_with_the_memory_for_a_limited_time(serve, tmp_path, monkeypatch):  # noqa: F811
    memory, asked = Memory(tmp_path / "memory"), []

    def slow(languages, text, most, *, seconds):
        asked.append(seconds)
        time.sleep(0.3)
        return []

    monkeypatch.setattr(memory, "similar", slow)
    running = serve(Words(), memory=memory)
    fields = {"q": ["a"] * 100, "source": "en", "target": "fr", "similar": 1}
    assert running.ask("POST", "/translate", fields)[0] == 200
    assert 2 <= len(asked) <= 4
    assert asked == sorted(asked, reverse=True)
    memory.close()


def test_work_on_many_texts_ends_with_the_text_during_which_nobody_waits_any_more():
    done, begun, cancelled = [], threading.Event(), threading.Event()

    def work(text):
        done.append(text)
        begun.set()
        cancelled.wait(30)

    async def ask():
        task = asyncio.create_task(in_turn(work, ["text"] * 100))
        await asyncio.to_thread(begun.wait)
        task.cancel()
        await asyncio.wait([task])
        cancelled.set()

    asyncio.run(ask())
    assert len(done) <= 2


def test_kept_documents_are_bounded_by_number_and_bytes():
    kept = KeptDocuments(Limits(documents=3, kept=100), size=len, is_translated=lambda document: document != b"busy")
    for number in range(5):
        kept.add(str(number), b"x" * 10)
    assert [*kept.by_number] == ["2", "3", "4"]
    kept.add("large", b"x" * 90)
    assert [*kept.by_number] == ["4", "large"]
    kept.add("larger", b"x" * 1_000)
    assert [*kept.by_number] == ["larger"]
    for number in "abc":
        kept.check_room(4)
        kept.add(number, b"busy")
    assert [*kept.by_number] == ["a", "b", "c"]
    with pytest.raises(Refusal, match="try again later"):
        kept.check_room(4)


def test_documents_that_are_fetched_late_make_room(serve):  # noqa: F811
    running = serve(Words(), limits=Limits(kept=5_000))
    pair = {"source": "en", "target": "fr"}
    kind, form = multipart(pair, "a.txt", b"a small house " * 200)
    paths = []
    for _ in range(3):
        _, told, _ = running.ask("POST", "/translate_file", form, Content_Type=kind)
        paths.append("/" + told["translatedFileUrl"].split("/", 3)[3])
    assert [running.ask("GET", path)[0] for path in paths] == [404, 404, 200]


def test_a_document_that_is_being_translated_is_not_dropped_for_another_one(serve):  # noqa: F811
    words = Words(held=True)
    running = serve(words, limits=Limits(documents=2))
    kind, form = multipart({"source_lang": "en", "target_lang": "fr"}, "a.txt", b"a house")
    uploads = [running.ask("POST", "/v2/document", form, Content_Type=kind) for _ in range(3)]
    assert [status for status, _, _ in uploads] == [200, 200, 503]
    assert int(uploads[2][2]["retry-after"]) > 0
    words.go_on.set()
    for _, told, _ in uploads[:2]:
        path, key = f"/v2/document/{told['document_id']}", {"document_key": told["document_key"]}
        wait_until(lambda path=path, key=key: running.ask("POST", path, key)[1]["status"] != "translating")
        assert running.ask("POST", f"{path}/result", key)[1] == b"A HOUSE"
