"""Estimates the memory that each process of a run will need, without training."""

import math
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

from dragoman.config.run import RunConfig
from dragoman.model import Transformer
from dragoman.model.fast.loss import SLICE_ELEMENTS
from dragoman.model.transformer import linear_maps
from dragoman.runs.train import freeze
from dragoman.storage.validate import check_files
from dragoman.training.low_rank import all_weights

RANKS = (1, 8, 64)
"""Numbers of processes that memory is estimated for."""
LENGTH = 32
"""Tokens in each of the sentences that activations are computed for."""
FLOAT, HALF = 4, 2
"""Bytes of a number in float32 and in half precision."""
STATES = {"adam": 2, "adamw": 2, "muon": 2, "rmsprop": 1, "sgd": 1}
"""Numbers that an optimizer keeps for each weight. Muon keeps only one for those in matrices inside the layers."""


@dataclass(frozen=True)
class Memory:
    """Bytes that one process of a run needs."""

    ranks: int
    """Number of processes."""
    parallel: str
    """`training.parallel`: "ddp" or "fsdp"."""
    weights: int
    gradient: int
    optimizer: int
    activations: int
    """Results of the forward pass that the backward pass needs, at most."""

    @property
    def total(self) -> int:
        return self.weights + self.gradient + self.optimizer + self.activations

    def to_dict(self) -> dict[str, int | str]:
        return asdict(self) | {"total": self.total}


def estimate(config: RunConfig) -> list[Memory]:
    """The memory of each of 1, 8 and 64 processes, on GPUs with matrix products in half precision."""
    sizes = config.tokenizer.vocab_size or 0, config.tokenizer.vocab_size or 0
    if config.finetune.model and config.finetune.adapts:
        _, base = check_files(Path(config.finetune.model))
        sizes = base.source_vocab_size, base.target_vocab_size
    with torch.device("meta"):
        model = Transformer(config.transformer(*sizes))
    if config.finetune.model:
        freeze(model, config.finetune)
    weights = sum(weight.numel() for weight in all_weights(model))
    gradient = sum(weight.numel() for weight in all_weights(model) if weight.requires_grad)
    states = _states(model, config)
    estimates = []
    for ranks in RANKS:
        activations = activation_bytes(model, max(1, config.training.max_tokens // ranks), config)
        shards = {"ddp": 1, "fsdp": ranks} if ranks > 1 and not config.finetune.lora else {"ddp": 1}
        for parallel, parts in shards.items():
            stored = [math.ceil(FLOAT * count / parts) for count in (weights, gradient, states)]
            estimates.append(Memory(ranks, parallel, stored[0], stored[1], stored[2], activations))
    return estimates


def _states(model: Transformer, config: RunConfig) -> int:
    """Numbers that the optimizer keeps for all weights that are not frozen."""
    learned = sum(weight.numel() for weight in all_weights(model) if weight.requires_grad)
    if config.finetune.lora:
        return STATES["adamw"] * learned
    states = STATES[config.training.optimizer] * learned
    if config.training.optimizer == "muon":
        states -= sum(linear.weight.numel() for linear in linear_maps(model) if linear.weight.requires_grad)
    return states


def activation_bytes(model: Transformer, tokens: int, config: RunConfig) -> int:
    """Bytes that the backward pass keeps for a batch of `tokens` target tokens, with those of the largest logits."""
    passes = 2 if config.training.r_drop else 1
    ids = torch.ones(max(1, passes * tokens // LENGTH), LENGTH, dtype=torch.long, device="meta")
    # By the address of their storage, since several tensors may share one.
    weights = {weight.untyped_storage()._cdata for weight in all_weights(model)}
    saved: dict[int, torch.Tensor] = {}

    def save(tensor: torch.Tensor) -> torch.Tensor:
        saved[tensor.untyped_storage()._cdata] = tensor
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(save, lambda tensor: tensor):
        model.states(ids, ids)
    states = sum(tensor.untyped_storage().nbytes() for storage, tensor in saved.items() if storage not in weights)
    logits = min(SLICE_ELEMENTS["cuda"], ids.numel() * model.config.target_vocab_size)
    return HALF * states // FLOAT + 2 * HALF * logits  # twice: the logits and their gradient
