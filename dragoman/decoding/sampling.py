"""Translations drawn at random: greedy search that chooses tokens by chance instead of the most probable one."""

import hashlib
from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from dragoman.config.decoding import DecodingConfig
from dragoman.decoding.search import Hypothesis, SearchOptions, Stepper, greedy_search, rank


@dataclass(frozen=True)
class Sampler:
    """Choice for `greedy_search`: one token a row, from the log-probabilities and a random number in [0, 1)."""

    numbers: Float[Tensor, "sentences positions"]
    """Random numbers in [0, 1), drawn for each sentence by itself, so that its translation is the same in any batch."""
    config: DecodingConfig
    """Its `temperature`, `top_k` and `top_p` are used: `top_p` among the `top_k` most probable tokens."""

    def __call__(
        self, log_probs: Float[Tensor, "rows vocab"], sentences: Int[Tensor, " rows"], position: int
    ) -> Int[Tensor, " rows"]:
        vocab = log_probs.size(-1)
        count = min(self.config.top_k or vocab, vocab)
        values, tokens = log_probs.double().topk(count, dim=-1)  # sorted, the most probable first
        probabilities = (values / self.config.temperature).softmax(-1)
        sums = probabilities.cumsum(-1)
        # The token that reaches `top_p` is kept too.
        kept = ((sums - probabilities) < self.config.top_p).sum(-1, keepdim=True).clamp(min=1)
        total = sums.gather(1, kept - 1)
        drawn = self.numbers[sentences, position][:, None].to(sums.device) * total
        ranks = torch.searchsorted(sums, drawn, right=True).minimum(kept - 1)
        return tokens.gather(1, ranks)[:, 0]


def random_numbers(seed: int, sample: int, source: list[int], count: int) -> Float[Tensor, " count"]:
    """Uniform numbers that follow from the seed, the number of the sample and the source's tokens alone."""
    digest = hashlib.blake2b(repr((seed, sample, source)).encode(), digest_size=8).digest()
    generator = torch.Generator().manual_seed(int.from_bytes(digest, "little", signed=True))
    return torch.rand(count, generator=generator, dtype=torch.float64)


def sample_search(
    stepper: Stepper, sources: list[list[int]], config: DecodingConfig, options: SearchOptions
) -> list[list[Hypothesis]]:
    """`config.n_best` random translations of each of `sources`, best first.

    `stepper` has as many rows for each sentence, one after another; `options` has one limit for each.
    """
    count = config.n_best
    limits = repeated(options.max_lengths, count)
    numbers = [
        random_numbers(config.seed, sample, source, limit)
        for source, limit in zip(sources, options.max_lengths, strict=True)
        for sample in range(count)
    ]
    sampler = Sampler(pad_sequence(numbers, batch_first=True), config)
    rows = greedy_search(stepper, replace(options, max_lengths=limits), sampler)
    samples = [hypothesis for (hypothesis,) in rows]
    return [sorted(samples[start : start + count], key=rank) for start in range(0, len(samples), count)]


def repeated(items: list[Any], times: int) -> list[Any]:
    """Each item `times` times, one after another."""
    return [item for item in items for _ in range(times)]
