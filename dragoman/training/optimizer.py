"""Builds optimizers by name, and stores and restores their state."""

import inspect
from collections.abc import Iterable
from typing import Any, cast

import torch
from torch import Tensor, nn

from dragoman.config.training import TrainingConfig
from dragoman.errors import UsageError
from dragoman.model.transformer import linear_maps
from dragoman.system.ranks import sharded_like, unsharded
from dragoman.training.low_rank import LowRank, low_rank_maps
from dragoman.training.muon import CombinedOptimizer, Muon

MOMENTS = {
    "adam": "exp_avg", "adamw": "exp_avg", "muon": "momentum", "rmsprop": "square_avg", "sgd": "momentum_buffer"
}  # fmt: skip
"""For each optimizer the name of one of its states, by which its checkpoints are recognised."""
LORA, LORA_MOMENT = "lora", "mean"
"""The same for `_low_rank`, which is no `config.optimizer`."""
WRAPPED = "add_param_group", "load_state_dict", "state_dict", "step", "zero_grad"
"""Methods of optimizers that import torch.compile when they are called."""


def build_optimizer(model: nn.Module, config: TrainingConfig) -> torch.optim.Optimizer:
    """The optimizer `config.optimizer` over all weights of `model`; weight decay spares norms and biases.

    RMSprop takes the second of `betas`, `momentum` is SGD's. Muon is for the matrices inside the layers; tables, the
    projection, norms and biases have AdamW beside it. The learning rate is 0 until it is set, before every step.
    A model whose matrices learn by low-rank changes has Adam for these, instead of what `config.optimizer` says, and
    AdamW for what else is trained.
    """
    if low_rank_maps(model):
        return _low_rank(model, config)
    groups = _groups(model.parameters(), config.weight_decay)
    if config.optimizer == "rmsprop":
        return eager(torch.optim.RMSprop)(groups, lr=0.0, alpha=config.betas[1], eps=config.eps)
    if config.optimizer == "sgd":
        return eager(torch.optim.SGD)(groups, lr=0.0, momentum=config.momentum, fused=True)
    if config.optimizer == "muon":
        matrices = [cast(nn.Parameter, linear.weight) for linear in linear_maps(model)]
        matrix_ids = set(map(id, matrices))
        for group in groups:
            group["params"] = [p for p in group["params"] if id(p) not in matrix_ids]
        muon = eager(Muon)(matrices, weight_decay=config.weight_decay)
        adamw = eager(torch.optim.AdamW)(groups, lr=0.0, betas=config.betas, eps=config.eps, fused=True)
        return eager(CombinedOptimizer)(muon, adamw)
    optimizer = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[config.optimizer]
    return eager(optimizer)(groups, lr=0.0, betas=config.betas, eps=config.eps, fused=True)


def _groups(weights: Iterable[nn.Parameter], weight_decay: float) -> list[dict[str, Any]]:
    """Weights in two groups: tables and matrices, which decay, and norms and biases, which do not."""
    weights = list(weights)
    return [
        {"params": [weight for weight in weights if weight.dim() > 1], "weight_decay": weight_decay},
        {"params": [weight for weight in weights if weight.dim() <= 1], "weight_decay": 0.0},
    ]


def _low_rank(model: nn.Module, config: TrainingConfig) -> torch.optim.Optimizer:
    """LoRA for the matrices inside the layers, and AdamW for other weights that are not frozen."""
    others = [p for p in model.parameters() if p.requires_grad]
    low_rank = eager(LowRank)(low_rank_maps(model), betas=config.betas, eps=config.eps)
    if not others:
        return low_rank
    adamw = eager(torch.optim.AdamW)(
        _groups(others, config.weight_decay), lr=0.0, betas=config.betas, eps=config.eps, fused=True
    )
    return eager(CombinedOptimizer)(low_rank, adamw)


def eager(kind: type[torch.optim.Optimizer]) -> Any:
    """An optimizer class without the wrappers of its methods that import torch.compile, which takes 70 MB."""
    methods = {name: inspect.unwrap(getattr(kind, name)) for name in WRAPPED}
    return type(kind.__name__, (kind,), methods | {"step": torch.no_grad()(methods["step"])})


def moments(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """The state of an optimizer, by the index of each weight and the name of its state, such as "3.exp_avg"."""
    state = optimizer.state_dict()["state"]
    return {f"{i}.{name}": unsharded(value) for i, values in state.items() for name, value in values.items()}


def load_moments(optimizer: torch.optim.Optimizer, tensors: dict[str, Tensor], *, name: str) -> None:
    """Restore the `moments` of the optimizer `name`; raises `UsageError` if they are of another kind of optimizer."""
    weights = [weight for group in optimizer.param_groups for weight in group["params"]]
    state: dict[int, dict[str, Tensor]] = {}
    for label, value in tensors.items():
        number, _, key = label.partition(".")
        index = int(number)
        if value.shape == weights[index].shape:  # else it is a number, such as that of the steps
            value = sharded_like(value, weights[index])
        state.setdefault(index, {})[key] = value
    moment, setting = (LORA_MOMENT, "finetune.lora") if name == LORA else (MOMENTS[name], f"training.optimizer={name}")
    if name == "muon" and state and min(state) >= len(optimizer.param_groups[0]["params"]):
        moment = MOMENTS["adamw"]  # all matrices are frozen, and what else is trained has AdamW
    if state and moment not in state[min(state)]:
        raise UsageError(
            f"The checkpoint does not fit {setting}; resume it with the one that it was written by, or start a new run."
        )
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})
