"""Log-probabilities and exponentials from logits, in one pass over memory each."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from dragoman.model.fast.memory import takes
from dragoman.native import library


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
