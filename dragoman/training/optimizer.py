"""Optimizers and learning-rate schedules by name."""

import math
from collections.abc import Callable

import torch
from torch import nn


def build_optimizer(
    model: nn.Module, name: str, *, betas: tuple[float, float], eps: float, weight_decay: float
) -> torch.optim.Optimizer:
    """Adam or AdamW over all weights of `model`; weight decay spares norms and biases.

    The learning rate is set before every step by `learning_rate`.
    """
    matrices = [p for p in model.parameters() if p.dim() > 1]
    vectors = [p for p in model.parameters() if p.dim() <= 1]
    groups = [
        {"params": matrices, "weight_decay": weight_decay},
        {"params": vectors, "weight_decay": 0.0},
    ]
    optimizer = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[name]
    return optimizer(groups, lr=0.0, betas=betas, eps=eps, fused=True)


def inverse_sqrt(step: int, *, warmup: int) -> float:
    """Rises linearly to 1 at step `warmup`, then falls with 1/sqrt(step): equation 3 up to its constant."""
    return min(step / warmup, math.sqrt(warmup / step))


def learning_rate(step: int, *, schedule: str, peak: float, warmup: int) -> float:
    """The learning rate of optimizer step `step`, counted from 1."""
    factor: Callable[..., float] = {"inverse_sqrt": inverse_sqrt}[schedule]
    return peak * factor(step, warmup=warmup)
