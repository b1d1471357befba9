"""A pretrained model of many languages that goes on with several pairs of languages at once."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dragoman.data.batching import Sentences
from dragoman.data.bitext import Bitext
from dragoman.data.builtin.grammar import generate
from dragoman.data.misspelling import MisspelledStore
from dragoman.data.preparation import PreparedData
from dragoman.decoding.translator import Translator
from dragoman.errors import SentenceCut, UsageError
from dragoman.interop.exports.exporting import ExportOptions, export
from dragoman.interop.imports.pretrained import import_pretrained
from dragoman.report.inspection import inspect_translation
from dragoman.runs.new_language import with_language
from dragoman.runs.plan import as_read_by, plan_resume
from dragoman.storage.directory import ArrayDirectory
from dragoman.storage.model_directory import ModelDirectory
from dragoman.storage.run_directory import RunDirectory
from dragoman.storage.validate import read_config
from dragoman.text.characters import cut_label
from dragoman.text.labels import label, name_of
from dragoman.text.tokenizers.tokenizer import Tokenizer
from tests.interop import pretrained_models as models
from tests.small import plan, train_run

TEXT = "The red house is old. Is the house old?"
SHORT = ["training.max_steps=2", "data.held_out=[4,6]", "training.guided_alignment=0"]
KINDS = {
    "m2m": models.m2m,
    "nllb": models.nllb,
    "marian": lambda folder: models.marian(folder, tags=(">>fra<<", ">>deu<<", ">>spa<<")),
}
TARGETS = ["fr", "de"]


@pytest.fixture(scope="module", params=KINDS)
def base(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp(request.param)
    import_pretrained(KINDS[request.param](folder / "theirs"), folder / "model")
    return folder / "model"


def corpora(folder: Path, *languages: tuple[str, str], pairs: int = 30) -> str:
    """The setting of corpora with these languages, all of the same pairs."""
    rows = "".join(f"{source}\t{target}\n" for source, target in generate(pairs))
    entries = []
    for source, target in languages:
        file = folder / f"{source}-{target}.tsv"
        file.write_text(rows, encoding="utf-8")
        entries.append({"source": str(file), "languages": [source, target]})
    return f"data.corpora={json.dumps(entries)}"


def test_a_label_means_what_setting_the_languages_means(base: Path) -> None:
    directory = ArrayDirectory.load(base)
    opened = Translator(directory.open_to_labels([("en", target) for target in TARGETS]))
    assert opened.languages == ("en", None)
    texts = [label("en", target) + TEXT for target in TARGETS]
    together = opened.translate(texts, max_ratio=1, max_extra=4)
    pairs = [(text, "La maison est vieille.") for text in texts]
    scores = opened.score(pairs)
    assert together[0].score != together[1].score
    for target, translation, score, one in zip(TARGETS, together, scores, opened.in_each_direction(), strict=True):
        alone = Translator(directory.speaking("en" if directory.target_tokenizer.languages else None, target))
        for translator in (alone, one):
            expected = translator.translate([TEXT], max_ratio=1, max_extra=4)[0]
            assert translation.text == expected.text
            assert translation.score == pytest.approx(expected.score, abs=1e-4)
        assert score.score == pytest.approx(alone.score([(TEXT, pairs[0][1])])[0].score, abs=1e-4)


def test_every_part_of_a_long_labelled_sentence_is_in_its_language(base: Path) -> None:
    opened = Translator(ArrayDirectory.load(base).open_to_labels([("en", target) for target in TARGETS]))
    text = "The red house and the old house, the blue door and the old door, the man and the woman."
    options: dict[str, Any] = {"max_source_length": 12, "max_ratio": 1, "max_extra": 1}
    with pytest.warns(SentenceCut, match="parts in all"):
        labelled = opened.translate([label("en", target) + text for target in TARGETS], **options)
    for translation, one in zip(labelled, opened.in_each_direction(), strict=True):
        with pytest.warns(SentenceCut, match="parts in all"):
            alone = one.translate([text], **options)[0]
        assert translation.text == alone.text


def test_a_prefix_stands_behind_the_language(base: Path) -> None:
    opened = Translator(ArrayDirectory.load(base).open_to_labels([("en", target) for target in TARGETS]))
    options: dict[str, Any] = {"prefixes": ["La maison"] * 2, "max_ratio": 1, "max_extra": 4, "split": False}
    for target, translation, one in zip(
        TARGETS,
        opened.translate([label("en", target) + TEXT for target in TARGETS], **options),
        opened.in_each_direction(),
        strict=True,
    ):
        assert one.languages[1] == target
        expected = one.translate([TEXT], **options | {"prefixes": ["La maison"]})[0]
        assert translation.text == expected.text
        assert translation.text.startswith("La maison")


def test_a_sentence_that_names_no_language_is_refused(base: Path) -> None:
    opened = Translator(ArrayDirectory.load(base).open_to_labels([("en", target) for target in TARGETS]))
    with pytest.raises(UsageError, match="translates into fr, de; choose one with --to CODE"):
        opened.translate([TEXT])
    if opened.target_tokenizer.languages:
        with pytest.raises(UsageError, match="translates from en; choose one with --from CODE"):
            opened.translate([label(None, "fr") + TEXT])


@pytest.mark.slow
def test_one_run_learns_several_pairs_of_languages(base: Path, tmp_path: Path) -> None:
    data = corpora(tmp_path, ("en", "fr"), ("en", "de"))
    evaluation = train_run(tmp_path / "run", settings=[f"finetune.model={json.dumps(str(base))}", data, *SHORT])
    assert evaluation.by_languages.keys() == {"en-fr", "en-de"}
    assert {"own before", "own after"} <= evaluation.finetuning.keys()
    assert read_config(tmp_path / "run")["directions"] == [["en", "fr"], ["en", "de"]]
    config = plan_resume(tmp_path / "run", {"training": {"max_steps": 9}})
    prepared = PreparedData.open(RunDirectory(tmp_path / "run").data, config)
    kept = ModelDirectory.load(tmp_path / "run")
    for side, tokenizer in (("source", kept.source_tokenizer), ("target", kept.target_tokenizer)):
        sentences = getattr(prepared.train, side)
        sentences = sentences.epoch(1) if hasattr(sentences, "epoch") else sentences
        begins = {tokenizer.spelled(int(sentences[row][0])) for row in range(len(sentences))}
        spoken = [kept.speaking("en", target) for target in TARGETS]
        tokens = {id_ for one in spoken for id_ in getattr(one, f"{side}_tokenizer").begin_ids}
        if tokens:
            assert begins == {tokenizer.spelled(id_) for id_ in tokens}
        else:  # the targets of a model of Marian
            assert begins.isdisjoint(kept.source_tokenizer.languages.values())
    with Translator.load(tmp_path / "run", languages=(None, "de")) as translator:
        assert translator.languages == ("en", "de")
        translator.translate([TEXT], max_extra=4)
    with Translator.load(tmp_path / "run") as translator:
        assert [one.languages for one in translator.in_each_direction()] == [("en", "fr"), ("en", "de")]
    inspected = inspect_translation(kept, label("en", "fr") + TEXT, target="La maison", beam_size=2)
    set_to = inspect_translation(kept.speaking("en", "fr"), TEXT, target="La maison", beam_size=2)
    np.testing.assert_allclose(inspected.log_probs, set_to.log_probs, atol=1e-5)
    assert [one.target_text for one in inspected.removals] == [one.target_text for one in set_to.removals]


@pytest.mark.slow
def test_one_run_learns_two_languages_that_the_model_did_not_know(tmp_path: Path) -> None:
    import_pretrained(models.m2m(tmp_path / "theirs"), tmp_path / "base")
    data = corpora(tmp_path, ("en", "gn"), ("en", "qu"))
    base = f"finetune.model={json.dumps(str(tmp_path / 'base'))}"
    train_run(tmp_path / "run", settings=[base, data, "finetune.add_language=[gn:like=es,qu]", *SHORT])
    kept = ModelDirectory.load(tmp_path / "run")
    assert kept.directions == [("en", "gn"), ("en", "qu")]
    with Translator.load(tmp_path / "run") as translator:
        into_gn, into_qu = translator.in_each_direction()
    assert into_gn.target_tokenizer.begin_ids != into_qu.target_tokenizer.begin_ids
    assert [one.target_tokenizer.language for one in (into_gn, into_qu)] == ["gn", "qu"]


@pytest.mark.slow
def test_it_is_exported_in_one_direction_and_trained_on(tmp_path: Path) -> None:
    import_pretrained(models.m2m(tmp_path / "theirs"), tmp_path / "base", languages=("en", "es"))
    data = corpora(tmp_path, ("en", "fr"), ("de", "fr"))
    train_run(tmp_path / "run", settings=[f"finetune.model={json.dumps(str(tmp_path / 'base'))}", data, *SHORT])
    kept = ModelDirectory.load(tmp_path / "run")
    assert kept.languages == (None, "fr")
    with pytest.raises(UsageError, match="translates from en, de; choose one with --from CODE"):
        Translator(kept.speaking(None, None)).translate([TEXT])
    export(tmp_path / "run", tmp_path / "out", "transformers", ExportOptions(languages=("de", "fr")))
    again = corpora(tmp_path, ("en", "fr"), ("de", "es"))
    train_run(tmp_path / "more", settings=[f"finetune.model={json.dumps(str(tmp_path / 'run'))}", again, *SHORT])
    expected = [["en", "fr"], ["de", "fr"], ["de", "es"]]
    assert read_config(tmp_path / "more")["directions"] == expected
    # The model before is scored in the languages of each pair, those that it was not adapted to included.
    before = ModelDirectory.load(tmp_path / "more/run/base").speaking(None, None)
    prepared = before.preprocessor.pair(label("de", "es") + "a", "b")
    for tokenizer, text, code in zip(before.tokenizers, prepared, ("de", "es"), strict=True):
        assert tokenizer.encode(text)[0] == tokenizer.label_ids[code]
    assert "--from en --to fr" in (tmp_path / "more/README.md").read_text(encoding="utf-8")


def test_a_model_that_was_set_to_languages_reads_labels_again(base: Path) -> None:
    directory = ModelDirectory.load(base)
    known = directory.source_tokenizer.languages
    target = "fr" if "fr" in known else next(code for code in known if code.startswith("fr"))
    opened = directory.speaking("en" if directory.target_tokenizer.languages else None, target).open_to_labels(
        [("en", "fr"), ("en", "de")]
    )
    assert opened.source_tokenizer.reads_labels
    own = Tokenizer.train([TEXT] * 3, vocab_size=300).with_targets(["fr", "de"])
    assert own.speaking("fr").open_to_labels().encode(label("en", "de") + "a") == own.encode(label("en", "de") + "a")


def test_what_a_user_types_is_no_label(base: Path) -> None:
    directory = ArrayDirectory.load(base)
    typed = label("en", "de") + label("en", "de") + TEXT
    source = "en" if directory.target_tokenizer.languages else None
    with Translator(directory.speaking(source, "fr")) as translator:
        (ids,) = translator.source_tokenizer.encode_batch([translator._preprocessor(typed).text])
        assert ids[0] == translator.source_tokenizer.encode(TEXT)[0]
        (prefix,) = translator.target_tokenizer.encode_batch([label(None, "de") + "La maison"])
        assert prefix[:1] == translator.target_tokenizer.encode("La maison")[:1] or not source


def test_pairs_to_score_are_read_in_the_languages_that_they_say(tmp_path: Path) -> None:
    import_pretrained(models.m2m(tmp_path / "theirs"), tmp_path / "base")
    ModelDirectory.load(tmp_path / "base").open_to_labels([("en", "fr"), ("de", "fr")]).save(tmp_path / "model")
    (tmp_path / "pairs.en").write_text("A house.\n", encoding="utf-8")
    (tmp_path / "pairs.fr").write_text("Une maison.\n", encoding="utf-8")
    bitext = Bitext.open(str(tmp_path / "pairs.en"), str(tmp_path / "pairs.fr"))
    for wanted, expected in (((None, None), "en-fr"), ((None, "fr"), "en-fr"), (("de", None), "de-fr")):
        ((source, _),) = as_read_by(tmp_path / "model", bitext, wanted)
        assert name_of(cut_label(source)[0]) == expected


def test_sources_of_a_new_language_get_typos_too(tmp_path: Path) -> None:
    import_pretrained(models.m2m(tmp_path / "theirs"), tmp_path / "base")
    sentences = ["mbojape ojapo mbojape", "che mbojape", "ojapo che"] * 20
    grown = with_language(ModelDirectory.load(tmp_path / "base"), "gn", "es", texts=sentences)
    tokenizer = grown.open_to_labels([("gn", "es"), ("qu", "es")]).source_tokenizer
    rows = tokenizer.encode_batch(label(None, "gn") + sentence for sentence in sentences)
    store = Sentences(np.concatenate([np.array(row, np.uint32) for row in rows]), np.cumsum([*map(len, rows)]))
    store.epoch = lambda number: store  # type: ignore[attr-defined]
    changed = MisspelledStore(store, tokenizer, share=1, seed=1, limit=50).epoch(1).changed
    assert len(changed) > len(sentences) // 2
    assert {int(ids[0]) for ids in changed.values()} == {tokenizer.label_ids["gn"]}


@pytest.mark.parametrize(
    ("make", "languages", "words"),
    [
        (models.m2m, [("en", "fr"), ("en", "xx")], "does not know the language 'xx', but there are pairs of en-xx"),
        (
            lambda folder: models.nllb(folder, legacy=True),
            [("en", "fr"), ("en", "de")],
            "has the language of a source at its end",
        ),
        (models.marian, [("en", "fr"), ("en", "de")], "goes on with one pair of languages"),
    ],
    ids=["unknown", "legacy", "one"],
)
def test_pairs_that_the_model_cannot_name_are_refused(
    tmp_path: Path, make: Any, languages: list[tuple[str, str]], words: str
) -> None:
    import_pretrained(make(tmp_path / "theirs"), tmp_path / "base")
    settings = [f"finetune.model={json.dumps(str(tmp_path / 'base'))}", corpora(tmp_path, *languages), *SHORT]
    with pytest.raises(UsageError, match=words):
        plan(settings=settings)
