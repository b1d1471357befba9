"""The notebooks' own code, taken from their text."""

import math
import re
from pathlib import Path

import torch
from torch import Tensor, nn

from dragoman.model import TransformerConfig

NOTEBOOKS = Path(__file__).parents[3] / "shared" / "notebooks"
PRENORM, POSTNORM = NOTEBOOKS / "A-prenorm-pytorch.txt", NOTEBOOKS / "B-postnorm-pytorch.txt"
LONGEST = 512
"""Positions of their tables here."""


def definitions(notebook: Path, *, feed_forward: bool = True) -> dict:
    """The classes and functions of a notebook, by name.

    With `feed_forward`, the line of notebook B's decoder that makes positions in place of a network is repaired.
    """
    # From the line that begins one to the next line that is not indented.
    text = notebook.read_text(encoding="utf-8")
    code = "\n".join(re.findall(r"^(?:class|def) \w+.*\n(?:[ \t].*\n|\s*\n)+", text, re.MULTILINE))
    if feed_forward:
        code = code.replace("feed_forward = PositionalEncoding(", "feed_forward = PositionWiseFeedForward(")
    names = {"torch": torch, "nn": nn, "math": math}
    exec(compile(code, str(notebook), "exec"), names)
    return names


class NotebookA(nn.Module):
    """The model of notebook A, called as its training calls it, where the caller makes the masks."""

    def __init__(self, config: TransformerConfig):
        super().__init__()
        make, vocabulary = definitions(PRENORM)["build_transformer"], config.source_vocab_size
        sizes = {"d_model": config.d_model, "N": config.num_encoder_layers, "h": config.num_heads, "d_ff": config.d_ff}
        self.model = make(vocabulary, vocabulary, LONGEST, LONGEST, **sizes, dropout=config.dropout)

    def forward(self, source_ids: Tensor, target_ids: Tensor) -> Tensor:
        seen, length = (source_ids != 0)[:, None, None], target_ids.size(1)
        past = torch.ones(length, length, dtype=torch.bool).tril() & (target_ids != 0)[:, None, None]
        memory = self.model.encode(source_ids, seen)
        return self.model.project(self.model.decode(memory, seen, target_ids, past))


def notebook_b(config: TransformerConfig) -> nn.Module:
    """Notebook B's model, its decoder repaired."""
    vocabulary, layers = config.source_vocab_size, config.num_encoder_layers
    sizes = config.d_model, config.num_heads, layers, config.d_ff, LONGEST, config.dropout
    return definitions(POSTNORM)["Transformer"](vocabulary, vocabulary, *sizes)
