"""A run as a whole: what it chooses, what it leaves behind, what the grammar's demo reaches."""

import json
import subprocess
import sys

import pytest

from dragoman import run
from dragoman.data.bitext import Bitext
from dragoman.errors import Interrupted, UsageError
from dragoman.run_directory import MetricsFile, read_metrics
from dragoman.terminal import Display


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


@pytest.mark.usefixtures("annotations_unchecked")
def test_a_training_begins_with_warnings_of_few_pairs_and_of_a_test_that_leaks(tmp_path, capsys, monkeypatch):
    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(run, "_fit", stop)
    pairs = [f"{source}\t{target}\n" for source, target in Bitext.open("builtin:grammar:120")]
    parts = {"train": pairs[:80], "valid": pairs[80:100], "test": pairs[97:]}
    for name, lines in parts.items():
        (tmp_path / f"{name}.tsv").write_text("".join(lines), encoding="utf-8")
    settings = [f"data.{name}=[{tmp_path / name}.tsv]" for name in ("valid", "test")]
    settings += ["model.d_model=16", "model.d_ff=16", "model.num_heads=2", "tokenizer.vocab_size=300"]
    config, bitext = run.configure([str(tmp_path / "train.tsv")], recipe=None, settings=settings)
    with pytest.raises(Interrupted):
        run.start(bitext, config, tmp_path / "run", display=Display(quiet=True))
    few, leak = capsys.readouterr().err.split("\n")[:-1]
    assert few.startswith("Warning: 80 pairs to train on are few pairs")
    assert leak.startswith("Warning: 3 of the 23 test sentences are also in the validation data")


@pytest.mark.slow
def test_the_demo_translates_combinations_it_never_saw(tmp_path):
    dragoman, model = [sys.executable, "-m", "dragoman"], str(tmp_path / "demo")
    subprocess.run([*dragoman, "demo", "--output", model, "--quiet"], check=True)
    command = [*dragoman, "evaluate", model, "builtin:grammar:500:test", "--json"]
    figures = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    assert figures["bleu"] >= 90
