"""Dropout that does not wait for its random numbers on a CPU.

Bernoulli sampling costs more there than the matrix product beside it. A compiled kernel makes bits from a key and the
place of each element; where it is missing, sixteen random bits an element are compared with a threshold, which cost a
sixth of Bernoulli's and hit the rate to 1 in 65,536.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from dragoman.model import kernels


class Dropout(nn.Module):
    """Zeroes elements with probability `rate` while training and scales the rest so that the mean stays.

    Without the compiled kernel the rate is, in half precision, the nearest one, within 0.002, whose scale is a number.
    """

    def __init__(self, rate: float):
        super().__init__()
        self.rate = rate
        self.generator: torch.Generator | None = None
        """Of the random numbers on a CPU; None: the one of torch."""

    def forward(self, x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        if not self.training or self.rate == 0:
            return x
        if kernels.can_drop(x):
            return kernels.dropout(x, self.rate, self.generator)
        if x.device.type != "cpu":
            return F.dropout(x, self.rate)
        return x * _keep_mask(x, self.rate, self.generator)

    def extra_repr(self) -> str:
        return f"rate={self.rate}"


def _keep_mask(x: Tensor, rate: float, generator: torch.Generator | None) -> Tensor:
    scale = torch.tensor(1 / (1 - rate), dtype=x.dtype).item()
    dropped = min(round((1 - 1 / scale) * 2**16), 2**16 - 1)
    # From -2**63: without a lower bound the sign bit stays 0, and with it one number of four non-negative.
    draws = torch.empty(-(-x.numel() // 4), dtype=torch.int64).random_(-(2**63), None, generator=generator)
    bits = draws.view(torch.int16)[: x.numel()].view(x.shape)
    return (bits >= dropped - 2**15).to(x.dtype) * (2**16 / (2**16 - dropped))
