"""The search tree against a plain beam search in lists, on a made-up Markov chain instead of a model."""

import math

import pytest
import torch

from dragoman.decoding.search import Beams, Hypothesis, SearchOptions, beam_search, greedy_search
from dragoman.report.search_tree import SHOWN_LOSERS, SearchRecorder, SearchTree

BOS, EOS, VOCAB, LIMIT = 2, 3, 17, 11


class Markov:
    """A `Stepper` of one sentence, whose next token depends on position and last token."""

    def __init__(self, seed: int):
        logits = 2 * torch.randn(LIMIT, VOCAB, VOCAB, generator=torch.Generator().manual_seed(seed))
        self.table = logits.log_softmax(-1)
        self.position = -1

    def step(self, tokens):
        self.position += 1
        return self.table[self.position, tokens]

    def reorder(self, rows):
        assert len(rows)


def options(limit: int = LIMIT) -> SearchOptions:
    return SearchOptions([limit], BOS, EOS)


def searched(seed: int, *, beam_size: int, limit: int = LIMIT) -> tuple[SearchTree, list[Hypothesis]]:
    recorder = SearchRecorder(Markov(seed), bos_id=BOS, eos_id=EOS)
    (found,) = beam_search(recorder, Beams(beam_size, options(limit)))
    return recorder.tree(found), found


def prefix(tree: SearchTree, index: int) -> tuple[int, ...]:
    node = tree.nodes[index]
    return () if node.parent < 0 else (*prefix(tree, node.parent), node.token)


def log_prob(seed: int, tokens: tuple[int, ...]) -> float:
    table, steps = Markov(seed).table, zip((BOS, *tokens[:-1]), tokens, strict=True)
    return sum(float(table[position, last, token]) for position, (last, token) in enumerate(steps))


def grown(seed: int, live: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """All continuations of some prefixes, the best first."""
    candidates = [(*each, token) for each in live for token in range(VOCAB)]
    return sorted(candidates, key=lambda each: -log_prob(seed, each))


@pytest.mark.parametrize("beam_size", [1, 2, 5])
def test_watching_a_search_changes_nothing(beam_size):
    for seed in range(7):
        _, found = searched(seed, beam_size=beam_size)
        assert [found] == beam_search(Markov(seed), Beams(beam_size, options()))


@pytest.mark.parametrize("beam_size", [1, 2, 5])
def test_the_tree_keeps_and_drops_what_a_plain_beam_search_keeps_and_drops(beam_size):
    for seed in range(7):
        tree, _ = searched(seed, beam_size=beam_size)
        states = {prefix(tree, index): node.state for index, node in enumerate(tree.nodes)}
        assert len(states) == len(tree.nodes)  # no prefix twice
        live = [()]
        for length in range(1, max(map(len, states)) + 1):
            candidates = grown(seed, live)
            live = [each for each in candidates if each[-1] != EOS][:beam_size]
            noted = {each for each in states if len(each) == length}
            if length < max(map(len, states)):  # the last candidates were never gone on with
                assert {each for each in noted if states[each] == "kept"} == set(live)
                losers = [each for each in candidates if each not in live][:SHOWN_LOSERS]
                assert noted - set(live) == set(losers)


@pytest.mark.parametrize("limit", [2, 5, LIMIT])
def test_every_result_has_its_leaf_and_every_node_its_probability(limit):
    for seed in range(7):
        tree, found = searched(seed, beam_size=3, limit=limit)
        ends = [(*each.tokens, EOS) if each.finished else tuple(each.tokens) for each in found]
        assert [prefix(tree, leaf) for leaf in tree.leaves] == ends
        assert {index for index, node in enumerate(tree.nodes) if node.state == "result"} == set(tree.leaves)
        for index, node in enumerate(tree.nodes[1:], start=1):
            assert node.parent < index
            assert node.total == pytest.approx(log_prob(seed, prefix(tree, index)), abs=1e-5)
            assert node.total == pytest.approx(tree.nodes[node.parent].total + node.log_prob)
        for leaf, hypothesis in zip(tree.leaves, found, strict=True):
            assert tree.nodes[leaf].total == pytest.approx(hypothesis.log_prob, abs=1e-5)


def test_greedy_search_leaves_a_single_path():
    recorder = SearchRecorder(Markov(5), bos_id=BOS, eos_id=EOS)
    (found,) = greedy_search(recorder, options())
    tree = recorder.tree(found)
    kept = [node for node in tree.nodes if node.state != "dropped"]
    assert [node.token for node in kept] == [BOS, *found[0].tokens, EOS][: 1 + len(found[0].tokens) + found[0].finished]


def test_impossible_rows_are_no_prefixes():
    # Only token 4 is possible, then only the end: a beam of 3 is filled up with rows that lead nowhere.
    chain = Markov(0)
    chain.table = torch.full_like(chain.table, -math.inf)
    chain.table[0, :, 4] = chain.table[1:, :, EOS] = 0.0
    recorder = SearchRecorder(chain, bos_id=BOS, eos_id=EOS)
    (found,) = beam_search(recorder, Beams(3, options()))
    assert [node.token for node in recorder.tree(found).nodes] == [BOS, 4, EOS]
