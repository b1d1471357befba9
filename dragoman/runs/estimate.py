"""How much memory each process of a run will need, computed without training."""

from dataclasses import asdict, dataclass
from pathlib import Path

import torch

from dragoman.config.run import RunConfig
from dragoman.model import Transformer
from dragoman.model.fast.loss import SLICE_ELEMENTS
from dragoman.model.transformer import linear_maps
from dragoman.storage.validate import check_files

RANKS = (1, 8, 64)
LENGTH = 32
"""Tokens of a sentence that activations are computed for."""
FLOAT, HALF = 4, 2
"""Bytes of a number."""
STATES = {"adam": 2, "adamw": 2, "muon": 2, "rmsprop": 1, "sgd": 1}
"""Numbers that an optimizer keeps of each weight; Muon one of the matrices inside the layers, for which there are
fewer."""


@dataclass(frozen=True)
class Memory:
    """Bytes of one process; `activations` are what the backward pass needs of the forward pass, at most."""

    ranks: int
    parallel: str
    weights: int
    gradient: int
    optimizer: int
    activations: int

    @property
    def total(self) -> int:
        return self.weights + self.gradient + self.optimizer + self.activations

    def to_dict(self) -> dict[str, int | str]:
        return asdict(self) | {"total": self.total}


def estimate(config: RunConfig) -> list[Memory]:
    """The memory of a process for 1, 8 and 64 of them, on GPUs with products in half precision."""
    sizes = config.tokenizer.vocab_size or 0, config.tokenizer.vocab_size or 0
    if config.finetune.model:
        base = check_files(Path(config.finetune.model))[1]
        sizes = base.source_vocab_size, base.target_vocab_size
    with torch.device("meta"):
        model = Transformer(config.transformer(*sizes))
    numbers = sum(weight.numel() for weight in model.parameters())
    matrices = sum(each.weight.numel() for each in linear_maps(model)) if config.training.optimizer == "muon" else 0
    states = STATES[config.training.optimizer] * numbers - matrices
    found = []
    for ranks in RANKS:
        activations = activation_bytes(model, max(1, config.training.max_tokens // ranks), config)
        for parallel, parts in (("ddp", 1), ("fsdp", ranks)):
            if ranks > 1 or parallel == "ddp":
                weights, gradient, optimizer = (-(-FLOAT * each // parts) for each in (numbers, numbers, states))
                found.append(Memory(ranks, parallel, weights, gradient, optimizer, activations))
    return found


def activation_bytes(model: Transformer, tokens: int, config: RunConfig) -> int:
    """Bytes that the backward pass keeps of a batch with so many target tokens, and those of the largest logits."""
    passes = 2 if config.training.r_drop else 1
    ids = torch.ones(max(1, passes * tokens // LENGTH), LENGTH, dtype=torch.long, device="meta")
    weights = {weight.untyped_storage()._cdata for weight in model.parameters()}
    kept: dict[int, torch.Tensor] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        kept[tensor.untyped_storage()._cdata] = tensor
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        model.states(ids, ids)
    states = sum(each.untyped_storage().nbytes() for key, each in kept.items() if key not in weights)
    logits = min(SLICE_ELEMENTS["cuda"], ids.numel() * model.config.target_vocab_size)
    return HALF * states // FLOAT + 2 * HALF * logits  # and their gradient
