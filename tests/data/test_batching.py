"""Batches: the budgets hold, nothing is lost or seen twice, and the order can be resumed."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from dragoman.data.batching import Batch, Position, Sentences, TokenBatches, TokenStore
from dragoman.text.tokenizers.algorithms import SpecialIds

EOS = 3
Pair = tuple[list[int], list[int]]


def store(folder: Path, pairs: Iterable[Pair]) -> tuple[TokenStore, TokenStore]:
    paths = folder / "source", folder / "target"
    TokenStore.write(paths, pairs)
    return TokenStore(paths[0]), TokenStore(paths[1])


def batches_of(folder: Path, pairs: list[Pair], *, max_tokens: int, seed: int = 1) -> TokenBatches:
    stores = store(folder, pairs)
    return TokenBatches(*stores, max_tokens=max_tokens, seed=seed)


def numbered_pairs(count: int, *, longest: int = 31, seed: int = 67) -> list[Pair]:
    """Pairs of random lengths, each with ids of its own: 10 + i in the source, 10 + count + i."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(0, longest, (count, 2))
    return [([10 + i] * int(s), [10 + count + i] * int(t)) for i, (s, t) in enumerate(lengths)]


def natural_pairs(count: int, *, median: float, spread: float, noise: float) -> list[Pair]:
    """Log-normal source lengths, and targets longer or shorter by a log-normal factor."""
    rng = np.random.default_rng(71)
    source = median * np.exp(rng.normal(0, spread, count))
    target = source * np.exp(rng.normal(0.05, noise, count))
    sides = (side.round().clip(1, 250).astype(int).tolist() for side in (source, target))
    return [([5] * s, [7] * t) for s, t in zip(*sides, strict=True)]


@pytest.fixture(scope="module")
def natural(tmp_path_factory: pytest.TempPathFactory) -> TokenBatches:
    pairs = natural_pairs(20_000, median=20, spread=0.55, noise=0.2)
    return batches_of(tmp_path_factory.mktemp("natural"), pairs, max_tokens=4096)


def epoch(batches: TokenBatches, number: int = 0) -> list[Batch]:
    position = Position(epoch=number)
    return [batches.next(position) for _ in batches.plan(number)]


def same(first: Batch, second: Batch) -> bool:
    return all(
        torch.equal(getattr(first, name), getattr(second, name)) for name in ("source_ids", "target_ids", "labels")
    )


def content(batches: Iterable[Batch]) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """What the rows hold without special ids, sorted."""
    return sorted(
        tuple(tuple(i for i in row if i > EOS) for row in sides)
        for batch in batches
        for sides in zip(batch.source_ids.tolist(), batch.labels.tolist(), strict=True)
    )


def test_a_store_returns_what_was_written_empty_sentences_too(tmp_path: Path):
    pairs = [([], [5]), ([4, 7, 4_000_000_000], []), ([], []), ([9], [1, 2, 3])]
    source, target = store(tmp_path, iter(pairs))
    assert len(source) == len(target) == 4
    for i, (source_ids, target_ids) in enumerate(pairs):
        assert source[i].tolist() == source_ids
        assert target[i].tolist() == target_ids
    assert source.lengths.tolist() == [0, 3, 0, 1]
    with pytest.raises(IndexError):
        source[4]


@pytest.mark.parametrize("pairs", [[], [([], []), ([], [])]], ids=["no sentence", "empty sentences"])
def test_a_store_without_tokens_can_be_read(tmp_path: Path, pairs: list[Pair]):
    source, _ = store(tmp_path, pairs)
    assert len(source) == len(pairs)
    assert source.lengths.tolist() == [0] * len(pairs)
    assert all(source[i].tolist() == [] for i in range(len(pairs)))
    assert (source.ids.dtype, len(source.ids)) == (np.uint32, 0)


def test_a_row_without_a_sentence_for_each_store_is_refused(tmp_path: Path):
    with pytest.raises(ValueError, match="zip"):
        store(tmp_path, [([1], [2]), ([3],)])


def test_a_store_holds_more_than_is_written_at_once(tmp_path: Path):
    pairs = [([i] * 700, [i] * 3) for i in range(3001)]
    source, target = store(tmp_path, iter(pairs))
    assert source.lengths.sum() == 3001 * 700
    for i in (0, 1, 1427, 1428, 1429, 2857, 2858, 3000):
        assert source[i].tolist() == [i] * 700
        assert target[i].tolist() == [i] * 3


def test_collating_frames_rows_and_fills_them_up(tmp_path: Path):
    batches = batches_of(tmp_path, [([5, 6], [7]), ([], [8, 9, 4]), ([4], [])], max_tokens=64)
    batch = batches.collate(np.array([1, 0, 2]))
    assert batch.source_ids.tolist() == [[3, 0, 0], [5, 6, 3], [4, 3, 0]]
    assert batch.target_ids.tolist() == [[2, 8, 9, 4], [2, 7, 3, 0], [2, 3, 0, 0]]
    assert batch.labels.tolist() == [[8, 9, 4, 3], [7, 3, 0, 0], [3, 0, 0, 0]]
    assert batch.source_ids.dtype == torch.int64


def within_budgets(batches: TokenBatches, plan: Iterable[Batch]) -> bool:
    return all(
        batch.labels.numel() <= batches.max_tokens and batch.source_ids.numel() <= 2 * batches.max_tokens
        for batch in plan
    )


@pytest.mark.first_is_quick
@pytest.mark.parametrize("max_tokens", [31, 101, 997])
def test_neither_budget_is_exceeded(tmp_path: Path, max_tokens: int):
    batches = batches_of(tmp_path, numbered_pairs(499), max_tokens=max_tokens)
    for number in range(3):
        assert within_budgets(batches, epoch(batches, number))
    assert within_budgets(batches, batches.in_order())


def test_long_sources_with_short_targets_count(tmp_path: Path):
    pairs = [([5] * (1 + 40 * (i % 2)), [7] * 2) for i in range(101)]
    batches = batches_of(tmp_path, pairs, max_tokens=97)
    assert within_budgets(batches, epoch(batches))
    # Sources of 42 tokens: 4 fit into 2 * 97, though 32 of their targets would into 97.
    assert max(len(b.labels) for b in epoch(batches) if b.source_ids.size(1) == 42) == 4


@pytest.mark.parametrize(("source", "target"), [(1, 4), (9, 1)])
def test_a_budget_is_used_to_its_last_token(tmp_path: Path, source: int, target: int):
    """With their ends, 4 targets of 5 tokens are 20, and so are half of 4 sources of 10."""
    batches = batches_of(tmp_path, [([5] * source, [7] * target)] * 40, max_tokens=20)
    assert {len(batch.labels) for batch in epoch(batches)} == {4}


def test_a_pair_alone_is_an_epoch_and_no_pair_is_none(tmp_path: Path):
    batches = batches_of(tmp_path, [([5], [7])], max_tokens=20)
    assert content(epoch(batches)) == [((5,), (7,))]
    with pytest.raises(AssertionError):
        batches_of(tmp_path, [], max_tokens=20)


class Changing:
    """A sentence whose only token tells the epoch."""

    def __len__(self) -> int:
        return 1

    def epoch(self, number: int) -> Sentences:
        return Sentences(np.array([10 + number]), np.array([1]))


def test_validation_reads_the_sentences_of_the_first_epoch_between_special_tokens_of_others():
    special = SpecialIds(pad=1, bos=0, eos=2, unk=3)
    batches = TokenBatches(Changing(), Changing(), max_tokens=20, seed=1, special=(special,))
    (batch,) = batches.in_order()
    assert batch.source_ids.tolist() == batch.labels.tolist() == [[10, 2]]
    assert batch.target_ids.tolist() == [[0, 10]]
    assert batches.next(Position(epoch=3)).labels.tolist() == [[13, 2]]


def test_an_epoch_is_planned_once_and_anew_after_a_validation(tmp_path: Path):
    batches = batches_of(tmp_path, numbered_pairs(97), max_tokens=101)
    plan = batches.plan(2)
    assert batches.plan(2) is plan
    assert len(list(batches.in_order())) > 5
    assert [rows.tolist() for rows in batches.plan(2)] == [rows.tolist() for rows in plan]


def test_the_first_batches_are_those_of_the_current_epoch(tmp_path: Path):
    batches = batches_of(tmp_path, numbered_pairs(97), max_tokens=101)
    for number in (0, 3):
        expected = epoch(batches, number)[:2]
        batches = batches if number else batches_of(tmp_path, numbered_pairs(97), max_tokens=101)
        sample = list(batches.first(2))
        assert len(sample) == 2
        assert all(map(same, sample, expected))


def test_a_pair_beyond_the_budget_is_a_batch_of_its_own(tmp_path: Path):
    pairs = [([5] * 3, [7] * 5)] * 7 + [([5] * 3, [7] * 90), ([5] * 300, [7] * 5)]
    batches = batches_of(tmp_path, pairs, max_tokens=41)
    shapes = sorted((b.source_ids.size(1), *b.labels.shape) for b in epoch(batches))
    assert (4, 1, 91) in shapes
    assert (301, 1, 6) in shapes
    assert sum(rows for _, rows, _ in shapes) == 9


@pytest.mark.first_is_quick
@pytest.mark.parametrize("max_tokens", [31, 997])
def test_every_pair_comes_once_in_each_epoch_and_in_order(tmp_path: Path, max_tokens: int):
    pairs = numbered_pairs(499)
    batches = batches_of(tmp_path, pairs, max_tokens=max_tokens)
    expected = sorted((tuple(source), tuple(target)) for source, target in pairs)
    assert content(epoch(batches, 0)) == content(epoch(batches, 1)) == expected
    assert content(batches.in_order()) == expected


def test_the_order_follows_from_seed_and_epoch_alone(tmp_path: Path):
    pairs = numbered_pairs(499)

    def order(seed: int, number: int) -> list[int]:
        batches = batches_of(tmp_path, pairs, max_tokens=101, seed=seed)
        np.random.default_rng().random()
        return [int(i) for rows in batches.plan(number) for i in rows]

    used = batches_of(tmp_path, pairs, max_tokens=101, seed=5)
    for number in (0, 3, 1):
        used.plan(number)
    assert [int(i) for rows in used.plan(3) for i in rows] == order(5, 3)
    assert len({tuple(order(seed, number)) for seed in (5, 6) for number in (3, 4)}) == 4


def test_batches_of_all_lengths_are_mixed(natural: TokenBatches):
    widths = np.array([natural.target.lengths[rows].max() for rows in natural.plan(0)], float)
    # In the order of lengths the correlation of neighbours would be 1; 200 batches scatter by 0.07.
    assert abs(np.corrcoef(widths[1:], widths[:-1])[0, 1]) < 0.35


@pytest.mark.parametrize("consumed", [0, 1, 5, 12, 40])
def test_a_position_resumes_with_the_same_batches_across_epochs(tmp_path: Path, consumed: int):
    pairs = numbered_pairs(97)
    first, position = batches_of(tmp_path, pairs, max_tokens=101), Position()
    assert len(first.plan(0)) < 30  # so that 40 batches reach the next epoch
    for _ in range(consumed):
        first.next(position)
    saved = replace(position)
    second = batches_of(tmp_path, pairs, max_tokens=101)
    for _ in range(37):
        assert same(first.next(position), second.next(saved))
    assert saved == position
    assert saved.epoch > 0


def test_a_position_beyond_a_shorter_plan_goes_on_with_the_next_epoch(tmp_path: Path):
    """A run may be resumed with larger batches, of which an epoch then has fewer."""
    pairs, position = numbered_pairs(97), Position()
    small = batches_of(tmp_path, pairs, max_tokens=41)
    for _ in range(len(small.plan(0)) - 1):
        small.next(position)
    large = batches_of(tmp_path, pairs, max_tokens=997)
    assert len(large.plan(0)) < position.batch
    batch = large.next(position)
    assert position == Position(epoch=1, batch=1)
    assert same(batch, large.next(Position(epoch=1)))


def padding(batches: TokenBatches) -> float:
    """The share of padding in both sides of an epoch, each end of sentence counted as a token."""
    tokens = padded = 0
    for rows in batches.plan(0):
        for side in (batches.source, batches.target):
            tokens += (side.lengths[rows] + 1).sum()
            padded += len(rows) * (side.lengths[rows].max() + 1)
    return float(1 - tokens / padded)


def test_less_than_a_twentieth_of_captions_is_padding(tmp_path: Path):
    """Number and lengths as in Multi30k, English to German, and the budget of the tiny recipe."""
    pairs = natural_pairs(29_000, median=12.5, spread=0.3, noise=0.17)
    assert padding(batches_of(tmp_path, pairs, max_tokens=2048)) < 0.05


def test_little_is_padding_even_when_batches_are_few(natural: TokenBatches):
    """130 batches for lengths from 1 to 250; in random order, two thirds would be padding."""
    assert padding(natural) < 0.12


def test_sources_go_up_and_down_so_that_few_batches_mix_short_and_long_ones(tmp_path: Path):
    """Sorted upwards within each length of the targets, as for validation, more of the sources is padding."""
    batches = batches_of(tmp_path, natural_pairs(5_000, median=20, spread=0.6, noise=0.4), max_tokens=2048)
    mixed, sorted_ = (sum(batch.source_ids.numel() for batch in some) for some in (epoch(batches), batches.in_order()))
    assert mixed < 0.97 * sorted_


def test_most_batches_fill_the_budget(natural: TokenBatches):
    sizes = [len(rows) * (natural.target.lengths[rows].max() + 1) for rows in natural.plan(0)]
    assert np.mean(sizes) > 0.9 * natural.max_tokens


def test_batches_move_to_a_device_whole(tmp_path: Path):
    batch = batches_of(tmp_path, numbered_pairs(5), max_tokens=97).collate(np.arange(5))
    assert same(batch.to("cpu"), batch)
    moved = batch.to("meta")
    assert {t.device.type for t in (moved.source_ids, moved.target_ids, moved.labels)} == {"meta"}
