"""Scores that say something else than they seem to are told, and so are files that changed."""

import json
from pathlib import Path

from dragoman.config.run import RunConfig
from dragoman.data.bitext import Bitext
from dragoman.data.prepared_folder import STATES, changed_files, file_states
from dragoman.data_check import training_warnings
from dragoman.evaluation.references import reference_warnings

TEXTS = ["The house is old, very old.", "Qu'est-ce que c'est ?", "She's here."] * 100
TOKENIZED = ["The house is old , very old .", "Qu'est-ce que c'est ?", "She 's here ."] * 100


def test_references_that_are_tokenized_are_told():
    assert reference_warnings(TEXTS, TEXTS) == []
    (warning,) = reference_warnings(TOKENIZED, TEXTS)
    assert warning.startswith("200 of 300 references have spaces before full stops and commas")
    assert reference_warnings(TOKENIZED, TOKENIZED) == []  # a model that was trained on such text
    (warning,) = reference_warnings(["The ho@@ use is old ."] * 200, TEXTS)
    assert "200 of 200 references are cut into subwords" in warning
    french = ["Quoi ?", "Oui !", "Il dit : « non »."] * 100
    assert reference_warnings(french, french) == []


def test_a_score_on_few_sentences_is_told():
    (warning,) = reference_warnings(TEXTS[:1], TEXTS[:1])
    assert warning.startswith("1 sentence is too few to score")
    (warning,) = reference_warnings(TEXTS[:99], TEXTS[:99])
    assert warning.startswith("99 sentences are too few to score")


def test_adapting_to_few_pairs_warns_of_forgetting():
    (warning,) = training_warnings(15, ["a"], ["b"], forgetful=True)
    assert "15 pairs to adapt to are few" in warning
    assert "--mix" in warning
    assert training_warnings(15_000, ["a"], ["b"], forgetful=True) == []


def test_a_third_column_of_text_is_told(tmp_path: Path):
    (tmp_path / "a.tsv").write_text("".join(f"Text {n} here\tTexte {n} ici\tTesto {n} qui\n" for n in range(9)))
    bitext = Bitext.open(tmp_path / "a.tsv")
    assert bitext.remark == (
        "has 3 columns of text; columns 1 and 2 are read as source and target. Choose others with --columns."
    )
    assert Bitext.open(tmp_path / "a.tsv", columns=(1, 3)).remark == ""


def test_files_that_changed_since_a_run_began_are_found(tmp_path: Path):
    pairs = tmp_path / "a.tsv"
    pairs.write_text("a\tb\n")
    config = RunConfig.validate({"data": {"source": str(pairs)}})
    (tmp_path / STATES).write_text(json.dumps(file_states(config)))
    assert changed_files(tmp_path) == []
    pairs.write_text("a\tb\nc\td\n")
    assert changed_files(tmp_path) == [str(pairs)]
    pairs.unlink()
    assert changed_files(tmp_path) == []
    assert changed_files(tmp_path / "older") == []
