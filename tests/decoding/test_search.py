"""Search against enumeration and plain loops, on made-up Markov chains instead of a model."""

import math
import weakref
from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest
import torch
from torch import Tensor

from dragoman.decoding.search import (
    Beams,
    Hypothesis,
    SearchOptions,
    beam_search,
    greedy_search,
    length_normalised,
)
from dragoman.engine.log_probs import ArrayLogProbs
from tests.decoding.chains import BOS, EVERYTHING, Chain, agree, all_hypotheses, chains, scored


def plain_beam_search(
    chain: Tensor, *, beam_size: int, limit: int, eos: int, penalty: float
) -> tuple[list[Hypothesis], bool]:
    """The textbook's beam search, in lists: an end counts if it is among the best `beam_size`.

    Also returns whether it stopped too early: a prefix was still better than the worst result.
    """
    ended, live = [], [([], 0.0)]
    for position in range(limit):
        candidates = [
            (total + value, prefix, token)
            for prefix, total in live
            for token, value in enumerate(chain[position, prefix[-1] if prefix else BOS].tolist())
            if value > -math.inf
        ]
        candidates.sort(key=lambda c: c[0], reverse=True)
        best = candidates[:beam_size]
        ended += [scored(p, total, penalty, finished=True) for total, p, t in best if t == eos]
        live = [([*p, t], total) for total, p, t in candidates if t != eos][:beam_size]
        alive = [scored(prefix, total, penalty, finished=False) for prefix, total in live]
        if len(ended) >= beam_size:
            break
    else:
        ended, alive = ended + alive, []
    results = sorted(ended, key=lambda h: (h.finished, h.score), reverse=True)[:beam_size]
    return results, any(h.score > results[-1].score for h in alive)


def beam(table: Tensor, limits: list[int], *, beam_size: int, eos: int = 3, **options) -> list[list[Hypothesis]]:
    return beam_search(Chain(table), Beams(beam_size, SearchOptions(limits, BOS, eos, **options)))


def greedy(table: Tensor, limits: list[int], *, eos: int = 3, **options) -> list[list[Hypothesis]]:
    return greedy_search(Chain(table), SearchOptions(limits, BOS, eos, **options))


# ---- what is found ---------------------------------------------------------------------------


# The end of sentence is 3 for Dragoman's tokenizers and 0 for Marian's.
@pytest.mark.parametrize("eos", [3, 0])
@pytest.mark.parametrize("banned", [0.0, 0.3])
@pytest.mark.parametrize("penalty", [0.0, 0.6, 1.0, 2.0])
def test_a_beam_of_all_prefixes_finds_what_enumeration_finds(penalty: float, banned: float, eos: int) -> None:
    limits = [3, 1, 2, 3, 3]
    table = chains(7, sentences=5, banned=banned)
    found = beam(table, limits, eos=eos, beam_size=EVERYTHING, length_penalty=penalty)
    expected = [all_hypotheses(table[i], limits[i], eos, penalty) for i in range(5)]
    if not banned:
        assert [len(group) for group in expected] == [85, 5, 21, 85, 85]
    for group, all_of_them in zip(found, expected, strict=True):
        agree(group, all_of_them)


@pytest.mark.parametrize("penalty", [0.6, 1.0])
def test_with_an_offset_of_5_scores_are_those_of_the_paper(penalty: float) -> None:
    """Section 6.1 has the rule of Wu et al. 2016, equation 14: lp(Y) = (5 + |Y|)^alpha / (5 + 1)^alpha."""
    table = chains(31, sentences=3, banned=0.1)
    found = beam(table, [3, 2, 3], beam_size=EVERYTHING, length_penalty=penalty, length_offset=5.0)
    for i, limit in enumerate([3, 2, 3]):
        agree(found[i], all_hypotheses(table[i], limit, 3, penalty, by_wu=True))
    lengths = np.arange(1, 9)
    expected = -2 / ((5 + lengths) ** penalty / (5 + 1) ** penalty)
    np.testing.assert_allclose(length_normalised(np.full(8, -2.0), lengths, penalty=penalty, offset=5), expected)


@pytest.mark.parametrize("eos", [1, 0])
@pytest.mark.parametrize("vocab", [2, 3])
def test_a_vocabulary_smaller_than_the_beam_is_searched_whole(vocab: int, eos: int) -> None:
    table = chains(11, sentences=2, positions=5, vocab=max(vocab, BOS + 1))
    if vocab == BOS:  # the begin of sentence is no token to predict
        table[..., BOS] = -math.inf
    found = beam(table, [5, 4], eos=eos, beam_size=67)
    for i, limit in enumerate([5, 4]):
        agree(found[i], all_hypotheses(table[i], limit, eos, 1.0))


@pytest.mark.first_is_quick
@pytest.mark.parametrize("penalty", [0.0, 1.0])
@pytest.mark.parametrize("beam_size", [1, 2, 3, 5, 7])
def test_beam_search_is_the_one_of_the_textbook(beam_size: int, penalty: float) -> None:
    limits = [11, 2, 7, 11, 5, 3, 11]
    compared = 0
    for seed in (13, 17, 19, 23, 29):
        table = chains(seed, sentences=7, positions=11, vocab=23, banned=0.1)
        found = beam(table, limits, beam_size=beam_size, length_penalty=penalty)
        for i, limit in enumerate(limits):
            options = {"beam_size": beam_size, "limit": limit, "eos": 3, "penalty": penalty}
            expected, too_early = plain_beam_search(table[i], **options)
            # Where there is more to find, a search may stop later, and find it.
            if not too_early:
                agree(found[i], expected)
                compared += 1
    assert compared > 17


@pytest.mark.parametrize("penalty", [0.0, 1.0])
@pytest.mark.parametrize("beam_size", [1, 2, 3, 5, 7])
def test_a_translation_that_towers_above_all_others_is_found(beam_size: int, penalty: float) -> None:
    # Token i + 4 follows with probability 0.97, the end and others share the rest. Any other path
    # has a step of at most 0.01: its log-probability is below -4.6, over at most 13 tokens.
    table = torch.full((1, 13, 16, 16), 0.03 / 15)
    table[:, :, :, 3] = 0.01
    for position in range(11):
        table[0, position, :, position + 4] = 0.97
    table[0, 11:, :, 3] = 0.97
    table /= table.sum(-1, keepdim=True)
    best = beam(table.log(), [13], beam_size=beam_size, length_penalty=penalty)[0][0]
    assert best.tokens == [*range(4, 15)]
    assert best.log_prob == pytest.approx(12 * math.log(0.97), abs=0.1)


def test_a_longer_hypothesis_that_may_still_score_better_is_waited_for() -> None:
    """With the square of the length as penalty: -0.5 and -1.5 / 4 have ended, but -1.9 / 4 goes on to -2 / 9."""
    table = torch.full((1, 5, 6, 6), -50.0)
    table[0, 0, BOS, 3], table[0, 0, BOS, 4] = -0.5, -1.0
    table[0, 1, 4, 3], table[0, 1, 4, 5] = -0.5, -0.9
    table[0, 2, 5, 3] = -0.1
    found = beam(table, [5], beam_size=2, length_penalty=2.0)[0]
    agree(found, [scored([4, 5], -2.0, 2.0, finished=True), scored([4], -1.5, 2.0, finished=True)])


def test_a_live_prefix_has_to_beat_the_worst_of_the_best_that_have_ended() -> None:
    beams = Beams(2, SearchOptions([9], BOS, 3))
    ended = [scored([4], total, 0.0, finished=True) for total in (-3.0, -1.0, -2.0)]
    assert beams.needed(ended) == -2.0
    for total, least in ((-3.0, -math.inf), (-1.0, -1.5)):
        beams._end(np.array([0]), np.array([[4]]), np.array([[total / 2, total]]), finished=True)
        assert beams.state.score_to_beat.tolist() == [least]


def test_greedy_search_takes_the_best_token_each_time() -> None:
    limits = [13, 2, 7, 13, 5]
    table = chains(23, sentences=5, positions=13, vocab=11)
    for chain, limit, (found,) in zip(table, limits, greedy(table, limits), strict=True):
        tokens, total = [BOS], 0.0
        while len(tokens) <= limit and (tokens[-1] != 3 or len(tokens) == 1):
            value, token = chain[len(tokens) - 1, tokens[-1]].max(-1)
            tokens.append(int(token))
            total += float(value)
        finished = tokens[-1] == 3
        path = tokens[1:-1] if finished else tokens[1:]
        agree([found], [scored(path, total, 1.0, finished=finished)])


def test_a_beam_of_one_is_greedy_search() -> None:
    limits = [2 + i % 13 for i in range(53)]
    table = chains(29, sentences=53, positions=14, vocab=11)
    ends = {group[0].finished for group in greedy(table, limits)}
    assert ends == {True, False}
    for penalty in (0.0, 1.0):
        groups = greedy(table, limits, length_penalty=penalty)
        beams = beam(table, limits, beam_size=1, length_penalty=penalty)
        for group, expected in zip(groups, beams, strict=True):
            agree(group, expected)


def test_long_sums_are_as_exact_in_a_beam_as_greedily() -> None:
    # Single precision has no more than 4 decimals left at 101 times -31.
    table = chains(31, sentences=2, positions=101, vocab=7) - 30
    table[..., 3] = -math.inf
    agree(greedy(table, [101, 97])[0], beam(table, [101, 97], beam_size=1)[0], tolerance=1e-6)


@pytest.mark.parametrize("search", [greedy, lambda *args: beam(*args, beam_size=3)])
def test_a_batch_gives_what_each_sentence_gives_alone(search: Callable) -> None:
    limits = [13, 1, 7, 13, 2, 11, 5]
    table = chains(37, sentences=7, positions=13, vocab=17)
    together = search(table, limits)
    assert len({len(group[0].tokens) for group in together}) > 3
    for i, group in enumerate(together):
        agree(group, search(table[i : i + 1], limits[i : i + 1])[0])


# ---- what every result is --------------------------------------------------------------------


@pytest.mark.parametrize("penalty", [0.0, 0.6, 1.0, 2.0])
@pytest.mark.parametrize("beam_size", [1, 2, 5, 13])
def test_results_are_sorted_distinct_and_add_up(beam_size: int, penalty: float) -> None:
    limits = [1 + i % 7 for i in range(31)]
    table = chains(41, sentences=31, positions=7, vocab=7, banned=0.2)
    groups = beam(table, limits, beam_size=beam_size, length_penalty=penalty)
    for chain, limit, group in zip(table, limits, groups, strict=True):
        assert 1 <= len(group) <= beam_size
        keys = [(h.finished, h.score) for h in group]
        assert keys == sorted(keys, reverse=True)
        assert len({(tuple(h.tokens), h.finished) for h in group}) == len(group)
        for h in group:
            assert 3 not in h.tokens
            path = [BOS, *h.tokens, *([3] if h.finished else [])]
            assert len(path) - 1 <= limit
            assert h.finished or len(h.tokens) == limit
            steps = enumerate(pairwise(path))
            total = sum(float(chain[at, last, token]) for at, (last, token) in steps)
            assert h.log_prob == pytest.approx(total, abs=1e-5)
            assert math.isfinite(h.log_prob)
            assert h.score == pytest.approx(total / (len(path) - 1) ** penalty, abs=1e-5)


@pytest.mark.parametrize("beam_size", [2, 5, 29])
def test_ties_make_no_doubles(beam_size: int) -> None:
    table = torch.full((2, 5, 7, 7), 1 / 7).log()
    for group in beam(table, [5, 3], beam_size=beam_size):
        assert len(group) == beam_size
        assert len({(tuple(h.tokens), h.finished) for h in group}) == beam_size


@pytest.mark.parametrize("dtype", [torch.float16, torch.float64])
@pytest.mark.parametrize("search", [greedy, lambda *args: beam(*args, beam_size=2)])
def test_scores_of_other_precisions_are_taken(search: Callable, dtype: torch.dtype) -> None:
    table = chains(43, sentences=3, positions=5)
    found, expected = search(table.to(dtype), [5] * 3), search(table, [5] * 3)
    scores = [[group[0].score for group in groups] for groups in (found, expected)]
    assert scores[0] == pytest.approx(scores[1], rel=0.02)


# ---- edges -----------------------------------------------------------------------------------


@pytest.mark.parametrize("eos", [3, 0])
@pytest.mark.parametrize("beam_size", [1, 2, 5])
def test_what_can_only_end_has_one_translation(beam_size: int, eos: int) -> None:
    table = torch.full((3, 7, 5, 5), -math.inf)
    table[..., eos] = 0.0
    nothing = [[Hypothesis([], 0.0, 0.0, True)]] * 3
    assert beam(table, [7, 1, 5], eos=eos, beam_size=beam_size) == nothing
    assert greedy(table, [7, 1, 5], eos=eos) == nothing


def test_a_dead_end_is_no_translation() -> None:
    # From token 4 nothing is possible: only paths that avoid it can be found.
    table = chains(47, sentences=2, positions=3)
    table[:, :, 4] = -math.inf
    found = beam(table, [3, 3], beam_size=EVERYTHING)
    for i in range(2):
        agree(found[i], all_hypotheses(table[i], 3, 3, 1.0))


@pytest.mark.parametrize("search", [greedy, lambda *args: beam(*args, beam_size=3)])
def test_no_sentences_have_no_translations(search: Callable) -> None:
    assert search(chains(53, sentences=0), []) == []


def test_finished_sentences_cost_no_more_steps() -> None:
    # Sentence i can only go on with token 4 until its end, which is its third, first, fifth token.
    table = torch.full((3, 7, 5, 5), -math.inf)
    table[..., 4] = 0.0
    for sentence, end in enumerate([2, 0, 4]):
        table[sentence, end] = -math.inf
        table[sentence, end, :, 3] = 0.0
    chain, options = Chain(table), SearchOptions([7, 7, 3], BOS, 3)
    found = greedy_search(chain, options)
    assert [(h.tokens, h.finished) for (h,) in found] == [
        ([4, 4], True),
        ([], True),
        ([4, 4, 4], False),
    ]
    assert chain.rows_of_steps == [3, 2, 2]
    chain = Chain(table)
    assert beam_search(chain, Beams(1, options)) == found
    assert chain.rows_of_steps == [3, 2, 2]


def test_a_sentence_with_nothing_left_to_follow_is_done() -> None:
    # The only hypothesis ends at once; a beam of 5 must not walk on to the limit for four more.
    table = torch.full((1, 101, 5, 5), -math.inf)
    table[..., 3] = 0.0
    chain = Chain(table)
    beam_search(chain, Beams(5, SearchOptions([101], BOS, 3)))
    assert len(chain.rows_of_steps) <= 2


def test_each_live_sentence_has_as_many_rows_as_the_beam() -> None:
    chain = Chain(chains(59, sentences=5, positions=7))
    limits = [7, 1, 2, 5, 7]
    beam_search(chain, Beams(3, SearchOptions(limits, BOS, 3)))
    assert chain.rows_of_steps[0] == 5
    for position, rows in enumerate(chain.rows_of_steps[1:], start=1):
        assert rows % 3 == 0
        assert rows <= 3 * sum(limit > position for limit in limits)


@pytest.mark.parametrize("search", [greedy, lambda *args: beam(*args, beam_size=3)])
def test_log_probabilities_of_a_step_are_gone_before_the_next(search: Callable, monkeypatch: pytest.MonkeyPatch):
    results: list[weakref.ref[ArrayLogProbs]] = []
    step = Chain.step

    def watched(chain: Chain, tokens: np.ndarray) -> ArrayLogProbs:
        assert not any(result() is not None for result in results)
        log_probs = step(chain, tokens)
        results.append(weakref.ref(log_probs))
        return log_probs

    monkeypatch.setattr(Chain, "step", watched)
    search(chains(61, positions=5), [5, 5, 5])
    assert len(results) > 2
