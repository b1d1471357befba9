"""Sources with typos, others in each epoch."""

from pathlib import Path

import numpy as np
import pytest

from dragoman.data import misspelling
from dragoman.data.batching import TokenStore
from dragoman.data.misspelling import MisspelledStore
from dragoman.text.labels import label
from dragoman.text.tokenizers.placeholders import SLOTS
from dragoman.text.tokenizers.tokenizer import Tokenizer

COLOURS, THINGS = ("yellow", "purple"), ("chair", "table")
TEXTS = [f"the {colour} {thing} stands behind the house" for colour in COLOURS for thing in THINGS] * 100


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.train(TEXTS, vocab_size=300, symbols=SLOTS)


def stored(path: Path, tokenizer: Tokenizer, texts: list[str]) -> TokenStore:
    TokenStore.write([path], ([ids] for ids in tokenizer.encode_batch(texts)))
    return TokenStore(path)


def test_a_share_of_the_sentences_has_typos_others_in_each_epoch(tmp_path: Path, tokenizer: Tokenizer) -> None:
    store = stored(tmp_path / "store", tokenizer, TEXTS)
    misspelled = MisspelledStore(store, tokenizer, share=0.3, seed=5, limit=100)
    epochs = [misspelled.epoch(number) for number in (0, 0, 1)]
    texts = [tokenizer.decode_batch([epoch[row].tolist() for row in range(len(store))]) for epoch in epochs]
    assert texts[0] == texts[1] != texts[2]
    differing = {row for row, (text, plain) in enumerate(zip(texts[0], TEXTS, strict=True)) if text != plain}
    assert 0.22 < len(differing) / len(TEXTS) < 0.38  # more than three standard deviations from 0.3
    assert set(epochs[0].changed) == differing
    for row in differing:
        words = zip(texts[0][row].split(), TEXTS[row].split(), strict=True)
        assert sum(word != plain for word, plain in words) == 1
    assert [len(epochs[0][row]) for row in range(len(store))] == epochs[0].lengths.tolist()
    assert np.array_equal(store.lengths, TokenStore(tmp_path / "store").lengths)


def test_slots_and_labels_stay_and_no_sentence_becomes_too_long(tmp_path: Path, tokenizer: Tokenizer) -> None:
    multilingual = tokenizer.with_targets(["fr"])
    texts = [label("en", "fr") + TEXTS[0], f"yellow {SLOTS[0]} table"] * 20
    store = stored(tmp_path / "store", multilingual, texts)
    epoch = MisspelledStore(store, multilingual, share=1, seed=1, limit=100).epoch(0)
    assert set(epoch.changed) == set(range(40))
    (slot,) = multilingual.encode(SLOTS[0])
    for row in range(0, 40, 2):
        assert epoch[row][0] == store[row][0]
        assert epoch[row + 1].tolist().count(slot) == 1
    limit = int(store.lengths.max())
    assert not set(MisspelledStore(store, multilingual, share=1, seed=1, limit=limit).epoch(0).changed) & {0, 2, 4}


def test_symbols_of_the_user_are_never_misspelled(tmp_path: Path) -> None:
    named = Tokenizer.train(TEXTS, vocab_size=300, symbols=["[NAME]", *SLOTS])
    texts = ["[NAME] stands behind the house", "somebody stands behind the house"] * 9
    store = stored(tmp_path / "store", named, texts)
    assert set(MisspelledStore(store, named, share=1, seed=1, limit=100).epoch(0).changed) == set(range(1, 18, 2))


def test_a_vocabulary_of_words_gets_no_unknown_ones(tmp_path: Path) -> None:
    words = Tokenizer.train(TEXTS, vocab_size=300, kind="word")
    store = stored(tmp_path / "store", words, ["the yellow sofa stands", "the yellow chair stands"])
    assert not MisspelledStore(store, words, share=1, seed=1, limit=100).epoch(0).changed


def test_blocks_give_what_all_give_at_once(tmp_path: Path, tokenizer: Tokenizer, monkeypatch) -> None:
    store = stored(tmp_path / "store", tokenizer, TEXTS)
    misspelled = MisspelledStore(store, tokenizer, share=0.3, seed=5, limit=100)
    whole = misspelled.epoch(2).changed
    monkeypatch.setattr(misspelling, "AT_ONCE", 7)
    in_blocks = misspelled.epoch(2).changed
    assert {row: ids.tolist() for row, ids in in_blocks.items()} == {row: ids.tolist() for row, ids in whole.items()}
