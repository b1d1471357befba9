"""`evaluate` warns of test sentences that the model was trained on."""

from pathlib import Path

import pytest

from dragoman.data.builtin.grammar import generate
from dragoman.evaluation.evaluate import Evaluation
from dragoman.evaluation.likelihood import TokenStatistics
from dragoman.evaluation.overlap import FEWEST, with_overlap
from dragoman.evaluation.scores import score
from dragoman.storage.beside import read_sketch, write_sketch
from dragoman.text.sketch import Sketch
from tests.cli.test_translation import save_model

PAIRS = [*dict(generate(1200)).items()]
TRAINED, NEW = PAIRS[:600], PAIRS[600:]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = save_model(tmp_path_factory.mktemp("overlap") / "model", seed=7)
    sketch = Sketch.of(TRAINED)
    assert sketch is not None
    write_sketch(path, sketch)
    return path


def evaluation_of(translations: list[str], references: list[str]) -> Evaluation:
    return Evaluation(score(translations, references), TokenStatistics(3.5, 0.75, 17), translations, 2.5)


def test_a_share_of_known_sentences_is_estimated_and_both_parts_are_scored(model: Path) -> None:
    pairs = TRAINED[:150] + NEW[:450]
    references = [target for _, target in pairs]
    translations = references[:150] + ["le chat"] * 450
    found = with_overlap(
        evaluation_of(translations, references), read_sketch(model), pairs, model=str(model), target="fr"
    )
    assert found.overlap["share"] == pytest.approx(0.25, abs=0.1)
    assert found.overlap["trained_on"]["bleu"] > found.overlap["new"]["bleu"]
    (warning,) = found.warnings
    assert "% of the source sentences were trained on" in warning
    assert found.to_dict()["overlap"] == found.overlap


def test_new_sentences_give_no_warning(model: Path) -> None:
    references = [target for _, target in NEW]
    found = with_overlap(evaluation_of(references, references), read_sketch(model), NEW, model=str(model), target="fr")
    assert not found.warnings
    assert not found.overlap
    few = TRAINED[: FEWEST - 1]
    targets = [target for _, target in few]
    found = with_overlap(evaluation_of(targets, targets), read_sketch(model), few, model=str(model), target="fr")
    assert not found.overlap
