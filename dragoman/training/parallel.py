"""The gradient of a step on several ranks: each computes the rows that are its own, and all get the sum.

A batch is that of the whole step, whatever the number of ranks. So losses, weights and the order of the pairs are those
of a single process, up to rounding and dropout. Gradients are added up once a step, after the backward passes, and not
during them: a rank that runs out of memory can then halve its batches while the others wait.
"""

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch

from dragoman.data.batching import Batch, TokenBatches
from dragoman.system.ranks import Ranks
from dragoman.training.executors import Executor, GradientSum


def own_rows(batches: TokenBatches, rows: np.ndarray, ranks: Ranks) -> Batch:
    """The rows of a batch that this rank computes; if there are none, one whose target does not count."""
    own = rows[ranks.index :: ranks.size]
    if len(own):
        return batches.collate(own)
    batch = batches.collate(rows[:1])
    return replace(batch, labels=torch.full_like(batch.labels, batches.special.pad))


class ReplicatedExecutor:
    """A replica of the model on each rank, with an executor of its own."""

    def __init__(self, own: Executor, ranks: Ranks):
        self.own, self.ranks = own, ranks
        self.loss, self.close = own.loss, own.close
        self.weights = [each for each in own.model.parameters() if each.requires_grad]

    @property
    def too_large(self) -> int | None:
        """As of `Executor`; after a step the smallest one of all ranks."""
        return self.own.too_large

    @too_large.setter
    def too_large(self, tokens: int | None) -> None:
        self.own.too_large = tokens

    def backward(self, batches: list[Batch], *, seed: Callable[[int], int]) -> GradientSum:
        """As `Executor.backward`, with the batches of this rank; gradient, loss and counts are those of all ranks."""
        ranks = self.ranks
        found = self.own.backward(batches, seed=lambda i: seed(i * ranks.size + ranks.index))
        counts = found.loss, found.target_tokens, found.source_tokens, found.left_out, self.too_large or math.inf
        losses, targets, sources, left_out, too_large = zip(*ranks.gather(counts), strict=True)
        self.too_large = None if min(too_large) == math.inf else int(min(too_large))
        share = found.target_tokens / max(1, sum(targets))
        for weight in self.weights:
            weight.grad = torch.zeros_like(weight) if weight.grad is None else weight.grad.mul_(share)
        ranks.add([weight.grad for weight in self.weights if weight.grad is not None])
        return GradientSum(sum(losses), int(sum(targets)), int(sum(sources)), int(sum(left_out)))
