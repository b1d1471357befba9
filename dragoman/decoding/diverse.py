"""Diverse beam search (Vijayakumar et al., 2016): groups of beams that avoid each other's tokens."""

from dataclasses import replace

import numpy as np

from dragoman.decoding.search import Beams, Hypothesis, SearchOptions, rank
from dragoman.engine.log_probs import LogProbs
from dragoman.engine.shapes import Float, Int


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

    def candidates(
        self, log_probs: LogProbs
    ) -> tuple[Float[np.ndarray, "live candidates"], Int[np.ndarray, "live candidates"]]:
        live_totals, vocab = self.state.totals, log_probs.vocab_size
        live, beam = live_totals.shape
        totals, candidates = np.full((live, 2 * self.beam_size), -np.inf), np.zeros((live, 2 * self.beam_size), int)
        sentences, groups = np.divmod(self.state.sentences, self.groups)
        taken: dict[int, list[int]] = {}  # the tokens that groups of each sentence have taken in this step
        for group in range(self.groups):
            members = np.flatnonzero(groups == group)
            rows = (members[:, None] * beam + np.arange(beam)).ravel()
            # Each token that was taken is less probable in each of the rows of a sentence.
            lowered = [
                (member * beam + row, token)
                for member, sentence in enumerate(sentences[members].tolist())
                for token in taken.get(sentence, ())
                for row in range(beam)
            ]
            at_rows, tokens = np.array(lowered, np.int64).reshape(-1, 2).T
            penalised = log_probs.lowered(rows, at_rows, tokens, np.full(len(lowered), self.strength))
            ranked, best = penalised.best(live_totals[members], 2 * self.beam_size)
            parents, tokens = np.divmod(best, vocab)
            true = log_probs.at((members[:, None] * beam + parents).ravel(), tokens.ravel()).reshape(best.shape)
            true = true + np.take_along_axis(live_totals[members], parents, axis=1)
            totals[members] = np.where(ranked == -np.inf, -np.inf, true)
            candidates[members] = best
            is_taken = np.isfinite(ranked[:, : self.beam_size])
            for member, sentence in enumerate(sentences[members].tolist()):
                taken.setdefault(sentence, []).extend(tokens[member, : self.beam_size][is_taken[member]].tolist())
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
