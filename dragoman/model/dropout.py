"""Dropout (section 5.4 of the paper), with random numbers that follow from a generator."""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from dragoman.model.formula import Formula


class Dropout(nn.Module):
    """Zeroes elements with probability `rate` while training and scales the rest so that the mean stays.

    In half precision without the compiled kernel, the rate is the nearest one, within 0.002, for which the scale
    1 / (1 - rate) is a number of that precision.
    """

    def __init__(self, rate: float):
        super().__init__()
        self.rate = rate
        self.generator: torch.Generator | None = None
        """Generator of the random numbers on a CPU; None: that of torch."""

    @property
    def drops(self) -> bool:
        """Whether `forward` zeroes elements now: while training, unless the rate is 0."""
        return self.training and self.rate > 0

    def forward(
        self, x: Float[Tensor, "*shape"], add_to: Float[Tensor, "*shape"] | None = None
    ) -> Float[Tensor, "*shape"]:
        """`x` with elements dropped, added to `add_to` if that is given."""
        if self.drops:
            return drop(x, self.rate, self.generator, add_to)
        return x if add_to is None else add_to + x

    def extra_repr(self) -> str:
        return f"rate={self.rate}"


@Formula
def drop(x: Tensor, rate: float, generator: torch.Generator | None = None, add_to: Tensor | None = None) -> Tensor:
    """`x` with elements dropped and the rest scaled, added to `add_to` if that is given."""
    kept = x * _keep_mask(x, rate, generator) if x.device.type == "cpu" else F.dropout(x, rate)
    return kept if add_to is None else add_to + kept


def _keep_mask(x: Tensor, rate: float, generator: torch.Generator | None) -> Tensor:
    """Factors for `x`: zero with probability `rate`, else 1 / (1 - rate).

    On a CPU, Bernoulli sampling costs more than a matrix product. Comparing sixteen random bits for each element with a
    threshold costs a sixth of that, and hits the rate to 1 in 65,536.
    """
    scale = torch.tensor(1 / (1 - rate), dtype=x.dtype).item()
    dropped = min(round((1 - 1 / scale) * 2**16), 2**16 - 1)
    # From -2**63: without a lower bound the sign bit stays 0, and with it one number of four non-negative.
    draws = torch.empty(-(-x.numel() // 4), dtype=torch.int64).random_(-(2**63), None, generator=generator)
    bits = draws.view(torch.int16)[: x.numel()].view(x.shape)
    return (bits >= dropped - 2**15).to(x.dtype) * (2**16 / (2**16 - dropped))
