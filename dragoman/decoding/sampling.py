"""Tokens drawn at random: what greedy search chooses instead of the most probable one."""

import hashlib
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor


@dataclass(frozen=True)
class Sampler:
    """A choice for `greedy_search`: one token a row, from the log-probabilities and a random number in [0, 1)."""

    numbers: Float[Tensor, "sentences positions"]
    """Drawn beforehand, for each sentence alone (`random_numbers`): neighbours and batches change nothing."""
    temperature: float = 1.0
    top_k: int | None = None
    """Only the so many most probable tokens."""
    top_p: float = 1.0
    """Of these, only the most probable that together have this probability."""

    def __call__(
        self, log_probs: Float[Tensor, "rows vocab"], sentences: Int[Tensor, " rows"], position: int
    ) -> Int[Tensor, " rows"]:
        count = min(self.top_k or log_probs.size(-1), log_probs.size(-1))
        values, tokens = log_probs.double().topk(count, dim=-1)  # sorted, the most probable first
        probabilities = (values / self.temperature).softmax(-1)
        sums = probabilities.cumsum(-1)
        # The token that reaches `top_p` belongs to those that are kept.
        kept = ((sums - probabilities) < self.top_p).sum(-1, keepdim=True).clamp(min=1)
        total = sums.gather(1, kept - 1)
        drawn = self.numbers[sentences, position][:, None].to(sums.device) * total
        places = torch.searchsorted(sums, drawn, right=True).minimum(kept - 1)
        return tokens.gather(1, places)[:, 0]


def random_numbers(seed: int, sample: int, source: list[int], count: int) -> Float[Tensor, " count"]:
    """Uniform numbers that follow from the seed, the number of the sample and the source's tokens alone."""
    digest = hashlib.blake2b(repr((seed, sample, source)).encode(), digest_size=8).digest()
    generator = torch.Generator().manual_seed(int.from_bytes(digest, "little", signed=True))
    return torch.rand(count, generator=generator, dtype=torch.float64)
