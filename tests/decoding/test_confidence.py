"""Confidence in a translator: its features, texts of several sentences, and texts that stay as they are."""

import json
import math
from pathlib import Path

import numpy as np
import pytest

from dragoman.decoding.confidence import features
from dragoman.decoding.search import Hypothesis
from dragoman.decoding.translator import Translator
from dragoman.engine.confidence import SIGNS, ConfidenceModel, Regression
from dragoman.errors import DataError, UsageError
from dragoman.storage.beside import CONFIDENCE, write_confidence
from tests.cli.test_translation import save_model

pytestmark = pytest.mark.usefixtures("annotations_unchecked")
TEXTS = ["the red house is old", "I see the dog", "the green cat sleeps near the big tree of the small garden", "no"]
EASY = "the red house is old. I see the dog."


def model_of(**weights: float) -> ConfidenceModel:
    zeros, ones = dict.fromkeys(SIGNS, 0.0), dict.fromkeys(SIGNS, 1.0)
    return ConfidenceModel(zeros, ones, Regression(0.0, weights), Regression(-1.0, {}), 100)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = save_model(tmp_path_factory.mktemp("confidence") / "model", seed=7)
    write_confidence(path, model_of(mean_log_prob=1.0))
    return path


@pytest.fixture(scope="module")
def translator(folder: Path) -> Translator:
    return Translator.load(folder, precision="float32")


@pytest.mark.parametrize(
    "options",
    [{"beam_size": 1}, {"beam_size": 3}, {"beam_size": 4, "n_best": 2, "diversity": 0.5},
     {"sample": True, "n_best": 3}, {"beam_size": 3, "glossary": {"house": "maison"}}, {"prefix": "le"}],
)  # fmt: skip
def test_a_search_keeps_the_log_probability_of_each_token(translator: Translator, options: dict) -> None:
    """As the model scores the same translation by itself."""
    config = translator.search_options(None, options)
    for source, hypotheses in zip(TEXTS, translator.search(TEXTS, config), strict=True):
        for hypothesis in hypotheses:
            assert sum(hypothesis.token_log_probs) == pytest.approx(hypothesis.log_prob)
            source_ids = translator.source_tokenizer.encode(source)
            scored = translator._work.score([(source_ids, hypothesis.tokens)])[0]
            wanted = scored if hypothesis.finished else scored[:-1]
            np.testing.assert_allclose(hypothesis.token_log_probs, wanted, atol=1e-4)


def test_a_confidence_follows_from_the_features(translator: Translator) -> None:
    expected = [
        1 / (1 + math.exp(-translation.log_prob / (len(translation.tokens) + 1))) if translation.text else 0.0
        for translation in translator.translate(TEXTS, beam_size=1)
    ]
    assert any(expected)
    translations = translator.translate(TEXTS, beam_size=1, confidence=True)
    assert [translation.confidence for translation in translations] == pytest.approx(expected, abs=1e-4)
    edits = [0.269 if translation.text else 1.0 for translation in translations]
    assert [translation.edit_probability for translation in translations] == pytest.approx(edits, abs=1e-3)
    plain = translator.translate(TEXTS, beam_size=1)
    assert [(one.text, one.score) for one in plain] == [(one.text, one.score) for one in translations]
    assert plain[0].confidence is None
    assert "confidence" not in plain[0].to_dict()


def test_a_text_of_several_sentences_has_the_mean_by_lengths_and_any_edit(translator: Translator) -> None:
    whole = translator.translate([EASY], confidence=True)[0]
    parts = translator.translate(translator.split(EASY), confidence=True)
    lengths = [len(text) for text in translator.split(EASY)]
    mean = sum(length * part.confidence for length, part in zip(lengths, parts, strict=True)) / sum(lengths)
    assert whole.confidence == pytest.approx(mean)
    assert whole.edit_probability == pytest.approx(1 - math.prod(1 - part.edit_probability for part in parts))


def test_what_stays_as_it_is_is_certain(translator: Translator) -> None:
    for translation in translator.translate(["", "  ", "42", "- \n"], confidence=True):
        assert (translation.confidence, translation.edit_probability) == (1.0, 0.0)
        assert translation.untranslated is None


def test_a_text_below_the_limit_stays_as_it_is(translator: Translator) -> None:
    texts = [*TEXTS, EASY, "42"]
    measured = [translation.confidence for translation in translator.translate(texts, confidence=True)]
    limit = sorted(measured)[2]
    translations = translator.translate(texts, only_above=limit, alignments=True)
    for text, confidence, translation in zip(texts, measured, translations, strict=True):
        assert translation.confidence == pytest.approx(confidence)
        assert bool(translation.untranslated) == (confidence <= limit)
        if translation.untranslated:
            assert translation.text == text
            assert translation.alignment == [(word, word) for word in range(len(text.split()))]
    assert sum(bool(translation.untranslated) for translation in translations) == 3


def test_alternatives_have_none_and_rows_keep_their_columns(translator: Translator) -> None:
    translation = translator.translate(TEXTS[:1], n_best=2, beam_size=3, confidence=True, alignments=True)[0]
    rows = [row.split("\t") for row in translation.to_rows(1, with_confidence=True)]
    assert [len(row) for row in rows] == [5, 5]
    assert rows[0][3] == f"{translation.confidence:.3f}"
    assert rows[1][3] == ""
    assert "confidence" not in translation.to_dict()["alternatives"][0]


def test_a_model_without_calibration_says_what_to_type(tmp_path: Path) -> None:
    path = save_model(tmp_path / "model", seed=11)
    with pytest.raises(UsageError, match=f"has no calibrated confidence.* calibrate {path} PAIRS"):
        Translator.load(path).translate(TEXTS, confidence=True)
    assert Translator.load(path).translate(TEXTS[:1])[0].confidence is None


def test_a_damaged_calibration_is_refused_only_when_it_is_needed(folder: Path) -> None:
    content = (folder / CONFIDENCE).read_bytes()
    try:
        (folder / CONFIDENCE).write_bytes(content.replace(b'"pairs": 100', b'"pairs": 900'))
        translator = Translator.load(folder)
        assert translator.translate(TEXTS[:1])[0].tokens is not None
        with pytest.raises(DataError, match=r"confidence\.json is damaged"):
            translator.translate(TEXTS[:1], confidence=True)
    finally:
        (folder / CONFIDENCE).write_bytes(content)


def test_a_hypothesis_without_tokens_says_nothing() -> None:
    row = features("a", "", Hypothesis([], 0.0, 0.0), [""], source_tokens=1, familiarity=None)
    assert np.isnan(row).all()


def test_agreement_repetitions_and_copies_are_counted() -> None:
    hypothesis = Hypothesis([5, 7], -1.0, -0.5, totals=[-0.25, -0.5, -1.0])
    names = dict(zip(SIGNS, features("ein Haus", "haus haus", hypothesis, ["haus haus", "haus haus"],
                                     source_tokens=3, familiarity=0.5), strict=True))  # fmt: skip
    assert (names["agreement"], names["repeated"], names["copied"]) == (1, 0.5, 1)
    assert names["mean_log_prob"] == pytest.approx(-1 / 3)
    assert names["lowest_log_prob"] == pytest.approx(-0.375)
    assert names["piece_length"] == 2
    assert json.loads(json.dumps(model_of().to_dict()))["pairs"] == 100


def test_a_confidence_does_not_depend_on_the_other_sentences_of_a_batch(translator: Translator) -> None:
    """Not even on one whose placeholder has to be placed."""
    config = translator.search_options(None, {"beam_size": 3, "glossary": {"dog": "chien"}})
    alone = translator.features(TEXTS[:1], config, None)[1]
    together = translator.features(TEXTS[:2], config, None)[1]
    np.testing.assert_allclose(together[0], alone[0], atol=1e-4)
    assert not np.isnan(alone[0][list(SIGNS).index("agreement")])


def test_checks_warn_of_each_sentence_of_a_text(translator: Translator) -> None:
    text = "The red house costs 1,250 euros. I see the dog.\n42\n"
    translation = translator.translate([text], checks=True, confidence=True)[0]
    assert [sentence.source for sentence in translation.sentences] == [
        "The red house costs 1,250 euros.",
        "I see the dog.",
    ]
    first, second = translation.sentences
    assert all(0 <= sentence.confidence <= 1 for sentence in (first, second))
    kinds = {fault.kind for fault in first.warnings}
    assert kinds & {"number", "empty", "length", "unit"}
    written = translation.to_dict()["sentences"]
    assert [warning["kind"] for warning in written[0]["warnings"]] == [fault.kind for fault in first.warnings]
    assert all(warning["what"] for warning in written[0]["warnings"])
    assert len(translation.faults) == len(first.warnings) + len(second.warnings)
    plain = translator.translate([text, "42"], checks=True)
    assert plain[0].confidence is None
    assert "confidence" not in plain[0].to_dict()["sentences"][0]
    assert plain[1].sentences == []
    assert translator.translate([text])[0].sentences is None


def test_an_empty_translation_is_not_trusted_and_warned_of(translator: Translator, monkeypatch) -> None:
    search = Translator._search

    def ends_at_once(self, inputs, config):
        groups = search(self, inputs, config)
        return [[Hypothesis([], -0.1, -0.1, totals=[-0.1])] if "tea" in item.text else group
                for item, group in zip(inputs, groups, strict=True)]  # fmt: skip

    monkeypatch.setattr(Translator, "_search", ends_at_once)
    texts = ["I like tea.", "I like tea. He has cats at home.", "He has cats at home. I like tea.", "42"]
    lost, first, second, number = translator.translate(texts, confidence=True, checks=True)
    assert (lost.confidence, lost.edit_probability) == (0, 1)
    for translation in (lost, first, second):
        assert "empty" in [fault.kind for sentence in translation.sentences for fault in sentence.warnings]
    assert [len(translation.sentences) for translation in (lost, first, second, number)] == [1, 2, 2, 0]
    alone = translator.translate(["He has cats at home."], confidence=True)[0]
    assert first.confidence <= alone.confidence
    assert second.confidence == pytest.approx(first.confidence, abs=0.01)
    assert (number.confidence, number.edit_probability) == (1, 0)


def test_nothing_is_warned_of_where_the_text_stays(translator: Translator) -> None:
    text = "The red house costs 1,250 euros."
    assert translator.translate([text], checks=True)[0].faults
    left = translator.translate([text], checks=True, only_above=0.999)[0]
    assert left.untranslated
    assert left.faults == []
