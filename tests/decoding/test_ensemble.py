"""Ensembles: the mean of probabilities, step by step and through the translator."""

from pathlib import Path

import pytest
import torch

from dragoman.decoding.ensemble import EnsembleStepper
from dragoman.decoding.search import Beams, SearchOptions, beam_search
from dragoman.decoding.translator import Translator
from dragoman.errors import DataError
from dragoman.model import Transformer, TransformerConfig
from dragoman.storage.model_directory import ModelDirectory
from dragoman.text.tokenizers.tokenizer import Tokenizer
from tests.decoding.chains import BOS, Chain, agree, chains

WORDS = ["the", "red", "house", "is", "old", "and", "a", "cat", "sees", "two", "dogs"]
TEXTS = ["the red house is old", "a cat sees two dogs", "two cats", "old dogs and the house"]


def directory(path: Path, seed: int, *, vocab_size: int = 271, d_model: int = 24) -> Path:
    """A random model of this width."""
    tokenizer = Tokenizer.train(WORDS, vocab_size=vocab_size)
    size = tokenizer.vocab_size
    torch.manual_seed(seed)
    options = {"d_model": d_model, "num_heads": 3, "d_ff": 31, "source_vocab_size": size, "target_vocab_size": size}
    ModelDirectory(Transformer(TransformerConfig.preset("tiny", **options)), tokenizer, tokenizer).save(path)
    return path


def test_several_models_search_like_one_with_their_mean_probabilities() -> None:
    tables = [chains(seed, sentences=5, positions=7, vocab=11) for seed in (7, 11, 13)]
    mean = torch.stack([table.exp() for table in tables]).mean(0).log()
    options = SearchOptions([7, 3, 5, 7, 1], BOS, 3)
    found = beam_search(EnsembleStepper([Chain(table) for table in tables]), Beams(3, options))
    for group, expected in zip(found, beam_search(Chain(mean), Beams(3, options)), strict=True):
        agree(group, expected)


@pytest.mark.slow
def test_a_model_twice_is_that_model(tmp_path: Path) -> None:
    path = directory(tmp_path / "a", 3)
    options = {"beam_size": 3}
    one = Translator.load(path, device="cpu").translate(TEXTS, **options)
    two = Translator.load(path, device="cpu", ensemble=[path]).translate(TEXTS, **options)
    assert [t.text for t in one] == [t.text for t in two]
    assert [t.score for t in one] == pytest.approx([t.score for t in two], abs=1e-5)


@pytest.mark.slow
def test_models_of_several_sizes_agree_on_the_mean_of_each_tokens_probability(tmp_path: Path) -> None:
    a, b = directory(tmp_path / "a", 3), directory(tmp_path / "b", 5, d_model=36)
    both = Translator.load(a, device="cpu", ensemble=[b])
    pairs = [(text, t.text) for text, t in zip(TEXTS, both.translate(TEXTS, beam_size=2), strict=True)]
    single = [Translator.load(path, device="cpu").score(pairs) for path in (a, b)]
    for together, first, second in zip(both.score(pairs), *single, strict=True):
        probabilities = [torch.tensor(score.token_log_probs).exp() for score in (first, second)]
        mean = (probabilities[0] + probabilities[1]) / 2
        assert together.token_log_probs == pytest.approx(mean.log().tolist(), abs=1e-4)


def test_another_vocabulary_is_refused(tmp_path: Path) -> None:
    a, b = directory(tmp_path / "a", 3), directory(tmp_path / "b", 3, vocab_size=263)
    with pytest.raises(DataError, match=r"b has another vocabulary than .*a, so"):
        Translator.load(a, device="cpu", ensemble=[b])
