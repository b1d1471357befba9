"""Averages of several models of one run, which are often better than each of them (section 6.1 of the paper)."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from dragoman.system.ranks import sharded_like


def average_weights(models: Iterable[dict[str, Tensor]]) -> dict[str, Tensor]:
    """The mean of each weight over several models of one architecture."""
    total: dict[str, Tensor] = {}
    count = 0
    for model in models:
        count += 1
        for name, value in model.items():
            total[name] = total[name] + value.double() if name in total else value.double()
    return {name: (value / count).float() for name, value in total.items()}


class MovingAverage:
    """An exponential moving average of a model's weights over the steps of a run."""

    def __init__(self, model: nn.Module, decay: float):
        """Starts with the weights of `model`; each step keeps the share `decay` of the average."""
        self.decay = decay
        self.weights = {name: weight.detach().clone() for name, weight in model.named_parameters()}

    @torch.no_grad()
    def update(self, model: nn.Module, step: int) -> None:
        """Add the weights after step `step`, counted from 1."""
        # Early on the average is over fewer steps, or the random first weights would stay in it for long.
        decay = min(self.decay, (1 + step) / (10 + step))
        for name, weight in model.named_parameters():
            self.weights[name].lerp_(weight, 1 - decay)

    @contextmanager
    def applied(self, model: nn.Module) -> Iterator[None]:
        """Swaps the weights inside the `with` block: `model` has the averaged ones."""
        self._swap(model)
        try:
            yield
        finally:
            self._swap(model)

    def load(self, weights: dict[str, Tensor]) -> None:
        """Restore an average from a checkpoint."""
        for name, weight in weights.items():
            self.weights[name].copy_(sharded_like(weight, self.weights[name]))

    def _swap(self, model: nn.Module) -> None:
        for name, weight in model.named_parameters():
            weight.data, self.weights[name] = self.weights[name], weight.data
