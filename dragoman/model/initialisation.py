"""Draws the first weights of a model as `TransformerConfig.initialisation` says."""

import torch
from torch import Tensor, nn

from dragoman.model.config import TransformerConfig
from dragoman.model.layers import LearnedPositions


@torch.no_grad()
def initialise(model: nn.Module, config: TransformerConfig, *, tied: nn.Module | None) -> None:
    """Draw all weights of `model` but those of norms; `tied` is a linear map that shares its weight with a table."""
    kind = config.initialisation
    for module in model.modules():
        if isinstance(module, nn.Embedding):
            _draw_table(module.weight, kind)
        elif isinstance(module, nn.Linear):
            if kind in ("pytorch", "xavier-tables") and module is not tied:
                module.reset_parameters()
            if kind != "pytorch" and module is not tied:
                nn.init.xavier_uniform_(module.weight)
            if kind in ("xavier", "keras") and module.bias is not None:
                nn.init.zeros_(module.bias)
        elif isinstance(module, LearnedPositions) and kind != "xavier":  # else as `LearnedPositions` draws them
            _draw_table(module.table, kind)


def _draw_table(table: Tensor, kind: str) -> None:
    if kind == "xavier":
        nn.init.normal_(table, std=table.size(1) ** -0.5)  # rows of length 1 on average
    elif kind == "xavier-tables":
        nn.init.xavier_uniform_(table)
    elif kind == "pytorch":
        nn.init.normal_(table)
    else:
        nn.init.uniform_(table, -0.05, 0.05)
