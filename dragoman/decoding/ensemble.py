"""Several models of one vocabulary as one: the mean of their probabilities."""

import math
from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from dragoman.decoding.search import Stepper


class EnsembleStepper:
    """Takes each step with all `steppers`."""

    def __init__(self, steppers: Sequence[Stepper]):
        self.steppers = steppers

    def step(self, tokens: Int[Tensor, " rows"]) -> Float[Tensor, "rows vocab"]:
        return mean_of_probabilities([stepper.step(tokens) for stepper in self.steppers])

    def reorder(self, rows: Int[Tensor, " kept"]) -> None:
        for stepper in self.steppers:
            stepper.reorder(rows)


def mean_of_probabilities(log_probs: Sequence[Float[Tensor, "*shape"]]) -> Float[Tensor, "*shape"]:
    """log of the mean of exp; of a single tensor that tensor itself."""
    if len(log_probs) == 1:
        return log_probs[0]
    return torch.stack(list(log_probs)).logsumexp(0) - math.log(len(log_probs))
