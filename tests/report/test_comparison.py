"""Several runs side by side: true figures, the differing settings, a page that loads nothing."""

import json
import random
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from dragoman.config.run import load_config
from dragoman.config.settings import parse_settings
from dragoman.errors import DataError
from dragoman.report.comparison import ComparedRun, differing_settings, paired_tests, remarks, setting_rows, table_rows
from dragoman.report.comparison_page import write_comparison
from dragoman.report.pictures import OVERLAYS
from dragoman.storage.run_directory import RunDirectory
from dragoman.system.seals import seal
from tests.report.runs import EVALUATION, steps, validation
from tests.report.test_page import EVIL, Page

NAMES = {"bleu": "BLEU", "chrf": "chrF++", "ter": "TER"}


def write_run(path: Path, *settings: str, tested: bool = True, test_pairs: str = "[]", events: Any = None) -> Path:
    """The files of a run that was never run."""
    data = path / "run" / "data"
    data.mkdir(parents=True)
    config = load_config({}, parse_settings(["data.source=/home/secret/pairs.tsv", *settings]))
    (path / "run" / "config.yaml").write_text(config.to_yaml(), encoding="utf-8")
    events = [*steps(31), validation(10), validation(30), validation(31, better=False)] if events is None else events
    lines = "".join(json.dumps(event) + "\n" for event in events)
    (path / "run" / "metrics.jsonl").write_text(lines, encoding="utf-8")
    (data / "about.json").write_text(json.dumps({"train_pairs": 5003, "target_language": "fr"}), encoding="utf-8")
    (data / "test.json").write_text(test_pairs, encoding="utf-8")
    seal(data)
    if tested:
        (path / "run" / "evaluation.json").write_text(json.dumps(EVALUATION), encoding="utf-8")
        save_file({"a": np.zeros((7, 11), np.float32), "b": np.zeros(13, np.float32)}, path / "model.safetensors")
    return path


def test_the_figures_of_a_run(tmp_path: Path):
    figures = ComparedRun.read(write_run(tmp_path / "a", "size=small")).figures()
    assert figures == {
        "run": str(tmp_path / "a"),
        "size": "small",
        "data": "pairs.tsv",
        "pairs": 5003,
        "weights": 7 * 11 + 13,
        "steps": 31,
        "minutes": pytest.approx(31 * 7 / 60),
        "tokens_per_second": pytest.approx(100),
        "best_step": 30,
        "valid_bleu": pytest.approx(11.3),
        "valid_chrf": 23.0,
        "test_bleu": 31.25,
        "test_chrf": 52.5,
        "test_ter": 47.75,
        "test_intervals": {"bleu": [28.0, 34.0]},
        "test_signature": "nrefs:1|tok:13a",
    }


def test_the_time_of_a_validation_is_not_that_of_a_step(tmp_path: Path):
    events = steps(9)
    for event in events[4:]:
        event["seconds"] += 1000.0
    run = ComparedRun.read(write_run(tmp_path / "a", events=events))
    assert run.figures()["tokens_per_second"] == pytest.approx(100)


def test_the_last_step_counts_even_if_it_is_no_event_of_its_own(tmp_path: Path):
    events = [*steps(30), validation(37), {"event": "end", "step": 41, "reason": "41 steps"}]
    assert ComparedRun.read(write_run(tmp_path / "a", events=events)).figures()["steps"] == 41


@pytest.mark.slow
def test_several_corpora_are_named_without_their_folders(tmp_path: Path):
    corpora = ["{source: /home/secret/a.tsv, weight: 2}", "{source: /home/secret/b.en, target: /home/secret/b.fr}"]
    several = f"data.corpora=[{', '.join([*corpora, '{source: hf:opus/books}', '{source: hf:~/secret/c}'])}]"
    runs = [ComparedRun.read(write_run(tmp_path / "a", "data.source=null", several))]
    assert runs[0].figures()["data"] == "a.tsv, b.en and b.fr, hf:opus/books, c"
    runs.append(ComparedRun.read(write_run(tmp_path / "b")))
    write_comparison(tmp_path / "page.html", runs)
    html = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "secret" not in html
    assert "b.fr" in html


def test_an_average_can_be_the_best(tmp_path: Path):
    average = {"event": "average", "steps": [10, 20, 30], "bleu": 12.5, "better": True, "valid_loss": 2.0}
    figures = ComparedRun.read(write_run(tmp_path / "a", events=[*steps(31), validation(10), average])).figures()
    assert (figures["best_step"], figures["valid_bleu"]) == (30, 12.5)


@pytest.mark.slow
def test_a_run_that_has_just_begun_can_be_compared(tmp_path: Path):
    young = ComparedRun.read(write_run(tmp_path / "young", tested=False, events=[]))
    finished = ComparedRun.read(write_run(tmp_path / "done"))
    rows = table_rows([young, finished])
    assert rows["Test BLEU"] == ["-", "31.2 ± 3.0"]
    assert rows["Test TER"] == ["-", "47.8"]
    assert rows["Weights"] == ["-", "90"]
    assert rows["Tokens/s"] == ["-", "100"]
    write_comparison(tmp_path / "page.html", [young, finished])


def test_only_settings_that_differ_are_shown(tmp_path: Path):
    first = write_run(tmp_path / "a", "training.warmup=7", "model.dropout=0.3")
    second = write_run(tmp_path / "b", "training.warmup=11", "data.source=/elsewhere/more.tsv")
    runs = [ComparedRun.read(path) for path in (first, second)]
    assert differing_settings(runs) == {
        "data.source": ["/home/secret/pairs.tsv", "/elsewhere/more.tsv"],
        "training.warmup": [7, 11],
        "model.dropout": [0.3, None],
    }
    assert setting_rows(runs)["data.source"] == ["pairs.tsv", "more.tsv"]
    assert setting_rows(runs)["model.dropout"] == ["0.3", "-"]
    assert differing_settings([runs[0], runs[0]]) == {}


def test_scores_of_other_pairs_are_not_silently_set_side_by_side(tmp_path: Path):
    first, same = (ComparedRun.read(write_run(tmp_path / name)) for name in "ab")
    elsewhere = ComparedRun.read(write_run(tmp_path / "c", test_pairs='[["a", "b"]]'))
    signatures = [f"Test {name} is {EVALUATION['signatures'][key]}." for key, name in NAMES.items()]
    untested = [f"{run.name} has kept no test translations, and so is not tested" for run in (first, same)]
    told = remarks([first, same])
    assert [line.partition(";")[0] for line in told[:2]] == untested
    assert told[2:] == signatures
    assert "cannot be compared" in remarks([first, elsewhere])[3]
    characters = {"signatures": EVALUATION["signatures"] | {"bleu": "nrefs:1|tok:char"}}
    differing = remarks([first, replace(same, evaluation=EVALUATION | characters)])
    assert differing[2:4] == [signatures[0], "Test BLEU is nrefs:1|tok:char."]
    assert differing[6] == "The signatures of BLEU differ: such scores cannot be compared with each other."


def test_runs_with_the_same_test_pairs_in_any_order_are_tested_for_a_difference(tmp_path: Path):
    pairs = [(f"source {number}", f"the reference of number {number} is this one") for number in range(300)]
    runs = []
    for name, seed, damage in (("good", 3, 0.1), ("bad", 5, 0.4)):
        dice, ordered = random.Random(seed), pairs.copy()
        dice.shuffle(ordered)
        path = write_run(tmp_path / name, test_pairs=json.dumps(ordered))
        translations = [
            " ".join("x" if dice.random() < damage else word for word in reference.split()) for _, reference in ordered
        ]
        RunDirectory(path).write(RunDirectory(path).translations, json.dumps(translations).encode())
        runs.append(ComparedRun.read(path))
    runs.append(ComparedRun.read(write_run(tmp_path / "older", test_pairs=json.dumps(pairs))))  # keeps no translations
    (comparison,) = paired_tests(runs)
    assert (comparison.baseline, comparison.system) == (runs[0].name, runs[1].name)
    assert comparison.tests["bleu"].difference < -20
    assert comparison.tests["ter"].difference > 20
    good, bad = map(str, (tmp_path / "good", tmp_path / "bad"))
    assert re.fullmatch(rf"{good} is better than {bad} by \d\d\.\d\d BLEU \(p < 0\.001\)\.", remarks(runs)[0])
    write_comparison(tmp_path / "page.html", runs)
    html = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "1 good is better than 2 bad by" in html
    assert str(tmp_path) not in html


@pytest.mark.parametrize("missing", ["run/config.yaml", "run/data/about.json", "run/data/test.json"])
def test_a_folder_without_a_run_is_refused_by_name(tmp_path: Path, missing: str):
    path = write_run(tmp_path / "a")
    (path / missing).unlink()
    with pytest.raises(DataError, match="holds no run to compare") as caught:
        ComparedRun.read(path)
    assert str(path) in str(caught.value)


@pytest.mark.slow
def test_the_page_loads_nothing_shows_all_and_hides_folders(tmp_path: Path):
    evil = f"data.source=/home/secret/{EVIL.replace('/', '')}"
    runs = [ComparedRun.read(write_run(tmp_path / "one", evil)), ComparedRun.read(write_run(tmp_path / "two"))]
    write_comparison(tmp_path / "page.html", runs)
    html = (tmp_path / "page.html").read_text(encoding="utf-8")
    parsed = Page(html)
    assert parsed.open == []
    assert not parsed.tags & {"script", "link", "iframe", "img", "form"}
    assert "secret" not in html
    assert str(tmp_path) not in html
    for text in ("1 one", "2 two", "31.2", "90", "nrefs:1|tok:13a", "data.source", EVIL.replace("/", "")):
        assert text in parsed.text
    assert html.count("<svg") == len(OVERLAYS)
    ids = [value for name, value in parsed.attributes if name == "id"]
    assert len(ids) == len(set(ids))
