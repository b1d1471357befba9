"""Imported models translate in eight bits where their translations there are those in float32, and only there."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from dragoman import Translator
from dragoman.decoding.precision import engine_of
from dragoman.engine import int8
from dragoman.engine.int8 import Int8Engine
from dragoman.errors import DataError
from dragoman.evaluation import eight_bits
from dragoman.evaluation.eight_bits import bleu_in_eight_bits
from dragoman.interop.imports.trial_sentences import sentences_for
from dragoman.interop.sentences import MOST_SENTENCES
from dragoman.storage.directory import ArrayDirectory, ModelArrays
from dragoman.storage.model_directory import ModelDirectory
from dragoman.text.labels import label
from dragoman.text.tokenizers.tokenizer import Tokenizer
from tests.engine.test_transformer import arrays
from tests.model.variants import build
from tests.small import small_directory

SUITABLE = {"d_model": 64, "d_ff": 80, "num_heads": 2}
SENTENCES = ["The house is red.", "A dog runs across the wet sand.", "Nobody knows why the lights went out."]
pytestmark = pytest.mark.skipif(int8.functions is None, reason="there is no C compiler")


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.train(SENTENCES * 9, vocab_size=300)


@pytest.mark.parametrize(("bleu", "in_eight_bits"), [(None, False), (97.9, False), (98.0, True), (100.0, True)])
def test_a_pretrained_model_computes_in_eight_bits_if_it_was_shown_to_hold(bleu, in_eight_bits: bool) -> None:
    model = build(positions="sinusoidal-fairseq", **SUITABLE)
    for form in (model, ModelArrays(model.config, arrays(model))):
        assert isinstance(engine_of(form, "auto", int8_bleu=bleu), Int8Engine) == in_eight_bits
        assert isinstance(engine_of(form, "int8", int8_bleu=bleu), Int8Engine)
        assert not isinstance(engine_of(form, "float32", int8_bleu=bleu), Int8Engine)


def test_what_was_measured_is_kept_in_the_model_and_obeyed(tokenizer: Tokenizer, tmp_path: Path) -> None:
    directory = small_directory(tokenizer, positions="sinusoidal-fairseq", **SUITABLE)
    for bleu, precision in ((None, "float32"), (97.0, "float32"), (99.5, "int8")):
        folder = tmp_path / str(bleu)
        replace(directory, int8_bleu=bleu).save(folder)
        assert [kind.load(folder).int8_bleu for kind in (ModelDirectory, ArrayDirectory)] == [bleu, bleu]
        assert Translator(ArrayDirectory.load(folder), precision="auto").precision == precision


@pytest.mark.parametrize("value", [-1, 101, "99", True, [99]])
def test_another_value_in_the_config_is_refused(value, tokenizer: Tokenizer, tmp_path: Path) -> None:
    replace(small_directory(tokenizer), int8_bleu=99.0).save(tmp_path / "model")
    config = tmp_path / "model" / "config.json"
    for changed, message in ((value, "not from 0 to 100"), (12.0, "checksum")):
        config.write_text(json.dumps(json.loads(config.read_text()) | {"int8_bleu": changed}))
        with pytest.raises(DataError, match=message):
            ArrayDirectory.load(tmp_path / "model")


def test_bleu_is_that_of_the_translations_in_the_coarsest_eight_bits(tokenizer, monkeypatch) -> None:
    directory = small_directory(tokenizer, **SUITABLE)
    greatest = {}
    spied: Callable = eight_bits._translations

    def translations(directory: ModelDirectory, sentences: list[str], precision: str) -> list[str]:
        greatest[precision] = int8.functions.greatest_weight
        return spied(directory, sentences, precision) if precision == "int8" else [f"{one} a b c" for one in sentences]

    before = int8.functions.greatest_weight
    monkeypatch.setattr(eight_bits, "_translations", translations)
    assert bleu_in_eight_bits(directory, SENTENCES) < 50
    assert greatest == {"float32": before, "int8": int8.COARSEST}
    assert int8.functions.greatest_weight == before
    monkeypatch.setattr(eight_bits, "_translations", lambda directory, sentences, precision: sentences)
    assert bleu_in_eight_bits(directory, SENTENCES) == pytest.approx(100)


def test_what_cannot_be_tried_has_no_bleu(tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    assert bleu_in_eight_bits(small_directory(tokenizer, **SUITABLE), []) is None
    monkeypatch.setattr(int8, "functions", None)
    assert bleu_in_eight_bits(small_directory(tokenizer, **SUITABLE), SENTENCES) is None


def test_sentences_are_those_of_a_file_or_english_ones_for_models_from_english(tokenizer, tmp_path) -> None:
    directory = small_directory(tokenizer)
    assert sentences_for(directory, None) == sentences_for(replace(directory, source_language="de"), None) == []
    english = sentences_for(replace(directory, source_language="en"), None)
    assert len(english) == len(set(english)) == 50
    file = tmp_path / "sentences"
    file.write_text("Ein Haus.\n\n  Ein Hund. \n" + "Noch einer.\n" * 2_000)
    assert sentences_for(directory, file)[:3] == ["Ein Haus.", "Ein Hund.", "Noch einer."]
    assert len(sentences_for(directory, file)) == MOST_SENTENCES
    with pytest.raises(DataError):
        sentences_for(directory, tmp_path / "none")


def test_sentences_of_a_model_of_several_targets_name_theirs(monkeypatch) -> None:
    """None of its targets is one that imported models are tried with, and the tokenizers know no languages."""
    texts = [f"{label('en', code)}{text}" for code in ("ja", "zh") for text in SENTENCES]
    tokenizer = Tokenizer.train(SENTENCES, vocab_size=300).with_targets(["ja", "zh"])
    directory = replace(
        small_directory(tokenizer, positions="sinusoidal-fairseq", **SUITABLE), directions=[("en", "ja"), ("en", "zh")]
    )
    given: list[list[str]] = []
    spied: Callable = eight_bits._translations

    def translations(directory: ModelDirectory, sentences: list[str], precision: str) -> list[str]:
        given.append([*sentences])
        assert directory.target_language is None
        return spied(directory, sentences, precision)

    monkeypatch.setattr(eight_bits, "_translations", translations)
    assert 0 <= bleu_in_eight_bits(directory, texts) <= 100
    assert given == [texts, texts]


def test_an_empty_file_of_sentences_is_refused(tokenizer: Tokenizer, tmp_path: Path) -> None:
    (tmp_path / "empty.txt").write_text("\n \n")
    with pytest.raises(DataError, match="is empty; give a file"):
        sentences_for(small_directory(tokenizer), tmp_path / "empty.txt")
