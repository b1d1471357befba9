"""Markov chains instead of a model, and every hypothesis they allow."""

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from dragoman.decoding.search import Hypothesis
from dragoman.engine.log_probs import ArrayLogProbs

BOS = 2
EVERYTHING = 89  # a beam wider than the 85 hypotheses of at most 3 out of 5 tokens


class Chain:
    """A `Stepper` that goes by sentence, position and last token, and checks how it is used."""

    def __init__(self, table: Tensor):
        self.table = table  # (sentences, positions, vocab, vocab)
        self.sentences = np.arange(len(table))
        self.rows_of_steps: list[int] = []

    def step(self, tokens: np.ndarray) -> ArrayLogProbs:
        assert tokens.dtype == np.int64
        assert tokens.shape == self.sentences.shape
        assert ((tokens >= 0) & (tokens < self.table.size(-1))).all()
        self.rows_of_steps.append(len(tokens))
        return ArrayLogProbs(self.table.numpy()[self.sentences, len(self.rows_of_steps) - 1, tokens])

    def reorder(self, rows: np.ndarray) -> None:
        assert rows.dtype == np.int64
        assert rows.ndim == 1
        assert len(rows)
        assert ((rows >= 0) & (rows < len(self.sentences))).all()
        self.sentences = self.sentences[rows]
        _, counts = np.unique(self.sentences, return_counts=True)
        assert self.sentences.tolist() == sorted(self.sentences.tolist()), "sentences are mixed"
        assert len(set(counts.tolist())) == 1, "sentences have unequal numbers of rows"


def chains(seed: int, *, sentences: int = 3, positions: int = 3, vocab: int = 5, banned: float = 0.0) -> Tensor:
    """Random chains; `banned` is the share of impossible transitions."""
    random = torch.Generator().manual_seed(seed)
    logits = 2 * torch.randn(sentences, positions, vocab, vocab, generator=random)
    bans = torch.rand(logits.shape, generator=random) < banned
    bans[..., -1] = False
    return logits.masked_fill(bans, -math.inf).log_softmax(-1)


def scored(tokens: list[int], log_prob: float, penalty: float, *, finished: bool, by_wu: bool = False) -> Hypothesis:
    length = len(tokens) + finished
    return Hypothesis(tokens, log_prob, log_prob / ((5 + length) / 6 if by_wu else length) ** penalty, finished)


def all_hypotheses(chain: Tensor, limit: int, eos: int, penalty: float, **rule: bool) -> list[Hypothesis]:
    """Every possible hypothesis of one sentence, best first."""
    found, open_prefixes = [], [([], 0.0)]
    for position in range(limit):
        grown = []
        for prefix, total in open_prefixes:
            row = chain[position, prefix[-1] if prefix else BOS].tolist()
            possible = {t: total + value for t, value in enumerate(row) if value > -math.inf}
            if eos in possible:
                found.append(scored(prefix, possible.pop(eos), penalty, finished=True, **rule))
            grown += [([*prefix, token], value) for token, value in possible.items()]
        open_prefixes = grown
    found += [scored(prefix, total, penalty, finished=False, **rule) for prefix, total in open_prefixes]
    return sorted(found, key=lambda h: (h.finished, h.score), reverse=True)


def agree(found: list[Hypothesis], expected: list[Hypothesis], tolerance: float = 1e-5) -> None:
    assert [(h.tokens, h.finished) for h in found] == [(h.tokens, h.finished) for h in expected]
    for name in ("log_prob", "score"):
        values = [[getattr(h, name) for h in group] for group in (found, expected)]
        assert values[0] == pytest.approx(values[1], abs=tolerance)
