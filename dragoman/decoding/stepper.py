"""A model as a `Stepper`: the source is encoded once, each step adds one token to every row."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from dragoman.model import Transformer, kernels

SLICE = 64
"""Rows whose logits exist at the same time on a CPU: near the processor, and in little memory."""


class ModelStepper:
    """Decodes `model` step by step; rows of one sentence share its memory."""

    def __init__(self, model: Transformer, source_ids: Int[Tensor, "batch src_len"]):
        self.model = model
        self.device = source_ids.device
        self.source_mask: Bool[Tensor, "batch src_len"] = source_ids != model.config.pad_id
        self.memory = model.encode(source_ids, self.source_mask)
        self.cache = model.new_cache()
        self.sentences = torch.arange(len(source_ids))
        """Which row of the memory each row reads."""

    def step(self, tokens: Int[Tensor, " rows"]) -> Float[Tensor, "rows vocab"]:
        tokens = tokens.to(self.device)[:, None]
        states = self.model.decoder(tokens, self.memory, self.source_mask, self.cache)[:, 0]
        size = len(states), self.model.config.target_vocab_size
        log_probs = torch.empty(size, dtype=torch.float32, device=self.device)
        rows = SLICE if self.device.type == "cpu" else len(states)
        for part, found in zip(states.split(rows), log_probs.split(rows), strict=True):
            kernels.log_softmax(self.model.project(part), found)
        return log_probs

    def reorder(self, rows: Int[Tensor, " kept"]) -> None:
        remaining, self.sentences = torch.unique_consecutive(self.sentences[rows], return_inverse=True)
        memory_rows = None
        if not torch.equal(remaining, torch.arange(len(self.memory))):
            memory_rows = remaining.to(self.device)
            self.memory, self.source_mask = self.memory[memory_rows], self.source_mask[memory_rows]
        self.cache.reorder(rows.to(self.device), memory_rows)
