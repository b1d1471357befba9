"""The confidence of translations: fitted to pairs, it expects what is measured, and never turns experience around."""

import json

import numpy as np
import pytest

from dragoman.engine.confidence import SIGNS, ConfidenceModel, Regression
from dragoman.errors import DataError
from dragoman.evaluation.calibration import FEWEST, Scored, fit, reliability, risk_area

MEAN, REPEATED = (list(SIGNS).index(name) for name in ("mean_log_prob", "repeated"))


def scored(count: int, *, seed: int, repeated: float = 0.0) -> Scored:
    """Translations whose quality follows from their log-probability, and from repetitions by a weight; with noise."""
    generator = np.random.default_rng(seed)
    features = generator.normal(size=(count, len(SIGNS)))
    features[generator.random(features.shape) < 0.1] = np.nan
    known = np.nan_to_num(features)
    similarity = 1 / (1 + np.exp(-known[:, MEAN] - repeated * known[:, REPEATED]))
    similarity = np.clip(similarity + generator.normal(scale=0.1, size=count), 0, 1)
    return Scored(features, similarity, (generator.random(count) > similarity).astype(float))


def test_what_is_expected_is_measured_on_other_pairs() -> None:
    model = fit(scored(2000, seed=3))
    others = scored(2000, seed=5)
    expected = model(others.features)
    confidence = np.array([row.confidence for row in expected])
    edits = np.array([row.edit_probability for row in expected])
    assert all(abs(part.expected - part.measured) < 0.03 for part in reliability(confidence, others.similarity))
    assert all(abs(part.expected - part.measured) < 0.1 for part in reliability(edits, others.edited))
    assert risk_area(confidence, others.similarity) < risk_area(-confidence, others.similarity)
    assert model.similarity.weights["mean_log_prob"] == pytest.approx(1, abs=0.15)


def test_a_weight_never_has_the_other_sign_whatever_the_pairs_say() -> None:
    """More repetitions seem to be better here."""
    model = fit(scored(500, seed=7, repeated=1.0))
    assert "repeated" not in model.similarity.weights
    for regression, good in ((model.similarity, 1), (model.edited, -1)):
        assert all(weight * SIGNS[name] * good >= 0 for name, weight in regression.weights.items())


@pytest.mark.parametrize("constant", [0.0, 1.0])
def test_all_right_and_all_wrong_are_no_problem(constant: float) -> None:
    pairs = scored(FEWEST, seed=11)
    same = Scored(np.full_like(pairs.features, np.nan), np.full(FEWEST, constant), np.full(FEWEST, 1 - constant))
    for expected in fit(same)(pairs.features):
        assert expected.confidence == pytest.approx(constant, abs=0.05)
        assert expected.edit_probability == pytest.approx(1 - constant, abs=0.05)


def test_too_few_pairs_are_refused() -> None:
    with pytest.raises(DataError, match=f"too few to calibrate a confidence; give {FEWEST}"):
        fit(scored(FEWEST - 1, seed=13))


def test_a_model_comes_back_from_its_json() -> None:
    model = fit(scored(200, seed=17))
    restored = ConfidenceModel.from_dict(json.loads(json.dumps(model.to_dict())))
    assert restored == model


def damaged(**changes: object) -> dict:
    regression = Regression(0.0, {"agreement": 0.5})
    ones = dict.fromkeys(SIGNS, 1.0)
    return ConfidenceModel(ones, ones, regression, regression, 100).to_dict() | changes


@pytest.mark.parametrize(
    "content",
    [[], None, {}, {"format": 2}, damaged(format=9), damaged(means={}), damaged(means=dict.fromkeys(SIGNS, "1")),
     damaged(deviations=dict.fromkeys(SIGNS, 0.0)), damaged(means=dict.fromkeys(SIGNS, float("nan"))),
     damaged(similarity=None), damaged(edited={"constant": 0.1}), damaged(edited={"constant": 1e300, "weights": {}}),
     damaged(similarity={"constant": 0.0, "weights": {"agreement": True}}), damaged(pairs="many"),
     damaged(similarity={"constant": 0.0, "weights": [1, 2]}), damaged(pairs=float("inf"))],
)  # fmt: skip
def test_other_content_is_refused(content: object) -> None:
    with pytest.raises(ValueError, match=r"^(it (is|lacks|has)|a (deviation|value|sign)) "):
        ConfidenceModel.from_dict(content)


def test_the_area_under_risk_is_least_in_the_true_order() -> None:
    similarity = np.array([0.1, 0.9, 0.5, 0.7])
    assert risk_area(similarity, similarity) == pytest.approx(np.mean([0.1, 0.2, 0.9 / 3, 1.8 / 4]))
    assert risk_area(-similarity, similarity) > risk_area(similarity, similarity)
