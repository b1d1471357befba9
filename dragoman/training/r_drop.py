"""R-Drop (Liang et al. 2021, arXiv 2106.14448): two passes that differ by dropout shall predict the same."""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from dragoman.training.loss import rows_in_slice


def divergence(
    first: Float[Tensor, "tokens d_model"],
    second: Float[Tensor, "tokens d_model"],
    *,
    weight: Float[Tensor, "vocab d_model"],
    bias: Float[Tensor, " vocab"] | None = None,
) -> Float[Tensor, ""]:
    """(KL(P || Q) + KL(Q || P)) / 2, summed over tokens, in nats: P and Q are softmax(states weight^T + bias).

    The logits of a slice of tokens are forgotten, and computed again for the gradient: all of them never exist.
    """
    rows = rows_in_slice(weight)
    total = first.new_zeros((), dtype=torch.float32)
    for p, q in zip(first.split(rows), second.split(rows), strict=True):
        # Nothing in a slice is random.
        options = {"use_reentrant": False, "preserve_rng_state": False}
        total = total + checkpoint(_slice_divergence, p, q, weight, bias, **options)
    return total


def _slice_divergence(first: Tensor, second: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    log_p, log_q = (F.linear(states, weight, bias).float().log_softmax(-1) for states in (first, second))
    # Both divergences at once: sum p log(p/q) + sum q log(q/p).
    return ((log_p.exp() - log_q.exp()) * (log_p - log_q)).sum() / 2
