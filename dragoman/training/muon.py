"""The optimizer Muon, whose steps go equally far in all directions, and optimizers joined into one."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from dragoman.system.device import choose_precision
from dragoman.system.ranks import sharded_like, unsharded

Polynomials = Sequence[tuple[float, float, float]]
"""Coefficients (a, b, c) of polynomials a x + b x^3 + c x^5, which are applied one after another."""
NEWTON_SCHULZ: Polynomials = [(3.4445, -4.7750, 2.0315)] * 5
"""The polynomials of Muon's authors, which bring singular values from 0.01 to 1 into 0.68 to 1.14."""
POLYNOMIALS: Polynomials = [
    (8.0934, -23.6205, 17.4462),
    (3.6366, -2.7219, 0.5365),
    (2.6613, -1.9772, 0.4526),
]
"""For singular values from 0.01 to 1, which come into 0.73 to 1.27: each is the one of its degree that differs least
from 1 on the interval which those before it leave ("Polar Express", Amsel et al. 2025, 2505.16932). They were found by
linear programming. Three of them do what five steps of Newton and Schulz do (docs/trials.md)."""


class Muon(torch.optim.Optimizer):
    """Momentum made orthogonal (Jordan et al. 2024), with steps of the length of Adam's (Liu et al. 2025, 2502.16982).

    As `torch.optim.Muon` does, but with other polynomials, and all matrices of a shape at once, which is ten times as
    fast for small ones.
    """

    def __init__(
        self,
        matrices: list[nn.Parameter],
        *,
        momentum: float = 0.95,
        weight_decay: float = 0.0,
        polynomials: Polynomials = POLYNOMIALS,
    ):
        super().__init__(matrices, {"lr": 0.0, "momentum": momentum, "weight_decay": weight_decay})
        self.polynomials = polynomials

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            shapes: dict[torch.Size, list[Tensor]] = {}
            for weight in group["params"]:
                if weight.grad is not None:
                    shapes.setdefault(weight.shape, []).append(weight)
            for shape, weights in shapes.items():
                precision = choose_precision("auto", weights[0].device)
                # One matrix after the other, so that the tensors in between are still in the cache.
                steps = torch.stack([self._averaged(weight, group["momentum"]).to(precision) for weight in weights])
                length = 0.2 * math.sqrt(max(shape)) * group["lr"]
                for weight, step in zip(weights, orthogonal(steps, self.polynomials), strict=True):
                    weight.mul_(1 - group["lr"] * group["weight_decay"])
                    weight.sub_(sharded_like(step, weight), alpha=length)

    def _averaged(self, weight: Tensor, momentum: float) -> Tensor:
        """The gradient, mixed with the moving average of those before it (Nesterov momentum)."""
        assert weight.grad is not None
        moment = self.state[weight].setdefault("momentum", torch.zeros_like(weight))
        moment.lerp_(weight.grad, 1 - momentum)
        return unsharded(weight.grad.lerp(moment, momentum))


def orthogonal(matrices: Tensor, polynomials: Polynomials = POLYNOMIALS) -> Tensor:
    """Approximates U V^T of each matrix U S V^T: `polynomials` of it bring its singular values near 1.

    bfloat16 is precise enough for them.
    """
    tall = matrices.size(1) > matrices.size(2)
    wide = matrices.mT if tall else matrices
    wide = wide / wide.norm(dim=(1, 2), keepdim=True).clamp(min=1e-7)
    for a, b, c in polynomials:
        square = wide @ wide.mT
        polynomial = torch.baddbmm(square, square, square, beta=b, alpha=c)
        wide = torch.baddbmm(wide, polynomial, wide, beta=a)
    return wide.mT if tall else wide


class CombinedOptimizer(torch.optim.Optimizer):
    """Several optimizers as one, each over weights of its own."""

    def __init__(self, *parts: torch.optim.Optimizer):
        self.parts = parts
        super().__init__([group for part in parts for group in part.param_groups], {})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        groups = iter(self.param_groups)
        for part in self.parts:
            # Shared again at each step, because loading a state replaces both.
            part.state, part.param_groups = self.state, [next(groups) for _ in part.param_groups]
            part.step()
