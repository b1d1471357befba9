"""Minimum Bayes risk: the translation that is most like all others, by chrF."""

import numpy as np
import pytest
from sacrebleu.metrics import CHRF

from dragoman.config.decoding import DecodingConfig
from dragoman.decoding.consensus import agreement, likeness
from dragoman.decoding.translator import Translator
from dragoman.errors import UsageError
from dragoman.text.tokenizers.tokenizer import Tokenizer
from tests.small import small_directory

TEXTS = [
    "The red house is old.", "The red house was old.", "A red house is very old indeed.", "the", "", "Ein Haus",
    "我喜欢茶。", "我很喜欢喝茶。",
]  # fmt: skip


def test_likeness_is_the_chrf_of_sacrebleu() -> None:
    metric = CHRF(word_order=0)
    computed = likeness(TEXTS)
    for row, hypothesis in enumerate(TEXTS):
        for column, reference in enumerate(TEXTS):
            expected = metric.sentence_score(hypothesis, [reference]).score / 100
            assert computed[row, column] == pytest.approx(expected, abs=1e-6), (hypothesis, reference)


def test_agreement_counts_each_text_as_often_as_it_occurs() -> None:
    texts = [TEXTS[0], TEXTS[1], TEXTS[1], TEXTS[5]]
    table = likeness(texts)
    assert agreement(texts) == pytest.approx(table.mean(axis=1))
    assert agreement(texts).argmax() == 1
    assert agreement(["one"]) == pytest.approx([1.0])


@pytest.fixture(scope="module")
def translator() -> Translator:
    sentences = ["the red house is old", "a new car is not red", "la casa roja es vieja"]
    return Translator(small_directory(Tokenizer.train(sentences * 3, vocab_size=310, kind="bpe")))


def test_the_chosen_translation_agrees_most_with_beams_and_drawn_ones(translator: Translator) -> None:
    texts = ["the red house is old", "a new car"]
    config = DecodingConfig(mbr=6, beam_size=3, n_best=3)
    chosen = translator.translate(texts, config)
    assert chosen == translator.translate(texts, config)
    beams = translator.translate(texts, beam_size=3, n_best=3)
    drawn = translator.translate(texts, sample=True, temperature=0.7, n_best=6)
    for best, beam, more in zip(chosen, beams, drawn, strict=True):
        together = [beam.text, *(other.text for other in beam.alternatives)]
        together += [more.text, *(other.text for other in more.alternatives)]
        scores = dict(zip(together, agreement(together), strict=True))
        ranked = [best.text, *(other.text for other in best.alternatives)]
        assert len(set(ranked)) == 3
        assert scores[best.text] == pytest.approx(max(scores.values()))
        assert [scores[text] for text in ranked] == sorted((scores[text] for text in ranked), reverse=True)


def test_a_sentence_is_chosen_alike_alone_and_among_others(translator: Translator) -> None:
    config = DecodingConfig(mbr=4, beam_size=2)
    texts = ["the red house is old", "a new car", "the car is new and not red"]
    together = [translation.text for translation in translator.translate(texts, config)]
    assert together == [translator.translate([text], config)[0].text for text in texts]


def test_it_draws_by_itself() -> None:
    for other in ({"sample": True}, {"diversity": 0.5, "n_best": 5}):
        with pytest.raises(UsageError, match="leave out `sample` and `diversity`"):
            DecodingConfig.validate({"mbr": 4, **other})


def test_empty_lists_of_n_grams_make_no_division_by_zero() -> None:
    with np.errstate(all="raise"):
        assert likeness(["", "a"]).tolist() == [[0, 0], [0, 1]]
