"""COMET by a stand-in of its package: what it is given, what becomes of its scores, and that it stays offline."""

import json
import sys
from pathlib import Path

import pytest

from dragoman.data.builtin.grammar import generate
from dragoman.errors import DataError, ResourceError, UsageError
from dragoman.evaluation.comet import check_comet, score_by_comet
from tests.small import write_pairs

STAND_IN = """
import json, os

assert os.environ["HF_HUB_OFFLINE"] == "1"


class Model:
    def __init__(self, path):
        self.weights = json.load(open(path))

    def predict(self, samples, batch_size, gpus, progress_bar):
        print("a library that chats")
        assert all(set(sample) == {"src", "mt", "ref"} for sample in samples)
        if self.weights["fails"]:
            raise RuntimeError("out of luck")
        scores = [float(sample["mt"] == sample["ref"]) for sample in samples]
        return {"scores": scores[: self.weights.get("most")], "system_score": 0.0}


def load_from_checkpoint(path, local_files_only):
    assert local_files_only
    return Model(path)
"""


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a COMET model, beside a package that reads it."""
    (tmp_path / "comet").mkdir()
    (tmp_path / "comet" / "__init__.py").write_text(STAND_IN)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    folder = tmp_path / "wmt22-comet-da"
    (folder / "checkpoints").mkdir(parents=True)
    (folder / "hparams.yaml").write_text("class_identifier: regression_metric\n")
    (folder / "checkpoints" / "model.ckpt").write_text(json.dumps({"fails": False}))
    return folder


def test_comet_is_the_mean_over_sentences_with_its_interval(model: Path) -> None:
    texts = [str(number) for number in range(40)]
    wrong = ["no" if number < 10 else text for number, text in enumerate(texts)]
    score = score_by_comet(model, texts, wrong, texts)
    assert (score.value, score.signature) == (0.75, "model:wmt22-comet-da")
    assert score.interval.low < 0.75 < score.interval.high


def test_what_fails_is_said(model: Path) -> None:
    checkpoint = model / "checkpoints" / "model.ckpt"
    checkpoint.write_text(json.dumps({"fails": True}))
    with pytest.raises(ResourceError, match=r"(?s)COMET failed.*out of luck"):
        score_by_comet(model, ["a"], ["b"], ["c"])
    checkpoint.write_text(json.dumps({"fails": False, "most": 1}))
    with pytest.raises(DataError, match="1 scores for 2 sentences"):
        score_by_comet(model, ["a", "b"], ["b", "c"], ["c", "d"])


def test_a_folder_without_a_model_and_a_python_without_comet_are_refused(
    model: Path, tmp_path: Path, monkeypatch
) -> None:
    check_comet(model, None)
    check_comet(model, Path(sys.executable))
    with pytest.raises(UsageError, match=r"holds no COMET model: it needs hparams\.yaml"):
        check_comet(tmp_path, None)
    with pytest.raises(UsageError, match="is no Python; install it"):
        check_comet(model, tmp_path / "python")
    monkeypatch.delenv("PYTHONPATH")
    with pytest.raises(UsageError, match="has no package unbabel-comet; install it"):
        check_comet(model, None)


def test_evaluate_shows_comet_beside_the_others_and_tests_systems_by_it(model: Path, dragoman, tmp_path: Path) -> None:
    pairs = [*generate(60)]
    file = write_pairs(tmp_path / "test.tsv", pairs)
    good, bad = tmp_path / "good.fr", tmp_path / "bad.fr"
    good.write_text("".join(f"{target}\n" for _, target in pairs), encoding="utf-8")
    bad.write_text("".join(f"{target if i % 2 else 'non'}\n" for i, (_, target) in enumerate(pairs)), encoding="utf-8")
    options = ("--outputs", good, "--outputs", bad, "--comet", model)
    code, out, _ = dragoman("evaluate", file, *options, "--json")
    result = json.loads(out)
    assert code == 0
    assert [system["comet"] for system in result["systems"]] == [1.0, 0.5]
    assert result["comparisons"][0]["tests"]["comet"]["p_value"] < 0.01
    code, out, _ = dragoman("evaluate", file, *options)
    assert (code, "COMET" in out, "1.0000" in out) == (0, True, True)
    assert dragoman("evaluate", file, "--outputs", good, "--comet", tmp_path)[0] == 2
