"""LoRA: only a low-rank change of each matrix is learned (Hu et al. 2021, "LoRA", arXiv 2106.09685).

A matrix W (out x in) becomes W + scale * up @ down, with up (out x rank) and down (rank x in). The gradient G of the
sum is that of W, and so

    gradient of up   = scale * G @ down^T
    gradient of down = scale * up^T @ G

That is all an optimizer needs: the model stays as it is, its matrices always have their change in them, and the moments
of Adam are those of the two thin matrices.
"""

import math

import torch
from torch import Tensor, nn

SCALE = 2.0
"""Factor of the change (alpha / rank in the paper)."""
FACTORS = "up", "down"


class LowRank(torch.optim.Optimizer):
    """Adam for the low-rank changes of matrices. At the beginning `up` is 0, and `down` random but always the same."""

    def __init__(self, matrices: list[nn.Parameter], *, rank: int, betas: tuple[float, float], eps: float):
        super().__init__(matrices, {"lr": 0.0, "rank": rank, "betas": betas, "eps": eps})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            for index, weight in enumerate(group["params"]):
                if weight.grad is None:
                    continue
                state = self.state[weight]
                if not state:
                    state |= first_factors(weight, group["rank"], seed=index)
                before = state["up"] @ state["down"]
                gradients = {
                    "up": SCALE * weight.grad @ state["down"].mT,
                    "down": SCALE * state["up"].mT @ weight.grad,
                }
                state["step"] += 1
                for name in FACTORS:
                    self._adam(state, name, gradients[name], group)
                weight.add_(state["up"] @ state["down"] - before, alpha=SCALE)

    @staticmethod
    def _adam(state: dict[str, Tensor], name: str, gradient: Tensor, group: dict) -> None:
        """One step of Adam for one of the factors."""
        steps = float(state["step"])
        first, second = group["betas"]
        mean = state[f"{name}_mean"].lerp_(gradient, 1 - first)
        square = state[f"{name}_square"].lerp_(gradient.square(), 1 - second)
        size = (square / (1 - second**steps)).sqrt_().add_(group["eps"])
        state[name].addcdiv_(mean / (1 - first**steps), size, value=-group["lr"])


def first_factors(weight: Tensor, rank: int, *, seed: int) -> dict[str, Tensor]:
    """The state of a matrix before its first step: a change of 0."""
    rows, columns = weight.shape
    rank = min(rank, rows, columns)
    generator = torch.Generator().manual_seed(seed)
    down = torch.empty(rank, columns).uniform_(-1, 1, generator=generator).div_(math.sqrt(columns)).to(weight)
    state = {"step": torch.zeros(()), "up": weight.new_zeros(rows, rank), "down": down}
    for name in FACTORS:
        state |= {f"{name}_mean": torch.zeros_like(state[name]), f"{name}_square": torch.zeros_like(state[name])}
    return state
