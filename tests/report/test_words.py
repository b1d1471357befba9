"""Words of a translation, how probable they are, and what could follow."""

import pytest

from dragoman.errors import DataError
from dragoman.report import likely_next, word_probabilities
from dragoman.text.tokenizers.placeholders import SLOTS
from dragoman.text.tokenizers.tokenizer import Tokenizer
from tests.report.models import SOURCE, TARGET, small_model


def test_words_have_the_probabilities_of_an_inspection(model, given):
    found = word_probabilities(model, SOURCE, TARGET)
    assert [each.text for each in found] == TARGET.split()
    assert [TARGET[each.start :].startswith(each.text) for each in found] == [True] * len(found)
    expected = [word["probability"] for word in given.to_dict()["target"]["words"]]
    assert [each.probability for each in found] == pytest.approx(expected[:-1], rel=1e-3)


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
    found = word_probabilities(small_model(tokenizer), source, target)
    assert [each.text for each in found] == words
    assert all(target[each.start :].startswith(each.text) and 0 < each.probability <= 1 for each in found)


def test_what_could_follow_are_the_likeliest_pieces(model, given):
    pieces = [given.target.pieces[index] for index in given.target.words[0]]
    found = likely_next(model, SOURCE, TARGET.split()[0], 3)
    assert [value for _, value in found] == sorted((value for _, value in found), reverse=True)
    options = given.alternatives[len(pieces)]
    for text, probability in found:
        piece = text.removeprefix(TARGET.split()[0]).replace(" ", "▁")
        if piece in dict(options):
            assert probability == pytest.approx(dict(options)[piece], rel=1e-3)
    assert any(text.removeprefix(TARGET.split()[0]).replace(" ", "▁") in dict(options) for text, _ in found)


def test_a_text_that_is_too_long_is_refused(model):
    with pytest.raises(DataError, match="at most 512"):
        word_probabilities(model, "word " * 600, TARGET)
