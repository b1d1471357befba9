"""Scoring a model on files: which way round their sides are."""

import json

import pytest

from dragoman import scoring
from dragoman.config import DecodingConfig
from dragoman.model_files import FORMAT

pytestmark = pytest.mark.usefixtures("annotations_unchecked")


@pytest.mark.parametrize(
    ("config", "pair"),
    [
        ({"source_language": "fra", "target_language": "eng"}, ("Va !", "Go.")),
        ({"source_language": None, "target_language": None}, ("Go.", "Va !")),
        ({"source_language": "fra", "target_language": None}, ("Go.", "Va !")),
    ],
)
def test_the_languages_of_the_model_choose_the_sides(tmp_path, monkeypatch, config, pair):
    tokenizers = dict.fromkeys(("source_tokenizer", "target_tokenizer"), "tokenizer.json")
    (tmp_path / "config.json").write_text(json.dumps({"format": FORMAT} | tokenizers | config), encoding="utf-8")
    (tmp_path / "a.jsonl").write_text(json.dumps({"en": "Go.", "fr": "Va !"}), encoding="utf-8")
    scored = []
    monkeypatch.setattr(scoring, "evaluate_pairs", lambda model, pairs, **_: scored.extend(pairs))
    scoring.evaluate_files(tmp_path, [str(tmp_path / "a.jsonl")], search=DecodingConfig(), precision="auto", workers=1)
    assert scored == [pair]
