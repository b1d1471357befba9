"""The gradient of a step: sums over micro-batches, divided once by all target tokens.

A micro-batch that does not fit in memory is halved, and halved again; a pair that does not fit alone is left out.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from dragoman.data.batching import Batch
from dragoman.model import Transformer
from dragoman.training.loss import cross_entropy, r_drop

# A GPU, cuBLAS, the CPU, and oneDNN, which finds no room for a compiled kernel. (Of an operation that it does not
# know, oneDNN says "could not create a primitive descriptor".)
OUT_OF_MEMORY = re.compile(
    "out of memory|CUBLAS_STATUS_ALLOC_FAILED|can't allocate memory|could not create a (primitive|memory object)$"
)


@dataclass(frozen=True)
class GradientSum:
    """What the gradients now in the weights are the sum over."""

    loss: float
    """Sum over the target tokens, in nats."""
    target_tokens: int
    source_tokens: int
    too_large: int | None
    """Tokens of the smallest batch known not to fit."""
    left_out: int
    """Pairs that did not fit in memory alone."""


def batch_loss(
    model: Transformer, batch: Batch, *, pad_id: int, smoothing: float = 0.0, alpha: float = 0.0
) -> tuple[Tensor, Tensor]:
    """The loss of a batch, as a sum over its target tokens, and their number.

    With `alpha`, that of R-Drop, the batch passes twice. The result is half of its paper's loss, which adds up two
    cross-entropies, so that it compares with that of a run without.
    """
    options = {"weight": model.projection.weight, "bias": model.projection.bias, "smoothing": smoothing}
    if not alpha:
        states = model.projection_dropout(model.states(batch.source_ids, batch.target_ids))
        return cross_entropy(states, batch.labels, **options, pad_id=pad_id)
    states = model.states(batch.source_ids.repeat(2, 1), batch.target_ids.repeat(2, 1))
    # From (2 batches, length, width) to (batch, length, 2, width).
    states = model.projection_dropout(states).unflatten(0, (2, -1)).movedim(0, 2)
    counted = batch.labels != pad_id
    return r_drop(states[counted], batch.labels[counted], alpha=alpha, **options) / 2, counted.sum()


def loss_and_backward(model: Transformer, batch: Batch, *, step_tokens: int, **options: float) -> tuple[float, int]:
    """The loss of a batch and its number of target tokens, as `batch_loss` gives them, as numbers.

    Of a step with `step_tokens` target tokens in all, the weights have the gradient afterwards; with 0 they do not.
    """
    loss, count = batch_loss(model, batch, **options)
    if step_tokens:
        (loss / step_tokens).backward()
    return loss.item(), int(count)


def sum_gradients(
    batches: list[Batch],
    add_gradient: Callable[[Batch, int, int], float],
    *,
    forget: Callable[[], None],
    pad_id: int,
    too_large: int | None = None,
) -> GradientSum:
    """Call `add_gradient(batch, index, target tokens of all)`, which returns a loss, for each batch or its parts.

    Batches of `too_large` tokens and more are halved beforehand. Where another one does not fit, `forget` is called
    and all begins again with its halves: what a backward pass added before it broke off cannot be taken out.
    """
    pending, losses, left_out = _parts(batches, too_large), [], 0
    target_tokens = _count([batch.labels for batch in pending], pad_id)
    while len(losses) < len(pending):
        index = len(losses)
        loss = _attempt(add_gradient, pending[index], index, target_tokens)
        if loss is not None:
            losses.append(loss)
            continue
        forget()
        batch, losses = pending[index], []
        if len(batch.labels) > 1:
            too_large = min(_size(batch), too_large or _size(batch))
            pending = _parts(pending, too_large)
        else:
            del pending[index]
            left_out += 1
            target_tokens = _count([batch.labels for batch in pending], pad_id)
    source_tokens = _count([batch.source_ids for batch in pending], pad_id)
    return GradientSum(sum(losses), target_tokens, source_tokens, too_large, left_out)


def out_of_memory(error: Exception) -> bool:
    """Whether memory ran out, and not something else went wrong."""
    return isinstance(error, MemoryError) or OUT_OF_MEMORY.search(str(error)) is not None


def random_seed(seed: int, step: int, micro_batch: int) -> int:
    """What the random numbers of a micro-batch begin with."""
    # Below 2**63 for torch; the factors keep neighbouring runs and steps apart.
    return (seed * 1_000_000_007 + step * 10_007 + micro_batch) % 2**63


def _attempt(add_gradient: Callable[[Batch, int, int], float], *arguments: Batch | int) -> float | None:
    """What `add_gradient` returns, or None if memory ran out."""
    try:
        return add_gradient(*arguments)
    except (MemoryError, RuntimeError) as error:
        if not out_of_memory(error):
            raise
    # Only here, with the traceback, are the tensors of the attempt gone.
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    return None


def _parts(batches: list[Batch], too_large: int | None) -> list[Batch]:
    """The batches, or their halves, or theirs, until each has fewer tokens than `too_large` or is a single pair."""
    parts = []
    for batch in batches:
        rows = len(batch.labels)
        if too_large is None or rows == 1 or _size(batch) < too_large:
            parts.append(batch)
        else:
            cut = (ids.split(-(-rows // 2)) for ids in (batch.source_ids, batch.target_ids, batch.labels))
            parts += _parts([Batch(*half) for half in zip(*cut, strict=True)], too_large)
    return parts


def _size(batch: Batch) -> int:
    return batch.source_ids.numel() + batch.labels.numel()


def _count(ids: list[Tensor], pad_id: int) -> int:
    return sum(int((each != pad_id).sum()) for each in ids)
