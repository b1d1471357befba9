"""Several systems on the same pairs: models, and files of translations, scored side by side and tested."""

import json
from pathlib import Path

import pytest

from dragoman.data.builtin.grammar import generate
from dragoman.evaluation.significance import SystemComparison
from dragoman.metrics.resampling import Interval, PairedTest
from tests.cli.test_translation import save_model
from tests.small import write_pairs

PAIRS = [*generate(47)]


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    return write_pairs(tmp_path / "test.tsv", PAIRS)


def translations(path: Path, *, wrong: int) -> Path:
    """A file with the references, of which one in so many is wrong."""
    lines = ["quelque chose" if index % wrong == 0 else target for index, (_, target) in enumerate(PAIRS)]
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def test_files_of_translations_are_scored_without_a_model(pairs, dragoman, tmp_path):
    good, bad = translations(tmp_path / "good.fr", wrong=9), translations(tmp_path / "bad.fr", wrong=2)
    code, out, _ = dragoman("evaluate", pairs, "--outputs", bad, "--outputs", good, "--json")
    result = json.loads(out)
    assert code == 0
    assert [system["system"] for system in result["systems"]] == [str(bad), str(good)]
    scores = {Path(system["system"]).stem: system for system in result["systems"]}
    assert scores["good"]["bleu"] > scores["bad"]["bleu"]
    low, high = scores["good"]["intervals"]["bleu"]
    assert low < scores["good"]["bleu"] < high
    assert "perplexity" not in scores["good"]
    (comparison,) = result["comparisons"]
    assert (comparison["baseline"], comparison["system"]) == (str(bad), str(good))
    assert comparison["tests"]["bleu"]["difference"] == scores["good"]["bleu"] - scores["bad"]["bleu"]
    code, out, _ = dragoman("evaluate", pairs, "--outputs", bad, "--outputs", good)
    words = " ".join(out.split())
    assert f"{good} is better than {bad} by" in words
    assert "(p < 0.001)" in words
    assert "BLEU is nrefs:1|" in words
    code, out, _ = dragoman("evaluate", pairs, "--outputs", good, "--json")
    assert [len(json.loads(out)[key]) for key in ("systems", "comparisons")] == [1, 0]


@pytest.mark.slow
def test_models_are_scored_beside_each_other_and_beside_files(pairs, dragoman, tmp_path):
    models = [save_model(tmp_path / f"model-{seed}", seed=seed) for seed in (7, 11)]
    hypotheses = tmp_path / "out.fr"
    alone = json.loads(dragoman("evaluate", models[1], pairs, "--json", "-o", hypotheses, "--beam-size", 1)[1])
    code, out, _ = dragoman("evaluate", *models, pairs, "--outputs", hypotheses, "--json", "--beam-size", 1)
    result = json.loads(out)
    assert code == 0
    systems = {system.pop("system"): system for system in result["systems"]}
    assert [*systems] == [*map(str, models), str(hypotheses)]
    timed = ("seconds", "sentences_per_second")
    assert {k: v for k, v in systems[str(models[1])].items() if k not in timed} == {
        k: v for k, v in alone.items() if k not in timed
    }
    assert systems[str(hypotheses)]["bleu"] == alone["bleu"]
    names = [(one["baseline"], one["system"]) for one in result["comparisons"]]
    first, second, third = systems
    assert names == [(first, second), (first, third), (second, third)]
    same = result["comparisons"][2]["tests"]["bleu"]
    assert (same["difference"], same["sentences_needed"]) == (0, None)
    words = " ".join(dragoman("evaluate", *models, pairs, "--beam-size", 1)[1].split())
    assert "token accuracy" in words


def test_what_cannot_be_compared_is_refused(pairs, dragoman, tmp_path):
    short = tmp_path / "short.fr"
    short.write_text("une ligne\n", encoding="utf-8")
    good = translations(tmp_path / "good.fr", wrong=9)
    refused = {
        ("evaluate", pairs, "--outputs", short): (3, "short.fr has 1 line, but there are 47 pairs"),
        ("evaluate", pairs, "--outputs", tmp_path / "none.fr"): (3, "none.fr"),
        ("evaluate", pairs, "--outputs", good, "--outputs", good): (2, "A system is given twice"),
        ("evaluate", pairs, "--outputs", good, "--outputs", short, "--examples", 3): (2, "are for a single model"),
        ("evaluate", pairs): (2, "Missing argument"),
        ("evaluate", pairs, "--outputs", good, "--output", tmp_path / "out"): (2, "are for a single model"),
        ("evaluate", tmp_path, pairs, "--outputs", good): (3, "no config.json"),
        ("evaluate", pairs, "--outputs", good, "--outputs", tmp_path / "x" / ".." / "good.fr"): (2, "given twice"),
    }
    for arguments, (exit_code, message) in refused.items():
        code, out, err = dragoman(*arguments)
        assert (code, out) == (exit_code, ""), err
        assert message in err


@pytest.mark.parametrize(
    ("difference", "p_value", "needed", "sentence"),
    [
        (1.26, 0.0031, 410, "B is better than A by 1.26 BLEU (p = 0.0031)."),
        (-1.26, 0.0001, 410, "A is better than B by 1.26 BLEU (p < 0.001)."),
        (0.32, 0.31, 2_841, "Between A and B no difference can be shown with 461 sentences (BLEU 0.32 apart, "
        "p = 0.3100); some 2,900 would be needed."),
        (0.01, 0.97, 3_000_000, "Between A and B no difference can be shown with 461 sentences (BLEU 0.01 apart, "
        "p = 0.9700); more than a million would be needed."),
        (0.0, 0.0001, None, "A and B have the same BLEU."),
    ],
)  # fmt: skip
def test_a_test_is_said_in_words(difference: float, p_value: float, needed: int | None, sentence: str) -> None:
    test = PairedTest(difference, Interval(difference - 1, difference + 1), p_value, 461, needed)
    assert SystemComparison("A", "B", {"bleu": test}).sentence() == sentence


def test_a_lower_ter_is_better() -> None:
    test = PairedTest(-2.0, Interval(-3.0, -1.0), 0.001, 461, 100)
    assert SystemComparison("A", "B", {"ter": test}).sentence("ter") == "B is better than A by 2.00 TER (p = 0.0010)."


def test_a_calibration_is_kept_in_the_model_and_used_by_translate(dragoman, tmp_path):
    model, pairs = save_model(tmp_path / "model", seed=7), write_pairs(tmp_path / "p.tsv", [*generate(90)])
    code, out, _ = dragoman("calibrate", model, pairs, "--json")
    result = json.loads(out)
    assert code == 0
    assert result["pairs"] == 90
    assert sum(part["count"] for part in result["bins"]) == 90
    assert 0 <= result["error"] < 0.2
    assert "confidence is off by" in " ".join(dragoman("calibrate", model, pairs)[1].split())
    code, out, _ = dragoman("translate", model, "--confidence", "the red house is old", "42")
    confidence = [float(line.split("\t")[1]) for line in out.splitlines()]
    assert (code, confidence[1]) == (0, 1.0)
    assert 0 <= confidence[0] < 1
    code, out, errors = dragoman("translate", model, "--only-above", "0.99", "the red house is old", "42")
    assert (code, out) == (0, "the red house is old\n42\n")
    wanted = f"1 of 2 texts stay as they are, their confidence is not above 0.99: text 1 ({confidence[0]:.3f})"
    assert wanted in " ".join(errors.split())


def test_too_few_pairs_and_a_wrong_limit_are_refused(dragoman, tmp_path):
    model, pairs = save_model(tmp_path / "model", seed=7), write_pairs(tmp_path / "p.tsv", [*generate(9)])
    code, _, errors = dragoman("calibrate", model, pairs)
    assert (code, "9 pairs are too few" in " ".join(errors.split())) == (3, True)
    assert dragoman("translate", model, "--only-above", "1.5", "x")[0] == 2
    code, _, errors = dragoman("translate", model, "--confidence", "x")
    assert (code, "has no calibrated confidence" in " ".join(errors.split())) == (2, True)
