"""Translations drawn at random: greedy search that chooses tokens by chance instead of the most probable one."""

import hashlib
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np

from dragoman.config.decoding import DecodingConfig
from dragoman.decoding.search import Hypothesis, SearchOptions, greedy_search, rank
from dragoman.engine.engine import Stepper
from dragoman.engine.log_probs import LogProbs
from dragoman.engine.shapes import Float, Int


@dataclass(frozen=True)
class Sampler:
    """Choice for `greedy_search`: a token a row, from the log-probabilities and a random number in [0, 1)."""

    numbers: Float[np.ndarray, "sentences positions"]
    """Random numbers in [0, 1), drawn for each sentence by itself, so that its translation is the same in any batch."""
    config: DecodingConfig
    """Its `temperature`, `top_k` and `top_p` are used: `top_p` among the `top_k` most probable tokens."""

    def __call__(
        self, log_probs: LogProbs, sentences: Int[np.ndarray, " rows"], position: int
    ) -> tuple[Int[np.ndarray, " rows"], Float[np.ndarray, " rows"]]:
        count = min(self.config.top_k or log_probs.vocab_size, log_probs.vocab_size)
        numbers = self.numbers[sentences, position]
        return log_probs.drawn(numbers, count, self.config.temperature, self.config.top_p)


def random_numbers(seed: int, sample: int, source: list[int], count: int) -> Float[np.ndarray, " count"]:
    """Uniform numbers that follow from the seed, the number of the sample and the source's tokens alone."""
    digest = hashlib.blake2b(repr((seed, sample, source)).encode(), digest_size=8).digest()
    random = np.random.RandomState(int.from_bytes(digest[:4], "little"))
    # 53 bits each, as torch draws them from a generator with the whole digest as its seed.
    words = random.randint(1 << 32, size=(count, 2), dtype=np.uint32)
    high, low = words.astype(np.uint64).T
    return ((high << np.uint64(32) | low) & np.uint64(2**53 - 1)) * 2.0**-53


def sample_search(
    stepper: Stepper, sources: list[list[int]], config: DecodingConfig, options: SearchOptions
) -> list[list[Hypothesis]]:
    """`config.n_best` random translations of each of `sources`, best first.

    `stepper` has as many rows for each sentence, one after another; `options` has one limit for each.
    """
    count = config.n_best
    limits = repeated(options.max_lengths, count)
    numbers = np.zeros((len(limits), max(limits)))
    samples_of_sources = [(source, sample) for source in sources for sample in range(count)]
    for row, ((source, sample), limit) in enumerate(zip(samples_of_sources, limits, strict=True)):
        numbers[row, :limit] = random_numbers(config.seed, sample, source, limit)
    sampler = Sampler(numbers, config)
    rows = greedy_search(stepper, replace(options, max_lengths=limits), sampler)
    # A row has no hypothesis if the model gave it no probabilities.
    return [sorted(chain(*rows[start : start + count]), key=rank) for start in range(0, len(rows), count)]


def repeated(items: list[Any], times: int) -> list[Any]:
    """Each item `times` times, one after another."""
    return [item for item in items for _ in range(times)]
