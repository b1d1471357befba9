"""A run that adapts a base model keeps its tokenizers and layers, and scores it before and after."""

import json
from contextlib import closing
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from dragoman.config.settings import parse_settings
from dragoman.data.bitext import Bitext
from dragoman.decoding.translator import Translator
from dragoman.errors import Interrupted, UsageError
from dragoman.interop.imports.pretrained import import_pretrained
from dragoman.runs.plan import plan_resume, plan_run
from dragoman.runs.train import resume_run, start_run
from dragoman.storage.adapter import ADAPTER
from dragoman.storage.memory import Memory
from dragoman.storage.metrics_log import read_metrics
from dragoman.storage.model_directory import ModelDirectory
from dragoman.storage.run_directory import RunDirectory
from dragoman.terminal import Display
from dragoman.training.trainer import Trainer
from tests.interop import pretrained_models
from tests.runs.test_train import SMALL, small_run
from tests.small import plan, write_pairs

KEPT = [setting for setting in SMALL if setting.startswith(("training.", "data.", "decoding."))]
OWN = list(Bitext.open("builtin:grammar:60:valid"))


@pytest.fixture(scope="module")
def base(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("base") / "model"
    config, bitext = small_run("data.languages=[en,fr]")
    start_run(bitext, config, path, listener=Display(quiet=True))
    return path


def finetune(base: Path, output: Path, *settings: str):
    pairs = write_pairs(output.parent / "own.tsv", OWN)
    given = [*KEPT, f"finetune.model={json.dumps(str(base))}", *settings]
    config, bitext = plan(pairs, settings=given, recipe=None)
    return start_run(bitext, config, output, listener=Display(quiet=True)), config


def weights(path: Path) -> dict[str, torch.Tensor]:
    return load_file(path / "model.safetensors")


@pytest.mark.slow
@pytest.mark.usefixtures("with_reports")
def test_tokenizers_and_layers_are_those_of_the_model(base, tmp_path):
    evaluation, config = finetune(base, tmp_path / "run", "model.dropout=0.3")
    before, after = ModelDirectory.load(base), ModelDirectory.load(tmp_path / "run")
    assert after.source_tokenizer.to_json() == before.source_tokenizer.to_json()
    assert after.style == before.style
    assert after.model.config.to_dict() == before.model.config.to_dict() | {"dropout": 0.3}
    assert (tmp_path / "run/run/base/model.safetensors").read_bytes() == (base / "model.safetensors").read_bytes()
    assert evaluation.finetuning.keys() == {"own before", "own after"}
    assert evaluation.finetuning["own after"]["bleu"] == evaluation.scores["bleu"].value
    assert "go on" not in config.chosen[0]
    assert "the layers and the vocabulary of" in config.chosen[0]
    card = (tmp_path / "run/README.md").read_text()
    assert "trained on from model with Dragoman" in card
    assert str(base.parent) not in card + (tmp_path / "run/report.html").read_text()
    assert "| own | " in card


@pytest.mark.slow
@pytest.mark.parametrize(
    ("of_base", "setting", "expected"),
    [
        ((0.1, 0.0), None, (0.1, 0.0)),
        ((9.0, 5.0), None, "own"),
        ((9.0, 50.0), None, (9.0, 50.0)),
        ((0.0, 0.0), None, (0.0, 0.0)),
        ((9.0, 5.0), "decoding.min_ratio=0.25", (0.25, None)),
    ],
)
def test_no_translation_has_to_be_longer_than_either_kind_of_pairs_says(base, tmp_path, of_base, setting, expected):
    directory = ModelDirectory.load(base)
    ratio, slack = of_base
    directory.decoding = directory.decoding.model_copy(update={"min_ratio": ratio, "min_slack": slack})
    directory.save(tmp_path / "base")
    settings = [setting] if setting else []
    finetune(tmp_path / "base", tmp_path / "run", "training.max_steps=1", *settings)
    decoding = ModelDirectory.load(tmp_path / "run").decoding
    found = decoding.min_ratio, decoding.min_slack
    assert found == expected if expected != "own" else 0.1 < found[0] < 3.0 and 0.1 < found[1] < 3.0


@pytest.mark.slow
def test_it_begins_with_the_weights_of_the_model(base, tmp_path):
    """With a rate of nearly nothing, they stay as they are."""
    finetune(base, tmp_path / "run", "training.learning_rate=1e-12", "training.optimizer=sgd", "training.max_steps=3")
    for name, weight in weights(base).items():
        torch.testing.assert_close(weights(tmp_path / "run")[name], weight, rtol=0, atol=1e-6)


@pytest.mark.slow
def test_a_memory_adapts_a_model_by_one_command(base, dragoman, tmp_path):
    with closing(Memory(tmp_path / "memory.sqlite")) as memory:
        for source, target in OWN:
            memory.add(("en", "fr"), source, target)
    output, settings = tmp_path / "run", [*KEPT, "training.max_steps=2"]
    given = [tmp_path / "memory.sqlite", "--finetune", base, "--output", output, *settings, "--json"]
    code, out, err = dragoman("train", *given)
    assert code == 0, err
    assert json.loads(out)["finetuning"].keys() == {"own before", "own after"}
    before, after = weights(base), weights(output)
    assert before.keys() == after.keys()
    assert not all(torch.equal(weight, after[name]) for name, weight in before.items())
    code, out, err = dragoman("translate", output, OWN[0][0])
    assert (code, out.count("\n")) == (0, 1), err


@pytest.mark.slow
@pytest.mark.parametrize("optimizer", ["muon", pytest.param("adam", marks=pytest.mark.slow)])
def test_frozen_parts_stay_as_they_are(base, tmp_path, optimizer):
    freeze = "finetune.freeze=[embeddings,encoder]"
    finetune(base, tmp_path / "run", freeze, f"training.optimizer={optimizer}", "training.max_steps=7")
    resumed = plan_resume(tmp_path / "run", parse_settings(["training.max_steps=9"]))
    resume_run(tmp_path / "run", resumed, listener=Display(quiet=True))
    before, after = weights(base), weights(tmp_path / "run")
    moved = {name for name, weight in before.items() if not torch.equal(weight, after[name])}
    assert moved
    assert all(name.startswith("decoder.") and ".embedding." not in name for name in moved), moved


@pytest.mark.slow
def test_a_run_with_lora_leaves_an_adapter_that_makes_its_base_as_good(base, dragoman, tmp_path, monkeypatch):
    rate = "training.learning_rate=0.05"
    finetune(base, tmp_path / "run", "finetune.lora=3", rate)
    sources = [source for source, _ in OWN[:20]]
    loading = {"device": "cpu", "precision": "float32"}
    translations = {}
    for name, path, adapter in (
        ("base", base, None),
        ("run", tmp_path / "run", None),
        ("adapted", base, tmp_path / "run"),
    ):
        with Translator.load(path, adapter=adapter, **loading) as translator:
            translations[name] = [found.text for found in translator.translate(sources)]
    assert translations["adapted"] == translations["run"] != translations["base"]
    adapted = ModelDirectory.load(base, adapter=tmp_path / "run" / ADAPTER).model.state_dict()
    for name, weight in ModelDirectory.load(tmp_path / "run").model.state_dict().items():
        torch.testing.assert_close(adapted[name], weight, rtol=0, atol=1e-4)
    given = ["--adapter", tmp_path / "run", "--precision", "float32"]
    code, out, err = dragoman("translate", base, sources[0], *given)
    assert (code, out) == (0, translations["adapted"][0] + "\n"), err
    scores = []
    write_pairs(tmp_path / "some.tsv", OWN[:20])
    for arguments in ([base, tmp_path / "some.tsv", *given], [tmp_path / "run", tmp_path / "some.tsv", *given[2:]]):
        code, out, err = dragoman("evaluate", *arguments, "--json")
        assert code == 0, err
        scores.append(json.loads(out)["perplexity"])
    assert scores[0] == pytest.approx(scores[1], rel=1e-4)
    asked: list[Path] = []
    monkeypatch.setattr("dragoman.evaluation.overlap.read_sketch", lambda path: asked.append(path))
    code, _, err = dragoman("evaluate", base, tmp_path / "some.tsv", *given)
    assert (code, asked) == (0, [tmp_path / "run"]), err
    with Translator.load(base, adapter=tmp_path / "run" / ADAPTER) as translator:
        assert translator._described == tmp_path / "run"
    code, _, err = dragoman("translate", tmp_path / "run", sources[0], *given)
    assert code == 3
    assert "belongs to another model" in err


@pytest.mark.slow
def test_a_resumed_run_has_the_same_bits(base, tmp_path, monkeypatch):
    finetune(base, tmp_path / "whole")
    step = Trainer.train_step

    def stopped(self: Trainer):
        if self.progress.step == 10:
            raise KeyboardInterrupt
        return step(self)

    with monkeypatch.context() as patched:
        patched.setattr(Trainer, "train_step", stopped)
        with pytest.raises(Interrupted):
            finetune(base, tmp_path / "run")
    resume_run(tmp_path / "run", plan_resume(tmp_path / "run", {}), listener=Display(quiet=True))
    for name, weight in weights(tmp_path / "whole").items():
        assert torch.equal(weights(tmp_path / "run")[name], weight), name


@pytest.mark.slow
def test_general_pairs_have_their_share_and_are_scored(base, tmp_path):
    mix = ['finetune.mix=["builtin:grammar:150:train"]', "finetune.share=0.4"]
    evaluation, _ = finetune(base, tmp_path / "run", *mix, "training.max_steps=2")
    folder = tmp_path / "run/run/data"
    general = json.loads((folder / "general.json").read_text())
    held_out = {source for source, _ in general}
    about = json.loads((folder / "about.json").read_text())
    own_sources = {source for source, _ in OWN}
    assert 3 <= len(general) <= 8
    assert evaluation.finetuning.keys() == {"own before", "own after", "general before", "general after"}
    count = len(own_sources - held_out) - 10  # validation and test pairs
    assert about["train_pairs"] == pytest.approx(count / 0.6, rel=0.1)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (["model.d_model=48"], "model.d_model=48 contradicts .*, where it is 24"),
        (["tokenizer.vocab_size=300"], "tokenizer.vocab_size is for new tokenizers"),
        (["finetune.freeze=[embeddings,encoder,decoder]"], "leaves nothing to train"),
        (["finetune.share=0.5"], "`finetune.share` is that of general pairs, and there are none"),
        (["tokenizer.symbols=[<vip>]"], r"tokenizer.symbols is \[\] in"),
        (["tokenizer.placeholders=false"], "tokenizer.placeholders is true in"),
        (["tokenizer.shared=false"], "tokenizer.shared is true in"),
    ],
)
def test_settings_that_contradict_the_model(base, tmp_path, settings, words):
    with pytest.raises(UsageError, match=words):
        finetune(base, tmp_path / "run", *settings)


def test_a_mixture_without_a_model_is_refused():
    with pytest.raises(UsageError, match=r"`finetune.mix` is for a run that goes on from a model"):
        plan_run(["builtin:grammar:60"], recipe=None, settings=parse_settings(['finetune.mix=["a.tsv"]']))


@pytest.mark.parametrize(
    "make", [pytest.param(make, marks=pytest.mark.slow) for make in (pretrained_models.marian, pretrained_models.m2m)]
)
def test_an_imported_model_is_trained_on(make, tmp_path, monkeypatch):
    monkeypatch.setattr("dragoman.runs.finish.bleu_in_eight_bits", lambda directory, sources: 90.5 + len(sources))
    import_pretrained(make(tmp_path / "theirs"), tmp_path / "base", languages=(None, None))
    settings = ["data.languages=[en,fr]", "training.learning_rate=1e-2", "training.max_steps=42"]
    finetune(tmp_path / "base", tmp_path / "run", *settings)
    events = read_metrics(tmp_path / "run/run/metrics.jsonl")
    losses = [event["valid_loss"] for event in events if event["event"] == "validation"]
    assert losses[-1] < 0.9 * losses[0]
    kept = ModelDirectory.load(tmp_path / "run")
    assert kept.model.config.pad_id == ModelDirectory.load(tmp_path / "base").model.config.pad_id
    assert kept.languages == ("en", "fr")
    assert kept.int8_bleu == 90.5 + len(RunDirectory(tmp_path / "run").pairs("valid"))  # found out for these weights
    has_several = bool(kept.target_tokenizer.languages)
    assert (kept.decoding.min_ratio is None) == has_several  # each of several languages has a usual length of its own
