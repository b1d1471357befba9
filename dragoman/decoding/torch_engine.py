"""An engine over a model in torch: for GPUs, for half precision, and for models that are being trained.

It is the only file for translating that imports torch. What it computes stays on its device; a search gets answers.
"""

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from dragoman.engine.engine import (
    BATCH_TOKENS,
    SourceIds,
    Stepper,
    TargetIds,
    remaining_memory,
    slice_length,
    suitable_batch,
)
from dragoman.engine.log_probs import ArrayLogProbs, LogProbs, Rows, Tokens
from dragoman.model import Transformer
from dragoman.model.attention import AttentionMaps


class TorchEngine:
    """A model in torch, on the device and in the precision that it has."""

    computes_in_threads = False

    def __init__(self, model: Transformer):
        self.model, self.config = model, model.config
        weight = model.projection.weight
        self.device, self.precision = weight.device, str(weight.dtype).removeprefix("torch.")

    @property
    def batch_tokens(self) -> int:
        return suitable_batch(self.config, BATCH_TOKENS)

    def stepper(self, source_ids: SourceIds) -> Stepper:
        return TorchStepper(self.model, self._there(source_ids))

    def distributions(
        self, source_ids: SourceIds, target_ids: TargetIds, counts: Bool[np.ndarray, "batch tgt_len"]
    ) -> Iterator[LogProbs]:
        with torch.inference_mode():
            states = self.model.states(self._there(source_ids), self._there(target_ids))[self._there(counts)]
        for part in states.split(slice_length(self.config)):
            with torch.inference_mode():
                log_probs = self.model.project(part).log_softmax(-1, dtype=torch.float32)
            yield log_probs_of(log_probs)

    @torch.inference_mode()
    def attention(self, source_ids: SourceIds, target_ids: TargetIds) -> Float[np.ndarray, "batch tgt_len src_len"]:
        maps = AttentionMaps(encoder=None, decoder=None)  # only cross-attention is looked at
        self.model.states(self._there(source_ids), self._there(target_ids), maps=maps)
        config = self.model.config
        chosen = [maps.cross[layer].weights[:, : config.aligning_heads] for layer in config.aligning_layers]
        return torch.stack([weights.float().mean(1) for weights in chosen]).mean(0).cpu().numpy()

    def _there(self, array: np.ndarray) -> Tensor:
        return torch.from_numpy(array).to(self.device)


class TorchStepper:
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
        self.sentences, remaining = remaining_memory(self.sentences[rows], len(self.memory))
        memory_rows = None if remaining is None else torch.from_numpy(remaining).to(self.device)
        if memory_rows is not None:
            self.memory, self.source_mask = self.memory[memory_rows], self.source_mask[memory_rows]
        self.cache.reorder(torch.from_numpy(rows).to(self.device), memory_rows)


def log_probs_of(tensor: Float[Tensor, "rows vocab"]) -> LogProbs:
    """Log-probabilities in float32, on the device where they are; an array shares their memory."""
    return ArrayLogProbs(tensor.numpy()) if tensor.device.type == "cpu" else TensorLogProbs(tensor)


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

    @torch.inference_mode()
    def drawn(
        self, numbers: Float[np.ndarray, " rows"], count: int, temperature: float, top_p: float
    ) -> tuple[Tokens, Float[np.ndarray, " rows"]]:
        values, tokens = self.tensor.double().topk(count, dim=1)
        probabilities = ((values - values[:, :1]) / temperature).softmax(1)
        sums = probabilities.cumsum(1)
        # The token that reaches `top_p` is kept too.
        kept = ((sums - probabilities) < top_p).sum(1, keepdim=True).clamp(min=1)
        chosen = torch.from_numpy(numbers).to(sums)[:, None] * sums.gather(1, kept - 1)
        ranks = (sums <= chosen).sum(1, keepdim=True).minimum(kept - 1)
        chosen_values, chosen_tokens = _together(values.gather(1, ranks)[:, 0], tokens.gather(1, ranks)[:, 0])
        return chosen_tokens, chosen_values

    def best(
        self, totals: Float[np.ndarray, "live beam"], count: int
    ) -> tuple[Float[np.ndarray, "live count"], Int[np.ndarray, "live count"]]:
        live, beam = totals.shape
        before = torch.from_numpy(np.ascontiguousarray(totals)).to(self.tensor.device)
        best = best_continuations(self.tensor.view(live, beam, self.vocab_size), before, count)
        return _together(*best)

    def lowered(
        self, rows: Int[np.ndarray, " kept"], at_rows: Rows, tokens: Tokens, amounts: Float[np.ndarray, " some"]
    ) -> "TensorLogProbs":
        copy = self.tensor[self._there(rows)]
        less = torch.from_numpy(amounts).to(copy)
        return TensorLogProbs(copy.index_put(self._there(at_rows, tokens), -less, accumulate=True))

    @torch.inference_mode()
    def averaged(self, others: Sequence["TensorLogProbs"]) -> "TensorLogProbs":
        return TensorLogProbs(mean_of_probabilities([self.tensor, *(other.tensor for other in others)]))

    def _there(self, *indices: np.ndarray) -> tuple[Tensor, ...]:
        """Indices on the device of the tensor."""
        return tuple(torch.from_numpy(np.ascontiguousarray(part)).to(self.tensor.device) for part in indices)


def _together(values: Float[Tensor, "*shape"], indices: Int[Tensor, "*shape"]) -> tuple[np.ndarray, np.ndarray]:
    """Both as arrays, by one copy: each waits for the device. Indices are exact in the 53 bits of a float64."""
    copied = torch.stack([values, indices.double()]).cpu().numpy()
    return copied[0], copied[1].astype(np.int64)


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


class Predictions(NamedTuple):
    """Predictions of given tokens, each from the tokens before it, row after row without padding."""

    log_probs: Float[Tensor, " tokens"]
    likeliest: Bool[Tensor, " tokens"]
    """Whether the token is the most probable one."""


def predictions(
    models: Sequence[Transformer],
    source_ids: Int[Tensor, "batch src_len"],
    target_ids: Int[Tensor, "batch tgt_len"],
    labels: Int[Tensor, "batch tgt_len"],
) -> Predictions:
    """Log-probabilities of `labels` under the mean of `models`, given the target tokens before each.

    Holds the logits of some thousand tokens at most, whatever the batch.
    """
    log_probs, likeliest = [], []
    for distribution, label in distributions(models, source_ids, target_ids, labels):
        log_probs.append(distribution.gather(1, label[:, None])[:, 0])
        likeliest.append(distribution.argmax(-1) == label)
    return Predictions(torch.cat(log_probs), torch.cat(likeliest))


def distributions(
    models: Sequence[Transformer], source_ids: Tensor, target_ids: Tensor, labels: Tensor
) -> Iterator[tuple[Tensor, Tensor]]:
    """Slices of the labels, row after row without padding: log-probabilities (labels, vocab), and the labels."""
    is_label = labels != models[0].config.pad_id
    size = slice_length(models[0].config)
    states = [model.states(source_ids, target_ids)[is_label].split(size) for model in models]
    for *states_of_models, label in zip(*states, labels[is_label].split(size), strict=True):
        logits = [model.project(part) for model, part in zip(models, states_of_models, strict=True)]
        yield mean_of_probabilities([part.log_softmax(-1, dtype=torch.float32) for part in logits]), label


def mean_of_probabilities(log_probs: Sequence[Float[Tensor, "*shape"]]) -> Float[Tensor, "*shape"]:
    """The logarithm of the mean of the probabilities; a single tensor is returned as it is."""
    if len(log_probs) == 1:
        return log_probs[0]
    return torch.stack(list(log_probs)).logsumexp(0) - math.log(len(log_probs))
