"""Subword sampling: the right distribution, the same text, the same bits from (seed, epoch), bounded lengths."""

import math
from collections import Counter
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch

from dragoman.config.data import TokenizerConfig
from dragoman.config.run import RunConfig, load_config
from dragoman.config.settings import parse_settings
from dragoman.data.batching import Position, TokenBatches, TokenStore
from dragoman.data.bitext import Bitext
from dragoman.data.builtin.grammar import generate
from dragoman.data.encoded_block import EncodedBlock, EncodedSide, Ragged
from dragoman.data.preparation import PreparedData, prepare
from dragoman.data.subword_regularization import (
    VARIANTS,
    BpeDropout,
    SampledStore,
    TokensOfWords,
    Words,
    segmenter,
    training_stores,
    word_numbers,
)
from dragoman.text.tokenizers.tokenizer import Tokenizer

TEXTS = [
    "The small dog sees the black cat <2de> and smaller dogs see the smallest cats.",
    "Le petit chien voit le chat noir, les chiens voient les chats noirs!",
    "été हिन्दी हिन्दी  two  spaces\tand 12345 <2de>",
    "",
] * 5
PAIRS = list(generate(601))
VOCAB = {"a": 5, "b": 7, "c": 11, "ab": 13, "bc": 17, "abc": 19, "bcb": 23, "ca": 29}
MERGES = [("a", "b"), ("b", "c"), ("ab", "c"), ("bc", "b"), ("c", "a")]
KINDS = {"bpe": {"dropout": 0.3}, "unigram": {"sampling_alpha": 0.3}}


def merged_with_dropout(tokens: tuple[str, ...], dropout: float) -> dict[tuple[str, ...], float]:
    """The distribution of algorithm 1 of Provilkov et al. 2020: a step drops each merge with a chance, then merges."""
    merges = [(MERGES.index(pair), i) for i, pair in enumerate(pairwise(tokens)) if pair in MERGES]
    results: Counter[tuple[str, ...]] = Counter({tokens: dropout ** len(merges)})
    for dropped, (_, i) in enumerate(sorted(merges)):
        after = (*tokens[:i], tokens[i] + tokens[i + 1], *tokens[i + 2 :])
        for result, chance in merged_with_dropout(after, dropout).items():
            results[result] += dropout**dropped * (1 - dropout) * chance
    return results


@pytest.mark.parametrize("dropout", [0.1, 0.6])
def test_bpe_dropout_has_the_distribution_of_the_paper(dropout: float) -> None:
    copies = 20_011
    segmented = BpeDropout(VOCAB, MERGES, dropout)(["ab", "abcabcb"], np.array([1, copies]), np.random.default_rng(3))
    names = {id_: token for token, id_ in VOCAB.items()}
    drawn = Counter(tuple(names[id_] for id_ in row if id_ >= 0) for row in segmented[1:].tolist())
    expected = merged_with_dropout(tuple("abcabcb"), dropout)
    assert sum(expected.values()) == pytest.approx(1)
    assert drawn.keys() <= expected.keys()
    for tokens, share in expected.items():
        # Five standard deviations, and one more for what is expected less than once.
        assert abs(drawn[tokens] - copies * share) < 5 * math.sqrt(copies * share * (1 - share)) + 1


def trained(kind: str) -> Tokenizer:
    return Tokenizer.train(TEXTS, vocab_size=331, kind=kind, symbols=["<2de>"])


def words_of(tokenizer: Tokenizer) -> dict[str, tuple[int, ...]]:
    """The words of the texts as the vocabulary spells them, with their tokens, less the symbol."""
    words: dict[tuple[int, ...], int] = {}
    for text in tokenizer.words(TEXTS):
        word_numbers(text, words)
    return {tokenizer.spelling(word): word for word in words if tokenizer.spelling(word)}


def test_bpe_without_dropout_segments_as_the_tokenizer_does() -> None:
    tokenizer = trained("bpe")
    words = words_of(tokenizer)
    assert "Ġsmallest" in words
    segmented = segmenter(tokenizer, TokenizerConfig())(list(words), np.ones(len(words), int), np.random.default_rng(1))
    assert [tuple(id_ for id_ in row if id_ >= 0) for row in segmented.tolist()] == list(words.values())


def test_unigram_with_a_large_alpha_segments_as_the_tokenizer_does() -> None:
    tokenizer = trained("unigram")
    words = words_of(tokenizer)
    config = TokenizerConfig(kind="unigram", sampling_alpha=300)
    segmented = segmenter(tokenizer, config)(list(words), np.ones(len(words), int), np.random.default_rng(1))
    sampled = [tuple(id_ for id_ in row if id_ >= 0) for row in segmented.tolist()]
    # All but ties: other segmentations are no likelier.
    model = segmenter(tokenizer, TokenizerConfig(kind="unigram", sampling_alpha=1)).log_probs
    assert [model[list(tokens)].sum() for tokens in sampled] == pytest.approx(
        [model[list(tokens)].sum() for tokens in words.values()]
    )


def write_numbered(paths: list[Path], texts: list[TokensOfWords]) -> None:
    """The files of two stores of the same texts, joined of blocks of five texts."""
    words, sentences = Words(paths), []
    for start in range(0, len(texts), 5):
        known: dict[tuple[int, ...], int] = {}
        numbers = Ragged.of([word_numbers(text, known) for text in texts[start : start + 5]])
        side = EncodedSide(numbers, Ragged.of(list(known)))
        source, target = (renumbered.sentences for renumbered in words.renumbered(EncodedBlock([side] * 2, 0)).sides)
        assert np.array_equal(source.values, target.values)
        sentences += np.split(source.values, np.cumsum(source.lengths)[:-1])
    TokenStore.write(paths, ((sentence, sentence) for sentence in sentences))
    words.write()


def stores(folder: Path, tokenizer: Tokenizer, *, limit: int = 256, seed: int = 1, **sampling: float) -> SampledStore:
    paths = [folder / "source", folder / "target"]
    write_numbered(paths, tokenizer.words(TEXTS))
    config = TokenizerConfig(kind=tokenizer.kind, **(sampling or KINDS[tokenizer.kind]))
    return SampledStore(paths[1], tokenizer, segmenter(tokenizer, config), seed=(seed, 1), limit=limit)


@pytest.mark.parametrize("kind", KINDS)
def test_whatever_is_drawn_decodes_to_the_text(tmp_path: Path, kind: str) -> None:
    tokenizer = trained(kind)
    store, plain = stores(tmp_path, tokenizer), tokenizer.encode_batch(TEXTS)
    epochs = [[epoch[i].tolist() for i in range(len(store))] for epoch in map(store.epoch, range(5))]
    for sentences in epochs:
        assert tokenizer.decode_batch(sentences) == TEXTS
    assert epochs[0] != epochs[1]
    # Symbols are never split, empty texts stay empty, and equal texts are segmented differently in one epoch.
    (symbol,) = tokenizer.encode("<2de>")
    assert all(sentences[0].count(symbol) == 1 for sentences in epochs)
    assert epochs[0][3] == []
    assert len({tuple(sentence) for sentence in epochs[0][::4]}) > 1
    assert epochs[0] != plain


@pytest.mark.parametrize("kind", KINDS)
def test_draws_follow_from_seed_and_epoch_alone(tmp_path: Path, kind: str) -> None:
    tokenizer = trained(kind)

    def bits(seed: int, *epochs: int) -> list[list[int]]:
        store = stores(tmp_path, tokenizer, seed=seed)
        *_, last = [store.epoch(epoch) for epoch in epochs]
        return [last[i].tolist() for i in range(len(last))]

    assert bits(1, 0, 1, 3) == bits(1, 3) != bits(1, 4)
    assert bits(2, 3) != bits(1, 3)


def test_lengths_are_those_of_the_sentences_and_none_reaches_the_limit(tmp_path: Path) -> None:
    tokenizer = trained("bpe")
    plain = [len(ids) for ids in tokenizer.encode_batch(TEXTS)]
    limit = max(plain) + 1
    store = stores(tmp_path, tokenizer, limit=limit, dropout=0.5)
    assert len(store) == len(TEXTS)
    longer = 0
    for epoch in map(store.epoch, range(3)):
        assert epoch.lengths.tolist() == [len(epoch[i]) for i in range(len(epoch))]
        assert epoch.lengths.max() < limit
        longer += int((epoch.lengths > plain).sum())
    assert longer > 0


def test_long_corpora_are_measured_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer = trained("bpe")
    whole = stores(tmp_path, tokenizer).epoch(2)
    monkeypatch.setattr("dragoman.data.subword_regularization._CHUNK", 3)
    parts = stores(tmp_path, tokenizer).epoch(2)
    assert parts.lengths.tolist() == whole.lengths.tolist()
    assert [parts[i].tolist() for i in range(len(parts))] == [whole[i].tolist() for i in range(len(whole))]


def test_occurrences_of_a_word_draw_its_segmentations_evenly(tmp_path: Path) -> None:
    """Each segmentation of a word that occurs 4,001 times is drawn by about a sixteenth of its occurrences."""
    tokenizer = trained("bpe")
    paths = [tmp_path / "a", tmp_path / "b"]
    write_numbered(paths, tokenizer.words(["smallest"] * 4001))
    calls = []

    def numbered(words: list[str], copies: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        calls.append((words, copies.tolist()))
        return np.arange(VARIANTS)[:, None]

    epoch = SampledStore(paths[0], tokenizer, numbered, seed=(1,), limit=256).epoch(0)
    drawn = Counter(int(epoch[i][0]) for i in range(len(epoch)))
    assert calls == [(["Ġsmallest"], [VARIANTS])]
    # Five standard deviations around 250 are 77.
    assert all(abs(drawn[variant] - 4001 / VARIANTS) < 77 for variant in range(VARIANTS))


def batches(store: SampledStore) -> TokenBatches:
    return TokenBatches(store, store, max_tokens=97, seed=1)


def test_batches_keep_their_budget_and_resume_with_the_same_bits(tmp_path: Path) -> None:
    tokenizer = trained("bpe")
    first, position = batches(stores(tmp_path, tokenizer, dropout=0.5)), Position()
    for _ in range(len(first.plan(0)) + 3):
        batch = first.next(position)
        assert batch.labels.numel() <= 97
    assert position.epoch == 1
    expected = stores(tmp_path, tokenizer, dropout=0.5).epoch(1)
    assert [first.source[i].tolist() for i in range(len(TEXTS))] == [expected[i].tolist() for i in range(len(TEXTS))]
    second = batches(stores(tmp_path, tokenizer, dropout=0.5))
    again = Position(position.epoch, position.batch - 1)
    assert torch.equal(second.next(again).source_ids, batch.source_ids)


def test_the_two_sides_are_drawn_apart(tmp_path: Path) -> None:
    tokenizer = trained("bpe")
    paths = [tmp_path / "train-source", tmp_path / "train-target"]
    write_numbered(paths, tokenizer.words(TEXTS))
    config = load_config({}, parse_settings(["tokenizer.dropout=0.4"]))
    source, target = (store.epoch(0) for store in training_stores(tmp_path, (tokenizer, tokenizer), config))
    assert source[0].tolist() != target[0].tolist()
    assert tokenizer.decode_batch([source[0].tolist(), target[0].tolist()]) == TEXTS[:1] * 2


def prepared(folder: Path, *settings: str) -> tuple[PreparedData, RunConfig]:
    config = load_config(
        {}, parse_settings(["tokenizer.vocab_size=401", "data.held_out=23", "training.max_tokens=512", *settings])
    )
    folder.mkdir()
    prepare(Bitext(lambda: PAIRS, name="grammar").cleaned(), config, folder)
    return PreparedData.open(folder, config), config


def test_validation_and_a_run_without_dropout_are_not_sampled(tmp_path: Path) -> None:
    sampled, _ = prepared(tmp_path / "sampled", "tokenizer.dropout=0.2")
    plain, _ = prepared(tmp_path / "plain", "tokenizer.dropout=0")
    assert isinstance(plain.train.source, TokenStore)
    for name in ("valid-source.ids", "valid-target.ids", "source_tokenizer.json", "valid.json"):
        assert (tmp_path / "sampled" / name).read_bytes() == (tmp_path / "plain" / name).read_bytes()
    assert "train-source-words.ids" not in {path.name for path in (tmp_path / "plain").iterdir()}
    tokenizer = plain.source_tokenizer
    sampled.train.plan(0)
    rows = range(len(plain.train.source))
    texts = [
        tokenizer.decode_batch([side[i].tolist() for i in rows]) for side in (plain.train.source, plain.train.target)
    ]
    drawn = [[side[i].tolist() for i in rows] for side in (sampled.train.source, sampled.train.target)]
    assert [tokenizer.decode_batch(side) for side in drawn] == texts
    assert drawn[0] != tokenizer.encode_batch(texts[0])
    assert sampled.train.source.lengths.sum() > plain.train.source.lengths.sum()
