"""Translations that reuse what a translation memory has."""

from contextlib import closing
from pathlib import Path

import pytest

from dragoman.config.decoding import DecodingConfig
from dragoman.decoding.recall import Recall, recall_of
from dragoman.decoding.translator import Translator
from dragoman.documents.translate import remembered
from dragoman.errors import DataError, ResourceError, UsageError
from dragoman.evaluation.evaluate import evaluate_pairs
from dragoman.storage.memory import CANDIDATES, Memory, stored_entries
from dragoman.storage.model_directory import ModelDirectory
from dragoman.text.tokenizers.hint_tokens import HINTS, SIMILAR, TERM
from dragoman.text.tokenizers.placeholders import SLOTS
from dragoman.text.tokenizers.tokenizer import Tokenizer
from tests.small import small_directory

PAIRS = [
    ("the red house is old", "la maison rouge est vieille"),
    ("the green house is very old", "la maison verte est très vieille"),
    ("a dog sleeps in the garden", "un chien dort dans le jardin"),
    ("we have 3 cats and 12 dogs", "nous avons 3 chats et 12 chiens"),
]
TEXTS = [text for pair in PAIRS for text in pair] * 3


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An untrained model that reads hints, from English to French."""
    path = tmp_path_factory.mktemp("model") / "model"
    directory = small_directory(Tokenizer.train(TEXTS, vocab_size=300).with_hints(HINTS))
    directory.source_language, directory.target_language = "en", "fr"
    directory.save(path)
    return path


@pytest.fixture
def memory(tmp_path: Path) -> Path:
    path = tmp_path / "memory.db"
    with_pairs(path, PAIRS)
    return path


def with_pairs(path: Path, pairs: list[tuple[str, str]], languages: tuple[str, str] = ("en", "fr")) -> int:
    memory = Memory(path)
    added = memory.add_all(languages, pairs)
    memory.close()
    return added


def test_a_text_that_the_memory_has_is_not_translated(folder: Path, memory: Path) -> None:
    with Translator.load(folder, memory=memory) as translator:
        same, other = translator.translate(["a dog sleeps in the garden", "a dog eats"], alignments=True, n_best=2)
    assert (same.text, same.alignment, same.alternatives) == ("un chien dort dans le jardin", [], [])
    assert [match.similarity for match in same.memory or ()] == [1.0]
    assert other.text != same.text
    assert other.memory is None


def test_the_most_similar_entry_is_a_hint_behind_the_source(folder: Path, memory: Path) -> None:
    text = "the red house is very old"
    translator = Translator.load(folder, memory=memory)
    config = translator.decoding
    (plain,) = Translator.load(folder)._encoded(Translator.load(folder)._inputs([text], [""], config), config)
    (item,) = translator._inputs([text], [""], config)
    (sentence,) = translator._encoded([item], config)
    tokenizer = translator.source_tokenizer
    assert item.hint
    assert item.hint.match.target in (PAIRS[0][1], PAIRS[1][1])
    assert sentence.source == plain.source
    assert sentence.hint == [tokenizer.hints[SIMILAR], *tokenizer.encode(item.hint.match.target)]
    assert plain.hint == []
    (translation,) = translator.translate([text])
    assert translation.memory == [item.hint.match]
    assert 0.5 <= item.hint.match.similarity < 1
    assert translation.to_dict()["memory"][0]["source"] == item.hint.match.source


def test_translations_are_those_of_the_source_with_its_hint(folder: Path, memory: Path) -> None:
    """The search gives the probabilities of the source and the hint as one source, within the limits of the source."""
    text = "the red house is very old"
    with Translator.load(folder, memory=memory, precision="float32") as translator:
        config = translator.decoding
        (sentence,) = translator._encoded(translator._inputs([text], [""], config), config)
        ((best, *_),) = translator.search([text])
        for source, is_that in ((sentence.source + sentence.hint, True), (sentence.source, False)):
            (log_probs,) = translator._work.score([(source, best.tokens)])
            ours = log_probs if best.finished else log_probs[:-1]
            assert (sum(ours) == pytest.approx(best.log_prob, abs=1e-4)) == is_that
        assert translator._work._most_tokens(sentence, DecodingConfig()) == 2 * len(sentence.source) + 20


def test_sentences_of_a_text_are_looked_up_one_by_one(folder: Path, memory: Path) -> None:
    with_pairs(memory, [("We sleep. They eat.", "TOUT."), ("We sleep.", "Nous dormons.")])
    with Translator.load(folder, memory=memory) as translator:
        whole, parts = translator.translate(["We sleep. They eat.", "They eat. We sleep."])
    assert whole.text == "TOUT."
    assert parts.text.endswith(" Nous dormons.")
    assert [match.source for match in parts.memory or ()] == ["We sleep."]


def test_a_prefix_is_kept_although_the_memory_has_the_text(folder: Path, memory: Path) -> None:
    with Translator.load(folder, memory=memory) as translator:
        (translation,) = translator.translate(["a dog sleeps in the garden"], prefixes=["le chien"])
    assert translation.text.startswith("le chien")


def test_a_model_without_tokens_for_hints_reuses_the_same_texts_alone(tmp_path: Path, memory: Path) -> None:
    directory = small_directory(Tokenizer.train(TEXTS, vocab_size=300))
    directory.source_language, directory.target_language = "en", "fr"
    directory.save(tmp_path / "model")
    with Translator.load(tmp_path / "model") as plain, Translator.load(tmp_path / "model", memory=memory) as translator:
        texts = ["the red house is very old", "the red house is old"]
        similar, same = translator.translate(texts)
        assert (similar.text, similar.memory) == (plain.translate(texts)[0].text, None)
        assert same.text == PAIRS[0][1]


def test_a_hint_that_does_not_fit_is_left_out(folder: Path, memory: Path) -> None:
    long = " ".join(["la maison rouge est vieille"] * 60)
    with_pairs(memory, [("the blue house is old", long)])
    with Translator.load(folder, memory=memory) as translator:
        (translation,) = translator.translate(["the blue house is cold"])
    assert translation.memory is None or translation.memory[0].target != long


def test_entries_of_the_same_languages_under_other_codes_are_used(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    with_pairs(path, PAIRS, ("eng", "fra"))
    with_pairs(path, PAIRS[1:], ("en", "fr"))
    with_pairs(path, [(PAIRS[0][0], "das rote Haus ist alt")], ("en", "de"))
    recall = recall_of(path, ("en", "fr"))
    assert recall.languages == [("en", "fr"), ("eng", "fra")]
    assert recall.find(PAIRS[0][0]) == PAIRS[0][1]
    recall.close()


@pytest.mark.parametrize(
    ("entries", "model"),
    [
        (("en", "zh-CN"), ("en", "zh-TW")),
        (("en", "sr-Cyrl"), ("en", "hr")),
        (("en", "no"), ("en", "da")),
        (("en", "pt-BR"), ("en", "pt-PT")),
        (("en", "fr"), ("fr", "en")),
        (("en", "fr"), (None, "de")),
    ],
)
def test_a_memory_of_other_languages_is_refused(tmp_path: Path, entries: tuple[str, str], model: tuple) -> None:
    with_pairs(tmp_path / "memory.db", PAIRS, entries)
    with pytest.raises(UsageError, match=f"has {entries[0]} to {entries[1]}; give a memory of its languages"):
        recall_of(tmp_path / "memory.db", model)


def test_a_memory_may_be_read_only(memory: Path) -> None:
    before = memory.read_bytes()
    opened = Memory(memory, read_only=True)
    assert opened.find(("en", "fr"), PAIRS[0][0]) == PAIRS[0][1]
    with pytest.raises(ResourceError):
        opened.add(("en", "fr"), "a", "b")
    opened.close()
    assert memory.read_bytes() == before


def test_entries_that_break_the_glossary_or_have_forbidden_terms_are_not_used(folder: Path, memory: Path) -> None:
    with Translator.load(folder, memory=memory) as translator:
        text, target = PAIRS[0]
        assert translator.translate([text], forbid=["verte"], glossary={"house": "maison"})[0].text == target
        assert translator.translate([text], forbid=["rouge"])[0].text != target
        assert translator.translate([text], glossary={"house": "villa"})[0].text != target


def test_a_translation_with_another_form_of_a_term_is_used_by_a_model_that_inflects(folder: Path, memory: Path) -> None:
    text, target = PAIRS[0]
    terms = {"old": "vieilles"}
    with Translator.load(folder, memory=memory) as translator:
        assert translator.translate([text], glossary=terms)[0].text == target
        assert translator.translate([text], glossary=terms, inflect=False)[0].text != target


def test_a_memory_is_for_one_target_language(tmp_path: Path, memory: Path) -> None:
    directory = small_directory(Tokenizer.train(TEXTS, vocab_size=300).with_targets(["fr", "de"]))
    directory.directions = [("en", "fr"), ("en", "de")]
    directory.save(tmp_path / "model")
    pairs = [("<2de> a dog sleeps in the garden", "ein Hund")]
    with pytest.raises(UsageError, match="translates into fr, de; choose one"):
        evaluate_pairs(
            [ModelDirectory.load(tmp_path / "model")],
            pairs,
            search=DecodingConfig(),
            precision="float32",
            workers=1,
            memory=memory,
        )


def test_spaces_around_a_text_stay(folder: Path, memory: Path) -> None:
    with Translator.load(folder, memory=memory) as translator:
        assert translator.translate([f"  {PAIRS[0][0]}\n"])[0].text == f"  {PAIRS[0][1]}\n"


def test_a_lenient_recall_rests_after_a_failure(memory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def fails(*arguments: object) -> None:
        calls.append(arguments)
        raise ResourceError("The memory is locked.")

    opened = Memory(memory)
    monkeypatch.setattr(opened, "find", fails)
    lenient = Recall(opened, [("en", "fr")], lenient=True)
    assert [lenient.known("a dog") for _ in range(5)] == [None] * 5
    assert lenient.candidates("a dog") == []
    assert len(calls) == 1
    opened.close()


def test_hints_of_a_kind_that_was_not_taught_are_not_given(tmp_path: Path, memory: Path) -> None:
    directory = small_directory(Tokenizer.train(TEXTS, vocab_size=300).with_hints([TERM]))
    directory.source_language, directory.target_language = "en", "fr"
    directory.save(tmp_path / "model")
    with Translator.load(tmp_path / "model", memory=memory) as translator:
        config = translator.search_options(None, {"glossary": {"house": "maison"}})
        (item,) = translator._inputs(["the red house is very old"], [""], config)
        (sentence,) = translator._encoded([item], config)
        tokenizer = translator.source_tokenizer
        assert item.hint is None
        assert sentence.hint == [tokenizer.hints[TERM], *tokenizer.encode("maison")]


def test_what_is_no_memory_is_refused(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "pairs.tsv").write_text("a\tb\n")
    with pytest.raises(DataError, match=r"is no translation memory; make one of your pairs:  .*data memory PAIRS"):
        Translator.load(folder, memory=tmp_path / "pairs.tsv")
    with pytest.raises(DataError, match="no translation memory"):
        Translator.load(folder, memory=tmp_path / "missing.db")
    assert not (tmp_path / "missing.db").exists()


def test_a_model_that_does_not_say_its_languages_has_those_of_the_memory(memory: Path) -> None:
    assert recall_of(memory, (None, "fr")).languages == [("en", "fr")]
    with_pairs(memory, PAIRS, ("en", "de"))
    with pytest.raises(UsageError, match="has en to de, en to fr"):
        recall_of(memory, (None, None))


def test_a_memory_that_fails_stops_a_command_but_not_the_other_texts_of_a_server(memory: Path) -> None:
    opened = Memory(memory)
    opened.close()
    with pytest.raises(ResourceError):
        Recall(opened, [("en", "fr")]).known("a dog")
    lenient = Recall(opened, [("en", "fr")], lenient=True)
    assert lenient.known("a dog") is None
    with pytest.raises(ResourceError):  # a request of its own is told
        lenient.find("a dog")


def test_pairs_are_added_once_and_people_have_the_last_word(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    memory = Memory(path)
    memory.add(("en", "fr"), "a dog", "le chien", "someone")
    numbers: list[int] = []
    assert memory.add_all(("en", "fr"), [("a dog", "un chien"), ("a cat", "un chat")] * 2, progress=numbers.append) == 1
    assert numbers == [4]
    assert [entry.target for entry in memory.pairs()] == ["le chien", "un chat"]
    memory.close()


def test_candidates_have_rare_words_in_common_and_are_few(tmp_path: Path) -> None:
    memory = Memory(tmp_path / "memory.db")
    pairs = [(f"the house number {number} is old and so is this", "x") for number in range(2_000)]
    memory.add_all(("en", "fr"), [*pairs, ("the zebra is old", "le zèbre est vieux")])
    for text in ("this zebra is old", "The ZEBRA and the house"):
        assert "the zebra is old" in [entry.source for entry in memory.candidates(("en", "fr"), text)]
    frequent = memory.candidates(("en", "fr"), "the house is old")
    assert len(frequent) == CANDIDATES
    assert memory.candidates(("en", "fr"), "unheard of") == memory.candidates(("en", "fr"), "?!") == []
    assert memory.candidates(("de", "fr"), "this zebra is old") == []
    assert memory.candidates(("en", "fr"), "zebra " * 200) == []
    memory.close()


def test_a_translator_with_a_memory_can_be_sent_to_another_process(folder: Path, memory: Path) -> None:
    translator = Translator.load(folder, memory=memory)
    load, arguments = translator.__reduce__()
    assert load(*arguments).translate([PAIRS[0][0]])[0].text == PAIRS[0][1]


def test_the_model_directory_keeps_tokens_of_hints(folder: Path) -> None:
    assert SIMILAR in ModelDirectory.load(folder).source_tokenizer.hints


def test_a_hint_has_its_placeholders_in_the_order_of_its_own_source(tmp_path: Path, memory: Path) -> None:
    """An entry whose translation lacks one of them must not shift the others: they stand for those of the sentence."""
    directory = small_directory(Tokenizer.train(TEXTS, vocab_size=300, symbols=SLOTS).with_hints(HINTS))
    directory.source_language, directory.target_language = "en", "fr"
    directory.save(tmp_path / "model")
    with_pairs(memory, [("pay 15 euros to A321 by 2023", "payez quinze euros à A321 avant 2023")])
    translator = Translator.load(tmp_path / "model", memory=memory)
    (item,) = translator._inputs(["pay 12 euros to A380 by 2024"], [""], translator.decoding)
    assert item.prepared.values == ["12", "A380", "2024"]
    assert item.hint
    assert 0.5 < item.hint.match.similarity < 1  # the tokens are the same, the texts are not
    said = translator.source_tokenizer.decode(item.hint.tokens[1:])
    assert translator._preprocessor.restored(said, item.prepared) == "payez quinze euros à A380 avant 2024"


def test_a_closed_translator_translates_without_its_memory(folder: Path, memory: Path) -> None:
    plain = Translator.load(folder).translate([PAIRS[0][0]])[0].text
    translator = Translator.load(folder, memory=memory)
    with pytest.raises(DataError):
        translator.remember(folder / "config.json")
    assert translator.translate([PAIRS[0][0]])[0].text == PAIRS[0][1]
    translator.close()
    assert translator.translate([PAIRS[0][0]])[0].text == plain


def test_a_memory_is_read_where_nothing_can_be_written(memory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing appears beside it, not even for a moment, unless a writer is at work."""
    monkeypatch.setattr("dragoman.storage.memory.os.access", lambda path, mode: False)
    before = sorted(memory.parent.iterdir())
    with closing(Memory(memory, read_only=True)) as opened:
        assert opened.find(("en", "fr"), PAIRS[0][0]) == PAIRS[0][1]
        assert sorted(memory.parent.iterdir()) == before
    assert len(list(stored_entries(memory))) == len(PAIRS)
    with closing(Memory(memory)) as writing, closing(Memory(memory, read_only=True)) as opened:
        writing.add(("en", "fr"), "a new one", "une nouvelle")
        assert opened.find(("en", "fr"), "a new one") == "une nouvelle"


def test_documents_keep_a_prefix_although_the_memory_has_the_text(folder: Path, memory: Path) -> None:
    with Translator.load(folder, memory=memory) as translator:
        text = PAIRS[0][0]
        assert remembered(translator, translator.decoding, text) == PAIRS[0][1]
        assert remembered(translator, translator.search_options(None, {"prefix": "ah"}), text) is None


def test_a_tokenizer_whose_model_reads_no_hints_keeps_their_ids(folder: Path, tmp_path: Path) -> None:
    tokenizer = ModelDirectory.load(folder).source_tokenizer
    silent = tokenizer.reading([TERM])
    assert silent.hints == {TERM: tokenizer.hints[TERM]}
    assert silent.vocab_size == tokenizer.vocab_size
    assert silent.encode(PAIRS[0][0]) == tokenizer.encode(PAIRS[0][0])
    assert silent.encode("<unread similar>") == tokenizer.encode("<unread similar>")
    assert silent.decode([tokenizer.hints[SIMILAR], *silent.encode("a dog")]) == "a dog"
    assert tokenizer.reading(HINTS) is tokenizer
    assert silent.pieces(range(silent.vocab_size))[tokenizer.hints[SIMILAR]] == "<unread similar>"
    directory = small_directory(silent)
    directory.save(tmp_path / "model")
    assert ModelDirectory.load(tmp_path / "model").source_tokenizer.hints == silent.hints


def test_a_memory_behind_a_link_is_written_and_read_beside_itself(memory: Path, tmp_path: Path, monkeypatch) -> None:
    """The folder of the link may be closed while a server writes into that of the memory."""
    monkeypatch.setattr("dragoman.storage.memory.os.access", lambda path, mode: Path(path) == memory.parent)
    (tmp_path / "closed").mkdir()
    link = tmp_path / "closed" / "link.db"
    link.symlink_to(memory)
    with closing(Memory(memory)) as writing:
        writing.add(("en", "fr"), "a new one", "une nouvelle")
        with closing(Memory(link, read_only=True)) as opened:
            assert opened.find(("en", "fr"), "a new one") == "une nouvelle"
