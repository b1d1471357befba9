"""Log-probabilities, exponentials and the best continuations of a beam from logits, in one pass over memory each."""

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
    """Replace each row by exp(logits - shift), but 0 at its target; the same as the formula in fast/loss.py.

    The shift is the largest number of a row if that is farther from 0 than `far`, else 0. Returns four numbers for each
    row, in float32: the shift, the logit of the target less the shift, the sum of the new row, and 0.

    With `alpha`, that of R-Drop, rows come in twos, and `far` has no effect. The shift is the log of the sum of
    exponentials, so that rows become probabilities, 0 at the target, plus what R-Drop adds to the gradient of each
    logit. The third number is then the sum of the other tokens' probabilities, the fourth what R-Drop adds to the loss.
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
    """The same as `best_continuations` of `decoding.search`; `totals` are float64."""
    totals = totals.contiguous()
    best, indices = totals.new_empty(len(totals), count), torch.empty(len(totals), count, dtype=torch.long)
    library.functions.best_continuations(
        log_probs.data_ptr(), totals.data_ptr(), *log_probs.shape, count, best.data_ptr(), indices.data_ptr()
    )
    return best, indices
