"""Word alignments: links from attention, by words, the same in a batch as alone."""

import numpy as np
import pytest
import torch

from dragoman.decoding.alignment import links, pharaoh, words
from dragoman.decoding.batch import BatchWork
from dragoman.decoding.torch_engine import TorchEngine
from dragoman.model import Transformer, TransformerConfig
from dragoman.text.tokenizers.placeholders import SLOTS, Prepared, mask, unmask
from dragoman.text.tokenizers.tokenizer import Tokenizer

TEXTS = ["le chat noir dort", "un  café", "deux\u2028lignes ici", "x", "日本 語"]


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.train(TEXTS, vocab_size=277)


@pytest.fixture(scope="module")
def model(tokenizer: Tokenizer) -> Transformer:
    size = tokenizer.vocab_size
    torch.manual_seed(5)
    options = {"d_model": 30, "num_heads": 3, "d_ff": 31, "source_vocab_size": size, "target_vocab_size": size}
    return Transformer(TransformerConfig.preset("tiny", **options)).eval()


def test_a_word_is_linked_to_the_word_its_tokens_attend_to_most() -> None:
    # Source: word 0 is tokens 0 and 1, word 1 is token 2, then the end. Target: word 0 is token 0, word 1 is 1 and 2.
    weights = np.array(
        [[0.3, 0.3, 0.4, 0.0], [0.5, 0.0, 0.4, 0.1], [0.0, 0.0, 0.6, 0.4], [0.0, 0.0, 0.0, 1.0]], np.float32
    )
    assert links(weights, [[0, 1], [2]], [[0], [1, 2]]) == [(0, 0), (1, 1)]


def test_a_word_that_attends_to_the_end_is_not_linked() -> None:
    weights = np.array([[0.1, 0.2, 0.7], [0.6, 0.1, 0.3], [0.0, 0.0, 1.0]], np.float32)
    assert links(weights, [[0], [1]], [[0], [1]]) == [(0, 1)]
    weights[0] = 0.1, 0.4, 0.5  # less than twice as much
    assert links(weights, [[0], [1]], [[0], [1]]) == [(1, 0), (0, 1)]
    assert links(weights, [], [[0], [1]]) == []
    assert links(weights, [[0], [1]], []) == []


def test_all_that_is_no_word_counts_as_one() -> None:
    # Begin of sentence, a word, two ends: what an imported source tokenizer may put around it.
    weights = np.array([[0.3, 0.2, 0.2, 0.3], [0.1, 0.6, 0.1, 0.2], [0.0, 0.0, 0.0, 1.0]], np.float32)
    assert links(weights, [[1]], [[0], [1]]) == [(0, 1)]


def test_links_as_text() -> None:
    assert pharaoh([(0, 0), (2, 1)]) == "0-0 2-1"
    assert pharaoh([]) == ""


@pytest.mark.parametrize("text", TEXTS)
def test_words_are_what_spaces_separate(tokenizer: Tokenizer, text: str) -> None:
    ids = tokenizer.encode(text)
    spelled = [tokenizer.decode([ids[i] for i in word]).strip() for word in words(tokenizer, ids)]
    assert spelled == text.split()


@torch.no_grad()
def test_a_batch_is_aligned_as_each_pair_alone(model: Transformer, tokenizer: Tokenizer) -> None:
    ids = tokenizer.encode_batch(TEXTS)
    pairs = [(source, target, Prepared("")) for source, target in zip(ids, ids[::-1], strict=True)]
    engine = TorchEngine(model)
    found = BatchWork([engine], tokenizer, tokenizer).align(pairs)
    for links_, (source, target, _), text in zip(found, pairs, TEXTS[::-1], strict=True):
        weights = engine.attention(np.array([[*source, 3]]), np.array([[2, *target]]))
        assert links_ == links(weights[0], words(tokenizer, source), words(tokenizer, target))
        linked = [target_word for _, target_word in links_]
        assert linked == sorted(set(linked))
        assert not linked or linked[-1] < len(text.split())


@pytest.mark.parametrize(
    "text",
    [
        "Hi {name}, welcome now",
        "Click <b>here</b> now.",
        'A <a href="x">link</a> now',
        "{a} {b}{c} d",
        "<2de> word <2de>word",
        "one <br/> two",
        "at 12:30 in NASA, 30km (A380) 12",
    ],
)
@pytest.mark.parametrize("kind", ["bpe", "unigram", "char"])
def test_words_are_those_of_the_text_that_people_see(text: str, kind: str) -> None:
    tokenizer = Tokenizer.train([*TEXTS, text], vocab_size=331, kind=kind, symbols=["<2de>", *SLOTS])
    masked = mask(text, ["<2de>"])
    ids = tokenizer.encode(masked.text)
    texts = [unmask(piece.decode(), masked) for piece in tokenizer.token_bytes(ids)]
    found = words(tokenizer, ids, masked)
    assert len(found) == len(text.split())
    for positions, word in zip(found, text.split(), strict=True):
        assert word in "".join(texts[position] for position in positions)


def test_an_unknown_word_is_a_word() -> None:
    tokenizer = Tokenizer.train(["le chat noir"], vocab_size=9, kind="word")
    ids = tokenizer.encode("le dragon noir")
    assert words(tokenizer, ids) == [[0], [1], [2]]
    assert len(tokenizer.decode(ids).split()) == 3
