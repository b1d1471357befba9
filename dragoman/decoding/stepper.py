"""A model as a `Stepper`: the source is encoded once, each step adds one token to every row."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from dragoman.model import Transformer


class ModelStepper:
    """Decodes `model` step by step; rows of one sentence share its memory."""

    def __init__(self, model: Transformer, source_ids: Int[Tensor, "batch src_len"]):
        self.model = model
        self.device = source_ids.device
        self.source_mask: Bool[Tensor, "batch src_len"] = source_ids != model.config.pad_id
        self.memory = model.encode(source_ids, self.source_mask)
        self.cache = model.new_cache()
        self.sentences = torch.arange(len(source_ids))
        """For each row, the row of the memory that it reads."""
        self._log_probs = torch.empty(0)
        """Buffer for the log-probabilities of each step: new memory is slower than the product that fills it."""

    def step(self, tokens: Int[Tensor, " rows"]) -> Float[Tensor, "rows vocab"]:
        tokens = tokens.to(self.device)[:, None]
        states = self.model.decoder(tokens, self.memory, self.source_mask, self.cache)[:, 0]
        if len(states) > len(self._log_probs):
            size = len(states), self.model.config.target_vocab_size
            self._log_probs = torch.empty(size, dtype=torch.float32, device=self.device)
        log_probs = self._log_probs[: len(states)]
        self.model.log_probs(states, log_probs)
        return log_probs

    def reorder(self, rows: Int[Tensor, " kept"]) -> None:
        sentences = self.sentences[rows]
        memory_rows = None  # all rows of the memory are kept
        if not torch.equal(sentences, self.sentences):
            remaining, self.sentences = torch.unique_consecutive(sentences, return_inverse=True)
            if not torch.equal(remaining, torch.arange(len(self.memory))):
                memory_rows = remaining.to(self.device)
                self.memory, self.source_mask = self.memory[memory_rows], self.source_mask[memory_rows]
        self.cache.reorder(rows.to(self.device), memory_rows)
