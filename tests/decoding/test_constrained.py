"""Search for what holds given terms, against enumeration, and its promise with narrow beams."""

import math
import random
from itertools import pairwise

import pytest
import torch
from torch import Tensor

from dragoman.decoding.constrained import ConstrainedBeams, Term, _by_turns
from dragoman.decoding.search import Hypothesis, SearchOptions, beam_search
from tests.decoding.chains import BOS, EVERYTHING, Chain, agree, all_hypotheses, chains

EOS = 3
NO_JOINTS: list[int] = []


def holds(tokens: list[int], term: Term) -> bool:
    return any(
        tokens[start : start + len(ids)] == ids
        for ids in term.spellings()
        for start in range(len(tokens) - len(ids) + 1)
    )


def search(
    table: Tensor, limits: list[int], terms: list[list[Term]], *, beam_size: int, joints: list[int] = NO_JOINTS
) -> list[list[Hypothesis]]:
    marks = torch.zeros(table.size(-1), dtype=torch.bool)
    marks[joints] = True
    beams = ConstrainedBeams(beam_size, SearchOptions(limits, BOS, EOS), terms=terms, joints=marks)
    return beam_search(Chain(table), beams)


def test_beams_of_all_prefixes_find_all_hypotheses_that_hold_the_terms() -> None:
    terms = [[Term([4])], [Term([4, 1])], [Term([0]), Term([1])], [Term([4, 4])], [Term([1, 0], [4])]]
    table = chains(7, sentences=5)
    found = search(table, [3] * 5, terms, beam_size=EVERYTHING)
    for chain, group, asked in zip(table, found, terms, strict=True):
        everything = all_hypotheses(chain, 3, EOS, 1.0)
        expected = [h for h in everything if all(holds(h.tokens, term) for term in asked)]
        assert 2 < len(expected) < len(everything)
        agree(group, expected)


@pytest.mark.parametrize("beam_size", [1, 2, 3, 5])
def test_every_hypothesis_of_a_narrow_beam_holds_its_terms(beam_size: int) -> None:
    dice = random.Random(11)
    count, vocab = 53, 11
    words = [token for token in range(vocab) if token not in (BOS, EOS)]
    terms = [[Term(dice.choices(words, k=dice.randint(1, 4))) for _ in range(dice.randint(1, 3))] for _ in range(count)]
    # Terms that begin like one another, repeat themselves, or are the end of one another.
    terms[:4] = [[Term([4, 5]), Term([4, 6])], [Term([4, 4, 5])], [Term([4, 5, 6]), Term([5, 6])], [Term([7, 7, 7])]]
    limits = [7 + sum(len(term.spelling) for term in group) for group in terms]
    table = chains(13, sentences=count, positions=max(limits), vocab=vocab)
    table[..., EOS] += 1.5
    found = search(table.log_softmax(-1), limits, terms, beam_size=beam_size)
    for group, asked, limit in zip(found, terms, limits, strict=True):
        assert group
        for h in group:
            assert all(holds(h.tokens, term) for term in asked), (h.tokens, asked)
            assert len(h.tokens) + h.finished <= limit
        keys = [(h.finished, h.score) for h in group]
        assert keys == sorted(keys, reverse=True)
        assert len({tuple(h.tokens) for h in group}) == len(group)


def test_totals_are_those_of_the_tokens() -> None:
    table = chains(17, sentences=7, positions=11, vocab=13)
    for chain, group in zip(table, search(table, [11] * 7, [[Term([5, 7])]] * 7, beam_size=4), strict=True):
        for h in group:
            path = [BOS, *h.tokens, *([EOS] if h.finished else [])]
            total = sum(float(chain[i, a, b]) for i, (a, b) in enumerate(pairwise(path)))
            assert h.log_prob == pytest.approx(total, abs=1e-5)


def test_a_term_stands_where_the_model_puts_it() -> None:
    # The chain says 4, 5, 6, 7 in this order and ends; 8 could follow 5 at little cost, elsewhere at a high one.
    table = torch.full((1, 9, 11, 11), -12.0)
    for position, (last, token) in enumerate([(BOS, 4), (4, 5), (5, 6), (6, 7), (7, EOS)]):
        table[:, position:, last, token] = -0.01
    table[:, :, 5, 8], table[:, :, 8, 6] = -2.0, -0.01
    table = table.log_softmax(-1)
    ((best, *_),) = search(table, [9], [[Term([8])]], beam_size=4)
    assert best.tokens == [4, 5, 8, 6, 7]


def test_what_the_model_says_by_itself_is_not_said_twice() -> None:
    table = torch.full((1, 9, 11, 11), -12.0)
    for last, token in [(BOS, 4), (4, 5), (5, 6), (6, EOS)]:
        table[:, :, last, token] = -0.01
    table = table.log_softmax(-1)
    ((best, *_),) = search(table, [9], [[Term([5, 6])]], beam_size=3)
    assert best.tokens == [4, 5, 6]
    # As well in the spelling that follows an apostrophe, here 4.
    ((best, *_),) = search(table, [9], [[Term([9, 6], [5, 6])]], beam_size=3, joints=[4])
    assert best.tokens == [4, 5, 6]


def test_the_joined_spelling_is_begun_after_a_joint_alone() -> None:
    # 5 is too improbable to follow by itself; after a joint, 4, it may be forced, and costs less than 9.
    table = torch.full((1, 7, 11, 11), -12.0)
    for last, token in [(BOS, 4), (4, 6), (5, 6), (9, 6), (6, EOS)]:
        table[:, :, last, token] = -0.01
    table[..., 5] = -14.0
    table[:, :, 4, 5], table[:, :, 4, 9] = -9.0, -10.0
    table[:, :, 4, [0, 1, 7, 8, 10]] = -5.0
    table = table.log_softmax(-1)
    term = [[Term([9], [5])]]
    assert search(table, [7], term, beam_size=2, joints=[4])[0][0].tokens == [4, 5, 6]
    for h in search(table, [7], term, beam_size=2)[0]:
        assert 9 in h.tokens
        assert 5 not in h.tokens


def test_sentences_do_not_mind_each_other() -> None:
    table = chains(19, sentences=5, positions=11, vocab=13)
    terms = [[Term([5, 7])], [Term([4]), Term([6])], [Term([8, 8])], [Term([9], [10, 11])], [Term([12, 1])]]
    together = search(table, [11, 9, 7, 11, 10], terms, beam_size=3)
    for i, limit in enumerate([11, 9, 7, 11, 10]):
        agree(together[i], search(table[i : i + 1], [limit], terms[i : i + 1], beam_size=3)[0])


def test_candidates_are_taken_in_turns_from_the_banks() -> None:
    torch.manual_seed(3)
    totals, banks = torch.randn(5, 31), torch.randint(0, 4, (5, 31))
    totals[:, 7:11] = -torch.inf
    for found, scores, of in zip(_by_turns(totals, banks).tolist(), totals.tolist(), banks.tolist(), strict=True):
        best_first = sorted(range(31), key=lambda i: -scores[i])
        turns = {i: [j for j in best_first if of[j] == of[i]].index(i) for i in best_first if scores[i] > -math.inf}
        possible = [i for i in found if i in turns]
        assert possible == sorted(turns, key=lambda i: (turns[i], of[i]))
        assert found[: len(possible)] == possible
