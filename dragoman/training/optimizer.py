"""Optimizers and learning-rate schedules by name."""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

MOMENTS = {
    "adam": "exp_avg", "adamw": "exp_avg", "muon": "momentum_buffer", "rmsprop": "square_avg", "sgd": "momentum_buffer"
}  # fmt: skip
"""For each optimizer what torch calls the state by which it can be told from others."""


def build_optimizer(
    model: nn.Module,
    name: str,
    *,
    betas: tuple[float, float],
    eps: float,
    weight_decay: float,
    momentum: float = 0.0,
) -> torch.optim.Optimizer:
    """The optimizer `name`, a key of `MOMENTS`, over all weights of `model`; weight decay spares norms and biases.

    RMSprop takes the second of `betas`, `momentum` is SGD's. The learning rate is set before every step by
    `learning_rate`.
    """
    groups = [
        {"params": [p for p in model.parameters() if p.dim() > 1], "weight_decay": weight_decay},
        {"params": [p for p in model.parameters() if p.dim() <= 1], "weight_decay": 0.0},
    ]
    if name == "rmsprop":
        return torch.optim.RMSprop(groups, lr=0.0, alpha=betas[1], eps=eps)
    if name == "sgd":
        return torch.optim.SGD(groups, lr=0.0, momentum=momentum, fused=True)
    if name == "muon":
        matrices = [p for p in layer_matrices(model) if p.dim() > 1]
        rest = [{**group, "params": [p for p in group["params"] if all(p is not m for m in matrices)]} for group in groups]
        return Joined(Muon(matrices, weight_decay=weight_decay), torch.optim.AdamW(rest, lr=0.0, betas=betas, eps=eps, fused=True))
    optimizer = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[name]
    return optimizer(groups, lr=0.0, betas=betas, eps=eps, fused=True)


def layer_matrices(model: nn.Module) -> list[nn.Parameter]:
    """Weights and biases of the linear maps in the layers; tables and the projection are not among them."""
    stacks = [module for name, module in model.named_modules() if name.endswith("layers")]
    linear = [module for stack in stacks for module in stack.modules() if isinstance(module, nn.Linear)]
    return [parameter for module in linear for parameter in module.parameters()]


class Muon(torch.optim.Optimizer):
    """Momentum made orthogonal (Jordan et al. 2024), with steps of the length of Adam's (Liu et al. 2025, 2502.16982).

    As `torch.optim.Muon` does, but all matrices of a shape at once, which is ten times as fast for small ones.
    """

    def __init__(self, matrices: list[nn.Parameter], *, momentum: float = 0.95, weight_decay: float = 0.0):
        super().__init__(matrices, {"lr": 0.0, "momentum": momentum, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:
        for group in self.param_groups:
            shapes: dict[torch.Size, list[nn.Parameter]] = {}
            for weight in group["params"]:
                if weight.grad is not None:
                    shapes.setdefault(weight.shape, []).append(weight)
            for shape, weights in shapes.items():
                gradients = [weight.grad for weight in weights]
                moments = [self.state[w].setdefault("momentum_buffer", torch.zeros_like(w)) for w in weights]
                torch._foreach_lerp_(moments, gradients, 1 - group["momentum"])
                steps = torch._foreach_lerp(gradients, moments, group["momentum"])
                torch._foreach_mul_(weights, 1 - group["lr"] * group["weight_decay"])
                length = 0.2 * math.sqrt(max(shape)) * group["lr"]
                torch._foreach_sub_(weights, list(orthogonal(torch.stack(steps)).to(weights[0].dtype) * length))


def orthogonal(matrices: Tensor) -> Tensor:
    """About U V^T of each matrix U S V^T, by five Newton-Schulz steps in bfloat16."""
    x = matrices.bfloat16()
    wide = x if x.size(1) <= x.size(2) else x.mT
    wide = wide / wide.norm(dim=(1, 2), keepdim=True).clamp(min=1e-7)
    for _ in range(5):
        square = wide @ wide.mT
        polynomial = torch.baddbmm(square, square, square, beta=-4.7750, alpha=2.0315)
        wide = torch.baddbmm(wide, polynomial, wide, beta=3.4445)
    return wide if x.size(1) <= x.size(2) else wide.mT


class Joined(torch.optim.Optimizer):
    """Several optimizers as one, each over weights of its own."""

    def __init__(self, *parts: torch.optim.Optimizer):
        self.parts = parts
        super().__init__([group for part in parts for group in part.param_groups], {})
        self._share()

    @torch.no_grad()
    def step(self, closure: None = None) -> None:
        for part in self.parts:
            part.step()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        super().load_state_dict(state_dict)
        self._share()

    def _share(self) -> None:
        """Let the parts have the groups and the state of the whole."""
        groups = iter(self.param_groups)
        for part in self.parts:
            part.state, part.param_groups = self.state, [next(groups) for _ in part.param_groups]


def learning_rate(step: int, *, schedule: str, peak: float, warmup: int, last_step: int | None = None) -> float:
    """The learning rate of optimizer step `step`, counted from 1.

    It rises linearly to `peak` at step `warmup` and goes on as a key of `DECAYS` says. `cosine` and `linear` need
    to know the `last_step` of the run, the one before they reach 0.
    """
    return peak * min(step / warmup, DECAYS[schedule](step, warmup, last_step))


def inverse_sqrt(step: int, warmup: int, last_step: int | None) -> float:
    """Falls with 1/sqrt(step): equation 3 of the paper up to its constant."""
    return math.sqrt(warmup / step)


def cosine(step: int, warmup: int, last_step: int | None) -> float:
    """Half a wave of the cosine, from 1 to 0."""
    return (1 + math.cos(math.pi * _covered(step, warmup, last_step))) / 2


def linear(step: int, warmup: int, last_step: int | None) -> float:
    """A straight line from 1 to 0."""
    return 1 - _covered(step, warmup, last_step)


def constant(step: int, warmup: int, last_step: int | None) -> float:
    """Always 1."""
    return 1.0


def _covered(step: int, warmup: int, last_step: int) -> float:
    """The share, from 0 to 1, of the way from the end of the warm-up to the step after the last."""
    return min(max(step - warmup, 0) / (last_step + 1 - warmup), 1.0)


DECAYS: dict[str, Callable[[int, int, int | None], float]] = {
    "inverse_sqrt": inverse_sqrt,
    "cosine": cosine,
    "linear": linear,
    "constant": constant,
    "plateau": constant,  # the trainer lowers it by a factor when validations get no better
}
