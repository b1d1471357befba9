"""Confidence and warnings over HTTP, where the models have them."""

import pytest

from tests.serving.conftest import CONFIDENCE, Running, Words, multipart

LANGUAGES = {"source": "en", "target": "fr"}


@pytest.fixture(scope="module")
def server(serve) -> Running:
    return serve(Words(has_confidence=True))


def test_a_confidence_is_given_to_whoever_asks_for_it(server: Running) -> None:
    assert server.ask("POST", "/translate", {"q": "a", **LANGUAGES})[1] == {"translatedText": "A"}
    _, content, _ = server.ask("POST", "/translate", {"q": "a", "confidence": True, **LANGUAGES})
    assert content == {"translatedText": "A", "confidence": CONFIDENCE, "editProbability": 1 - CONFIDENCE}
    _, content, _ = server.ask("POST", "/translate", {"q": ["a", "b"], "confidence": True, **LANGUAGES})
    assert content["confidence"] == [CONFIDENCE] * 2


def test_each_sentence_has_its_warnings(server: Running) -> None:
    fields = {"q": "a 12", "checks": True, "confidence": True, **LANGUAGES}
    _, content, _ = server.ask("POST", "/translate", fields)
    warning = {"kind": "number", "text": "12", "what": "a number is missing or another"}
    assert content["sentences"] == [{"source": "a 12", "text": "A 12", "warnings": [warning], "confidence": CONFIDENCE}]


@pytest.mark.parametrize("option", [{"confidence": True}, {"only_above": 0.5}])
def test_a_model_without_calibration_refuses(serve, option: dict) -> None:
    server = serve(Words())
    status, content, _ = server.ask("POST", "/translate", {"q": "a", **LANGUAGES, **option})
    assert (status, content) == (400, {"error": "Invalid request: this model has no calibrated confidence"})
    assert server.ask("GET", "/frontend/settings")[1]["confidence"] is False


def test_the_page_learns_whether_all_models_have_one(server: Running, serve) -> None:
    assert server.ask("GET", "/frontend/settings")[1]["confidence"] is True
    mixed = serve(Words(has_confidence=True), Words("fr", "en"))
    assert mixed.ask("GET", "/frontend/settings")[1]["confidence"] is False


@pytest.mark.parametrize("value", [1.0, -0.1, "much"])
def test_a_wrong_limit_is_refused(server: Running, value: object) -> None:
    status, content, _ = server.ask("POST", "/translate", {"q": "a", "only_above": value, **LANGUAGES})
    assert status == 400
    assert "only_above" in content["error"]


def test_texts_with_tags_have_them_too(server: Running) -> None:
    fields = {"q": "<p>a 12</p><p>b</p>", "format": "html", "checks": True, "confidence": True, **LANGUAGES}
    _, content, _ = server.ask("POST", "/translate", fields)
    assert content["translatedText"] == "<p>A 12</p><p>B</p>"
    assert content["confidence"] == CONFIDENCE
    assert content["editProbability"] == 1 - CONFIDENCE**2
    assert [len(sentence["warnings"]) for sentence in content["sentences"]] == [1, 0]


def test_documents_have_them_too(server: Running) -> None:
    content = b'msgid ""\nmsgstr ""\n"Content-Type: text/plain; charset=UTF-8\\n"\n\nmsgid "abc"\nmsgstr ""\n'
    for fields, comments in (({}, 0), ({"confidence": "true"}, 1)):
        kind, body = multipart({**LANGUAGES, **fields}, "a.po", content)
        _, answer, _ = server.ask("POST", "/translate_file", body, Content_Type=kind)
        path = answer["translatedFileUrl"].partition("/download_file/")[2]
        _, document, _ = server.ask("GET", f"/download_file/{path}")
        assert document.count(b"# Dragoman: confidence 0.75") == comments
    kind, body = multipart({**LANGUAGES, "only_above": "7"}, "a.po", content)
    assert server.ask("POST", "/translate_file", body, Content_Type=kind)[0] == 400
