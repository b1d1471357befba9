"""Scoring a model on files: which way round their sides are."""

import json
from types import SimpleNamespace

import pytest

from dragoman.cli import checks
from dragoman.storage.validate import FORMAT


@pytest.mark.parametrize(
    ("config", "settings", "pair"),
    [
        ({"source_language": "fra", "target_language": "eng"}, [], ("Va !", "Go.")),
        ({"source_language": None, "target_language": None}, [], ("Go.", "Va !")),
        ({"source_language": "fra", "target_language": None}, [], ("Go.", "Va !")),
        ({"source_language": "fra", "target_language": "eng"}, ["data.languages=[en,fr]"], ("Go.", "Va !")),
    ],
)
def test_settings_or_the_languages_of_the_model_choose_the_sides(tmp_path, monkeypatch, config, settings, pair):
    tokenizers = dict.fromkeys(("source_tokenizer", "target_tokenizer"), "tokenizer.json")
    (tmp_path / "config.json").write_text(json.dumps({"format": FORMAT} | tokenizers | config), encoding="utf-8")
    (tmp_path / "a.jsonl").write_text(json.dumps({"en": "Go.", "fr": "Va !"}), encoding="utf-8")
    monkeypatch.setattr(checks, "check_model", lambda *_, **__: None)
    arguments = [str(tmp_path / "a.jsonl"), *settings]
    assert list(
        checks.open_pairs(SimpleNamespace(info_name="evaluate"), tmp_path, arguments, ensemble=None, output=None)
    ) == [pair]
