"""Diverse beam search (Vijayakumar et al., 2016): groups of beams that avoid each other's tokens."""

from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor

from dragoman.decoding.search import Beams, Hypothesis, SearchOptions, best_continuations, rank


class DiverseBeams(Beams):
    """Beams of which each group of a sentence counts as a sentence of its own, until the results are put together.

    The stepper holds each sentence as often as there are groups, one after another. In every step the groups choose
    one after another. For each beam of an earlier group that has just taken a token, that token is `strength` nats less
    probable to the groups after it, in this step. Totals are the true log-probabilities.
    """

    def __init__(self, beam_size: int, options: SearchOptions, *, groups: int, strength: float):
        """`beam_size` is that of a group; `options` has one limit for each sentence."""
        limits = [limit for limit in options.max_lengths for _ in range(groups)]
        super().__init__(beam_size, replace(options, max_lengths=limits))
        self.groups, self.strength = groups, strength

    def candidates(self, log_probs: Float[Tensor, "live beam vocab"]) -> tuple[Tensor, Tensor]:
        vocab = log_probs.size(-1)
        totals = torch.full((len(self.live), 2 * self.beam_size), -torch.inf, dtype=torch.float64)
        candidates = torch.zeros_like(totals, dtype=torch.long)
        owners, groups = self.live // self.groups, self.live % self.groups
        taken = log_probs.new_zeros(int(owners.max()) + 1, vocab)
        for group in range(self.groups):
            rows = (groups == group).nonzero().flatten()
            penalised = log_probs[rows] - self.strength * taken[owners[rows]][:, None]
            ranked, best = best_continuations(penalised, self.totals[rows], totals.size(1))
            true = log_probs[rows].flatten(1).gather(1, best.to(log_probs.device)).cpu()
            true = true + self.totals[rows].gather(1, best // vocab)
            totals[rows], candidates[rows] = true.masked_fill(ranked == -torch.inf, -torch.inf), best
            chosen = torch.isfinite(ranked[:, : self.beam_size])
            counts = torch.zeros(len(rows), vocab)
            counts.scatter_add_(1, best[:, : self.beam_size] % vocab, chosen.float())
            taken[owners[rows]] += counts.to(taken)
        return totals, candidates

    def results(self) -> list[list[Hypothesis]]:
        """The best hypothesis of each group of a sentence, best first; no two of a sentence are equal."""
        found = super().results()
        return [distinct(found[start : start + self.groups]) for start in range(0, len(found), self.groups)]


def distinct(groups: list[list[Hypothesis]]) -> list[Hypothesis]:
    """The best hypothesis of each group that no earlier group gave; best first."""
    found: dict[tuple[int, ...], Hypothesis] = {}
    for group in groups:
        best = next((h for h in group if tuple(h.tokens) not in found), None)
        if best is not None:
            found[tuple(best.tokens)] = best
    return sorted(found.values(), key=rank)
