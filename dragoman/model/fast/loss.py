"""The loss without its largest tensor: equals `dragoman.model.loss.cross_entropy`, but is computed slice by slice.

The logits of a batch, (tokens, vocabulary), are by far its largest tensor. They are computed here in slices that fit in
the cache, and each slice turns into its gradient at once, so the whole tensor never exists.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable

from dragoman.model.fast import bfloat16
from dragoman.model.fast.logits import can_exponentiate, exponentiate
from dragoman.model.loss import LossOptions, SoftTargets

SLICE_ELEMENTS = {"cpu": 2**21, "cuda": 2**27}
"""Logits that are computed at a time: on a CPU 4 MB of bfloat16, which stay near a core."""
_FAR = 60.0
"""Logits up to this distance from 0 need no shift: exp of 88 is the largest in float32."""


def cross_entropy(
    states: Float[Tensor, "*predictions d_model"],
    targets: Int[Tensor, "*targets"],
    options: LossOptions,
    *,
    weight: Float[Tensor, "vocab d_model"],
    bias: Float[Tensor, " vocab"] | None = None,
    soft: SoftTargets | None = None,
) -> tuple[Float[Tensor, ""], Int[Tensor, ""]]:
    """The same as `dragoman.model.loss.cross_entropy`, in value, count and gradients."""
    counted = (targets != options.pad_id).flatten()
    states, targets = states.flatten(0, targets.dim() - 1)[counted], targets.flatten()[counted]
    predictions = 2 if options.r_drop else 1  # of each target, in rows one after the other
    states, targets = states.flatten(0, -2), targets.repeat_interleave(predictions)
    if soft:
        ids, probabilities = (x.flatten(0, -2)[counted].repeat_interleave(predictions, 0) for x in soft)
        soft = SoftTargets(ids, probabilities)
    # Inside a Function gradients are always off; whether they are wanted has to be asked here.
    is_grad_enabled = torch.is_grad_enabled()
    loss = _ProjectedCrossEntropy.apply(states, weight, bias, targets, options, soft, is_grad_enabled)
    return loss, counted.sum()


class _ProjectedCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        states: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        targets: Tensor,
        options: LossOptions,
        soft: SoftTargets | None,
        is_grad_enabled: bool,
    ) -> Tensor:
        device = states.device.type
        dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else states.dtype
        with_gradient = is_grad_enabled and any(ctx.needs_input_grad)
        # detach: a gradient is wanted from here on only for what is computed below, by hand.
        projection = _Projection(weight.detach(), None if bias is None else bias.detach(), dtype)
        projection.is_frozen = not any(ctx.needs_input_grad[1:3])
        with torch.autocast(device, enabled=False):
            states = states.detach()
            loss, gradients = _loss_and_gradients(
                states.to(dtype), projection, targets, options, soft, with_gradient=with_gradient
            )
        ctx.save_for_backward(*gradients)
        ctx.dtypes = states.dtype, weight.dtype, None if bias is None else bias.dtype
        return loss.to(_at_least_float32(states.dtype))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, scale: Tensor) -> tuple[Tensor | None, ...]:
        scaled = []
        for gradient, dtype in zip(ctx.saved_tensors, ctx.dtypes, strict=True):
            scaled.append(None if gradient is None else (gradient * scale).to(dtype))
        return *scaled, None, None, None, None


class _Projection:
    """The projection to logits, in the precision of the products, and the gradients of its weight and bias."""

    def __init__(self, weight: Tensor, bias: Tensor | None, dtype: torch.dtype):
        self.weight = weight.to(dtype)
        self.bias = None if bias is None else bias.to(dtype)
        self.wide = _at_least_float32(dtype)
        """Precision of sums."""
        self.mean_weight = weight.mean(0, dtype=self.wide)
        self.mean_bias = 0.0 if bias is None else bias.mean(dtype=self.wide)
        self.packed: bfloat16.Projection | None = None
        """Computes the products of a slice in one pass, on processors that multiply bfloat16."""
        self.is_frozen = False
        """Whether nobody wants the gradients of weight and bias."""
        self.weight_gradient: Tensor | None = None
        self.bias_gradient: Tensor | None = None

    def prepare_gradients(self, *, r_drop: bool) -> None:
        """Set the gradients of weight and bias to 0, if they are wanted."""
        if self.is_frozen:
            return
        if self.bias is None and not r_drop and bfloat16.can_project(self.weight):
            self.packed = bfloat16.Projection(self.weight)
            self.weight_gradient = self.packed.gradient
            return
        self.weight_gradient = torch.zeros_like(self.weight, dtype=self.wide)
        self.bias_gradient = None if self.bias is None else torch.zeros_like(self.bias, dtype=self.wide)

    def slice_rows(self, *, r_drop: bool) -> int:
        """The number of rows in a slice."""
        if self.packed:
            return bfloat16.SLICE
        rows = max(16, SLICE_ELEMENTS.get(self.weight.device.type, 2**24) // len(self.weight))
        # Both predictions of a target are in one slice; the formula of R-Drop holds several tensors of this size.
        return rows // 4 * 2 if r_drop else rows

    def logits(self, states: Tensor) -> Tensor:
        return states @ self.weight.T if self.bias is None else torch.addmm(self.bias, states, self.weight.T)

    def mean_logits(self, states: Tensor) -> Tensor:
        """The mean over the vocabulary of the logits of each row, (rows, 1), without computing them."""
        return states.to(self.wide) @ self.mean_weight[:, None] + self.mean_bias

    def expected(self, soft: SoftTargets) -> tuple[Tensor, Tensor]:
        """Mean rows of the weight by the probabilities of the soft targets, and each bias times its probability."""
        probabilities = soft.probabilities.to(self.wide)
        rows = F.embedding_bag(soft.ids, self.weight.to(self.wide), per_sample_weights=probabilities, mode="sum")
        return rows, probabilities.new_zeros(()) if self.bias is None else probabilities * self.bias[soft.ids]

    def multiply(self, spread: "Tensor | bfloat16.Spread", states: Tensor, norm: Tensor) -> Tensor:
        """Returns `spread` times the weights; adds its share to the gradients of weight and bias."""
        scaled = (states / norm).to(states.dtype)
        if not isinstance(spread, Tensor):
            return spread.multiply(scaled)
        if self.weight_gradient is not None:
            self.weight_gradient += spread.T @ scaled
        if self.bias_gradient is not None:
            self.bias_gradient += (spread.T @ (1 / norm).to(states.dtype))[:, 0]
        return (spread @ self.weight).to(self.wide)

    def add_soft_targets(self, soft: SoftTargets, states: Tensor, *, share: float) -> None:
        """Add the share of the soft targets of all rows to the gradients of weight and bias."""
        if self.weight_gradient is None:
            return
        factors = -share * soft.probabilities.to(self.wide)
        self.weight_gradient.index_add_(0, soft.ids.flatten(), (factors[..., None] * states[:, None]).flatten(0, 1))
        if self.bias_gradient is not None:
            self.bias_gradient.index_add_(0, soft.ids.flatten(), factors.flatten())

    def add_targets(self, targets: Tensor, states: Tensor, pulls: Tensor, *, smoothing: float) -> None:
        """Add the share of the targets and of smoothing, for all rows, to the gradients of weight and bias."""
        if self.weight_gradient is None:
            return
        share = smoothing / len(self.weight)
        self.weight_gradient.index_add_(0, targets, states * pulls).sub_(states.sum(0, dtype=self.wide), alpha=share)
        if self.bias_gradient is not None:
            self.bias_gradient.index_add_(0, targets, pulls[:, 0]).sub_(smoothing * len(states) / len(self.weight))


class _Shares(NamedTuple):
    """Parts of the distribution with which a prediction is compared; they add up to 1."""

    certain: float
    """Share of the target itself."""
    smoothing: float
    """Share that is spread over the vocabulary."""
    soft: float
    """Share of the soft targets."""


class _Gradients(NamedTuple):
    """Gradients of the loss; None where they are not wanted or there is no bias."""

    states: Tensor | None = None
    weight: Tensor | None = None
    bias: Tensor | None = None


def _loss_and_gradients(
    states: Tensor,
    projection: _Projection,
    targets: Tensor,
    options: LossOptions,
    soft: SoftTargets | None,
    *,
    with_gradient: bool,
) -> tuple[Tensor, _Gradients]:
    """The summed loss, and its gradients with respect to states, weight and bias."""
    smoothing = (1 - options.soft_targets) * options.smoothing
    shares = _Shares(1 - options.soft_targets - smoothing, smoothing, options.soft_targets)
    if with_gradient:
        projection.prepare_gradients(r_drop=options.r_drop > 0)
    rows = projection.slice_rows(r_drop=options.r_drop > 0)
    loss = states.new_zeros((), dtype=torch.float64)
    states_gradient = torch.empty_like(states)
    pulls = states.new_empty(len(states), 1, dtype=projection.wide)
    if soft:
        expected_rows, expected_bias = projection.expected(soft)
        expected_sum = (states * expected_rows).sum(dtype=torch.float64) + expected_bias.sum(dtype=torch.float64)
        loss -= shares.soft * expected_sum
    for start in range(0, len(states), rows):
        part, target = states[start : start + rows], targets[start : start + rows]
        result = _slice_loss(part, target, projection, shares, options.r_drop)
        loss += result.loss
        if not with_gradient:
            continue
        gradient = projection.multiply(result.spread, part, result.norm) / result.norm
        gradient.addcmul_(result.pull, projection.weight[target].to(projection.wide))
        gradient.sub_(projection.mean_weight, alpha=shares.smoothing)
        if soft:
            gradient.sub_(expected_rows[start : start + rows], alpha=shares.soft)
        states_gradient[start : start + rows] = gradient
        pulls[start : start + rows] = result.pull
    if not with_gradient:
        return loss, _Gradients()
    # The shares of targets and smoothing, for all slices at once: rows of one target each, and one row for all.
    if soft:
        projection.add_soft_targets(soft, states, share=shares.soft)
    projection.add_targets(targets, states, pulls, smoothing=shares.smoothing)
    return loss, _Gradients(states_gradient, projection.weight_gradient, projection.bias_gradient)


@dataclass
class _SliceLoss:
    """The summed loss of some rows, and its gradient with respect to their logits z, in parts.

    With p = softmax(z) the loss is log sum exp z - certain z_target - smoothing mean(z), but for soft targets. Its
    gradient is `spread / norm`, plus `pull` at the target, minus smoothing / vocabulary everywhere. So exp z is not
    divided or read again, and the probability of the target, which is near 1, is not rounded as exp z is.
    """

    loss: Tensor
    spread: "Tensor | bfloat16.Spread"
    """exp(z - shift), but 0 at the target; with R-Drop, what that adds to the gradient is added to it."""
    norm: Tensor
    """The sum of exp(z - shift) with the target, (rows, 1)."""
    pull: Tensor
    """p_target - certain, (rows, 1)."""


def _slice_loss(states: Tensor, target: Tensor, projection: _Projection, shares: _Shares, r_drop: float) -> _SliceLoss:
    """The loss of the rows of a slice; with R-Drop, rows come in twos."""
    mean = projection.mean_logits(states)
    spread = projection.packed.spread(states, target, far=_FAR) if projection.packed else None
    if spread is not None:
        return _loss_from_sums(spread, spread.target_logits, spread.sums, mean, shares)
    exponentials = _exponentials(projection.logits(states), target, r_drop)
    shift = exponentials.shift
    result = _loss_from_sums(exponentials.spread, exponentials.target_logits, exponentials.sums, mean - shift, shares)
    result.loss = result.loss + shares.soft * shift.sum() + exponentials.r_drop.sum()
    return result


def _loss_from_sums(
    spread: "Tensor | bfloat16.Spread", target_logits: Tensor, sums: Tensor, mean: Tensor, shares: _Shares
) -> _SliceLoss:
    """The loss of some rows from the logits of their targets, the sums of exp of all others, and their mean logits."""
    target_exp = target_logits.exp()
    norm = sums + target_exp
    loss = (norm.log() - shares.certain * target_logits - shares.smoothing * mean).sum()
    return _SliceLoss(loss, spread, norm, pull=target_exp / norm - shares.certain)


class _Exponentials(NamedTuple):
    """exp(logits - shift) of some rows, and what the loss needs of them; tensors (rows, 1) unless it says otherwise."""

    spread: Tensor
    """exp(logits - shift), but 0 at the targets, (rows, vocabulary); with R-Drop, what that adds to the gradient is
    added to it."""
    shift: Tensor
    target_logits: Tensor
    """Logits of the targets, less the shift."""
    sums: Tensor
    """Sums of exp(logits - shift) without the targets."""
    r_drop: Tensor
    """What R-Drop adds to the loss, in any shape."""


def _exponentials(logits: Tensor, target: Tensor, r_drop: float) -> _Exponentials:
    """Compute the exponentials in the memory of `logits`; with R-Drop, rows come in twos."""
    if can_exponentiate(logits):
        terms = exponentiate(logits, target, far=_FAR, alpha=r_drop)
        return _Exponentials(logits, *terms.split(1, dim=1))
    if r_drop:
        return _predicted_twice(logits, target, r_drop)
    wide = _at_least_float32(logits.dtype)
    largest = logits.amax(1, keepdim=True)
    # Only for rows whose exp would leave the range of float32: the others keep all their digits.
    shift = largest * (largest.abs() > _FAR)
    logits -= shift
    target_logits = logits.gather(1, target[:, None]).to(wide)
    spread = logits.exp_()
    spread[torch.arange(len(target), device=target.device), target] = 0.0
    return _Exponentials(spread, shift, target_logits, _row_sums(spread, wide), r_drop=torch.zeros_like(shift))


def _row_sums(x: Tensor, dtype: torch.dtype) -> Tensor:
    # A sum of half precision in another one copies all of `x` on a CPU. Parts lose little when they are rounded.
    return torch.stack([part.sum(1) for part in x.chunk(16, dim=1)], dim=1).sum(1, keepdim=True, dtype=dtype)


def _predicted_twice(logits: Tensor, target: Tensor, alpha: float) -> _Exponentials:
    """The formula of `_exponentials` with R-Drop. The shift is the log of their sum, so that they are probabilities.

    P and Q are rows 2i and 2i + 1. With d = log P - log Q, the gradient of KL(P || Q) with respect to P's logits is
    P (d - KL(P || Q)), that of KL(Q || P) is P - Q.
    """
    log_probs = logits.unflatten(0, (-1, 2)).log_softmax(2, dtype=_at_least_float32(logits.dtype))
    target_logits = log_probs.flatten(0, 1).gather(1, target[:, None])
    probs, d = log_probs.exp(), log_probs[:, 0] - log_probs[:, 1]
    gradients = torch.stack([d, -d], 1, out=log_probs)  # in place from here on: fresh memory would cost more
    divergences = (probs * gradients).sum(2, keepdim=True)
    gradients.sub_(divergences - 1).mul_(probs).sub_(probs.flip(1)).mul_(alpha / 2).add_(probs)
    spread = gradients.flatten(0, 1).scatter_add_(1, target[:, None], -target_logits.exp())
    return _Exponentials(
        spread.to(logits.dtype),
        shift=logits.gather(1, target[:, None]) - target_logits,
        target_logits=target_logits,
        sums=1 - target_logits.exp(),
        r_drop=divergences.sum() * alpha / 2,
    )


def _at_least_float32(dtype: torch.dtype) -> torch.dtype:
    return torch.promote_types(dtype, torch.float32)
