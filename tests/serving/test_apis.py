"""What software that speaks to LibreTranslate, DeepL and Google gets, by recorded requests and by real clients."""

import io
import json
import time
import urllib.parse
from types import SimpleNamespace

import deepl
import docx
import pytest
from libretranslatepy import LibreTranslateAPI

from dragoman.config.decoding import DecodingConfig
from dragoman.storage.memory import Memory
from tests.serving.conftest import Words, multipart


def form(**fields: str) -> tuple[bytes, dict[str, str]]:
    return urllib.parse.urlencode(fields, doseq=True).encode(), {"Content_Type": "application/x-www-form-urlencoded"}


@pytest.mark.slow
def test_a_text_or_a_list_as_json_form_or_address(running):
    fields = {"q": "a red house", "source": "en", "target": "fr"}
    body, head = form(**fields)
    for status, answer, _ in (
        running.ask("POST", "/translate", fields),
        running.ask("POST", "/translate", body, **head),
        running.ask("POST", f"/translate?{body.decode()}"),
    ):
        assert (status, answer) == (200, {"translatedText": "A RED HOUSE"})
    _, answer, _ = running.ask("POST", "/translate", fields | {"q": ["a cat", "", "the dog"]})
    assert answer == {"translatedText": ["A CAT", "", "THE DOG"]}


def test_mastodon(running):
    """A status with its parts, in HTML, of an unknown language; then the languages."""
    fields = {"q": ["<p>The <b>red</b> house is very old.</p>", "Le chat est sur la table."], "source": "auto",
             "target": "fr", "format": "html", "api_key": ""}  # fmt: skip
    status, answer, _ = running.ask("POST", "/translate", fields)
    assert status == 200
    assert answer["translatedText"] == ["<p>THE <b>RED</b> HOUSE IS VERY OLD.</p>", "Le chat est sur la table."]
    assert [language["language"] for language in answer["detectedLanguage"]] == ["en", "fr"]
    assert all(0 <= language["confidence"] <= 100 for language in answer["detectedLanguage"])
    _, languages, _ = running.ask("GET", "/languages")
    assert languages[0] == {"code": "en", "name": "English", "targets": ["en", "fr"]}


def test_weblate(running):
    """A form without a format, and the codes of languages."""
    body, head = form(q="Hello, %s!", source="en", target="fr", api_key="")
    assert running.ask("POST", "/translate", body, **head)[1] == {"translatedText": "HELLO, %S!"}
    assert {language["code"] for language in running.ask("GET", "/languages")[1]} == {"en", "fr"}


def test_the_client_of_libretranslate(running):
    client = LibreTranslateAPI(f"{running.url}/")
    assert client.translate("a cat", "en", "fr") == "A CAT"
    assert [language["code"] for language in client.languages()] == ["en", "fr"]
    assert client.detect("Le chat est sur la table, et il dort.")[0]["language"] == "fr"


def test_translations_are_streamed_as_lines_of_json(serve):
    running = serve(Words(seconds=0.05))
    texts = ["a cat", "", "the dog", *map(str, range(100))]
    fields = {"q": texts, "source": "en", "target": "fr", "stream": True}
    status, content, head = running.ask("POST", "/translate", fields)
    assert (status, head["content-type"]) == (200, "application/x-ndjson")
    lines = [json.loads(line) for line in content.splitlines()]
    assert lines == [{"index": index, "translatedText": text.upper()} for index, text in enumerate(texts)]
    assert running.ask("POST", "/translate", fields | {"target": "xx"})[0] == 400
    assert running.ask("POST", "/translate", fields | {"q": ["x"] * 600})[0] == 400


def test_alternatives_and_options(running):
    fields = {"q": "the cat is in the house", "source": "auto", "target": "fr", "alternatives": 2, "beam_size": 2}
    _, answer, _ = running.ask("POST", "/translate", fields)
    assert answer["alternatives"] == ["THE CAT IS IN THE HOUSE1", "THE CAT IS IN THE HOUSE2"]
    assert answer["detectedLanguage"]["language"] == "en"
    status, answer, _ = running.ask("POST", "/translate", fields | {"beam_size": "many"})
    assert (status, "`beam_size`" in answer["error"]) == (400, True)


def test_every_option_of_the_search_but_those_of_memory_and_time_is_taken(running):
    options = {"diversity": 0.5, "alternatives": 1, "beam_size": 3, "alignments": True}
    status, answer, _ = running.ask("POST", "/translate", RIGHT | {"q": "a cat"} | options)
    assert (status, answer["alignments"]) == (200, [[0, 0], [1, 1]])
    many = {"diversity": 0.5, "alternatives": 10, "beam_size": 64}  # eleven groups of five
    assert running.ask("POST", "/translate", RIGHT | {"q": "a cat"} | many)[0] == 200
    drawn = {"sample": "true", "temperature": "0.7", "top_k": "5", "top_p": 0.9, "seed": 7}
    assert running.ask("POST", "/translate", RIGHT | drawn)[0] == 200
    status, answer, _ = running.ask("POST", "/translate", RIGHT | {"top_k": 5})
    assert (status, "for sampling" in answer["error"]) == (400, True)
    described = running.ask("GET", "/spec")[1]["paths"]["/translate"]["post"]["requestBody"]["content"]
    known = described["application/json"]["schema"]["properties"]
    assert DecodingConfig.model_fields.keys() - known.keys() == {
        "n_best", "mbr", "max_source_length", "max_ratio", "max_extra", "max_tokens", "min_ratios"
    }  # fmt: skip


def test_a_detected_language_is_one_that_is_translated_to_the_target(serve):
    three = serve(Words("en", "fr"), Words("fr", "en"), Words("de", "fr"))
    texts = ["Das ist ein schönes Haus.", "C'est une belle maison.", "This is a beautiful house."]
    answer = three.ask("POST", "/translate", {"q": texts[1:], "source": "auto", "target": "en"})[1]
    assert [language["language"] for language in answer["detectedLanguage"]] == ["fr", "en"]
    assert answer["translatedText"] == [texts[1].upper(), texts[2]]
    answer = three.ask("POST", "/translate", {"q": texts, "source": "auto", "target": "en"})[1]
    assert answer["translatedText"] == [texts[0], texts[1].upper(), texts[2]]
    status, answer, _ = three.ask("POST", "/translate", {"q": texts[0], "source": "auto", "target": "en"})
    assert (status, answer["error"]) == (400, "English (en) is not available as a target language from German (de)")
    answer = three.ask("POST", "/translate", {"q": texts[0], "source": "auto", "target": "fr"})[1]
    assert (answer["detectedLanguage"]["language"], answer["translatedText"]) == ("de", texts[0].upper())
    for text, language in (("Das ist ein schönes Haus.", "de"), ("This is a beautiful house.", "en")):
        document = docx.Document()
        document.add_paragraph(text)
        document.save(content := io.BytesIO())
        kind, form = multipart({"source": "auto", "target": "fr"}, "a.docx", content.getvalue())
        assert three.ask("POST", "/translate_file", form, Content_Type=kind)[0] == 200
        (used,) = (model for model in three.models if model.batches and model.batches[-1] == [text])
        assert used.languages == (language, "fr")


RIGHT = {"q": "x", "source": "en", "target": "fr"}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"q": None}, "Invalid request: missing q parameter"),
        ({"source": ""}, "Invalid request: missing source parameter"),
        ({"target": None}, "Invalid request: missing target parameter"),
        ({"source": "zz"}, "zz is not supported"),
        ({"target": "zz"}, "zz is not supported"),
        ({"q": "x" * 5_001}, "Invalid request: request (5001) exceeds text limit (5000)"),
        ({"q": ["x"] * 513}, "Invalid request: request (513) exceeds text limit (512)"),
        ({"prefix": "x" * 5_001}, "Invalid request: request (5001) exceeds text limit (5000)"),
        ({"glossary": [1]}, "Invalid request: `glossary` is [1]; it must be a table (dict) of texts."),
        ({"alternatives": "y"}, "Invalid request: alternatives must be a whole number"),
        ({"alternatives": 11}, "Invalid request: alternatives must be from 0 to 10"),
        ({"format": "pdf"}, "pdf format is not supported"),
        ({"q": {"a": 1}}, "Invalid request: q must be a text, or a list of texts"),
    ],
)
def test_what_is_wrong_is_said_as_libretranslate_says_it(running, fields, message):
    assert running.ask("POST", "/translate", RIGHT | fields)[:2] == (400, {"error": message})


def test_terms_of_a_request_are_added_to_those_of_the_operator(serve):
    """And count more: a text that has both in it gets those of the request."""
    model = Words()
    model.decoding = DecodingConfig(glossary={"cat": "chat", "dog": "chien", "sun": "soleil"}, forbid=["minet"])
    running = serve(model)
    asked = RIGHT | {"q": "the Cat and the dog"}
    assert running.ask("POST", "/translate", asked)[0] == 200
    assert model.searches.pop() is model.decoding
    terms = {"glossary": {"Cat": "Matou", "house": "maison"}, "forbid": ["minou"]}
    as_text = {name: json.dumps(value) for name, value in terms.items()}
    as_form, head = form(**asked, **as_text)
    kind, upload = multipart(RIGHT | as_text, "a.md", b"# The cat")
    for path, body, headers, others in (
        ("/translate", asked | terms, {}, {"dog": "chien"}),
        ("/translate", as_form, head, {"dog": "chien"}),
        ("/translate_file", upload, {"Content_Type": kind}, {"dog": "chien", "sun": "soleil"}),
    ):
        assert running.ask("POST", path, body, **headers)[0] == 200
        search = model.searches.pop()
        assert search.glossary == terms["glossary"] | others
        assert search.forbid == ["minet", "minou"]
    assert running.ask("POST", "/translate", asked | {"keep": ["Acme"]})[0] == 200
    assert model.searches.pop().glossary == {"Acme": "Acme", "cat": "chat", "dog": "chien"}
    body, head = form(**asked, keep='["Acme"]')
    assert running.ask("POST", "/translate", body, **head)[0] == 200
    assert model.searches.pop().glossary == {"Acme": "Acme", "cat": "chat", "dog": "chien"}
    assert running.ask("POST", "/translate", asked | {"forbid": ["Chien"]})[0] == 200
    search = model.searches.pop()
    assert (search.glossary, search.forbid) == ({"cat": "chat"}, ["minet", "Chien"])
    assert running.ask("POST", "/translate", asked | {"beam_size": 2})[0] == 200
    search = model.searches.pop()
    assert (search.glossary, search.forbid) == (model.decoding.glossary, ["minet"])
    broken, head = form(**RIGHT, glossary='{"cat": ')
    message = {"error": "Invalid request: glossary is no JSON"}
    assert running.ask("POST", "/translate", broken, **head)[:2] == (400, message)
    large = {f"word {number}": "mot" for number in range(501)}
    kind, upload = multipart({**RIGHT, "glossary": json.dumps(large)}, "a.md", b"# A")
    message = {"error": "Invalid request: a glossary may have 500 terms"}
    assert running.ask("POST", "/translate_file", upload, Content_Type=kind)[:2] == (400, message)


def test_an_entry_of_the_memory_that_breaks_the_terms_is_not_the_answer(serve, tmp_path):
    model = Words()
    model.decoding = DecodingConfig(glossary={"valve": "VANNE"}, forbid=["soupape"])
    memory = Memory(tmp_path / "memory.db")
    memory.add_all(("en", "fr"), [("the valve", "la soupape"), ("a cat", "le chat"), ("a valve", "une VANNE")])
    running = serve(model, memory=memory)

    def translated(text: str, **fields: object) -> str:
        return running.ask("POST", "/translate", RIGHT | {"q": text} | fields)[1]["translatedText"]

    assert translated("the valve") == "THE VALVE"
    assert translated("a valve") == "une VANNE"
    assert translated("a cat") == "le chat"
    assert translated("a cat", forbid=["chat"]) == "A CAT"
    assert translated("<p>the valve</p><p>a cat</p>", format="html") == "<p>THE VALVE</p><p>le chat</p>"
    kind, upload = multipart(RIGHT, "a.md", b"the valve\n\na cat\n")
    _, answer, _ = running.ask("POST", "/translate_file", upload, Content_Type=kind)
    path = urllib.parse.urlsplit(answer["translatedFileUrl"]).path
    assert running.ask("GET", path)[1] == b"THE VALVE\n\nle chat\n"
    memory.close()


def test_fields_that_change_nothing_are_named(running):
    misspelt = {"beamsize": 2, "x": "y"}
    _, _, head = running.ask("POST", "/translate", RIGHT | misspelt)
    assert head["x-ignored-parameters"] == "beamsize, x"
    many = {f"x{number:02}": 1 for number in range(50)} | {"y" * 100: 1, "é": 1, "a\nb": 1}
    _, _, head = running.ask("POST", "/translate", RIGHT | many)
    assert head["x-ignored-parameters"] == ", ".join(list(many)[:20])
    _, _, head = running.ask("POST", "/translate", RIGHT | misspelt | {"q": ["a"], "stream": True})
    assert head["x-ignored-parameters"] == "beamsize, x"
    _, _, head = running.ask("POST", "/language/translate/v2", RIGHT | misspelt | {"key": "k", "prettyPrint": True})
    assert head["x-ignored-parameters"] == "beamsize, x"
    kind, upload = multipart(RIGHT | {"alternatives": 2, "api_key": "k"}, "a.md", b"# A")
    _, _, head = running.ask("POST", "/translate_file", upload, Content_Type=kind)
    assert head["x-ignored-parameters"] == "alternatives, q"
    for path in ("/translate", "/language/translate/v2"):
        assert "x-ignored-parameters" not in running.ask("POST", path, RIGHT)[2]


def test_documents(running):
    kind, form = multipart({"source": "en", "target": "fr"}, "../a b.md", b"# The *red* house")
    status, answer, _ = running.ask("POST", "/translate_file", form, Content_Type=kind)
    assert status == 200
    path = urllib.parse.urlsplit(answer["translatedFileUrl"]).path
    status, content, head = running.ask("GET", path)
    assert (status, content) == (200, b"# THE *RED* HOUSE")
    assert (path[-8:], head["content-disposition"]) == ("a%20b.md", "attachment; filename*=UTF-8''a%20b.md")
    assert running.ask("GET", "/download_file/nothing")[0] == 404
    bad = form.replace(b"b.md", b"b.exe")
    assert running.ask("POST", "/translate_file", bad, Content_Type=kind)[0] == 400


def test_the_client_of_deepl(running, monkeypatch):
    # It would wait five seconds before it asks for a document again.
    monkeypatch.setattr("deepl.translator.time", SimpleNamespace(time=time.time, sleep=lambda _: time.sleep(0.01)))
    client = deepl.DeepLClient("key:fx", server_url=running.url)
    translations = client.translate_text(["a cat", "the house is old"], target_lang="FR", source_lang="EN")
    assert [translation.text for translation in translations] == ["A CAT", "THE HOUSE IS OLD"]
    detected = client.translate_text("The house is very old, said the man.", target_lang="FR")
    assert (detected.detected_source_lang, detected.text) == ("EN", "THE HOUSE IS VERY OLD, SAID THE MAN.")
    assert (
        client.translate_text("<i>a</i> cat", target_lang="FR", source_lang="EN", tag_handling="html").text
        == "<i>A</i> CAT"
    )
    assert [language.code for language in client.get_source_languages()] == ["EN", "FR"]
    assert {language.code for language in client.get_target_languages()} == {"EN", "FR"}
    assert client.get_usage().character.count > 0
    names = {"source_lang": "EN", "target_lang": "FR"}
    client.translate_document(b"# The *red* house", output := io.BytesIO(), filename="a.md", **names)
    assert output.getvalue() == b"# THE *RED* HOUSE"
    with pytest.raises(deepl.DocumentTranslationException, match="is no JSON"):
        client.translate_document(b"{", io.BytesIO(), filename="a.json", **names)


def test_deepl_says_what_it_ignores_and_what_is_wrong(running):
    fields = {"text": ["a"], "target_lang": "fr", "source_lang": "en"}
    status, _, head = running.ask("POST", "/v2/translate", fields | {"formality": "prefer_less", "context": "b"})
    assert (status, head["x-ignored-parameters"]) == (200, "context, formality")
    status, answer, _ = running.ask("POST", "/v2/translate", fields | {"formality": "less"})
    assert (status, answer) == (400, {"message": "'formality' is not supported for given 'target_lang'."})
    assert running.ask("POST", "/v2/translate", {"text": ["a"]})[:2] == (
        400, {"message": "Invalid request: missing target_lang parameter"}
    )  # fmt: skip


def test_google(running):
    path = "/language/translate/v2"
    status, answer, _ = running.ask("POST", f"{path}?key=k", {"q": ["<b>a</b> cat"], "target": "fr", "source": "en"})
    assert (status, answer) == (200, {"data": {"translations": [{"translatedText": "<b>A</b> CAT"}]}})
    _, answer, _ = running.ask("POST", path, {"q": "the house is old", "target": "fr", "format": "text"})
    assert answer["data"]["translations"] == [{"translatedText": "THE HOUSE IS OLD", "detectedSourceLanguage": "en"}]
    status, answer, _ = running.ask("POST", path, {"target": "fr"})
    assert (status, answer["error"]["code"]) == (400, 400)


def test_keys_are_asked_for_in_every_api(serve):
    running = serve(Words(), keys=("one", "two"))
    fields = {"q": "a", "source": "en", "target": "fr"}
    assert running.ask("POST", "/translate", fields)[0] == 400
    assert running.ask("POST", "/translate", fields | {"api_key": "three"})[:2] == (403, {"error": "Invalid API key"})
    assert running.ask("POST", "/translate", fields | {"api_key": "two"})[0] == 200
    assert running.ask("POST", "/translate", fields, Authorization="Bearer one")[0] == 200
    deepl_fields = {"text": ["a"], "target_lang": "FR", "source_lang": "EN"}
    assert running.ask("POST", "/v2/translate", deepl_fields)[0] == 403
    assert running.ask("POST", "/v2/translate", deepl_fields, Authorization="DeepL-Auth-Key one")[0] == 200
    assert running.ask("POST", "/language/translate/v2?key=one", {"q": "a", "target": "fr", "source": "en"})[0] == 200
    assert running.ask("GET", "/metrics")[0] == 400
    metrics = running.ask("GET", "/metrics", Authorization="Bearer one")[1].decode()
    assert "one" not in metrics.replace("gone", "")
    assert 'dragoman_characters_total{source="en",target="fr"}' in metrics
    assert running.ask("GET", "/health")[:2] == (200, {"status": "ok"})
    assert [running.ask("HEAD", path)[0] for path in ("/health", "/", "/languages")] == [200, 200, 405]


def test_every_answer_forbids_other_hosts(running):
    for method, path in (("GET", "/languages"), ("GET", "/nothing"), ("POST", "/translate")):
        head = running.ask(method, path)[2]
        assert head["content-security-policy"].startswith("default-src 'self'")
        assert head["x-content-type-options"] == "nosniff"
    assert running.ask("GET", "/nothing")[:2] == (404, {"error": "Not Found"})
    assert running.ask("DELETE", "/translate")[0] == 405


def test_fields_of_documents_that_change_nothing_are_named_and_no_others(running):
    fields = {"source_lang": "EN", "target_lang": "FR", "output_format": "md", "split_sentences": "1", "colour": "red"}
    fields["formality"] = "prefer_more"
    kind, form = multipart(fields, "a.md", b"# The cat")
    status, _, headers = running.ask("POST", "/v2/document", form, Content_Type=kind)
    assert status == 200
    assert set(headers["x-ignored-parameters"].split(", ")) == {
        "split_sentences", "colour", "formality"
    }  # fmt: skip


def test_half_a_character_in_a_form_is_read_as_none(running):
    kind, form = multipart(RIGHT | {"q": "hello +2AA- there"}, "a.md", b"x")
    status, answer, _ = running.ask("POST", "/translate", form, Content_Type=kind + "; charset=utf-7")
    assert (status, answer["translatedText"]) == (200, "HELLO \ufffd THERE")


def test_a_streamed_list_leaves_foreign_texts_as_they_are(running):
    texts = [
        "The cat sees the dog in the old house.",
        "Кошка видит собаку в старом доме.",
        "I am here with my friends.",
    ]
    fields = {"q": texts, "source": "auto", "target": "fr"}
    _, whole, _ = running.ask("POST", "/translate", fields)
    _, lines, _ = running.ask("POST", "/translate", fields | {"stream": True})
    streamed = [json.loads(line) for line in lines.splitlines()]
    assert [line["translatedText"] for line in streamed] == whole["translatedText"]
    assert streamed[1]["translatedText"] == texts[1]


def test_a_document_in_the_target_language_is_said_to_be(running):
    kind, form = multipart({"source": "auto", "target": "en"}, "a.txt", b"The cat sees the dog in the old house.")
    status, answer, _ = running.ask("POST", "/translate_file", form, Content_Type=kind)
    assert status == 200
    assert answer["report"]["outcome"] == "a.txt is in the other language already; the result is the same document."
