"""Attention by words, against the formula and against what must not matter."""

import numpy as np
import pytest

from dragoman.model import Transformer
from dragoman.report import WordAttention, most_reordered, word_attention
from dragoman.report.attention import Axis
from dragoman.storage.model_directory import ModelDirectory
from dragoman.text.tokenizers.placeholders import SLOTS
from dragoman.text.tokenizers.tokenizer import BOS_ID, EOS_ID, PAD_ID, Tokenizer
from tests.report.runs import attention_of, words
from tests.small import small_model


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    # Longer words than these are in several pieces.
    return Tokenizer.train(["the black cat sleeps here", "le chat noir dort ici"], vocab_size=331)


@pytest.fixture(scope="module")
def model(tokenizer) -> Transformer:
    return small_model(tokenizer.vocab_size, d_model=26, d_ff=17, num_heads=2, num_decoder_layers=3, dropout=0.5)


def attention(model: Transformer, tokenizer: Tokenizer, source: str, target: str) -> WordAttention:
    return word_attention(ModelDirectory(model, tokenizer, tokenizer), source, target)


def test_word_attention_sums_source_pieces_and_averages_target_pieces(model, tokenizer):
    source, target = "the unbelievably black cat", "le chat incroyablement noir"
    source_ids = [*tokenizer.encode(source), EOS_ID]
    target_ids = [*tokenizer.encode(target), EOS_ID]
    assert len(source_ids) > 5  # at least one word is in several pieces
    assert len(target_ids) > 5
    kept = {}
    layer = model.decoder.layers[1].cross_attention
    hooks = [
        module.register_forward_hook(lambda _, given, out, name=name: kept.update({name: out}))
        for name, module in (("query", layer.query), ("key", layer.key))
    ]
    result = attention(model, tokenizer, source, target)
    for hook in hooks:
        hook.remove()
    queries, keys = (kept[name][0].unflatten(-1, (2, 13)).transpose(0, 1) for name in kept)
    pieces = (queries @ keys.mT / 13**0.5).softmax(-1).mean(0)
    source_words, target_words = (Axis.of(tokenizer, ids).words for ids in (source_ids, target_ids))
    expected = [[sum(pieces[i, j].item() for j in a for i in b) / len(b) for a in source_words] for b in target_words]
    np.testing.assert_allclose(result.layers[1], expected, atol=1e-6)
    assert result.source_words == ["the", "unbelievably", "black", "cat", "</s>"]
    assert result.target_words == ["le", "chat", "incroyablement", "noir", "</s>"]
    assert len(result.layers) == 3


def test_a_row_is_of_the_position_that_predicts_its_word(model, tokenizer):
    first = attention(model, tokenizer, "the cat", "le chat noir")
    second = attention(model, tokenizer, "the cat", "le chat ici")
    # What comes last is seen only by the position that predicts the end of sentence.
    for weights, other_weights in zip(first.layers, second.layers, strict=True):
        np.testing.assert_allclose(weights[:-1], other_weights[:-1], atol=1e-6)
        assert np.abs(weights[-1] - other_weights[-1]).max() > 1e-4


def test_recording_leaves_the_model_as_it_was(model, tokenizer):
    model.train()
    first = attention(model, tokenizer, "the cat", "le chat")
    second = attention(model, tokenizer, "the cat", "le chat")
    assert model.training
    np.testing.assert_array_equal(first.layers[0], second.layers[0])


def test_a_script_without_spaces_is_shown_character_by_character(model, tokenizer):
    source = "the cat 我们喜欢猫。"
    assert len(tokenizer.encode(source)) > 3 * 6  # a piece is a byte here
    result = attention(model, tokenizer, source, "the black cat sleeps")
    assert result.source_words == ["the", "cat", *"我们喜欢猫。", "</s>"]
    assert result.target_words == ["the", "black", "cat", "sleeps", "</s>"]


def test_a_long_word_stays_one_word(model, tokenizer):
    assert len(tokenizer.encode("Donaudampfschiff")) > 8
    assert attention(model, tokenizer, "Donaudampfschiff", "le chat").source_words == [
        "Donaudampfschiff",
        "</s>",
    ]


def test_bytes_that_form_no_character_keep_their_pieces(model, tokenizer):
    ids = tokenizer.encode("猫")[:-1]  # what a model may write
    axis = Axis.of(tokenizer, [*ids, EOS_ID])
    assert axis.labels == ["".join(tokenizer.pieces(ids)), "</s>"]


def test_a_control_character_has_a_legible_label(model, tokenizer):
    result = attention(model, tokenizer, "the black \x07 cat", "le chat")
    assert result.source_words == ["the", "black", "▁<U+0007>", "cat", "</s>"]


def test_a_placeholder_is_one_column(model):
    slotted = Tokenizer.train(["a"], vocab_size=269, symbols=SLOTS)
    assert slotted.vocab_size <= model.config.source_vocab_size
    result = attention(model, slotted, "a {name} a", "{name} a")
    assert result.source_words == ["a", "<ph1>", "a", "</s>"]
    assert result.target_words == ["<ph1>", "a", "</s>"]


def test_every_token_is_of_one_word(tokenizer):
    ids = [BOS_ID, *tokenizer.encode(" the  black\n cat "), EOS_ID, PAD_ID]
    axis = Axis.of(tokenizer, ids)
    assert [index for word in axis.words for index in word] == list(range(len(ids)))
    assert axis.labels == ["<s>", "the", "black", "cat", "▁", "</s>", "<pad>"]


def test_a_layer_that_always_looks_at_the_end_is_not_the_clearest():
    sink, vague = attention_of([4] * 5), attention_of([0, 2, 1, 3, 4], sure=0.4)
    clear = attention_of([0, 2, 1, 3, 4], sure=0.8)
    attention = WordAttention(words(5), words(5), [sink, vague, clear])
    assert attention.clearest_layer() == 2


def test_the_example_is_the_sentence_whose_words_change_places():
    straight = WordAttention(words(5), words(5), [attention_of([0, 1, 2, 3, 4])])
    swapped = WordAttention(words(5), words(5), [attention_of([0, 2, 1, 3, 4], sure=0.8)])
    unsure = WordAttention(words(5), words(5), [attention_of([0, 2, 1, 3, 4], sure=0.3)])
    too_wide = WordAttention(words(29), words(29), [attention_of([*range(28, -1, -1)])])
    assert straight.reordering() == 0
    assert swapped.reordering() == pytest.approx(0.8 / 5)
    assert most_reordered([straight, unsure, swapped, too_wide]) is swapped
    assert most_reordered([]) is None


def test_a_translation_that_fills_all_positions_is_read_as_far_as_they_go(tokenizer):
    model = small_model(tokenizer.vocab_size, positions="learned", max_positions=5)
    result = attention(model, tokenizer, "the cat " * 9, "le chat " * 9)
    assert result.source_words[-1] == result.target_words[-1] == "</s>"
    assert len(result.target_words) <= 5
