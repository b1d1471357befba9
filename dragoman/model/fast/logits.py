"""What follows from logits, in one pass over memory: log-probabilities, exponentials, the best of a beam."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from dragoman.model.fast import library
from dragoman.model.fast.memory import takes


def can_log_softmax(logits: Float[Tensor, "rows vocab"], out: Float[Tensor, "rows vocab"]) -> bool:
    """Whether `log_softmax` takes these."""
    return takes(logits) and logits.is_contiguous() and out.is_contiguous()


def log_softmax(logits: Float[Tensor, "rows vocab"], out: Float[Tensor, "rows vocab"]) -> None:
    """The same as `dragoman.model.transformer.log_softmax`."""
    library.functions.log_softmax(logits.data_ptr(), out.data_ptr(), *logits.shape, logits.dtype == torch.bfloat16)


def can_exponentiate(logits: Float[Tensor, "rows vocab"]) -> bool:
    """Whether `exponentiate` takes these. It runs on one thread; where there are several, they share the formula."""
    return takes(logits) and logits.is_contiguous() and torch.get_num_threads() == 1


def exponentiate(
    logits: Float[Tensor, "rows vocab"], targets: Int[Tensor, " rows"], *, far: float, alpha: float = 0.0
) -> Float[Tensor, "rows 4"]:
    """Turn each row, in place, into exp(logits - shift), and 0 at its target.

    The shift is the largest number of a row if that is farther from 0 than `far`, else 0. Returns the shift of each
    row, its logit at the target less the shift, and the sum of what the row has become, in float32; then 0.

    With `alpha`, that of R-Drop, rows come in twos, whatever `far` is. The shift is the log of the sum of exponentials,
    so that rows become probabilities, 0 at the target, plus what R-Drop adds to the gradient of each logit. The third
    number is the sum of the other tokens' probabilities, the fourth what R-Drop adds to the loss.
    """
    terms = torch.empty(len(logits), 4, dtype=torch.float32)
    library.functions.exponentiate(
        *(x.data_ptr() for x in (logits, targets, terms)), *logits.shape, far, alpha, logits.dtype == torch.bfloat16
    )
    return terms


def can_rank(log_probs: Float[Tensor, "sentences beam vocab"]) -> bool:
    """Whether `best_continuations` takes these."""
    return takes(log_probs) and log_probs.dtype == torch.float32 and log_probs.is_contiguous()


def best_continuations(
    log_probs: Float[Tensor, "sentences beam vocab"], totals: Float[Tensor, "sentences beam"], count: int
) -> tuple[Float[Tensor, "sentences count"], Int[Tensor, "sentences count"]]:
    """As that of `decoding.search`, in one pass; `totals` are float64."""
    shape, totals = log_probs.shape, totals.contiguous()
    found, indices = totals.new_empty(len(totals), count), torch.empty(len(totals), count, dtype=torch.long)
    library.functions.best_continuations(
        log_probs.data_ptr(), totals.data_ptr(), *shape, count, found.data_ptr(), indices.data_ptr()
    )
    return found, indices
