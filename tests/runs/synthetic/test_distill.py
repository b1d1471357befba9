"""A student learns what its teacher says; what was interrupted goes on; held-out pairs are the real ones."""

import json
import random
import signal
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from sacrebleu.metrics import CHRF

from dragoman.bulk.lines import BulkTranslator
from dragoman.config.recipes import read_recipe
from dragoman.config.run import RunConfig
from dragoman.data.batching import Position
from dragoman.data.bitext import Bitext
from dragoman.data.preparation import PreparedData
from dragoman.decoding import translator as translator_module
from dragoman.decoding.precision import engine_of
from dragoman.decoding.translator import Translator
from dragoman.errors import DragomanError
from dragoman.runs.synthetic import pieces
from dragoman.runs.synthetic.pairs import read_pairs
from dragoman.storage.model_directory import ModelDirectory
from dragoman.storage.run_directory import RunDirectory
from dragoman.text.tokenizers.tokenizer import Tokenizer
from dragoman.training.trainer import Trainer
from tests.cli.test_translation import save_model
from tests.small import train_run, write_pairs

PAIRS = list(Bitext.open("builtin:grammar:211"))
SMALL = [
    "model.d_model=24", "model.d_ff=40", "model.num_heads=3", "model.num_encoder_layers=2", "tokenizer.vocab_size=400",
    "training.max_tokens=512", "training.max_steps=6", "training.validate_every=3", "training.validate_sentences=5",
    "decoding.beam_size=1", "data.held_out=7",
]  # fmt: skip


@pytest.fixture(scope="module")
def teacher(tmp_path_factory) -> Path:
    return save_model(tmp_path_factory.mktemp("teacher") / "random")


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(pieces, "AT_ONCE", 50)
    return str(write_pairs(tmp_path / "pairs.tsv", PAIRS))


def own_vocabulary() -> list[str]:
    """The settings of a run whose vocabulary is not learned."""
    return [setting for setting in SMALL if not setting.startswith("tokenizer.")]


def distilled(run: Path) -> dict[str, str]:
    return dict(read_pairs(run / "run/teaching/pairs.distilled.jsonl"))


@pytest.mark.slow
def test_a_student_learns_the_translation_that_is_closest_to_the_reference(
    teacher, data, dragoman, tmp_path, monkeypatch
):
    # A teacher with random weights says something else with every rounding.
    monkeypatch.setattr(translator_module, "engine_of", lambda model, _, **_settings: engine_of(model, "float32"))
    other = save_model(tmp_path / "other", seed=11)
    command = ["distill", teacher, tmp_path / "edge", "--ensemble", other, "--data", data, "--references", 0.25]
    code, out, err = dragoman(*command, "--json", *SMALL)
    assert code == 0, err
    learned, metric = distilled(tmp_path / "edge"), CHRF(word_order=2)
    with Translator.load(teacher, ensemble=[other]) as translator:
        for source, reference in PAIRS[:20]:
            if source in learned:
                (first,) = translator.translate([source], n_best=translator.decoding.beam_size, split=False)
                texts = [translation.text for translation in (first, *first.alternatives)]
                best = max(metric.sentence_score(text, [reference]).score for text in texts)
                assert metric.sentence_score(learned[source], [reference]).score == best
    folder = RunDirectory(tmp_path / "edge").data
    held_out = [tuple(pair) for name in ("valid", "test") for pair in json.loads((folder / f"{name}.json").read_text())]
    assert {*held_out} <= {*PAIRS}
    assert len({source for source, _ in held_out}) == 14
    assert not {source for source, _ in held_out} & learned.keys()
    assert json.loads(out)["sentences"] == len(held_out) - len(json.loads((folder / "valid.json").read_text()))
    trained = json.loads((folder / "about.json").read_text())["train_pairs"]
    assert trained == pytest.approx(len(learned) / 0.75, rel=0.1)
    student = ModelDirectory.load(tmp_path / "edge").model.config
    assert (student.num_encoder_layers, student.num_decoder_layers) == (2, 1)
    assert "Learns from random and other: of 5 translations the closest" in (tmp_path / "edge/README.md").read_text()


@pytest.mark.slow
def test_what_was_interrupted_goes_on_and_nothing_is_translated_twice(teacher, data, dragoman, tmp_path, monkeypatch):
    """By SIGTERM while it translates, and by Ctrl-C while it trains; from another folder."""
    monkeypatch.chdir(tmp_path)
    Path("own.yaml").write_text("size: tiny\n")
    write_pairs(Path("test.tsv"), PAIRS[:9])
    options = ["--data", data, "--test", "test.tsv", "--recipe", "own.yaml", "--choose", "best", "--quiet", *SMALL]
    assert dragoman("distill", teacher, tmp_path / "whole", *options)[0] == 0
    windows, step, translated, steps = BulkTranslator.windows, Trainer.train_step, [], []

    def interrupted(self, lines, advance):
        if len(translated) == 2 and not steps:
            steps.append("interrupted")
            signal.raise_signal(signal.SIGTERM)
        translated.append(list(lines))
        return windows(self, translated[-1], advance)

    def stopped(self):
        steps.append(self.progress.step)
        if len(steps) == 5:
            raise KeyboardInterrupt
        return step(self)

    monkeypatch.setattr(BulkTranslator, "windows", interrupted)
    monkeypatch.setattr(Trainer, "train_step", stopped)
    command = ["distill", teacher, tmp_path / "run", *options]
    for again, stopped_by in ((command, 143), (["train", "--resume", tmp_path / "run", "--quiet"], 130)):
        code, _, err = dragoman(*again)
        assert (code, f"train --resume {tmp_path / 'run'}" in err) == (stopped_by, True)
        (tmp_path / "elsewhere").mkdir(exist_ok=True)
        monkeypatch.chdir("elsewhere" if len(steps) == 1 else tmp_path)
    code, _, err = dragoman(*command)
    assert code == 0, err
    assert steps == ["interrupted", 0, 1, 2, 3, 3, 4, 5]
    sources = [source for source, _ in read_pairs(tmp_path / "whole/run/teaching/pairs/pairs.train.jsonl")]
    assert [line for piece in translated for line in piece] == sources
    for name in ("model.safetensors", "run/teaching/pairs.distilled.jsonl"):
        assert (tmp_path / "run" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


@pytest.mark.slow
def test_a_student_is_told_what_its_teachers_expect_of_each_token(teacher, data, dragoman, tmp_path):
    other = save_model(tmp_path / "other", seed=11, positions="learned", max_positions=20)
    command = ["distill", teacher, tmp_path / "edge", "--ensemble", other, "--data", data, "--soft-targets", 0.7]
    code, _, err = dragoman(*command, "--references", 0.5, *own_vocabulary())
    assert code == 0, err  # references may be too long for the positions of a teacher, and are left out
    config, folder = RunConfig.validate(read_recipe(str(tmp_path / "edge/run/config.yaml"))), tmp_path / "edge/run/data"
    prepared, student = PreparedData.open(folder, config), ModelDirectory.load(tmp_path / "edge")
    teachers = [ModelDirectory.load(path) for path in (teacher, other)]
    assert student.target_tokenizer.to_json() == teachers[0].target_tokenizer.to_json()
    batch = prepared.train.next(Position())
    logits = [directory.model(batch.source_ids, batch.target_ids) for directory in teachers]
    probabilities = torch.stack([of_teacher.softmax(-1) for of_teacher in logits]).mean(0)
    expected = probabilities.topk(batch.soft_targets.ids.size(-1))
    counted = batch.labels != student.model.config.pad_id
    shares = expected.values / expected.values.sum(-1, keepdim=True)
    torch.testing.assert_close(batch.soft_targets.probabilities[counted], shares[counted], rtol=1e-3, atol=1e-3)
    assert torch.equal(batch.soft_targets.ids[counted], expected.indices[counted])
    assert not batch.soft_targets.probabilities[~counted].any()


def test_soft_targets_need_a_teacher_and_its_vocabulary(teacher, data, dragoman, tmp_path):
    command = ["distill", teacher, tmp_path / "edge", "--data", data, "--soft-targets", 0.7, *own_vocabulary()]
    for setting in ("tokenizer.kind=unigram", "tokenizer.vocab_size=400", "tokenizer.symbols=[<x>]"):
        code, _, err = dragoman(*command, setting)
        assert (code, f"those of {teacher} are kept; leave it out" in err) == (2, True), setting
    for setting in ("training.fuzzy=0.5", "training.terms=0.1"):
        code, _, err = dragoman(*command, setting)
        assert (code, "need tokens in the vocabulary" in err, (tmp_path / "edge").exists()) == (2, True, False)
    assert dragoman("data", "prepare", data, "--output", tmp_path / "prepared", "tokenizer.vocab_size=400")[0] == 0
    for words in (
        ["train", data, "--output", tmp_path / "run"],
        ["train", data, "--output", tmp_path / "run", "--finetune", teacher],
        ["train", tmp_path / "prepared", "--output", tmp_path / "run"],
        ["distill", teacher, tmp_path / "run", "--data", data],
    ):
        code, _, err = dragoman(*words, "training.soft_targets=0.5", "training.max_steps=2", "data.held_out=7")
        assert (code, "type `dragoman distill TEACHER" in err, (tmp_path / "run").exists()) == (2, True, False), words
    replace(ModelDirectory.load(teacher), directions=[("en", "fr"), ("en", "de")]).save(tmp_path / "many")
    command[1] = tmp_path / "many"
    code, _, err = dragoman(*command)
    assert (code, "several languages" in err) == (2, True)


@pytest.mark.slow
def test_symbols_of_the_teacher_are_those_of_the_student_too(data, dragoman, tmp_path):
    teacher = ModelDirectory.load(save_model(tmp_path / "teacher"))
    texts = [text for pair in PAIRS[:31] for text in pair]
    size = teacher.source_tokenizer.vocab_size
    for symbols in (["<2fr>", "<bt>"], []):
        tokenizer = Tokenizer.train(texts, vocab_size=size, symbols=symbols)
        assert tokenizer.vocab_size == size
        replace(teacher, source_tokenizer=tokenizer).save(tmp_path / "teacher")
        output = tmp_path / f"student-{len(symbols)}"
        code, _, err = dragoman("distill", tmp_path / "teacher", output, "--data", data, "--choose", "best", *SMALL)
        assert code == 0, err
        assert ModelDirectory.load(output).source_tokenizer.symbols == symbols[:1]


def begun(teacher: Path, data: str, dragoman, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list:
    """The command of a run that was interrupted as soon as it began to translate."""

    def interrupted(*_):
        raise KeyboardInterrupt

    command = ["distill", teacher, tmp_path / "run", "--data", data, *SMALL]
    with monkeypatch.context() as patched:
        patched.setattr(BulkTranslator, "windows", interrupted)
        assert dragoman(*command)[0] == 130
    return command


@pytest.mark.slow
def test_what_was_made_and_damaged_is_refused_before_anything_is_trained(
    teacher, data, dragoman, tmp_path, monkeypatch
):
    command = ["distill", teacher, tmp_path / "edge", "--data", data, *SMALL]
    with monkeypatch.context() as patch:
        patch.setattr("dragoman.runs.synthetic.run.start_run", stop_before_training)
        assert dragoman(*command)[0] == 1
    folder = tmp_path / "edge/run/teaching"
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    assert {"asked.json", "about.json", "pairs.distilled.jsonl", "pairs.train.jsonl"} <= {path.name for path in files}
    for path in files:
        whole, used = path.read_bytes(), path.parent.name not in ("sources", "translations")
        lines = whole.split(b"\n")
        for damaged in (
            whole.replace(b"e", b"a", 1),
            b"\n".join(lines[: len(lines) // 2] + lines[1 + len(lines) // 2 :]),
        ):
            path.write_bytes(damaged)
            with monkeypatch.context() as patch:
                patch.setattr("dragoman.runs.synthetic.run.start_run", stop_before_training)
                code, _, err = dragoman("train", "--resume", tmp_path / "edge")
            assert code == (3 if used else 1), (path, err)
        path.write_bytes(whole)


def stop_before_training(*_: object, **__: object) -> None:
    raise DragomanError("All is made.")


def test_another_command_does_not_go_on_with_a_run(teacher, data, dragoman, tmp_path, monkeypatch):
    command = begun(teacher, data, dragoman, tmp_path, monkeypatch)
    for words in (["--choose", "best"], ["--seed", "7"], ["--size", "tiny"]):
        code, _, err = dragoman(*command, *words)
        assert code == 2
        assert "was begun with other files, models or settings; choose another folder" in err
    code, _, err = dragoman("train", "--resume", tmp_path / "run", "data.held_out=3")
    assert (code, "cannot change in a resumed run" in err) == (2, True)
    Path(data).write_text("a\tb\n")
    code, _, err = dragoman("train", "--resume", tmp_path / "run")
    assert code == 3
    assert f"{data} has changed since {tmp_path / 'run'} was begun" in err


@pytest.mark.slow
def test_models_choose_among_the_pairs_before_a_teacher_sees_them(teacher, data, dragoman, tmp_path):
    models = f"data.cleaning.models=[{teacher},{save_model(tmp_path / 'other', seed=11)}]"
    chosen = ["data.languages=[en,fr]", models, "data.cleaning.keep=0.5", "--choose", "best", "--quiet", *SMALL]
    code, _, err = dragoman("distill", teacher, tmp_path / "edge", "--data", data, *chosen)
    assert code == 0, err
    kept = list(read_pairs(tmp_path / "edge/run/teaching/pairs/pairs.train.jsonl"))
    assert len(kept) == pytest.approx((len(PAIRS) - 14) / 2, rel=0.1)
    assert {source for source, _ in kept} == distilled(tmp_path / "edge").keys()


def test_torchrun_is_refused_as_long_as_models_make_pairs(teacher, data, dragoman, tmp_path, monkeypatch):
    command = begun(teacher, data, dragoman, tmp_path, monkeypatch)
    monkeypatch.setenv("WORLD_SIZE", "2")
    for words in (command, ["train", "--resume", tmp_path / "run"]):
        code, _, err = dragoman(*words)
        assert (code, "leave out torchrun" in err) == (2, True)


def coined(count: int, seed: int) -> list[tuple[str, str]]:
    """Sentences of words that each have two translations, the first one in three of four cases."""
    dice, pairs = random.Random(seed), []
    for _ in range(count):
        words = [f"w{dice.randrange(20)}" for _ in range(dice.randrange(2, 7))]
        pairs.append((" ".join(words), " ".join(f"{word}{dice.choice('aaab')}" for word in words)))
    return pairs


@pytest.mark.slow
def test_a_student_says_what_its_teacher_says_on_most_sentences(dragoman, tmp_path):
    """Where people would choose among translations, the teacher mostly takes the same one."""
    data = write_pairs(tmp_path / "pairs.tsv", coined(2000, 1))
    size = ["model.d_model=48", "model.d_ff=96", "model.num_heads=4", "tokenizer.kind=word"]
    limits = ["training.max_steps=400", "training.max_tokens=1024", "training.validate_every=200", "data.held_out=50"]
    layers = ["model.num_encoder_layers=2", "model.num_decoder_layers=2"]
    train_run(tmp_path / "teacher", data, settings=[*size, *layers, *limits])
    command = ["distill", tmp_path / "teacher", tmp_path / "edge", "--data", data, "--choose", "best"]
    code, _, err = dragoman(*command, *size, "model.num_encoder_layers=3", *limits)
    assert code == 0, err
    sources, references = zip(*coined(200, 2), strict=True)
    translations = {}
    for name in ("teacher", "edge"):
        with Translator.load(tmp_path / name) as translator:
            translations[name] = [translation.text for translation in translator.translate(sources)]
    same_as_people = sum(map(str.__eq__, translations["teacher"], references))
    same_as_student = sum(map(str.__eq__, translations["teacher"], translations["edge"]))
    assert same_as_student > 160
    assert same_as_people < 100
