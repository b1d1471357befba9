"""A run as a whole: what it chooses, what it leaves behind, what the grammar's demo reaches."""

import json
import subprocess
import sys

import pytest

from dragoman import run
from dragoman.config import read_recipe, resolve
from dragoman.data.bitext import Bitext
from dragoman.errors import UsageError
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


def test_a_recipe_may_name_the_data_and_files_on_the_command_line_come_before_it(tmp_path):
    for name, pairs in (("a", Bitext.open("builtin:grammar:100")), ("b", Bitext.open("builtin:grammar:40"))):
        text = "".join(f"{s}\t{t}\n" for s, t in pairs)
        (tmp_path / f"{name}.tsv").write_text(text, encoding="utf-8")
    first, second = (str(tmp_path / f"{name}.tsv") for name in "ab")
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(f"data:\n  corpora:\n  - {{source: {first}, weight: 2}}\n  - source: {second}\n")
    config, bitext = run.configure([], recipe=str(recipe), settings=[])
    assert [corpus.source for corpus in config.data.corpora] == [first, second]
    assert (bitext.name, bitext.report.kept, config.data.held_out) == ("a+b", 140, 7)
    assert [corpus.weight for corpus in bitext.corpora] == [2, 1]
    assert resolve(read_recipe_text(config.to_yaml(), tmp_path), []) == config
    config, bitext = run.configure([second], recipe=str(recipe), settings=[])
    assert (config.data.source, config.data.corpora, bitext.name) == (second, [], "b")
    config, bitext = run.configure([], recipe=None, settings=[f"data.source={second}"])
    assert (config.data.source, bitext.report.kept) == (second, 40)


def read_recipe_text(text, folder):
    (folder / "saved.yaml").write_text(text, encoding="utf-8")
    return read_recipe(str(folder / "saved.yaml"))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ([], "not 0 files; name them, or a recipe with data.source"),
        (["data.source=a.tsv", "data.corpora=[{source: b.tsv}]"], "`source` and `corpora` both"),
        (["data.target=a.fr"], "`target` is the other side of `source`"),
        (["data.corpora=[{source: b.tsv, weight: 0}]"], "data.corpora.0.weight"),
    ],
)
def test_data_that_is_not_named_or_twice_is_refused(settings, words):
    with pytest.raises(UsageError) as caught:
        run.configure([], recipe=None, settings=settings)
    assert words in str(caught.value)


def test_rules_of_cleaning_are_settings(tmp_path):
    path = tmp_path / "pairs.tsv"
    pairs = [(f"{number}", f"{number} x") for number in range(29)]
    path.write_text("".join(f"{s}\t{t}\n" for s, t in [*pairs, *pairs[:5], ("y" * 53, "z" * 53)]), encoding="utf-8")
    for settings, kept in (([], 30), (["data.cleaning.drop_repeated=false", "data.cleaning.max_characters=52"], 34)):
        assert run.configure([str(path)], recipe=None, settings=settings)[1].report.kept == kept


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


@pytest.mark.slow
def test_the_demo_translates_combinations_it_never_saw(tmp_path):
    dragoman, model = [sys.executable, "-m", "dragoman"], str(tmp_path / "demo")
    subprocess.run([*dragoman, "demo", "--output", model, "--quiet"], check=True)
    command = [*dragoman, "evaluate", model, "builtin:grammar:500:test", "--json"]
    figures = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    assert figures["bleu"] >= 90
