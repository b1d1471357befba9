"""Pairs that are joined to longer ones in each epoch."""

from pathlib import Path

import numpy as np
import pytest

from dragoman.data.batching import Position, TokenBatches, TokenStore
from dragoman.data.joining import MOST_JOINED, JoinedSentences, JoinedStores, between, refuse_begins
from dragoman.errors import UsageError
from dragoman.text.tokenizers.tokenizer import Tokenizer

COUNT = 600
PAIRS = [([10 + index] * (1 + index % 5), [5_000 + index] * (1 + index % 7)) for index in range(COUNT)]
"""Pairs whose tokens say which pair they are of."""


@pytest.fixture
def stores(tmp_path: Path) -> list[TokenStore]:
    paths = tmp_path / "source", tmp_path / "target"
    TokenStore.write(paths, PAIRS)
    return [TokenStore(path) for path in paths]


def joined(stores: list[TokenStore], *, share: float, seed: int = 1, limit: int = 256) -> JoinedStores:
    return JoinedStores(stores, [[], []], share=share, seed=seed, limit=limit)


def parts_of(ids: np.ndarray, side: int) -> list[int]:
    """The numbers of the pairs whose tokens these are on a side, checked to be whole."""
    rest, numbers = ids.tolist(), []
    while rest:
        numbers.append(rest[0] - (10, 5_000)[side])
        sentence = PAIRS[numbers[-1]][side]
        assert rest[: len(sentence)] == sentence
        rest = rest[len(sentence) :]
    return numbers


def test_both_sides_of_a_pair_are_followed_by_the_same_others(stores: list[TokenStore]) -> None:
    source, target = joined(stores, share=0.4).epoch(3)
    counts = []
    for index in range(COUNT):
        parts = parts_of(source[index], 0)
        assert parts == parts_of(target[index], 1)
        assert parts[0] == index
        assert (len(source[index]), len(target[index])) == (source.lengths[index], target.lengths[index])
        counts.append(len(parts) - 1)
    assert 0.33 < np.mean(np.array(counts) > 0) < 0.47  # more than three standard deviations from 0.4
    assert set(counts) == set(range(MOST_JOINED + 1))


def test_others_follow_in_each_epoch_and_the_seed_decides(stores: list[TokenStore]) -> None:
    def drawn(seed: int, epoch: int) -> list[list[int]]:
        source, _ = joined(stores, share=0.5, seed=seed).epoch(epoch)
        return [source[index].tolist() for index in range(COUNT)]

    assert drawn(1, 0) == drawn(1, 0)
    assert drawn(1, 0) != drawn(1, 1)
    assert drawn(1, 0) != drawn(2, 0)
    source, _ = joined(stores, share=0).epoch(0)
    assert [source[index].tolist() for index in range(COUNT)] == [ids for ids, _ in PAIRS]


def test_no_side_becomes_longer_than_the_limit(stores: list[TokenStore]) -> None:
    source, target = joined(stores, share=1, limit=9).epoch(0)
    assert max(source.lengths.max(), target.lengths.max()) == 9
    assert min(source.lengths.min(), target.lengths.min()) >= 1


def test_batches_hold_every_pair_once_whatever_follows_it(stores: list[TokenStore]) -> None:
    batches = TokenBatches(*joined(stores, share=0.5).sides, max_tokens=90, seed=4)
    for epoch in range(2):
        rows = np.concatenate(batches.plan(epoch))
        assert sorted(rows.tolist()) == list(range(COUNT))
    batch = batches.next(Position(epoch=1))
    assert batch.labels.numel() <= 90


def test_token_ids_of_joined_sentences_are_those_of_their_text(tmp_path: Path) -> None:
    texts = ["Ella tiene estilo.", "¿Cómo terminará?", "20 000 millas", "我喜欢茶。"]
    for kind in ("bpe", "unigram", "word", "char"):
        tokenizer = Tokenizer.train(texts * 3, vocab_size=400, kind=kind)
        path = tmp_path / kind
        TokenStore.write([path], [[tokenizer.encode(text)] for text in texts])
        rows, others = np.array([0, 2, 3]), np.array([[2, 3, 1], [0, -1, -1], [3, 3, -1]])
        sentences = JoinedSentences(TokenStore(path).epoch(0), rows, others, between(tokenizer))
        parts = [[0, 2, 3, 1], [1], [2, 0], [3, 3, 3]]
        wanted = [" ".join(texts[part] for part in row) for row in parts]
        assert [sentences[row].tolist() for row in range(4)] == [tokenizer.encode(text) for text in wanted], kind
        assert sentences.lengths.tolist() == [len(tokenizer.encode(text)) for text in wanted]


def test_sources_that_begin_with_a_language_are_not_joined() -> None:
    tokenizer = Tokenizer.train(["a b c"] * 3, vocab_size=300, kind="bpe")
    refuse_begins(tokenizer)
    with pytest.raises(UsageError, match="one pair of languages"):
        refuse_begins(tokenizer.with_targets(["fr", "de"]))


def test_pairs_with_symbols_stay_alone(stores: list[TokenStore]) -> None:
    in_sources, in_targets = {10 + index for index in range(0, 100)}, {5_000 + index for index in range(300, 400)}
    joining = JoinedStores(stores, [[], []], share=1, seed=1, limit=256, symbols=[in_sources, in_targets])
    source, _ = joining.epoch(0)
    alone = {*range(100), *range(300, 400)}
    parts = [parts_of(source[index], 0) for index in range(COUNT)]
    together = [numbers for numbers in parts if len(numbers) > 1]
    assert all(alone.isdisjoint(numbers) for numbers in together)
    assert len(together) > 0.8 * (COUNT - len(alone))
