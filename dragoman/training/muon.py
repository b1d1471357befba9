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
AT_ONCE = 2**20
"""Weights of the matrices that are made orthogonal at once on a CPU: some 4 MB, which its cache holds."""
LONG = 2
"""Matrices at least so many times as long as high are made orthogonal by their squares, which takes fewer products."""


class Muon(torch.optim.Optimizer):
    """Momentum made orthogonal (Jordan et al. 2024), with steps of the length of Adam's (Liu et al. 2025, 2502.16982).

    As `torch.optim.Muon` does, but with other polynomials, and several matrices of a shape at once, which is ten times
    as fast for small ones.
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
                length = 0.2 * math.sqrt(max(shape)) * group["lr"]
                for some in _in_parts(weights):
                    precision = choose_precision("auto", some[0].device)
                    # One matrix after the other, so that the tensors in between are still in the cache.
                    steps = torch.stack([self._averaged(weight, group["momentum"]).to(precision) for weight in some])
                    for weight, step in zip(some, orthogonal(steps, self.polynomials), strict=True):
                        weight.mul_(1 - group["lr"] * group["weight_decay"])
                        weight.sub_(sharded_like(step, weight), alpha=length)

    def _averaged(self, weight: Tensor, momentum: float) -> Tensor:
        """The gradient, mixed with the moving average of those before it (Nesterov momentum)."""
        assert weight.grad is not None
        moment = self.state[weight].setdefault("momentum", torch.zeros_like(weight))
        moment.lerp_(weight.grad, 1 - momentum)
        return unsharded(weight.grad.lerp(moment, momentum))


def _in_parts(weights: list[Tensor]) -> list[list[Tensor]]:
    """Matrices of one shape in groups that are multiplied at once: as many as the cache holds, or all on a GPU."""
    if weights[0].device.type != "cpu":
        return [weights]
    count = max(1, AT_ONCE // weights[0].numel())
    return [weights[start : start + count] for start in range(0, len(weights), count)]


def orthogonal(matrices: Tensor, polynomials: Polynomials = POLYNOMIALS) -> Tensor:
    """Approximates U V^T of each matrix U S V^T: `polynomials` of it bring its singular values near 1.

    bfloat16 is precise enough for them.
    """
    is_tall = matrices.size(1) > matrices.size(2)
    wide = matrices.mT if is_tall else matrices
    wide = wide / wide.norm(dim=(1, 2), keepdim=True).clamp(min=1e-7)
    is_long = wide.size(2) >= LONG * wide.size(1)
    wide = _by_squares(wide, polynomials) if is_long else _step_by_step(wide, polynomials)
    return wide.mT if is_tall else wide


def _step_by_step(wide: Tensor, polynomials: Polynomials) -> Tensor:
    """X becomes a X + b (X X^T) X + c (X X^T)^2 X, for each polynomial."""
    for a, b, c in polynomials:
        square = wide @ wide.mT
        polynomial = torch.baddbmm(square, square, square, beta=b, alpha=c)
        wide = torch.baddbmm(wide, polynomial, wide, beta=a)
    return wide


def _by_squares(wide: Tensor, polynomials: Polynomials) -> Tensor:
    """The same for long matrices, with two long products in all instead of two for each polynomial.

    Each polynomial multiplies X by F = a + b S + c S^2 with S = X X^T, so the next square is F S F. Only the product of
    all F is multiplied by X.
    """
    square = wide @ wide.mT
    product = torch.eye(wide.size(1), dtype=wide.dtype, device=wide.device).expand_as(square)
    for index, (a, b, c) in enumerate(polynomials):
        polynomial = torch.baddbmm(square, square, square, beta=b, alpha=c)
        product = torch.baddbmm(product, polynomial, product, beta=a)
        if index + 1 < len(polynomials):
            half = torch.baddbmm(square, polynomial, square, beta=a)
            square = torch.baddbmm(half, half, polynomial, beta=a)
    return product @ wide


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
