"""Diverse beam search (Vijayakumar et al., 2016): groups of beams that avoid each other's tokens."""

from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor

from dragoman.decoding.search import Beams, Hypothesis, SearchOptions, best_continuations, rank


class DiverseBeams(Beams):
    """Beams in groups. Each group of a sentence is searched like a sentence of its own; `results` joins them.

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
        live, live_totals = self.state.sentences, self.state.totals
        totals = torch.full((len(live), 2 * self.beam_size), -torch.inf, dtype=torch.float64)
        candidates = torch.zeros_like(totals, dtype=torch.long)
        sentences, groups = live // self.groups, live % self.groups
        taken = log_probs.new_zeros(int(sentences.max()) + 1, vocab)  # beams with each token in this step
        for group in range(self.groups):
            rows = (groups == group).nonzero().flatten()
            penalised = log_probs[rows] - self.strength * taken[sentences[rows]][:, None]
            ranked, best = best_continuations(penalised, live_totals[rows], totals.size(1))
            true_totals = log_probs[rows].flatten(1).gather(1, best.to(log_probs.device)).cpu()
            true_totals = true_totals + live_totals[rows].gather(1, best // vocab)
            totals[rows] = true_totals.masked_fill(ranked == -torch.inf, -torch.inf)
            candidates[rows] = best
            chosen = torch.isfinite(ranked[:, : self.beam_size])
            counts = torch.zeros(len(rows), vocab)
            counts.scatter_add_(1, best[:, : self.beam_size] % vocab, chosen.float())
            taken[sentences[rows]] += counts.to(taken)
        return totals, candidates

    def results(self) -> list[list[Hypothesis]]:
        """The best hypothesis of each group of a sentence, best first; no two of a sentence are equal."""
        ranked = super().results()
        return [distinct(ranked[start : start + self.groups]) for start in range(0, len(ranked), self.groups)]


def distinct(groups: list[list[Hypothesis]]) -> list[Hypothesis]:
    """The best hypothesis of each group that no earlier group gave; best first."""
    chosen: dict[tuple[int, ...], Hypothesis] = {}
    for group in groups:
        for hypothesis in group:
            tokens = tuple(hypothesis.tokens)
            if tokens not in chosen:
                chosen[tokens] = hypothesis
                break
    return sorted(chosen.values(), key=rank)
