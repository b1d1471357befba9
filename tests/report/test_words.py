"""Words of a translation, how probable they are, and what could follow."""

import pytest

from dragoman.errors import DataError
from dragoman.report import likely_next, word_probabilities
from dragoman.text.tokenizers.placeholders import SLOTS
from dragoman.text.tokenizers.tokenizer import Tokenizer
from tests.report.models import SOURCE, TARGET, small_model


@pytest.mark.slow
def test_words_have_the_probabilities_of_an_inspection(model, given):
    words = word_probabilities(model, SOURCE, TARGET)
    assert [word.text for word in words] == TARGET.split()
    assert [TARGET[word.start :].startswith(word.text) for word in words] == [True] * len(words)
    expected = [word["probability"] for word in given.to_dict()["target"]["words"]]
    assert [word.probability for word in words] == pytest.approx(expected[:-1], rel=1e-3)


@pytest.mark.parametrize(
    ("source", "target", "words"),
    [
        ("On 2024-05-06 NASA", "Le 2024-05-06, la NASA.", ["Le", "2024-05-06,", "la", "NASA."]),
        ("On 2024-05-06", "我在 2024-05-06 喜欢。", ["我在", "2024-05-06", "喜欢", "。"]),
        ("two", "  zwei   Wörter ", ["zwei", "Wörter"]),
        ("two", "", []),
    ],
)
def test_words_are_found_in_the_text_whatever_was_copied(source, target, words):
    tokenizer = Tokenizer.train([source, target, SOURCE], vocab_size=331, symbols=SLOTS)
    probabilities = word_probabilities(small_model(tokenizer), source, target)
    assert [word.text for word in probabilities] == words
    assert all(target[word.start :].startswith(word.text) and 0 < word.probability <= 1 for word in probabilities)


@pytest.mark.slow
def test_what_could_follow_are_the_likeliest_pieces(model, given):
    pieces = [given.target.pieces[index] for index in given.target.words[0]]
    continuations = likely_next(model, SOURCE, TARGET.split()[0], 3)
    assert [value for _, value in continuations] == sorted((value for _, value in continuations), reverse=True)
    options = given.alternatives[len(pieces)]
    for text, probability in continuations:
        piece = text.removeprefix(TARGET.split()[0]).replace(" ", "▁")
        if piece in dict(options):
            assert probability == pytest.approx(dict(options)[piece], rel=1e-3)
    assert any(text.removeprefix(TARGET.split()[0]).replace(" ", "▁") in dict(options) for text, _ in continuations)


def test_a_text_that_is_too_long_is_refused(model):
    with pytest.raises(DataError, match="at most 512"):
        word_probabilities(model, "word " * 600, TARGET)
