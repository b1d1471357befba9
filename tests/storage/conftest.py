"""Tokenizers that all tests of model directories share."""

import pytest

from dragoman.text.tokenizers.tokenizer import Tokenizer


@pytest.fixture(scope="module")
def tokenizers() -> tuple[Tokenizer, Tokenizer]:
    """Source and target tokenizer, with 263 and 269 entries."""
    texts = ["The cat and the dog sleep.", "Le chat et le chien dorment."]
    source, target = (Tokenizer.train(texts, vocab_size=size) for size in (263, 269))
    assert (source.vocab_size, target.vocab_size) == (263, 269)
    return source, target
