"""A run as a whole: what it chooses, what it leaves behind, what the grammar's demo reaches."""

import json
import math
import subprocess
import sys

import pytest

from dragoman import run
from dragoman.data.bitext import Bitext
from dragoman.errors import UsageError
from dragoman.run_directory import MetricsFile, RunDirectory, read_metrics
from dragoman.terminal import Display
from dragoman.training.trainer import Trainer


@pytest.mark.parametrize(
    ("pairs", "gpu", "size"),
    [
        (29_000, False, "tiny"),
        (29_000, True, "tiny"),
        (500_000, False, "small"),
        (50_000_000, False, "small"),
        (50_000_000, True, "base"),
    ],
)
def test_the_size_follows_from_the_data_and_the_machine(pairs, gpu, size):
    assert run.choose_size(pairs, gpu=gpu) == size


def test_settings_win_over_the_recipe_and_the_recipe_over_the_choice(tmp_path):
    path = tmp_path / "pairs.tsv"
    path.write_text("".join(f"{s}\t{t}\n" for s, t in Bitext.open("builtin:grammar:100")), encoding="utf-8")
    config, _ = run.configure([str(path)], recipe="paper-base", settings=["training.warmup=17"])
    assert (config.size, config.model["norm_order"], config.training.warmup) == ("base", "post", 17)
    assert config.tokenizer.vocab_size == 37_000
    config, _ = run.configure([str(path)], recipe=None, settings=[])
    assert (config.size, config.tokenizer.vocab_size, config.data.held_out) == ("tiny", 8_000, 5)


def test_the_grammar_brings_held_out_combinations_of_its_own():
    config, _ = run.configure(["builtin:grammar:100"], recipe="demo", settings=[])
    assert config.data.valid == ["builtin:grammar:500:valid"]
    assert config.data.test == ["builtin:grammar:500:test"]


def test_a_folder_without_a_run_cannot_be_resumed(tmp_path):
    with pytest.raises(UsageError, match="no run"):
        run.resume(tmp_path, [], display=Display(quiet=True))


def test_metrics_after_the_checkpoint_are_forgotten(tmp_path):
    path = tmp_path / "metrics.jsonl"
    with MetricsFile(path) as metrics:
        for step in range(1, 41):
            metrics.write("step", {"step": step})
        metrics.write("validation", {"step": 40})
    with path.open("a") as file:
        file.write('{"event": "step", "st')  # a crash in the middle of a line
    assert [event["step"] for event in read_metrics(path)] == [1, 10, 20, 30, 40, 40]
    with MetricsFile(path) as metrics:
        metrics.forget_after(25)
        metrics.write("step", {"step": 30})
    assert [event["step"] for event in read_metrics(path)] == [1, 10, 20, 30]


SMALL = [
    "model.d_model=24", "model.d_ff=40", "model.num_heads=3", "model.num_encoder_layers=1",
    "model.num_decoder_layers=1", "tokenizer.vocab_size=400", "training.max_tokens=512",
    "training.validate_every=7", "training.validate_sentences=5", "decoding.beam_size=2",
    "training.max_steps=14", "training.warmup=3", "data.held_out=5",
]  # fmt: skip


@pytest.mark.usefixtures("annotations_unchecked")
def test_a_run_that_goes_back_says_so_and_its_files_forget_what_was_undone(tmp_path, monkeypatch, capsys):
    compute = Trainer._loss

    def spoiled(trainer, batch, **options):
        loss, count = compute(trainer, batch, **options)
        progress = trainer.progress
        bad = trainer.model.training and progress.step in (9, 10, 11) and not progress.roll_backs
        return (loss * math.nan if bad else loss), count

    monkeypatch.setattr(Trainer, "_loss", spoiled)
    settings = [*SMALL, "training.tensorboard=true"]
    config, bitext = run.configure(["builtin:grammar:200"], recipe="tiny", settings=settings)
    config.data.valid = config.data.test = ["builtin:grammar:7:test"]
    run.start(bitext, config, tmp_path / "model", display=Display(quiet=True))
    directory = RunDirectory(tmp_path / "model")
    events = read_metrics(directory.metrics)
    assert [e["step"] for e in events if e["event"] == "step"] == [1, 10]
    assert [(e["step"], e["bad_step"]) for e in events if e["event"] == "roll_back"] == [(7, 11)]
    assert [e["step"] for e in events if e["event"] == "validation"] == [7, 14]
    assert [e["step"] for e in events if e["event"] == "warning"] == [7]  # those of steps 9 to 11 are undone
    said = " ".join(capsys.readouterr().err.split())
    for text in ("Step 9 was skipped", "Going back to step 7", "3 steps skipped"):
        assert text in said
    assert list(directory.tensorboard.iterdir())
    assert json.loads(directory.evaluation.read_bytes())["sentences"] == 7


@pytest.mark.slow
def test_the_demo_translates_combinations_it_never_saw(tmp_path):
    dragoman, model = [sys.executable, "-m", "dragoman"], str(tmp_path / "demo")
    subprocess.run([*dragoman, "demo", "--output", model, "--quiet"], check=True)
    command = [*dragoman, "evaluate", model, "builtin:grammar:500:test", "--json"]
    figures = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    assert figures["bleu"] >= 90
