"""The insides of a model over HTTP: the same numbers as in Python, one question after another, and only if asked."""

import threading

import pytest

from dragoman.decoding.translator import Translator
from dragoman.report import inspect_translation, render_inspection, word_probabilities
from dragoman.serving.inspection import MOST_WAITING, InspectedModel, InspectionWorker
from dragoman.storage.model_directory import ModelDirectory
from tests.report.models import SOURCE, small_model

TEXT = "The red house is old.  The small cat sees two dogs.\nYes."
FIELDS = {"source": "en", "target": "fr"}


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "en-fr"
    small_model().save(path)
    return path


@pytest.fixture(scope="module")
def open_server(path, serve):
    return serve(Translator.load(path), inspector=InspectionWorker({("en", "fr"): InspectedModel(path)}, fork=False))


@pytest.mark.slow
def test_the_sentences_of_a_text_and_their_words(open_server, path):
    status, answer, _ = open_server.ask("POST", "/explore", {"q": TEXT, **FIELDS})
    assert status == 200
    assert "".join(sentence["source"] for sentence in answer["sentences"]) == TEXT
    _, whole, _ = open_server.ask("POST", "/translate", {"q": TEXT, **FIELDS})
    assert (
        "".join(sentence["translation"] + sentence["after"] for sentence in answer["sentences"])
        == whole["translatedText"]
    )
    model = ModelDirectory.load(path)
    for sentence in answer["sentences"]:
        words = word_probabilities(model, sentence["source"], sentence["translation"])
        assert [(word["text"], word["start"]) for word in sentence["words"]] == [word[:2] for word in words]
        probabilities = [word["probability"] for word in sentence["words"]]
        assert probabilities == pytest.approx([word.probability for word in words], rel=1e-4)
    given = {"translation": whole["translatedText"]}
    assert open_server.ask("POST", "/explore", {"q": TEXT, **given, **FIELDS})[1] == answer
    before = open_server.server.queue.translated
    _, answer, _ = open_server.ask("POST", "/explore", {"q": SOURCE, "translation": "La maison.", **FIELDS})
    assert open_server.server.queue.translated == before  # one sentence is not translated again
    assert [sentence["translation"] for sentence in answer["sentences"]] == ["La maison."]
    _, answer, _ = open_server.ask("POST", "/explore", {"q": TEXT, "translation": "La maison.", **FIELDS})
    assert [(sentence["source"], sentence["translation"]) for sentence in answer["sentences"]] == [(TEXT, "La maison.")]


def test_other_words_and_how_the_sentence_goes_on(open_server):
    status, answer, _ = open_server.ask("POST", "/words", {"q": SOURCE, "prefix": "La maison", **FIELDS})
    assert status == 200
    assert 2 <= len(answer["words"]) <= 6
    for word in answer["words"]:
        assert word["translation"].startswith("La maison")
        assert word["translation"].removeprefix("La maison").split()[0] == word["text"]
    probabilities = [word["probability"] for word in answer["words"]]
    assert probabilities == sorted(probabilities, reverse=True)
    assert len({word["text"] for word in answer["words"]}) == len(answer["words"])
    _, first, _ = open_server.ask("POST", "/words", {"q": SOURCE, "prefix": "", **FIELDS})
    assert first["words"]


def test_the_page_of_an_inspection(open_server, path):
    status, page, head = open_server.ask("POST", "/inspect", {"q": SOURCE, "translation": "La maison.", **FIELDS})
    assert (status, head["content-type"]) == (200, "text/html; charset=utf-8")
    assert "sandbox" in head["content-security-policy"]
    assert page.decode() == render_inspection(
        inspect_translation(ModelDirectory.load(path), SOURCE, target="La maison.")
    )


def test_what_cannot_be_looked_into_is_refused(open_server, running):
    assert running.ask("POST", "/explore", {"q": "a", **FIELDS})[0] == 404
    assert open_server.ask("POST", "/explore", {"q": "a", "source": "fr", "target": "en"})[0] == 400
    assert open_server.ask("POST", "/explore", {"q": "a " * 5_000, **FIELDS})[0] == 400
    status, answer, _ = open_server.ask("POST", "/inspect", {"q": "word " * 900, **FIELDS})
    assert (status, "at most 512" in answer["error"]) == (400, True)


def test_many_questions_wait_and_more_are_refused(open_server):
    inspector, gate, answers = open_server.server.inspector, threading.Event(), []
    blocked = inspector._workers._pool.submit(gate.wait)

    def ask():
        answers.append(open_server.ask("POST", "/explore", {"q": "The cat.", **FIELDS})[::2])

    threads = [threading.Thread(target=ask) for _ in range(MOST_WAITING + 4)]
    for thread in threads:
        thread.start()
    while len(answers) < 3:
        gate.wait(0.05)
    gate.set()
    for thread in threads:
        thread.join()
    statuses = [status for status, _ in answers]
    assert statuses.count(200) == MOST_WAITING + 1
    assert statuses.count(503) == 3
    assert all("retry-after" in head for status, head in answers if status == 503)
    assert blocked.result()
