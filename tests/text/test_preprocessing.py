"""Sentences that are prepared ahead: once, the same, and a limited number of them."""

import pytest

from dragoman.text import preprocessing
from dragoman.text.preprocessing import Preprocessor, SourceStyle
from dragoman.text.tokenizers.placeholders import SLOTS
from dragoman.text.tokenizers.tokenizer import Tokenizer

SENTENCE = "See %s, or write to a@b.org."


@pytest.fixture
def preprocessor() -> Preprocessor:
    return Preprocessor(SourceStyle(), Tokenizer.train([SENTENCE], vocab_size=300, symbols=SLOTS), ("en", "fr"))


def test_a_sentence_that_was_prepared_ahead_is_the_same_and_given_once(preprocessor: Preprocessor) -> None:
    ahead = preprocessor.ahead(SENTENCE)
    assert preprocessor(SENTENCE, excluded=["%s"]).values == ["a@b.org"]
    assert preprocessor(SENTENCE) is ahead
    again = preprocessor(SENTENCE)
    assert again is not ahead
    assert again == ahead


def test_a_limited_number_of_sentences_is_kept(preprocessor: Preprocessor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preprocessing, "MOST_AHEAD", 3)
    monkeypatch.setattr(preprocessing, "LONGEST_AHEAD", 9)
    ahead = [preprocessor.ahead(text) for text in ("too long a text", "a", "b", "c", "d")]
    kept = [
        preprocessor(text) is prepared
        for text, prepared in zip(("too long a text", "a", "b", "c", "d"), ahead, strict=True)
    ]
    assert kept[0] is False
    assert sum(kept) <= 3
    assert kept[-1]
