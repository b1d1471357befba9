"""A model in torch as a `Stepper`: the source is encoded once, each step adds one token to every row."""

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from dragoman.decoding.log_probs import ArrayLogProbs, LogProbs, Rows, Tokens
from dragoman.model import Transformer


class ModelStepper:
    """Decodes `model` step by step; rows of one sentence share its memory."""

    @torch.inference_mode()
    def __init__(self, model: Transformer, source_ids: Int[Tensor, "batch src_len"]):
        self.model = model
        self.device = source_ids.device
        self.source_mask: Bool[Tensor, "batch src_len"] = source_ids != model.config.pad_id
        self.memory = model.encode(source_ids, self.source_mask)
        self.cache = model.new_cache()
        self.sentences = np.arange(len(source_ids))
        """For each row, the row of the memory that it reads."""
        self._log_probs = torch.empty(0)
        """Buffer for the log-probabilities of each step: new memory is slower than the product that fills it."""

    @torch.inference_mode()
    def step(self, tokens: Int[np.ndarray, " rows"]) -> LogProbs:
        ids = torch.from_numpy(tokens).to(self.device)[:, None]
        states = self.model.decoder(ids, self.memory, self.source_mask, self.cache)[:, 0]
        if len(states) > len(self._log_probs):
            size = len(states), self.model.config.target_vocab_size
            self._log_probs = torch.empty(size, dtype=torch.float32, device=self.device)
        log_probs = self._log_probs[: len(states)]
        self.model.log_probs(states, log_probs)
        return log_probs_of(log_probs)

    @torch.inference_mode()
    def reorder(self, rows: Int[np.ndarray, " kept"]) -> None:
        sentences = self.sentences[rows]
        memory_rows = None  # all rows of the memory are kept
        if not np.array_equal(sentences, self.sentences):
            begins = np.diff(sentences, prepend=-1) != 0
            remaining, self.sentences = sentences[begins], begins.cumsum() - 1
            if not np.array_equal(remaining, np.arange(len(self.memory))):
                memory_rows = torch.from_numpy(remaining).to(self.device)
                self.memory, self.source_mask = self.memory[memory_rows], self.source_mask[memory_rows]
        self.cache.reorder(torch.from_numpy(rows).to(self.device), memory_rows)


def log_probs_of(tensor: Float[Tensor, "rows vocab"]) -> LogProbs:
    """Log-probabilities in float32, on the device where they are; an array shares their memory."""
    return ArrayLogProbs(tensor.numpy()) if tensor.device.type == "cpu" else TensorLogProbs(tensor)


def tensor_of(log_probs: LogProbs) -> Float[Tensor, "rows vocab"]:
    """The inverse of `log_probs_of`."""
    if isinstance(log_probs, TensorLogProbs):
        return log_probs.tensor
    assert isinstance(log_probs, ArrayLogProbs)
    return torch.from_numpy(log_probs.array)


class TensorLogProbs:
    """`LogProbs` over a tensor, which stays on its device."""

    def __init__(self, tensor: Float[Tensor, "rows vocab"]):
        self.tensor = tensor

    @property
    def vocab_size(self) -> int:
        return self.tensor.size(1)

    def __len__(self) -> int:
        return len(self.tensor)

    @torch.inference_mode()
    def ban(self, rows: Rows, tokens: Tokens) -> None:
        self.tensor[self._there(rows, tokens)] = -torch.inf

    @torch.inference_mode()
    def allow_only(self, rows: Rows, tokens: Tokens) -> None:
        at_rows, at_tokens = self._there(rows, tokens)
        kept = self.tensor[at_rows, at_tokens]
        self.tensor[at_rows] = -torch.inf
        self.tensor[at_rows, at_tokens] = kept

    @torch.inference_mode()
    def put(self, rows: Rows, tokens: Tokens, value: float) -> None:
        self.tensor[self._there(rows, tokens)] = value

    def at(self, rows: Rows, tokens: Tokens) -> Float[np.ndarray, " some"]:
        return self.tensor[self._there(rows, tokens)].double().cpu().numpy()

    def likeliest(self, rows: Rows) -> Tokens:
        return self.tensor[self._there(rows)].argmax(1).cpu().numpy()

    def ranked(self, count: int) -> tuple[Float[np.ndarray, "rows count"], Int[np.ndarray, "rows count"]]:
        values, tokens = self.tensor.double().topk(count, dim=1)
        return values.cpu().numpy(), tokens.cpu().numpy()

    def best(
        self, totals: Float[np.ndarray, "live beam"], count: int
    ) -> tuple[Float[np.ndarray, "live count"], Int[np.ndarray, "live count"]]:
        live, beam = totals.shape
        before = torch.from_numpy(np.ascontiguousarray(totals)).to(self.tensor.device)
        best, indices = best_continuations(self.tensor.view(live, beam, -1), before, count)
        return best.cpu().numpy(), indices.cpu().numpy()

    def lowered(
        self, rows: Int[np.ndarray, " kept"], at_rows: Rows, tokens: Tokens, amounts: Float[np.ndarray, " some"]
    ) -> "TensorLogProbs":
        copy = self.tensor[self._there(rows)]
        less = torch.from_numpy(amounts).to(copy)
        return TensorLogProbs(copy.index_put(self._there(at_rows, tokens), -less, accumulate=True))

    def _there(self, *indices: np.ndarray) -> tuple[Tensor, ...]:
        """Indices on the device of the tensor."""
        return tuple(torch.from_numpy(np.ascontiguousarray(part)).to(self.tensor.device) for part in indices)


def best_continuations(
    log_probs: Float[Tensor, "live beam vocab"], totals: Float[Tensor, "live beam"], count: int
) -> tuple[Float[Tensor, "live count"], Int[Tensor, "live count"]]:
    """The `count` best continuations of each sentence, as `LogProbs.best` returns them, on one device.

    Blocks of some 25 tokens are ranked by their maxima first, and only the best blocks are looked into: a maximum is
    far quicker than a ranking.
    """
    vocab = log_probs.size(2)
    size = _block_size(vocab)
    blocks = F.pad(log_probs, (0, -vocab % size), value=-torch.inf).unflatten(-1, (-1, size))
    number = blocks.size(2)
    maxima = (blocks.amax(3) + totals[:, :, None]).flatten(1)
    best_blocks = maxima.topk(min(count, maxima.size(1)), dim=1).indices
    inside = torch.arange(size, device=best_blocks.device)
    indices = (best_blocks[:, :, None] * size + inside).flatten(1)  # into (beam, blocks, block size)
    beams, tokens = indices // (number * size), indices % (number * size)
    values = blocks.flatten(1).gather(1, indices) + totals.gather(1, beams)
    indices = beams * vocab + tokens.clamp(max=vocab - 1)
    missing = count - indices.size(1)
    if missing > 0:
        values, indices = F.pad(values, (0, missing), value=-torch.inf), F.pad(indices, (0, missing))
    values, chosen = values.topk(count, dim=1)
    return values, indices.gather(1, chosen)


def _block_size(vocab: int) -> int:
    """The largest size from 32 down to 16 that divides the vocabulary, which needs no copy; else 25."""
    for size in range(32, 15, -1):
        if vocab % size == 0:
            return size
    return 25
