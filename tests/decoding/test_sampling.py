"""Samples against the probabilities they are drawn with, which are exact numbers."""

import hashlib
import math
from collections import Counter

import numpy as np
import pytest
import torch

from dragoman.config.decoding import DecodingConfig
from dragoman.decoding.sampling import Sampler, random_numbers
from dragoman.decoding.search import SearchOptions, greedy_search
from dragoman.engine.log_probs import ArrayLogProbs
from tests.decoding.chains import BOS, Chain, all_hypotheses, chains

DRAWS = 10_007
PROBABILITIES = [0.05, 0.4, 0.0, 0.15, 0.3, 0.1]  # the order of the most probable: 1, 4, 3, 5, 0


@pytest.mark.parametrize(
    ("options", "weights"),
    [
        ({}, PROBABILITIES),
        ({"temperature": 0.5}, [p**2 for p in PROBABILITIES]),
        ({"temperature": 3.0}, [p ** (1 / 3) for p in PROBABILITIES]),
        ({"top_k": 1}, [0, 1, 0, 0, 0, 0]),
        ({"top_k": 3}, [0, 0.4, 0, 0.15, 0.3, 0]),
        ({"top_k": 97}, PROBABILITIES),
        ({"top_p": 0.69}, [0, 0.4, 0, 0, 0.3, 0]),
        ({"top_p": 0.71}, [0, 0.4, 0, 0.15, 0.3, 0]),
        ({"top_p": 1e-9}, [0, 1, 0, 0, 0, 0]),
        # 0.7 of 0.85 is 0.59: two of the three that are left
        ({"top_k": 3, "top_p": 0.7}, [0, 0.4, 0, 0, 0.3, 0]),
    ],
)
def test_evenly_spread_numbers_draw_each_token_as_often_as_it_is_probable(options: dict, weights: list[float]) -> None:
    numbers = (np.arange(DRAWS) + 0.5) / DRAWS
    sampler = Sampler(numbers[:, None], DecodingConfig(sample=True, **options))
    rows = ArrayLogProbs(torch.tensor(PROBABILITIES).log().expand(DRAWS, -1).numpy())
    counts = np.bincount(sampler(rows, np.arange(DRAWS), 0)[0], minlength=6).tolist()
    for count, weight in zip(counts, weights, strict=True):
        assert abs(count - DRAWS * weight / sum(weights)) < 2
        assert weight or not count


@pytest.mark.slow
def test_samples_of_a_chain_are_as_frequent_as_probable() -> None:
    chain = chains(7, sentences=1)
    stepper = Chain(chain.expand(DRAWS, -1, -1, -1))
    numbers = np.stack([random_numbers(3, draw, [5, 7], 3) for draw in range(DRAWS)])
    sampler = Sampler(numbers, DecodingConfig(sample=True))
    found = greedy_search(stepper, SearchOptions([3] * DRAWS, BOS, 3), sampler)
    counts = Counter((tuple(h.tokens), h.finished) for (h,) in found)
    expected = {(tuple(h.tokens), h.finished): h.log_prob for h in all_hypotheses(chain[0], 3, 3, 1.0)}
    assert counts.keys() <= expected.keys()
    for key, log_prob in expected.items():
        p = math.exp(log_prob)
        # Beyond five standard deviations once in a million; the numbers are the same in every run.
        assert abs(counts[key] - DRAWS * p) <= 5 * math.sqrt(DRAWS * p * (1 - p)) + 1
    for (h,) in found[:101]:
        assert h.log_prob == pytest.approx(expected[tuple(h.tokens), h.finished], abs=1e-5)


def test_random_numbers_follow_from_seed_sample_and_source_alone() -> None:
    base = random_numbers(1, 0, [5, 7], 11)
    assert np.array_equal(base[:5], random_numbers(1, 0, [5, 7], 5))
    for other in ((2, 0, [5, 7]), (1, 1, [5, 7]), (1, 0, [7, 5])):
        assert not np.array_equal(base, random_numbers(*other, 11))
    many = np.concatenate([random_numbers(1, sample, [5], 101) for sample in range(101)])
    # The mean of 10,201 uniform numbers has a standard deviation of 0.0029.
    assert abs(float(many.mean()) - 0.5) < 0.015
    assert 0 <= float(many.min()) < 0.001
    assert 0.999 < float(many.max()) < 1


def test_random_numbers_are_those_that_torch_draws() -> None:
    for sample in range(20):
        digest = hashlib.blake2b(repr((1, sample, [5, 7])).encode(), digest_size=8).digest()
        generator = torch.Generator().manual_seed(int.from_bytes(digest, "little", signed=True))
        expected = torch.rand(37, generator=generator, dtype=torch.float64)
        assert random_numbers(1, sample, [5, 7], 37).tolist() == expected.tolist()
