"""Diverse beam search (Vijayakumar et al., 2016): groups of beams that avoid each other's tokens."""

import torch
from jaxtyping import Float
from torch import Tensor

from dragoman.decoding.search import Beams, Hypothesis, Stepper, best_continuations, follow, rank


@torch.inference_mode()
def diverse_beam_search(stepper: Stepper, beams: "DiverseBeams", *, bos_id: int) -> list[list[Hypothesis]]:
    """The best hypothesis of each group, of each sentence, best first; no two of a sentence are equal.

    `stepper` holds each sentence as often as there are groups, one after another.
    """
    found = follow(stepper, beams, bos_id)
    return [distinct(found[start : start + beams.groups]) for start in range(0, len(found), beams.groups)]


class DiverseBeams(Beams):
    """Beams of which each group of a sentence counts as a sentence of its own.

    In every step the groups choose one after another. For each beam of an earlier group that has just gone on with a
    token, that token is `strength` less probable (in nats) to the groups after it, in this step. Totals are the true
    log-probabilities.
    """

    def __init__(
        self,
        beam_size: int,
        max_lengths: list[int],
        eos_id: int,
        length_penalty: float,
        *,
        groups: int,
        strength: float,
    ):
        """`beam_size` is that of a group, `max_lengths` has one for each sentence."""
        super().__init__(beam_size, [n for n in max_lengths for _ in range(groups)], eos_id, length_penalty)
        self.groups, self.strength = groups, strength

    def candidates(self, log_probs: Float[Tensor, "live beam vocab"]) -> tuple[Tensor, Tensor]:
        vocab = log_probs.size(-1)
        totals = torch.full((len(self.live), 2 * self.beam_size), -torch.inf, dtype=torch.float64)
        candidates = torch.zeros_like(totals, dtype=torch.long)
        owners, groups = self.live // self.groups, self.live % self.groups
        taken = log_probs.new_zeros(int(owners.max()) + 1, vocab)
        for group in range(self.groups):
            places = (groups == group).nonzero().flatten()
            penalised = log_probs[places] - self.strength * taken[owners[places]][:, None]
            ranked, best = best_continuations(penalised, self.totals[places], totals.size(1))
            true = log_probs[places].flatten(1).gather(1, best.to(log_probs.device)).cpu()
            true = true + self.totals[places].gather(1, best // vocab)
            totals[places], candidates[places] = true.masked_fill(ranked == -torch.inf, -torch.inf), best
            chosen = torch.isfinite(ranked[:, : self.beam_size])
            counts = torch.zeros(len(places), vocab)
            counts.scatter_add_(1, best[:, : self.beam_size] % vocab, chosen.float())
            taken[owners[places]] += counts.to(taken)
        return totals, candidates


def distinct(groups: list[list[Hypothesis]]) -> list[Hypothesis]:
    """Of each group its best hypothesis that no group before it gave; best first."""
    found: dict[tuple[int, ...], Hypothesis] = {}
    for group in groups:
        best = next((h for h in group if tuple(h.tokens) not in found), None)
        if best is not None:
            found[tuple(best.tokens)] = best
    return sorted(found.values(), key=rank)
