"""A model of other languages lends its weights to one with a new vocabulary."""

import json
from pathlib import Path

import pytest
import torch

from dragoman.config.finetuning import FinetuneConfig
from dragoman.config.run import RunConfig
from dragoman.config.training import FUZZY, TERMS
from dragoman.engine.parameters import OF_SOURCES, OF_TARGETS
from dragoman.errors import UsageError
from dragoman.runs.finetune import adopt_base_model
from dragoman.runs.vocabulary import parts_of_vocabulary, weights_for_vocabulary
from dragoman.storage.model_directory import ModelDirectory
from dragoman.text.tokenizers.hint_tokens import SIMILAR, TERM
from dragoman.text.tokenizers.tokenizer import Tokenizer
from tests.small import MODEL_SETTINGS, small_directory, small_model, train_run, write_pairs

OLD = Tokenizer.train(["the red house is old and the red car is new"] * 5, vocab_size=330, kind="bpe")
NEW = Tokenizer.train(["the house esta rojo y the casa old wandering"] * 5, vocab_size=330, kind="bpe")


def bytes_of(tokenizer: Tokenizer) -> dict[bytes, int]:
    return {content: id_ for id_, content in enumerate(tokenizer.vocabulary()) if content}


def test_parts_of_a_piece_spell_it_and_a_known_piece_is_its_own_part() -> None:
    old, contents = bytes_of(OLD), OLD.vocabulary()
    known = composed = 0
    for content, parts in zip(NEW.vocabulary(), parts_of_vocabulary(OLD, NEW), strict=True):
        if not content:
            continue
        assert b"".join(contents[part] for part in parts) == content
        if content in old:
            assert parts == [old[content]]
            known += 1
        else:
            composed += 1
            assert len(parts) > 1
    assert known > 250  # all bytes, and words that both have
    assert composed > 10


def test_special_tokens_are_those_with_the_same_meaning() -> None:
    parts = parts_of_vocabulary(OLD, NEW)
    assert [parts[id_] for id_ in NEW.special_ids] == [[id_] for id_ in OLD.special_ids]


@pytest.mark.parametrize("is_shared", [True, False])
def test_known_pieces_keep_their_rows_and_others_have_the_mean_of_their_parts(is_shared: bool) -> None:
    choices = {"share_embeddings": is_shared, "tie_projection": is_shared}
    parent = ModelDirectory(small_model(OLD.vocab_size, seed=1, **choices), OLD, OLD)
    model = small_model(NEW.vocab_size, seed=2, **choices)
    weights = weights_for_vocabulary(parent, model, (NEW, NEW))
    theirs = dict(parent.model.named_parameters())
    tables = {OF_SOURCES} if is_shared else {OF_SOURCES, *OF_TARGETS[:2]}
    assert weights.keys() == theirs.keys() >= tables
    for name, weight in weights.items():
        if name not in tables:
            assert torch.equal(weight, theirs[name])
            continue
        for row, parts in enumerate(parts_of_vocabulary(OLD, NEW)):
            assert torch.allclose(weight[row], theirs[name][parts].mean(0))


def test_the_same_vocabulary_gives_the_same_weights() -> None:
    parent = ModelDirectory(small_model(OLD.vocab_size, seed=1), OLD, OLD)
    weights = weights_for_vocabulary(parent, small_model(OLD.vocab_size, seed=2), (OLD, OLD))
    assert all(torch.equal(weights[name], weight) for name, weight in parent.model.named_parameters())


def test_general_pairs_are_of_the_languages_that_are_forgotten() -> None:
    with pytest.raises(UsageError, match="forgets its own languages"):
        FinetuneConfig.validate({"model": "base", "vocabulary": "new", "mix": ["general.tsv"]})
    with pytest.raises(UsageError, match="set finetune"):
        FinetuneConfig.validate({"vocabulary": "new"})


def test_a_child_chooses_its_dropout_by_its_own_pairs(tmp_path: Path) -> None:
    small_directory(Tokenizer.train(["a b"], vocab_size=300), dropout=0.0).save(tmp_path / "parent")
    for vocabulary, expected in (("new", None), ("kept", 0.0)):
        config = RunConfig.validate({"finetune": {"model": str(tmp_path / "parent"), "vocabulary": vocabulary}})
        adopt_base_model(config)
        assert config.model.get("dropout") == expected
        assert config.model["norm_order"] == "pre"


def test_a_run_goes_on_with_the_hints_that_its_model_reads(tmp_path: Path) -> None:
    plain = Tokenizer.train(["a b"], vocab_size=300)
    small_directory(plain).save(tmp_path / "plain")
    small_directory(plain.with_hints([SIMILAR, TERM])).save(tmp_path / "hinted")

    def shares(model: str, **training: float) -> tuple[float, float]:
        config = RunConfig.validate({"finetune": {"model": str(tmp_path / model)}, "training": training})
        adopt_base_model(config)
        return config.training.fuzzy, config.training.terms

    assert shares("plain") == (0.0, 0.0)
    assert shares("hinted") == (FUZZY, TERMS)
    assert shares("hinted", fuzzy=0.0, terms=0.3) == (0.0, 0.3)
    assert shares("hinted", joined=0.2) == (0.0, 0.0)  # which cannot be had with hints
    with pytest.raises(UsageError, match=r"training\.terms needs a token"):
        shares("plain", terms=0.1)


@pytest.mark.slow
def test_a_run_begins_with_its_parent_and_translates_other_languages(tmp_path: Path) -> None:
    settings = ["training.max_steps=2", "data.held_out=5", "decoding.beam_size=1", "training.max_tokens=256"]
    parent, child = tmp_path / "parent", tmp_path / "child"
    train_run(parent, "builtin:grammar:90", settings=[*settings, *MODEL_SETTINGS, "tokenizer.vocab_size=300"])
    numbers = [(f"uno {word}", f"eins {word}") for word in "abcdefghijklmnopqrstuvwxyz"]
    pairs = write_pairs(tmp_path / "pairs.tsv", numbers)
    own = [f"finetune.model={json.dumps(str(parent))}", "finetune.vocabulary=new", "tokenizer.vocab_size=290"]
    train_run(child, pairs, settings=[*settings, *own, "data.languages=[es,de]", "training.learning_rate=1e-9"])
    begun, made = ModelDirectory.load(parent), ModelDirectory.load(child)
    assert made.languages == ("es", "de")
    assert made.source_tokenizer.vocab_size != begun.source_tokenizer.vocab_size
    theirs = dict(begun.model.named_parameters())
    for name, weight in made.model.named_parameters():
        if name != OF_SOURCES:
            assert torch.allclose(weight, theirs[name], atol=1e-6), name
    assert "finetuning" not in json.loads((child / "run/evaluation.json").read_text())
