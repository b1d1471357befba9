"""Diverse beam search against the algorithm in plain lists."""

import pytest
from torch import Tensor

from dragoman.decoding.diverse import DiverseBeams, distinct
from dragoman.decoding.search import Beams, Hypothesis, SearchOptions, beam_search
from tests.decoding.chains import BOS, Chain, agree, chains, scored

EOS = 3


def plain_groups(chain: Tensor, *, groups: int, size: int, limit: int, strength: float) -> list[list[Hypothesis]]:
    """What each group has at the end, best first."""
    ended: list[list[Hypothesis]] = [[] for _ in range(groups)]
    live = [[([], 0.0)] for _ in range(groups)]
    for position in range(limit):
        taken: list[int] = []
        for group in range(groups):
            candidates = [
                (total + value - strength * taken.count(token), total + value, prefix, token)
                for prefix, total in live[group]
                for token, value in enumerate(chain[position, prefix[-1] if prefix else BOS].tolist())
            ]
            candidates.sort(key=lambda c: c[0], reverse=True)
            if candidates:
                taken += [token for *_, token in candidates[:size]]
            ended[group] += [scored(p, total, 1.0, finished=True) for _, total, p, t in candidates[:size] if t == EOS]
            live[group] = [([*p, t], total) for _, total, p, t in candidates if t != EOS][:size]
            alive = [scored(prefix, total, 1.0, finished=False) for prefix, total in live[group]]
            kept = sorted((h.score for h in ended[group]), reverse=True)[:size]
            if len(kept) == size and max((h.score for h in alive), default=-1e9) <= kept[-1]:
                live[group] = []
            elif position == limit - 1:
                ended[group] += alive
    return [sorted(group, key=lambda h: (not h.finished, -h.score))[:size] for group in ended]


def search(table: Tensor, limits: list[int], **options) -> list[list[Hypothesis]]:
    groups = options["groups"]
    search_options = SearchOptions(limits, BOS, EOS)
    beams = DiverseBeams(options["size"], search_options, groups=groups, strength=options["strength"])
    return beam_search(Chain(table.repeat_interleave(groups, 0)), beams)


@pytest.mark.first_is_quick
@pytest.mark.parametrize("strength", [0.0, 0.3, 2.0])
@pytest.mark.parametrize(("groups", "size"), [(2, 1), (5, 1), (3, 2), (2, 3)])
def test_diverse_search_is_the_one_in_lists(groups: int, size: int, strength: float) -> None:
    limits = [11, 2, 7, 11, 1]
    for seed in (7, 11, 13):
        table = chains(seed, sentences=5, positions=11, vocab=13)
        found = search(table, limits, groups=groups, size=size, strength=strength)
        for chain, limit, hypotheses in zip(table, limits, found, strict=True):
            expected = plain_groups(chain, groups=groups, size=size, limit=limit, strength=strength)
            agree(hypotheses, distinct(expected))


def test_the_first_group_is_plain_beam_search() -> None:
    table = chains(17, sentences=3, positions=7, vocab=11)
    plain = beam_search(Chain(table), Beams(2, SearchOptions([7] * 3, BOS, EOS)))
    for (best, *_), group in zip(plain, search(table, [7] * 3, groups=3, size=2, strength=5.0), strict=True):
        assert any(h.tokens == best.tokens and h.score == pytest.approx(best.score) for h in group)


def test_alternatives_differ_more_the_harder_they_avoid_each_other() -> None:
    table = chains(19, sentences=31, positions=7, vocab=11)

    def first_tokens(strength: float) -> float:
        found = search(table, [7] * 31, groups=5, size=1, strength=strength)
        return sum(len({h.tokens[0] if h.tokens else EOS for h in group}) for group in found) / 31

    weak, strong = first_tokens(0.5), first_tokens(50.0)
    assert strong == 5  # five tokens, since taking one again costs more than any other
    assert weak < 4


def test_equal_hypotheses_count_once() -> None:
    def hypothesis(*tokens: int, score: float) -> Hypothesis:
        return Hypothesis(list(tokens), score, score)

    a, b, c = hypothesis(5, score=-1.0), hypothesis(7, score=-2.0), hypothesis(11, score=-0.5)
    assert distinct([[a, b], [a, b], [a, b], [c, a]]) == [c, a, b]
