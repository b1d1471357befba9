"""The loss: cross-entropy with label smoothing (section 5.4 of the paper) or soft targets of teachers, and R-Drop."""

from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from dragoman.model.formula import Formula


@dataclass(frozen=True)
class LossOptions:
    """Settings of the loss."""

    pad_id: int
    smoothing: float = 0.0
    """Share of each target that is spread over the vocabulary."""
    r_drop: float = 0.0
    """Weight alpha of R-Drop; 0: a single pass."""
    soft_targets: float = 0.0
    """Share of each target that the soft targets of teachers replace; it is not smoothed."""
    guided_alignment: float = 0.0
    """Weight of `alignment_loss`."""


class SoftTargets(NamedTuple):
    """Probabilities that teachers give to the likeliest tokens at the position of each target."""

    ids: Int[Tensor, "*targets top"]
    probabilities: Float[Tensor, "*targets top"]
    """They add up to 1, or to 0 where the target is padding."""


@Formula
def cross_entropy(
    states: Float[Tensor, "*predictions d_model"],
    targets: Int[Tensor, "*targets"],
    options: LossOptions,
    *,
    weight: Float[Tensor, "vocab d_model"],
    bias: Float[Tensor, " vocab"] | None = None,
    soft: SoftTargets | None = None,
) -> tuple[Float[Tensor, ""], Int[Tensor, ""]]:
    """Sum over all tokens of the cross-entropy of softmax(states weight^T + bias), in nats, and number of tokens.

    Targets equal to `pad_id` do not count. A share `smoothing` of each target is spread over the vocabulary, as
    `torch.nn.functional.cross_entropy` does. A share `soft_targets` of each target is replaced by `soft` (word-level
    knowledge distillation, Kim & Rush, 2016). Under autocast the products run in its precision; sums and probabilities
    are float32, or float64 where the states are.

    With R-Drop (Liang et al. 2021, arXiv 2106.14448) `states` have the shape (*targets, 2, d_model): each target is
    predicted twice, by P and Q, which differ by dropout. Added to the two cross-entropies is `r_drop` times
    (KL(P || Q) + KL(Q || P)) / 2.
    """
    logits = F.linear(states, weight, bias)
    log_probs = logits.log_softmax(-1, dtype=torch.promote_types(logits.dtype, torch.float32))
    if not options.r_drop:
        log_probs = log_probs.unsqueeze(-2)  # a single prediction of each target
    losses = (1 - options.soft_targets) * smoothed(log_probs, targets, options.smoothing)
    if soft is not None:
        losses = losses + options.soft_targets * soft_cross_entropy(log_probs, soft)
    losses = losses.sum(-1)
    if options.r_drop:
        losses = losses + options.r_drop * divergence(*log_probs.unbind(-2))
    counted = targets != options.pad_id
    return losses[counted].sum(), counted.sum()


def smoothed(
    log_probs: Float[Tensor, "*targets predictions vocab"], targets: Int[Tensor, "*targets"], smoothing: float
) -> Float[Tensor, "*targets predictions"]:
    """-(1 - smoothing) log p(target) - smoothing mean(log p), for each prediction."""
    predictions, vocab = log_probs.shape[-2:]
    chosen = log_probs.gather(-1, targets[..., None, None].expand(*targets.shape, predictions, 1)).squeeze(-1)
    return -(1 - smoothing) * chosen - smoothing / vocab * log_probs.sum(-1)


def soft_cross_entropy(
    log_probs: Float[Tensor, "*targets predictions vocab"], soft: SoftTargets
) -> Float[Tensor, "*targets predictions"]:
    """-sum q log p, where q are the probabilities of the teachers."""
    ids = soft.ids.unsqueeze(-2).expand(*log_probs.shape[:-1], -1)
    return -(soft.probabilities.unsqueeze(-2) * log_probs.gather(-1, ids)).sum(-1)


def alignment_loss(
    weights: Float[Tensor, "rows tgt_len src_len"], positions: Int[Tensor, "rows tgt_len"]
) -> Float[Tensor, ""]:
    """Sum over the target tokens of -log of the attention that one head pays to the source position of each.

    This is guided alignment (Chen et al. 2016, arXiv 1607.01628). `weights` are those of the head; targets whose
    position is negative do not count.
    """
    chosen = weights.gather(2, positions.clamp(min=0)[:, :, None]).squeeze(2)[positions >= 0]
    wide = chosen.to(torch.promote_types(chosen.dtype, torch.float32))
    return -wide.clamp(min=torch.finfo(wide.dtype).tiny).log().sum()


def positions_of_inputs(
    positions: Int[Tensor, "rows tgt_len"], labels: Int[Tensor, "rows tgt_len"], *, pad_id: int
) -> Int[Tensor, "rows tgt_len"]:
    """The source positions of the decoder's inputs, from those of its labels, which it reads one step later.

    Negative for the first input, which is no word, and where the labels are padding.
    """
    return F.pad(positions[:, :-1], (1, 0), value=-1).masked_fill(labels == pad_id, -1)


def divergence(p: Float[Tensor, "*targets vocab"], q: Float[Tensor, "*targets vocab"]) -> Float[Tensor, "*targets"]:
    """(KL(P || Q) + KL(Q || P)) / 2 of two predictions, whose log-probabilities are `p` and `q`."""
    return ((p.exp() - q.exp()) * (p - q)).sum(-1) / 2
