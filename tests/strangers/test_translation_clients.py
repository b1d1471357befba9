"""What software that speaks to LibreTranslate, DeepL or Google sends, and what it has to be answered."""

import io

import deepl
import pytest

from dragoman.decoding.translation import Translation
from tests.serving.conftest import Words, multipart, serve  # noqa: F401

GOOGLE = "/language/translate/v2"


class Repeating(Words):
    """Its alternatives repeat the translation and each other."""

    def translate(self, texts, config, prefixes):
        others = [Translation(text, -1.0, -1.0, []) for text in ("A", "B", "", "B", "C")]
        return [Translation("A", 0.0, 0.0, [], None, others) for _ in texts]


@pytest.fixture(scope="module")
def spanish(serve):  # noqa: F811
    """The first example of the README: one model, from English to another language."""
    return serve(Words("en", "es"))


@pytest.fixture(scope="module")
def varieties(serve):  # noqa: F811
    targets = ("zh-Hans", "sr-Latn", "pt-BR", "de", "en_US")
    return serve(*(Words("en" if target != "en_US" else "de", target) for target in targets))


def ask(running, **fields):
    return running.ask("POST", "/translate", {"q": "a cat", "source": "en", "target": "es"} | fields)[:2]


def ask_deepl(running, **fields):
    fields = {"text": ["a cat"], "source_lang": "EN", "target_lang": "ES"} | fields
    return running.ask("POST", "/v2/translate", fields)[:2]


def test_each_language_is_listed_with_its_targets(spanish):
    _, languages, _ = spanish.ask("GET", "/languages")
    assert languages == [
        {"code": "en", "name": "English", "targets": ["en", "es"]},
        {"code": "es", "name": "Spanish", "targets": ["es"]},
    ]


def test_null_is_the_same_as_no_field(spanish):
    nothing = dict.fromkeys(("format", "alternatives", "api_key", "keep", "glossary", "beam_size", "stream"))
    assert ask(spanish, **nothing) == (200, {"translatedText": "A CAT"})
    assert ask(spanish, target=None) == (400, {"error": "Invalid request: missing target parameter"})
    nothing = dict.fromkeys(("formality", "glossary_id", "tag_handling", "split_sentences", "ignore_tags", "style_id"))
    assert ask_deepl(spanish, **nothing)[0] == 200
    fields = {"q": ["a cat"], "target": "es", "cid": [], "format": None, "source": None, "model": None}
    _, told, _ = spanish.ask("POST", GOOGLE, fields)
    assert told == {"data": {"translations": [{"translatedText": "A CAT", "detectedSourceLanguage": "en"}]}}


@pytest.mark.parametrize("target", ["zh", "zh-CN", "ZH_HANS", "zh-SG", "sr-Latn", "pt", "pb", "PT-BR", "de-DE", "deu"])
def test_codes_that_mean_what_a_model_writes_are_taken(varieties, target):
    assert ask(varieties, target=target)[0] == 200
    assert ask_deepl(varieties, target_lang=target)[0] == 200


@pytest.mark.parametrize("target", ["zh-Hant", "zt", "zh-TW", "zh_HK", "sr", "sr-Cyrl", "pt-PT", "de-AT", "de-1901"])
def test_a_variety_that_no_model_writes_is_refused(varieties, target):
    assert ask(varieties, target=target) == (400, {"error": f"{target} is not supported"})
    assert ask_deepl(varieties, target_lang=target) == (400, {"message": "Value for 'target_lang' not supported."})
    status, told, _ = varieties.ask("POST", GOOGLE, {"q": "a", "source": "en", "target": target})
    assert (status, told["error"]["code"]) == (400, 400)


def test_a_model_reads_its_language_from_everywhere(varieties):
    assert ask(varieties, source="en-AU", target="de")[0] == 200
    assert ask(varieties, source="de_CH", target="en")[0] == 200
    assert ask(varieties, source="de", target="EN-GB")[0] == 400


def test_the_code_of_a_variety_stays_in_the_answers(varieties):
    codes = [language["code"] for language in varieties.ask("GET", "/languages")[1]]
    assert codes == ["en", "de", "zh-Hans", "sr-Latn", "pt-BR", "en-US"]
    targets = deepl.DeepLClient("key", server_url=varieties.url).get_target_languages()
    assert [language.code for language in targets] == ["ZH-HANS", "SR-LATN", "PT-BR", "DE", "EN-US"]


@pytest.mark.parametrize("text", ["Das ist ein schönes Haus.", "Das Haus ist rot.", "<p>Das Haus ist <b>rot</b>.</p>"])
def test_a_text_in_no_language_of_the_server_is_refused(spanish, text):
    form = "html" if "<" in text else "text"
    status, told = ask(spanish, q=text, source="auto", format=form)
    assert (status, told["error"].split(":")[0]) == (400, "de is not supported")
    # In a list, it stays as it is beside those that can be translated.
    status, told = ask(spanish, q=["The house is red.", text], source="auto", format=form)
    assert (status, told["translatedText"][1], told["detectedLanguage"][1]["language"]) == (200, text, "de")
    status, told = ask_deepl(spanish, text=[text], source_lang=None, tag_handling=None if form == "text" else form)
    assert (status, told["message"].split(":")[0]) == (400, "Value for 'source_lang' not supported")
    assert spanish.ask("POST", GOOGLE, {"q": text, "target": "es"})[0] == 400
    kind, body = multipart({"source": "auto", "target": "es"}, "a.html", text.encode())
    assert spanish.ask("POST", "/translate_file", body, Content_Type=kind)[0] == 400


@pytest.mark.parametrize("text", ["Привет", "你好", "Γειά"])
def test_a_word_in_a_script_of_no_language_of_the_server_is_refused(spanish, text):
    assert ask(spanish, q=text, source="auto")[0] == 400


@pytest.mark.parametrize("text", ["Hi", "ok", "No", "OK!", "Save", "Yes.", "I", "Delete all files?", "Hello", "Tokyo"])
def test_short_texts_are_in_a_language_that_is_translated(spanish, text):
    status, told = ask(spanish, q=text, source="auto")
    assert (status, told["translatedText"], told["detectedLanguage"]["language"]) == (200, text.upper(), "en")


def test_greetings_and_answers_are_told_apart(serve):  # noqa: F811
    both = serve(Words("en", "fr"), Words("de", "fr"), Words("es", "fr"))
    detected = {}
    for text in ("Hi there", "Danke!", "Hola", "Guten Morgen", "sí", "Thank you", "Nein."):
        detected[text] = ask(both, q=text, source="auto", target="fr")[1]["detectedLanguage"]["language"]
    assert list(detected.values()) == ["en", "de", "es", "de", "es", "en", "de"]
    assert ask(both, q="Bonjour", source="auto", target="fr")[1]["translatedText"] == "Bonjour"


@pytest.mark.parametrize("text", ["123", "...", "😀", "€ 5"])
def test_a_text_without_letters_is_in_no_language(spanish, text):
    status, told = ask(spanish, q=text, source="auto")
    assert (status, told["detectedLanguage"]) == (200, {"confidence": 0.0, "language": "en"})
    assert spanish.ask("POST", "/detect", {"q": text})[1] == [{"confidence": 0.0, "language": "en"}]
    told = spanish.ask("POST", f"{GOOGLE}/detect", {"q": text})[1]
    assert told["data"]["detections"][0][0]["language"] == "und"


def test_detection_names_other_languages_too(spanish):
    (likely, *_) = spanish.ask("POST", "/detect", {"q": "Das ist ein schönes Haus."})[1]
    assert (likely["language"], likely["confidence"] > 90) == ("de", True)
    assert spanish.ask("POST", "/detect", {"q": ["The house", "is red."]})[1][0]["language"] == "en"


def test_alternatives_are_distinct_and_have_their_scores(serve):  # noqa: F811
    status, told = ask(serve(Repeating("en", "es")), alternatives=5)
    assert (status, told["translatedText"], told["alternatives"]) == (200, "A", ["B", "C"])
    assert told["scores"] == [0.0, -1.0, -1.0]


@pytest.mark.parametrize("name", [".txt", "a.TXT", "/tmp/.txt", "..txt", "a b.txt"])
def test_a_file_whose_name_is_its_ending_is_translated(spanish, name):
    kind, body = multipart({"source": "en", "target": "es"}, name, b"a cat")
    status, told, _ = spanish.ask("POST", "/translate_file", body, Content_Type=kind)
    assert (status, told["report"]["translated"]) == (200, 1)
    assert spanish.ask("GET", told["translatedFileUrl"].removeprefix(spanish.url))[1] == b"A CAT"


@pytest.mark.parametrize("name", ["a.pptx", "a", "txt", "a.txt.exe", "."])
def test_a_file_of_another_format_is_refused_with_the_known_ones(spanish, name):
    kind, body = multipart({"source": "en", "target": "es"}, name, b"a cat")
    status, told, _ = spanish.ask("POST", "/translate_file", body, Content_Type=kind)
    assert (status, ".docx" in told["error"]) == (400, True)


def test_a_document_with_nothing_to_translate_is_told_of(spanish):
    kind, body = multipart({"source": "en", "target": "es"}, "a.txt", b"12 + 3")
    told = spanish.ask("POST", "/translate_file", body, Content_Type=kind)[1]
    assert "no text to translate" in told["report"]["outcome"]


@pytest.mark.parametrize("kind", ["more", "less"])
def test_formality_that_no_model_has_is_refused(spanish, kind):
    message = "'formality' is not supported for given 'target_lang'."
    assert ask_deepl(spanish, formality=kind) == (400, {"message": message})
    assert ask_deepl(spanish, formality=f"prefer_{kind}")[0] == 200


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"glossary_id": "def3a26b"}, 404),
        ({"glossary_ids": ["def3a26b"]}, 404),
        ({"glossary_id": "def3a26b", "source_lang": None}, 400),
        ({"style_id": "7ff9bfd6"}, 404),
        ({"translation_memory_id": "7ff9bfd6"}, 404),
        ({"custom_instructions": ["Be brief."]}, 400),
        ({"formality": "friendly"}, 400),
        ({"split_sentences": "2"}, 400),
        ({"tag_handling": "markdown"}, 400),
        ({"model_type": "best"}, 400),
        ({"preserve_formatting": "perhaps"}, 400),
        ({"outline_detection": [1]}, 400),
    ],
)
def test_what_deepl_would_do_and_this_server_cannot_is_refused(spanish, fields, status):
    found, told = ask_deepl(spanish, **fields)
    assert (found, list(told)) == (status, ["message"])
    form = {name: value for name, value in fields.items() if isinstance(value, str)}
    kind, body = multipart({"source_lang": "EN", "target_lang": "ES"} | form, "a.txt", b"a cat")
    if len(form) == len(fields):
        assert spanish.ask("POST", "/v2/document", body, Content_Type=kind)[0] == status


@pytest.mark.parametrize(
    ("text", "options", "translated"),
    [
        ('Es <x id="10"></x> is', {"ignore_tags": ["x"]}, 'ES <x id="10"></x> IS'),
        ("a <g1>b</g1> c", {}, "A <g1>B</g1> C"),
        ("a <raw>b &amp; c</raw> d", {"ignore_tags": "raw, other"}, "A <raw>b &amp; c</raw> D"),
        ("a <![CDATA[b < c]]> d", {}, "A <![CDATA[b < c]]> D"),
        ("<p>a</p><p>b</p>", {"splitting_tags": ["p"], "outline_detection": False}, "<p>A</p><p>B</p>"),
        ("<par>a </par><par>b</par>", {"non_splitting_tags": "par"}, "<par>A </par><par>B</par>"),
    ],
)
def test_xml_keeps_its_tags_and_what_is_ignored(spanish, text, options, translated):
    status, told = ask_deepl(spanish, text=[text], tag_handling="xml", **options)
    assert (status, told["translations"][0]["text"]) == (200, translated)


def test_unknown_tags_do_not_end_a_sentence(spanish):
    batches = spanish.models[0].batches
    for options in ({}, {"ignore_tags": ["x"]}):
        batches.clear()
        ask_deepl(spanish, text=['There are <x id="10"></x> files'], tag_handling="xml", **options)
        (sentence,) = batches[0]
        assert sentence.split()[:2] + sentence.split()[-1:] == ["There", "are", "files"]


def test_broken_xml_is_refused(spanish):
    status, told = ask_deepl(spanish, text=["a <b> c"], tag_handling="xml")
    assert (status, "no well-formed XML" in told["message"]) == (400, True)


def test_line_breaks_are_spaces_if_only_punctuation_splits(spanish):
    (translation,) = ask_deepl(spanish, text=["a cat \n and a dog"], split_sentences="nonewlines")[1]["translations"]
    assert translation["text"] == "A CAT AND A DOG"


def test_the_fields_of_an_answer_of_deepl_are_those_that_were_asked_for(spanish):
    assert ask_deepl(spanish)[1]["translations"] == [{"detected_source_language": "EN", "text": "A CAT"}]
    fields = {"show_billed_characters": "1", "model_type": "prefer_quality_optimized"}
    (translation,) = ask_deepl(spanish, **fields)[1]["translations"]
    assert (translation["billed_characters"], translation["model_type_used"]) == (5, "quality_optimized")


def test_the_client_of_deepl_finds_languages_and_no_glossaries(spanish):
    client = deepl.DeepLClient("key", server_url=spanish.url)
    assert [language.code for language in client.get_source_languages()] == ["EN"]
    assert [(each.code, each.supports_formality) for each in client.get_target_languages()] == [("ES", False)]
    assert client.get_glossary_languages() == client.list_glossaries() == []
    assert client.list_multilingual_glossaries() == []
    with pytest.raises(deepl.GlossaryNotFoundException):
        client.get_glossary("def3a26b-3e84-45b3-84ae-0c0aaf3525f7")
    with pytest.raises(deepl.DeepLException, match="keeps no glossaries"):
        client.create_glossary("mine", "EN", "ES", {"cat": "gato"})
    with pytest.raises(deepl.DeepLException, match="formality"):
        client.translate_text("a cat", target_lang="ES", formality="more")
    with pytest.raises(deepl.DocumentTranslationException, match="Source and target language are equal"):
        client.translate_document(b"a cat", io.BytesIO(), filename="a.txt", source_lang="ES", target_lang="ES")
    with pytest.raises(deepl.DeepLException, match="Invalid file"):
        client.translate_document_upload(b"a cat", filename="a.pptx", source_lang="EN", target_lang="ES")


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_the_type_of_languages_is_read_from_a_body_and_from_the_address(spanish, method):
    head = {"Content_Type": "application/x-www-form-urlencoded"}
    for path, body in (("/v2/languages", b"type=target"), ("/v2/languages?type=target", None)):
        status, told, _ = spanish.ask(method, path, body, **head)
        assert (status, [language["language"] for language in told]) == (200, ["ES"])
    assert spanish.ask(method, "/v2/languages?type=both")[0] == 400


def test_version_3_of_deepl_tells_sources_from_targets(spanish):
    _, languages, _ = spanish.ask("GET", "/v3/languages?resource=translate_text")
    used = [(each["lang"], each["usable_as_source"], each["usable_as_target"]) for each in languages]
    assert used == [("en", True, False), ("es", False, True)]
    assert spanish.ask("GET", "/v3/languages?resource=glossary")[:2] == (200, [])
    assert spanish.ask("GET", "/v3/languages")[0] == 400


def test_the_routes_of_google_answer_addresses_forms_and_json(spanish):
    translations = {"data": {"translations": [{"translatedText": "A CAT"}, {"translatedText": "A DOG"}]}}
    address = "q=a+cat&q=a+dog&source=en&target=es&format=text"
    form = {"Content_Type": "application/x-www-form-urlencoded"}
    assert spanish.ask("GET", f"{GOOGLE}?{address}")[:2] == (200, translations)
    assert spanish.ask("GET", f"{GOOGLE}/?{address}")[:2] == (200, translations)
    assert spanish.ask("POST", GOOGLE, address.encode(), **form)[:2] == (200, translations)
    _, told, _ = spanish.ask("POST", GOOGLE, {"q": "a cat", "source": "en", "target": "es", "model": "nmt"})
    assert told["data"]["translations"] == [{"translatedText": "A CAT", "model": "nmt"}]
    assert spanish.ask("POST", GOOGLE, {"q": "a cat", "target": "es", "model": "own"})[0] == 400


def test_google_lists_and_detects_languages(spanish):
    assert spanish.ask("GET", f"{GOOGLE}/languages")[1] == {
        "data": {"languages": [{"language": "en"}, {"language": "es"}]}
    }
    named = spanish.ask("GET", f"{GOOGLE}/languages?target=en&key=k")[1]["data"]["languages"]
    assert named == [{"language": "en", "name": "English"}, {"language": "es", "name": "Spanish"}]
    told = spanish.ask("POST", f"{GOOGLE}/detect", {"q": ["The house is red.", "La casa es roja."]})[1]
    assert [texts[0]["language"] for texts in told["data"]["detections"]] == ["en", "es"]


def test_google_says_which_key_is_missing_or_wrong(serve):  # noqa: F811
    running = serve(Words("en", "es"), keys=("one",))
    fields = {"q": "a cat", "source": "en", "target": "es"}
    assert running.ask("POST", GOOGLE, fields)[0] == 403
    status, told, _ = running.ask("POST", f"{GOOGLE}?key=two", fields)
    assert (status, told["error"]["message"]) == (400, "API key not valid. Please pass a valid API key.")
    assert running.ask("POST", GOOGLE, fields, X_Goog_Api_Key="one")[0] == 200


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("/nothing", lambda told: told["error"]),
        ("/v2/nothing", lambda told: told["message"]),
        ("/v3/nothing", lambda told: told["message"]),
        (f"{GOOGLE}/nothing", lambda told: told["error"]["message"]),
        ("/v2nothing", lambda told: told["error"]),
    ],
)
def test_an_unknown_path_is_refused_in_the_words_of_its_api(spanish, path, said):
    status, told, _ = spanish.ask("GET", path)
    assert (status, said(told)) == (404, "Not Found")


def test_another_method_is_refused_in_the_words_of_each_api(spanish):
    assert spanish.ask("PUT", "/translate", {})[:2] == (405, {"error": "Method Not Allowed"})
    assert spanish.ask("PUT", "/v2/translate", {})[:2] == (405, {"message": "Method Not Allowed"})
    assert spanish.ask("PUT", GOOGLE, {})[1]["error"]["code"] == 405
