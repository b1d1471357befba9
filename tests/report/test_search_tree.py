"""The search tree against a plain beam search in lists, on a made-up Markov chain instead of a model."""

import math

import pytest
import torch

from dragoman.decoding.search import Beams, Hypothesis, SearchOptions, beam_search, greedy_search
from dragoman.engine.log_probs import ArrayLogProbs
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
        return ArrayLogProbs(self.table[self.position, tokens].numpy())

    def reorder(self, rows):
        assert len(rows)


def options(limit: int = LIMIT) -> SearchOptions:
    return SearchOptions([limit], BOS, EOS)


def searched(seed: int, *, beam_size: int, limit: int = LIMIT) -> tuple[SearchTree, list[Hypothesis]]:
    recorder = SearchRecorder(Markov(seed), bos_id=BOS, eos_id=EOS)
    (hypotheses,) = beam_search(recorder, Beams(beam_size, options(limit)))
    return recorder.tree(hypotheses), hypotheses


def prefix(tree: SearchTree, index: int) -> tuple[int, ...]:
    node = tree.nodes[index]
    return () if node.parent < 0 else (*prefix(tree, node.parent), node.token)


def log_prob(seed: int, tokens: tuple[int, ...]) -> float:
    table, steps = Markov(seed).table, zip((BOS, *tokens[:-1]), tokens, strict=True)
    return sum(float(table[position, last, token]) for position, (last, token) in enumerate(steps))


def grown(seed: int, live: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """All continuations of some prefixes, the best first."""
    candidates = [(*prefix, token) for prefix in live for token in range(VOCAB)]
    return sorted(candidates, key=lambda prefix: -log_prob(seed, prefix))


@pytest.mark.first_is_quick
@pytest.mark.parametrize("beam_size", [1, 2, 5])
def test_watching_a_search_changes_nothing(beam_size):
    for seed in range(7):
        _, hypotheses = searched(seed, beam_size=beam_size)
        assert [hypotheses] == beam_search(Markov(seed), Beams(beam_size, options()))


@pytest.mark.first_is_quick
@pytest.mark.parametrize("beam_size", [1, 2, 5])
def test_the_tree_keeps_and_drops_what_a_plain_beam_search_keeps_and_drops(beam_size):
    for seed in range(7):
        tree, _ = searched(seed, beam_size=beam_size)
        states = {prefix(tree, index): node.state for index, node in enumerate(tree.nodes)}
        assert len(states) == len(tree.nodes)  # no prefix twice
        live = [()]
        for length in range(1, max(map(len, states)) + 1):
            candidates = grown(seed, live)
            live = [prefix for prefix in candidates if prefix[-1] != EOS][:beam_size]
            noted = {prefix for prefix in states if len(prefix) == length}
            if length < max(map(len, states)):  # the last candidates were never gone on with
                assert {prefix for prefix in noted if states[prefix] == "kept"} == set(live)
                losers = [prefix for prefix in candidates if prefix not in live][:SHOWN_LOSERS]
                assert noted - set(live) == set(losers)


@pytest.mark.parametrize("limit", [2, 5, LIMIT])
def test_every_result_has_its_leaf_and_every_node_its_probability(limit):
    for seed in range(7):
        tree, hypotheses = searched(seed, beam_size=3, limit=limit)
        ends = [
            (*hypothesis.tokens, EOS) if hypothesis.finished else tuple(hypothesis.tokens) for hypothesis in hypotheses
        ]
        assert [prefix(tree, leaf) for leaf in tree.leaves] == ends
        assert {index for index, node in enumerate(tree.nodes) if node.state == "result"} == set(tree.leaves)
        for index, node in enumerate(tree.nodes[1:], start=1):
            assert node.parent < index
            assert node.total == pytest.approx(log_prob(seed, prefix(tree, index)), abs=1e-5)
            assert node.total == pytest.approx(tree.nodes[node.parent].total + node.log_prob)
        for leaf, hypothesis in zip(tree.leaves, hypotheses, strict=True):
            assert tree.nodes[leaf].total == pytest.approx(hypothesis.log_prob, abs=1e-5)


def test_greedy_search_leaves_a_single_path():
    recorder = SearchRecorder(Markov(5), bos_id=BOS, eos_id=EOS)
    (hypotheses,) = greedy_search(recorder, options())
    tree = recorder.tree(hypotheses)
    kept = [node for node in tree.nodes if node.state != "dropped"]
    best = hypotheses[0]
    assert [node.token for node in kept] == [BOS, *best.tokens, EOS][: 1 + len(best.tokens) + best.finished]


def test_impossible_rows_are_no_prefixes():
    # Only token 4 is possible, then only the end: a beam of 3 is filled up with rows that lead nowhere.
    chain = Markov(0)
    chain.table = torch.full_like(chain.table, -math.inf)
    chain.table[0, :, 4] = chain.table[1:, :, EOS] = 0.0
    recorder = SearchRecorder(chain, bos_id=BOS, eos_id=EOS)
    (hypotheses,) = beam_search(recorder, Beams(3, options()))
    assert [node.token for node in recorder.tree(hypotheses).nodes] == [BOS, 4, EOS]
