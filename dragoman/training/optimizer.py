"""Optimizers and learning-rate schedules by name."""

import math
from collections.abc import Callable
from typing import Any, cast

import torch
from torch import Tensor, nn

from dragoman.errors import UsageError
from dragoman.model.transformer import linear_maps
from dragoman.training.muon import CombinedOptimizer, Muon

MOMENTS = {
    "adam": "exp_avg", "adamw": "exp_avg", "muon": "momentum", "rmsprop": "square_avg", "sgd": "momentum_buffer"
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

    RMSprop takes the second of `betas`, `momentum` is SGD's. Muon is for the matrices inside the layers; tables, the
    projection, norms and biases have AdamW beside it. The learning rate is set before every step by
    `learning_rate`.
    """
    groups: list[dict[str, Any]] = [
        {"params": [p for p in model.parameters() if p.dim() > 1], "weight_decay": weight_decay},
        {"params": [p for p in model.parameters() if p.dim() <= 1], "weight_decay": 0.0},
    ]
    if name == "rmsprop":
        return torch.optim.RMSprop(groups, lr=0.0, alpha=betas[1], eps=eps)
    if name == "sgd":
        return torch.optim.SGD(groups, lr=0.0, momentum=momentum, fused=True)
    if name == "muon":
        matrices = [cast(nn.Parameter, each.weight) for each in linear_maps(model)]
        of_muon = set(map(id, matrices))
        others = [group | {"params": [p for p in group["params"] if id(p) not in of_muon]} for group in groups]
        rest = torch.optim.AdamW(others, lr=0.0, betas=betas, eps=eps, fused=True)
        return CombinedOptimizer(Muon(matrices, weight_decay=weight_decay), rest)
    optimizer = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[name]
    return optimizer(groups, lr=0.0, betas=betas, eps=eps, fused=True)


def moments(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """What an optimizer remembers of each weight, by the weight's number and a name."""
    state = optimizer.state_dict()["state"]
    return {f"{i}.{name}": value for i, values in state.items() for name, value in values.items()}


def load_moments(optimizer: torch.optim.Optimizer, found: dict[str, Tensor], *, name: str) -> None:
    """Give the optimizer `name` what `moments` found; raises `UsageError` if that was in another kind of optimizer."""
    state: dict[int, dict[str, Tensor]] = {}
    for place, value in found.items():
        index, _, key = place.partition(".")
        state.setdefault(int(index), {})[key] = value
    if state and MOMENTS[name] not in state[0]:
        raise UsageError(
            f"The checkpoint does not fit training.optimizer={name}; resume it with the one that it was written by, or "
            "start a new run."
        )
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})


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


def _covered(step: int, warmup: int, last_step: int | None) -> float:
    """The share, from 0 to 1, of the way from the end of the warm-up to the step after the last."""
    assert last_step is not None, "schedules that end know their last step"
    return min(max(step - warmup, 0) / (last_step + 1 - warmup), 1.0)


DECAYS: dict[str, Callable[[int, int, int | None], float]] = {
    "inverse_sqrt": inverse_sqrt,
    "cosine": cosine,
    "linear": linear,
    "constant": constant,
    "plateau": constant,  # the trainer lowers it by a factor when validations get no better
}
