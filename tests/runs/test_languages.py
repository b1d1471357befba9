"""One model of several target languages: a token before each source says which. The second one is French backwards."""

import json
from pathlib import Path

import numpy as np
import pytest
import tokenizers

from dragoman.config.run import RunConfig
from dragoman.config.settings import parse_settings
from dragoman.data.builtin.grammar import generate
from dragoman.data.preparation import PreparedData
from dragoman.decoding.search import least_length
from dragoman.decoding.translator import Translator
from dragoman.errors import DataError, UsageError
from dragoman.interop.exports.exporting import ExportOptions, export
from dragoman.runs.plan import plan_resume
from dragoman.runs.prepared import prepare_folder
from dragoman.runs.train import resume_run, start_run
from dragoman.serving.limits import Refusal
from dragoman.serving.server import Server
from dragoman.serving.text_request import TextRequest
from dragoman.storage.model_directory import ModelDirectory
from dragoman.storage.run_directory import RunDirectory
from dragoman.storage.validate import read_config
from dragoman.terminal import Display
from dragoman.text.characters import cut_label
from dragoman.text.labels import label, name_of
from tests.runs.test_train import SMALL
from tests.small import plan, train_run

TEXT = "The <2de> red house is old."
MODEL = [setting for setting in SMALL if setting.startswith(("model.", "tokenizer.", "training."))]


def backwards(text: str) -> str:
    return " ".join(reversed(text.split(" ")))


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Pairs of both languages, in a file each and in a table with a column of languages."""
    folder, pairs = tmp_path_factory.mktemp("languages"), list(generate(211))
    for name, target in (("fr", str), ("de", backwards)):
        text = "".join(f"{source}\t{target(french)}\n" for source, french in pairs)
        (folder / f"{name}.tsv").write_text(text, encoding="utf-8")
    rows = "".join(f"{s}\t{t}\tFrench\n{s}\t{backwards(t)}\tdeu\n" for s, t in pairs[:20])
    (folder / "both.tsv").write_text(f"source\ttarget\tinto\n{rows}", encoding="utf-8")
    return folder


def corpora(folder: Path, *targets: str, **others: list[str]) -> str:
    entries = [
        {"source": str(folder / f"{target}.tsv"), "languages": ["en", target], **others}
        for target in targets or ("fr", "de")
    ]
    return f"data.corpora={json.dumps(entries)}"


def trained(path: Path, *settings: str, data: str | None = None, steps: int = 4) -> Path:
    given = [*MODEL, "data.held_out=5", f"training.max_steps={steps}", *settings]
    train_run(path, *([data] if data else []), settings=given)
    return path


@pytest.fixture(scope="module")
def model(folder, tmp_path_factory) -> Path:
    return trained(tmp_path_factory.mktemp("model") / "run", corpora(folder))


def opened(path: Path) -> PreparedData:
    config = plan_resume(path, parse_settings(["training.max_steps=9"]))
    return PreparedData.open(RunDirectory(path).data, config)


def first_tokens(data: PreparedData) -> list[str]:
    store = data.train.source
    sentences = store.epoch(1) if hasattr(store, "epoch") else store
    return [data.source_tokenizer.spelled(int(sentences[i][0])) for i in range(len(store))]


@pytest.mark.slow
@pytest.mark.parametrize(
    "setting",
    [
        "tokenizer.dropout=0.2",
        *(
            pytest.param(setting, marks=pytest.mark.slow)
            for setting in ("seed=1", "tokenizer.shared=false", "tokenizer.kind=word")
        ),
    ],
)
def test_each_source_begins_with_the_token_of_its_target_language(folder, tmp_path, setting):
    data = opened(trained(tmp_path / "run", corpora(folder), setting, steps=1))
    first = first_tokens(data)
    assert {token: first.count(token) for token in first} == {"<2fr>": len(first) / 2, "<2de>": len(first) / 2}
    assert not {*data.target_tokenizer.targets.values()} & {*data.valid.target.ids.tolist()}
    assert data.source_tokenizer.tag("<2de> Yes.") == ""


@pytest.mark.slow
def test_a_held_out_sentence_is_held_out_for_all_languages(model):
    data = opened(model)
    for pairs in (data.valid_pairs, data.test_pairs):
        cut = [cut_label(source) for source, _ in pairs]
        assert len({text for _, text in cut}) == 5
        assert {(name_of(named), text) for named, text in cut} == {
            (f"en-{target}", text) for _, text in cut for target in ("fr", "de")
        }
    assert data.about.directions == [["en", "fr"], ["en", "de"]]


def test_the_token_is_not_text(model):
    """Typed by a user it is characters; decoding leaves it out; the one that was asked for stands first, once."""
    directory = ModelDirectory.load(model)
    tokenizer, known = directory.source_tokenizer, [*directory.source_tokenizer.targets.values()]
    assert tokenizer.decode(tokenizer.encode(TEXT)) == TEXT
    assert not {*known} & {*tokenizer.encode(TEXT)}
    assert tokenizer.decode([known[0], *tokenizer.encode("Yes."), known[1]]) == "Yes."
    spoken = directory.speaking("eng", "fra")
    assert spoken.tokenize(TEXT)[0][0] == "<2fr>"
    assert [id_ for id_ in spoken.tokenize(TEXT)[1] if id_ in known] == [tokenizer.targets["fr"]]
    spoken.save(model.parent / "spoken")
    assert ModelDirectory.load(model.parent / "spoken").source_tokenizer.language == "fr"


@pytest.mark.parametrize(
    ("command", "code", "words"),
    [
        (["translate", "MODEL", TEXT], 2, "This model translates into fr, de; choose one with --to CODE"),
        (["translate", "MODEL", TEXT, "--to", "es"], 2, "does not know the language 'es', but fr, de."),
        (["translate", "MODEL", TEXT, "--to", "de", "--from", "it"], 2, "does not know the language 'it', but en."),
        (["inspect", "MODEL", TEXT], 2, "This model translates into fr, de"),
        (["evaluate", "MODEL", "FOLDER/de.tsv"], 2, "This model translates into fr, de"),
        (["train", "FOLDER/fr.tsv", "data.language_column=3"], 3, "has no column 3; give one of 1, 2"),
        (["train", "FOLDER/fr.tsv", "FOLDER/de.tsv", "data.language_column=3"], 3, "has no columns"),
    ],
)
def test_mistakes_name_the_languages(dragoman, model, folder, command, code, words):
    arguments = [word.replace("MODEL", str(model)).replace("FOLDER", str(folder)) for word in command]
    exit_code, _, error = dragoman(*arguments)
    assert words in error
    assert exit_code == code


def test_commands_translate_into_each_language(dragoman, model, folder):
    texts = [dragoman("translate", model, TEXT, "--to", code)[:2] for code in ("de", "fra")]
    assert [code for code, _ in texts] == [0, 0]
    with pytest.raises(UsageError, match="translates into fr, de"):
        Translator.load(model).translate([TEXT])
    for code, (_, text) in zip(("de", "fr"), texts, strict=True):
        translator = Translator.load(model, languages=(None, code))
        assert translator.translate([TEXT])[0].text == text.removesuffix("\n")
        assert translator.languages == ("en", code)


def test_scores_are_told_for_each_language(dragoman, model, folder):
    column = ["data.language_column=into", "data.languages=[en,fr]"]
    whole = json.loads(dragoman("evaluate", model, folder / "both.tsv", *column, "--json")[1])
    assert whole["by_languages"].keys() == {"en-de", "en-fr"}
    first = "".join((folder / "de.tsv").read_text(encoding="utf-8").splitlines(keepends=True)[:20])
    (folder / "first.tsv").write_text(first, encoding="utf-8")
    alone = json.loads(dragoman("evaluate", model, folder / "first.tsv", "--to", "de", "--json")[1])
    assert "by_languages" not in alone
    scores = {key: alone[key] for key in ("bleu", "chrf", "ter", "intervals")}
    assert whole["by_languages"]["en-de"] == {"sentences": 20} | scores
    rows = dragoman("score", model, folder / "both.tsv", *column)[1].splitlines()
    expected = dragoman("score", model, folder / "first.tsv", "--to", "de")[1].splitlines()
    numbers, expected_numbers = ([[*map(float, row.split("\t"))] for row in part] for part in (rows[1::2], expected))
    # Other sentences in the same batch may change the last digit.
    np.testing.assert_allclose(numbers, expected_numbers, rtol=0, atol=1e-3)
    stored = json.loads(RunDirectory(model).evaluation.read_bytes())
    assert [scores["sentences"] for scores in stored["by_languages"].values()] == [5, 5]
    card, report = (model / "README.md").read_text(), (model / "report.html").read_text()
    assert "from en to fr, de" in card
    assert "| en-de | 5 | " in card
    assert "--to fr" in card
    assert "<th>en-de</th><td>5</td>" in report
    assert "&lt;2de&gt; " in report


@pytest.mark.anyio
def test_a_server_lists_and_serves_each_language(model):
    import asyncio

    translators = Translator.load(model).in_each_direction()
    server = Server(translators)
    try:
        assert server.languages() == [
            {"code": "en", "name": "English", "targets": ["de", "en", "fr"]},
            {"code": "fr", "name": "French", "targets": ["fr"]},
            {"code": "de", "name": "German", "targets": ["de"]},
        ]
        for target in ("de", "fr"):
            (answer,) = asyncio.run(server.translate(TextRequest([TEXT], "en", target)))
            assert answer.text == Translator.load(model, languages=("en", target)).translate([TEXT])[0].text
        with pytest.raises(Refusal, match="es is not supported"):
            server.check(TextRequest([TEXT], "en", "es"))
    finally:
        server.close()


@pytest.mark.slow
def test_a_run_is_the_same_from_a_prepared_folder_and_resumed(folder, model, tmp_path):
    prepare_folder(
        [],
        tmp_path / "prepared",
        recipe=None,
        settings=parse_settings(["tokenizer.vocab_size=400", "data.held_out=5", corpora(folder)]),
    )
    again = trained(tmp_path / "run", data=str(tmp_path / "prepared"), steps=2)
    first, second = RunDirectory(model).data, RunDirectory(again).data
    differing = ("manifest.json", "files.json")  # which name the files that each was read from
    names = [file.name for file in first.glob("*") if file.suffix in (".ids", ".npy", ".json")]
    names = [name for name in names if name not in differing]
    assert {"test.json", "train-source.ids", "about.json", "source_tokenizer.json"} <= {*names}
    assert [name for name in names if (first / name).read_bytes() != (second / name).read_bytes()] == []
    evaluation = resume_run(
        again, plan_resume(again, parse_settings(["training.max_steps=4"])), listener=Display(quiet=True)
    )
    assert evaluation.by_languages.keys() == {"en-de", "en-fr"}
    assert read_config(again)["directions"] == read_config(model)["directions"] == [["en", "fr"], ["en", "de"]]


@pytest.mark.slow
def test_held_out_files_have_the_languages_of_their_corpora(folder, tmp_path):
    held_out = {part: ["builtin:grammar:9:test"] for part in ("valid", "test")}
    data = opened(trained(tmp_path / "run", corpora(folder, **held_out), steps=1))
    assert [name_of(cut_label(source)[0]) for source, _ in data.test_pairs].count("en-de") == 9
    assert len(data.test_pairs) == 18
    config = RunConfig.validate({"data": {"corpora": json.loads(corpora(folder, **held_out).partition("=")[2])}})
    assert config.data.holds_out_all


@pytest.mark.slow
def test_a_model_of_several_languages_is_scored_on_text_as_people_type_it(folder, tmp_path):
    held_out = {part: ["builtin:grammar:200:test"] for part in ("valid", "test")}
    data = corpora(folder, **held_out)
    config, pairs = plan(settings=[*MODEL, "training.max_steps=1", data])
    evaluation = start_run(pairs, config, tmp_path / "run", listener=Display(quiet=True))
    assert {"capitals", "typos", "joined"} <= evaluation.variants.keys()


@pytest.mark.slow
def test_each_target_language_has_a_shortest_length_of_its_own(folder, tmp_path):
    """The second corpus has every translation twice."""
    rows = [line.split("\t") for line in (folder / "de.tsv").read_text(encoding="utf-8").splitlines()]
    twice = "".join(f"{source}\t{target} {target}\n" for source, target in rows)
    (tmp_path / "de.tsv").write_text(twice, encoding="utf-8")
    (tmp_path / "fr.tsv").write_text((folder / "fr.tsv").read_text(encoding="utf-8"), encoding="utf-8")
    path = trained(tmp_path / "run", corpora(tmp_path))
    decoding = ModelDirectory.load(path).decoding
    assert decoding.min_ratio is None
    assert decoding.min_ratios.keys() == {"fr", "de"}
    assert decoding.least("de")[0] == pytest.approx(2 * decoding.least("fr")[0], rel=0.1)
    text = "The red house is old."
    options = {"max_copies": 0, "max_ratio": 4.0, "beam_size": 2, "split": False}
    with Translator.load(path) as translator:
        labelled = translator.translate([label("en", target) + text for target in ("fr", "de")], **options)
        source = translator.source_tokenizer.encode(label("en", "fr") + text)
    for target, together in zip(("fr", "de"), labelled, strict=True):
        ratio, slack = decoding.least(target)
        with Translator.load(path, languages=("en", target)) as translator:
            assert (translator.decoding.min_ratio, translator.decoding.min_slack) == (ratio, slack)
            alone = translator.translate([text], **options)[0]
            assert alone.text == together.text
            assert len(alone.tokens) >= least_length(source, ratio, slack, most=99) > 0
    twins = [{"source": str(tmp_path / "fr.tsv"), "languages": [name, "fr"]} for name in ("en", "es")]
    twins.append({"source": str(tmp_path / "de.tsv"), "languages": ["en", "de"]})
    mixed = trained(tmp_path / "mixed", f"data.corpora={json.dumps(twins)}", steps=1)
    assert ModelDirectory.load(mixed).decoding.min_ratios.keys() == {"de"}  # French has two kinds of sources


@pytest.mark.slow
def test_a_model_is_fine_tuned_on_one_of_its_languages(folder, model, tmp_path):
    given = [setting for setting in MODEL if setting.startswith("training.")]
    given += [f"finetune.model={json.dumps(str(model))}", "data.held_out=5", "training.max_steps=2"]

    def finetuned(*settings: str) -> Path:
        train_run(tmp_path / "run", folder / "de.tsv", settings=[*given, *settings], recipe=None)
        return tmp_path / "run"

    with pytest.raises(UsageError, match="translates into fr, de alone, but there are pairs of en-es"):
        finetuned("data.languages=[en,es]")
    with pytest.raises(DataError, match="does not say its languages"):
        finetuned()
    data = opened(finetuned("data.languages=[en,de]"))
    assert {*first_tokens(data)} == {"<2de>"}
    assert read_config(tmp_path / "run")["directions"] == [["en", "fr"], ["en", "de"]]


@pytest.mark.slow
def test_many_sources_of_one_target_need_no_token(folder, tmp_path):
    names = [{"source": str(folder / f"{name}.tsv"), "languages": [name, "en"]} for name in ("fr", "de")]
    path = trained(tmp_path / "run", f"data.corpora={json.dumps(names)}", steps=1)
    directory = ModelDirectory.load(path)
    assert directory.languages == (None, "en")
    assert not directory.source_tokenizer.targets
    assert (
        Translator.load(path).translate([TEXT])[0].text
        == Translator.load(path, languages=("de", None)).translate([TEXT])[0].text
    )
    translators = Translator.load(path).in_each_direction()
    assert [translator.languages for translator in translators] == [("fr", "en"), ("de", "en")]
    with pytest.raises(UsageError, match="'it', but fr, de"):
        Translator.load(path, languages=("it", "en"))


@pytest.mark.slow
@pytest.mark.parametrize("target", ["ctranslate2", "onnx", "argos"])
def test_a_language_of_a_model_is_exported_or_the_format_is_refused(model, tmp_path, target):
    with pytest.raises(UsageError, match="translates into fr, de; choose one with --to"):
        export(model, tmp_path / "none", target)
    if target == "argos":
        with pytest.raises(UsageError, match="a language from a token before the text"):
            export(model, tmp_path / "out", target, ExportOptions(languages=(None, "de")))
        return
    proof = export(model, tmp_path / "out", target, ExportOptions(languages=(None, "de"), quantization="float32"))
    assert proof.fault is None
    assert "['<2de>']" in (tmp_path / "out/translate.py").read_text()
    written = tokenizers.Tokenizer.from_file(str(tmp_path / "out/source_tokenizer.json"))
    written.encode_special_tokens = True
    assert written.encode(TEXT).tokens.count("<2de>") == 1


def test_the_check_tells_of_each_pair_of_languages(dragoman, folder):
    _, out, _ = dragoman("data", "check", corpora(folder), "--json")
    checks = json.loads(out)["languages"]
    assert [checks[name]["parts"][0]["pairs"] for name in ("en-fr", "en-de")] == [211, 211]
    _, out, _ = dragoman("data", "check", folder / "both.tsv", "data.language_column=into", "--json")
    assert [check["parts"][0]["pairs"] for check in json.loads(out)["languages"].values()] == [20, 20]
