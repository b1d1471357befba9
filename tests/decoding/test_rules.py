"""Rules against enumeration: forced beginnings, and phrases that must not be said again and again."""

import codecs
import itertools
import math
import random

import numpy as np
import pytest
import torch

from dragoman.decoding.rules import RepetitionGuard, RuledStepper, SlotLimits, WholeCharacters, most_copies, most_times
from dragoman.decoding.search import Beams, Hypothesis, SearchOptions, beam_search, greedy_search
from dragoman.native import library
from tests.decoding.chains import BOS, EVERYTHING, Chain, agree, all_hypotheses, chains, scored

EOS = 3


def copies_at_the_end(tokens: list[int], most: int) -> bool:
    """Whether the tokens end with a phrase said more than `most` times in a row."""
    for size in range(1, len(tokens) // (most + 1) + 1):
        phrase = tokens[-size:]
        if tokens[-size * (most + 1) :] == phrase * (most + 1):
            return True
    return False


def ruled(table: torch.Tensor, prefixes: list[list[int]], copies: list[int] | None = None) -> RuledStepper:
    guard = RepetitionGuard(copies, [99] * len(copies)) if copies else None
    return RuledStepper(Chain(table), guard=guard, prefixes=prefixes)


def test_a_forced_beginning_leaves_the_hypotheses_that_have_it() -> None:
    prefixes = [[4], [], [1, 4], [0, 1, 2]]
    table = chains(7, sentences=4)
    limits = [3, 3, 3, 3]
    found = beam_search(ruled(table, prefixes), Beams(EVERYTHING, SearchOptions(limits, BOS, EOS)))
    for chain, prefix, group in zip(table, prefixes, found, strict=True):
        everything = all_hypotheses(chain, 3, EOS, 1.0)
        expected = [h for h in everything if h.tokens[: len(prefix)] == prefix]
        assert 0 < len(expected) < len(everything) or not prefix
        agree(group, expected)


def test_greedy_search_goes_on_from_a_forced_beginning() -> None:
    prefixes = [[4, 4, 1], [], [1]]
    table = chains(11, sentences=3, positions=7, vocab=11)
    found = greedy_search(ruled(table, prefixes), SearchOptions([7, 7, 7], BOS, EOS))
    for chain, prefix, (hypothesis,) in zip(table, prefixes, found, strict=True):
        path, total = [BOS], 0.0
        while len(path) <= 7 and (len(path) == 1 or path[-1] != EOS):
            position = len(path) - 1
            token = prefix[position] if position < len(prefix) else int(chain[position, path[-1]].argmax())
            total += float(chain[position, path[-1], token])
            path.append(token)
        finished = path[-1] == EOS
        agree([hypothesis], [scored(path[1:-1] if finished else path[1:], total, 1.0, finished=finished)])


def test_a_forced_beginning_may_say_what_is_banned() -> None:
    table = chains(13, sentences=1, positions=7, vocab=7)
    stepper = ruled(table, [[5, 5, 5, 5]], [2])
    ((best, *_),) = beam_search(stepper, Beams(3, SearchOptions([7], BOS, EOS)))
    assert best.tokens[:4] == [5, 5, 5, 5]
    assert best.tokens[4:5] != [5]
    assert math.isfinite(best.log_prob)


@pytest.mark.parametrize("copies", [2, 3])
def test_the_guard_bans_what_would_be_one_copy_too_many(copies: int) -> None:
    guard = RepetitionGuard([copies], [99])
    banned_somewhere = 0
    for length in range(1, 12):
        # Two letters alone, so that phrases of one to five tokens are often said again; 9 is the begin of sentence.
        histories = list(itertools.islice(itertools.product((0, 1), repeat=length), 0, None, 3))
        table = np.array([[9, *tokens] for tokens in histories])
        rows, tokens = guard(table, np.zeros(len(table), np.int64))
        banned = set(zip(rows.tolist(), tokens.tolist(), strict=True))
        for row, history in enumerate(histories):
            for token in (0, 1):
                assert ((row, token) in banned) == copies_at_the_end([*history, token], copies), (history, token)
        banned_somewhere += len(banned)
    assert banned_somewhere > 100


@pytest.mark.parametrize("times", [1, 2, 3])
def test_the_guard_bans_three_tokens_that_stood_often_enough(times: int) -> None:
    guard = RepetitionGuard([99, 99], [times, times + 1])
    dice = random.Random(23)
    table = np.array([[9, *dice.choices((0, 1, 2), k=19)] for _ in range(101)])
    sentences = np.arange(101) % 2
    rows, tokens = guard(table, sentences)
    banned = sorted(zip(rows.tolist(), tokens.tolist(), strict=True))
    expected = []
    for row, history in enumerate(table.tolist()):
        threes = list(zip(history, history[1:], history[2:], strict=False))
        expected += [(row, t) for t in (0, 1, 2) if threes.count((*history[-2:], t)) >= times + row % 2]
    assert banned == expected
    assert len(expected) > 5


def test_a_hypothesis_that_wants_to_loop_twice_must_end() -> None:
    # The most probable is 4, 5, 6 in a circle; where that may not be, 7.
    table = torch.full((1, 31, 11, 11), -9.0)
    for last, token in [(BOS, 4), (4, 5), (5, 6), (6, 4), (7, 4)]:
        table[:, :, last, token] = -0.01
    table[..., 7] = -3.0
    table = table.log_softmax(-1)

    def search(end: int | None) -> Hypothesis:
        guard = RepetitionGuard([2], [99])
        stepper = RuledStepper(Chain(table), prefixes=[[]], guard=guard, end=end)
        return greedy_search(stepper, SearchOptions([31], BOS, EOS))[0][0]

    assert not search(None).finished
    # 6 may not complete a third circle: 7; the second time it ends.
    twice = [4, 5, 6, 4, 5, 6, 4, 5]
    assert search(EOS).tokens == [*twice, 7, *twice]
    assert search(EOS).finished


@pytest.mark.parametrize("looping", [0, 1])
def test_only_the_best_hypothesis_ends_its_sentence(looping: int) -> None:
    table = torch.full((1, 11, 13, 13), -9.0)
    table[:, :, 4, 4] = -0.01  # what it wants to say after 4
    stepper = RuledStepper(Chain(table.log_softmax(-1)), prefixes=[[]], guard=RepetitionGuard([2], [99]), end=EOS)
    stepper.step(np.array([BOS]))
    stepper.reorder(np.array([0, 0]))
    ways = [[5, 6, 7, 8, 9], [5, 6, 7, 8, 9]]
    ways[looping] = [4, 4, 0, 4, 4]
    for tokens in zip(*ways, strict=True):
        log_probs = stepper.step(np.array(tokens)).array
    assert log_probs[looping, 4] == -math.inf
    free = np.isfinite(log_probs).sum(axis=1).tolist()
    assert free == ([1, 1] if looping == 0 else [13, 12])


def test_sentences_may_repeat_themselves_differently_often() -> None:
    guard = RepetitionGuard([2, 5, 3], [99] * 3)
    table = np.array([[9, 1, 7, 7, 7], [9, 7, 7, 7, 7], [9, 1, 7, 7, 7], [9, 0, 1, 7, 7]])
    rows, tokens = guard(table, np.array([2, 1, 1, 0]))
    assert sorted(zip(rows.tolist(), tokens.tolist(), strict=True)) == [(0, 7), (3, 7)]


@pytest.mark.skipif(not library.compiled(), reason="nothing is compiled here")
@pytest.mark.parametrize("length", [1, 2, 3, 7, 40, 307])
def test_the_compiled_guard_bans_what_the_formula_bans(length: int) -> None:
    dice = np.random.default_rng(length)
    guard = RepetitionGuard([2, 3, 9], [1, 2, 5])
    for alphabet in (1, 2, 3, 30):
        table, sentences = dice.integers(alphabet, size=(31, length)), dice.integers(3, size=31)
        both = guard(table, sentences), guard.formula(table, sentences)
        compiled, formula = (sorted(zip(rows.tolist(), tokens.tolist(), strict=True)) for rows, tokens in both)
        assert compiled == formula


def test_the_guard_follows_a_beam_through_its_reorderings() -> None:
    # Only tokens 4 and 5 have any probability, so that every hypothesis would repeat itself soon.
    table = torch.full((3, 17, 7, 7), -9.0)
    table[..., 4], table[..., 5], table[..., EOS] = -0.1, -0.11, -8.0
    table = table.log_softmax(-1)
    options = SearchOptions([17, 11, 13], BOS, EOS)
    free = beam_search(Chain(table), Beams(5, options))
    assert any(copies_at_the_end(h.tokens[:end], 2) for h in free[0] for end in range(18))
    found = beam_search(ruled(table, [[]] * 3, [2, 2, 2]), Beams(5, options))
    for group in found:
        assert len(group) == 5
        for h in group:
            assert not any(copies_at_the_end(h.tokens[:end], 2) for end in range(len(h.tokens) + 1))


def test_no_rules_change_nothing() -> None:
    table = chains(17, sentences=5, positions=7, vocab=11)
    options = SearchOptions([7, 5, 3, 7, 2], BOS, EOS)
    under_rules = beam_search(ruled(table, [[]] * 5), Beams(3, options))
    for group, expected in zip(under_rules, beam_search(Chain(table), Beams(3, options)), strict=True):
        agree(group, expected)


def test_most_copies_counts_the_phrase_said_most_often_on_end() -> None:
    dice = random.Random(19)
    for _ in range(211):
        tokens = dice.choices((0, 1, 2), k=dice.randint(0, 13))
        ends = range(len(tokens) + 1)
        by_hand = max(n for n in range(1, 15) if n == 1 or any(copies_at_the_end(tokens[:e], n - 1) for e in ends))
        assert most_copies(tokens) == by_hand, tokens


def test_most_times_counts_three_tokens_wherever_they_stand() -> None:
    assert most_times([5, 7, 11, 5, 7, 11, 13, 5, 7, 11]) == 3
    assert most_times([5, 5, 5, 5]) == 2
    assert most_times([5, 7]) == 0


def test_a_slot_comes_at_most_as_often_as_in_the_source() -> None:
    table, limits = chains(17, sentences=3), [[0, 1], [2, 0], [9, 9]]
    stepper = RuledStepper(Chain(table), prefixes=[[], [], []], bans=[SlotLimits([0, 4], limits)])
    found = beam_search(stepper, Beams(EVERYTHING, SearchOptions([3, 3, 3], BOS, EOS)))
    for chain, (zeros, fours), group in zip(table, limits, found, strict=True):
        everything = all_hypotheses(chain, 3, EOS, 1.0)
        expected = [h for h in everything if h.tokens.count(0) <= zeros and h.tokens.count(4) <= fours]
        agree(group, expected)


def test_no_character_is_broken() -> None:
    texts = ["a", "é", "中", "語", "\U00050000", "中é"]
    pieces = {text.encode()[start:end] for text in texts for start in range(5) for end in range(start, 7)}
    tokens = [b"", *sorted(pieces - {b""})]  # the end of sentence, and every part of the texts
    rule = WholeCharacters(tokens)

    def begins_a_text(content: bytes, *, complete: bool) -> bool:
        try:
            codecs.getincrementaldecoder("utf-8")().decode(content, final=complete)
        except UnicodeDecodeError:
            return False
        return True

    for history in itertools.product(range(1, len(tokens)), repeat=2):
        content = b"".join(tokens[id_] for id_ in history)
        if begins_a_text(content, complete=False):
            _, banned = rule(np.array([[0, *history]]), np.array([0]))
            for id_, token in enumerate(tokens):
                assert begins_a_text(content + token, complete=not token) == (id_ not in banned.tolist())


@pytest.mark.parametrize("beam", [1, EVERYTHING])
def test_no_hypothesis_ends_before_it_has_its_fewest_tokens(beam: int) -> None:
    floors, limits = [2, 0, 1, 2], [3, 3, 3, 3]
    table = chains(17, sentences=4)
    stepper = RuledStepper(Chain(table), prefixes=[[]] * 4, floors=floors, end=EOS)
    options = SearchOptions(limits, BOS, EOS)
    found = greedy_search(stepper, options) if beam == 1 else beam_search(stepper, Beams(beam, options))
    for chain, floor, limit, group in zip(table, floors, limits, found, strict=True):
        everything = all_hypotheses(chain, limit, EOS, 1.0)
        expected = [h for h in everything if len(h.tokens) >= floor]
        assert all(len(h.tokens) >= floor for h in group)
        if beam > 1:
            agree(group, expected)


def test_a_sentence_that_can_only_repeat_itself_may_end_too_soon() -> None:
    table = torch.full((1, 40, 6, 6), -9.0)
    table[..., 4] = -1.0  # it says 4 again and again
    guard = RepetitionGuard([2], [99])
    stepper = RuledStepper(Chain(table.log_softmax(-1)), prefixes=[[]], guard=guard, floors=[30], end=EOS)
    ((hypothesis,),) = greedy_search(stepper, SearchOptions([40], BOS, EOS))
    assert hypothesis.finished
    assert len(hypothesis.tokens) < 10
    assert math.isfinite(hypothesis.log_prob)
