"""The loss without its largest tensor: `dragoman.model.loss.cross_entropy`, slice by slice.

The logits of a batch, (tokens, vocabulary), are by far its largest tensor. They are computed here in slices that fit in
the cache, and each slice turns into its gradient at once, so the whole tensor never exists.
"""

from typing import Any

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
_FAR = 60.0  # exp of 88 is the largest in float32


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
    predicted = 2 if options.r_drop else 1
    states, targets = states.flatten(0, -2), targets.repeat_interleave(predicted)
    if soft:
        soft = SoftTargets(*(each.flatten(0, -2)[counted].repeat_interleave(predicted, 0) for each in soft))
    # Inside a Function gradients are always off; whether they are wanted has to be asked here.
    loss = _ProjectedCrossEntropy.apply(states, weight, bias, targets, (options, soft, torch.is_grad_enabled()))
    return loss, counted.sum()


class _ProjectedCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        states: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        targets: Tensor,
        settings: tuple[LossOptions, SoftTargets | None, bool],
    ) -> Tensor:
        options, soft, grad_enabled = settings
        kind = states.device.type
        dtype = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else states.dtype
        # detach: a gradient is wanted from here on only for what is computed below, by hand.
        output = _Output(weight.detach(), None if bias is None else bias.detach(), dtype, options)
        with_gradient = grad_enabled and any(ctx.needs_input_grad)
        with torch.autocast(kind, enabled=False):
            states = states.detach()
            loss, gradients = _all_slices(states.to(dtype), output, targets, soft, with_gradient=with_gradient)
        ctx.save_for_backward(*gradients)
        ctx.dtypes = states.dtype, weight.dtype, None if bias is None else bias.dtype
        return loss.to(_at_least_float32(states.dtype))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, scale: Tensor) -> tuple[Tensor | None, ...]:
        found = zip(ctx.saved_tensors, ctx.dtypes, strict=True)
        gradients = [None if gradient is None else (gradient * scale).to(dtype) for gradient, dtype in found]
        return *gradients, None, None


class _Output:
    """The projection to logits and what they are compared with, in the precision of the products; and its gradients."""

    def __init__(self, weight: Tensor, bias: Tensor | None, dtype: torch.dtype, options: LossOptions):
        self.weight, self.alpha, self.soft = weight.to(dtype), options.r_drop, options.soft_targets
        self.smoothing = (1 - self.soft) * options.smoothing
        self.certain = 1 - self.soft - self.smoothing
        """Share of each target that is the target itself."""
        self.bias = None if bias is None else bias.to(dtype)
        self.wide = _at_least_float32(dtype)
        self.mean_weight = weight.mean(0, dtype=self.wide)
        self.mean_bias = 0.0 if bias is None else bias.mean(dtype=self.wide)
        self.packed: bfloat16.Projection | None = None
        self.bias_grad: Tensor | None = None

    def begin(self) -> None:
        """Prepare for gradients of weight and bias."""
        if self.bias is None and not self.alpha and bfloat16.can_project(self.weight):
            self.packed = bfloat16.Projection(self.weight)
            self.weight_grad = self.packed.gradient
        else:
            self.weight_grad = torch.zeros_like(self.weight, dtype=self.wide)
            self.bias_grad = None if self.bias is None else torch.zeros_like(self.bias, dtype=self.wide)

    def rows(self) -> int:
        """The number of rows in a slice."""
        if self.packed:
            return bfloat16.SLICE
        rows = max(16, SLICE_ELEMENTS.get(self.weight.device.type, 2**24) // len(self.weight))
        # Both predictions of a target are in one slice; the formula of R-Drop holds several tensors of this size.
        return rows // 4 * 2 if self.alpha else rows

    def logits(self, states: Tensor) -> Tensor:
        return states @ self.weight.T if self.bias is None else torch.addmm(self.bias, states, self.weight.T)

    def mean_logits(self, states: Tensor) -> Tensor:
        return states.to(self.wide) @ self.mean_weight[:, None] + self.mean_bias

    def expected(self, soft: SoftTargets) -> tuple[Tensor, Tensor]:
        """Row of the weights, and bias, that teachers expect in the place of each target."""
        probabilities = soft.probabilities.to(self.wide)
        rows = F.embedding_bag(soft.ids, self.weight.to(self.wide), per_sample_weights=probabilities, mode="sum")
        return rows, probabilities.new_zeros(()) if self.bias is None else probabilities * self.bias[soft.ids]

    def add_expected(self, soft: SoftTargets, states: Tensor) -> None:
        """The gradients get what the soft targets of all rows add to them."""
        shares = -self.soft * soft.probabilities.to(self.wide)
        self.weight_grad.index_add_(0, soft.ids.flatten(), (shares[..., None] * states[:, None]).flatten(0, 1))
        if self.bias_grad is not None:
            self.bias_grad.index_add_(0, soft.ids.flatten(), shares.flatten())

    def multiply(self, spread: "Tensor | bfloat16.Spread", states: Tensor, norm: Tensor) -> Tensor:
        """`spread` times the weights; the gradients get what it adds to them."""
        scaled = (states / norm).to(states.dtype)
        if not isinstance(spread, Tensor):
            return spread.multiply(scaled)
        self.weight_grad += spread.T @ scaled
        if self.bias_grad is not None:
            self.bias_grad += (spread.T @ (1 / norm).to(states.dtype))[:, 0]
        return (spread @ self.weight).to(self.wide)


def _all_slices(
    states: Tensor, output: _Output, targets: Tensor, soft: SoftTargets | None, *, with_gradient: bool
) -> tuple[Tensor, tuple[Tensor | None, Tensor | None, Tensor | None]]:
    """The summed loss, and its gradients with respect to states, weight and bias."""
    vocab, wide = len(output.weight), output.wide
    if with_gradient:
        output.begin()
    rows, loss = output.rows(), states.new_zeros((), dtype=torch.float64)
    states_grad, pulls = torch.empty_like(states), states.new_empty(len(states), 1, dtype=wide)
    if soft:
        expected, bias = output.expected(soft)
        loss -= output.soft * ((states * expected).sum(dtype=torch.float64) + bias.sum(dtype=torch.float64))
    for start in range(0, len(states), rows):
        part, target = states[start : start + rows], targets[start : start + rows]
        slice_loss, spread, norm, pull = _slice_loss(part, output, target)
        loss += slice_loss
        if not with_gradient:
            continue
        grad = output.multiply(spread, part, norm) / norm
        grad.addcmul_(pull, output.weight[target].to(wide)).sub_(output.mean_weight, alpha=output.smoothing)
        if soft:
            grad.sub_(expected[start : start + rows], alpha=output.soft)
        states_grad[start : start + rows] = grad
        pulls[start : start + rows] = pull
    if not with_gradient:
        return loss, (None, None, None)
    # What smoothing and the targets add to every slice, at once: rows of one target each, and one row for all.
    if soft:
        output.add_expected(soft, states)
    weight_grad, bias_grad = output.weight_grad, output.bias_grad
    weight_grad.index_add_(0, targets, states * pulls).sub_(states.sum(0, dtype=wide), alpha=output.smoothing / vocab)
    if bias_grad is not None:
        bias_grad.index_add_(0, targets, pulls[:, 0]).sub_(output.smoothing * len(states) / vocab)
    return loss, (states_grad, weight_grad, bias_grad)


def _slice_loss(
    states: Tensor, output: _Output, target: Tensor
) -> "tuple[Tensor, Tensor | bfloat16.Spread, Tensor, Tensor]":
    """The summed loss of some rows, and its gradient with respect to their logits in three parts.

    With p = softmax(z): loss = log sum exp z - certain z_target - smoothing mean(z), and the gradient is p minus the
    smoothed target, but for soft targets. It is spread / norm, where spread is 0 at the target, but for what R-Drop
    adds to all of it; there it is `pull`; and everywhere comes -smoothing / vocabulary. So exp z need not be divided or
    touched again, nor its rounding be that of the probability of the target, which is near to 1.
    """
    if output.packed and (found := output.packed.spread(states, target, far=_FAR)):
        loss, norm, pull = _compared(output, output.mean_logits(states), found.chosen, found.sums)
        return loss, found, norm, pull
    spread, shift, chosen, others, apart = _exponentials(output.logits(states), target, output.alpha)
    loss, norm, pull = _compared(output, output.mean_logits(states) - shift, chosen, others)
    return loss + output.soft * shift.sum() + apart.sum(), spread, norm, pull


def _compared(output: _Output, mean: Tensor, chosen: Tensor, others: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Loss, norm and pull of some rows, from the means of their logits, those of the targets, and exp of all others."""
    own = chosen.exp()
    norm = others + own
    loss = (norm.log() - output.certain * chosen - output.smoothing * mean).sum()
    return loss, norm, own / norm - output.certain


def _exponentials(logits: Tensor, target: Tensor, alpha: float) -> tuple[Tensor, ...]:
    """In place exp(logits - shift), 0 at the targets; the shifts; the targets' logits less these; sums of the rows; and
    what R-Drop, with which rows come in twos, adds to the loss. What it adds to the gradient is in the first."""
    if can_exponentiate(logits):
        return logits, *exponentiate(logits, target, far=_FAR, alpha=alpha).split(1, dim=1)
    if alpha:
        return _predicted_twice(logits, target, alpha)
    wide = _at_least_float32(logits.dtype)
    largest = logits.amax(1, keepdim=True)
    # Only for rows whose exp would leave the range of float32: the others keep all their digits.
    shift = largest * (largest.abs() > _FAR)
    logits -= shift
    chosen = logits.gather(1, target[:, None]).to(wide)
    spread = logits.exp_()
    spread[torch.arange(len(target), device=target.device), target] = 0.0
    return spread, shift, chosen, _row_sums(spread, wide), torch.zeros_like(shift)


def _row_sums(x: Tensor, dtype: torch.dtype) -> Tensor:
    # A sum of half precision in another one copies all of `x` on a CPU. Parts lose little when they are rounded.
    return torch.stack([part.sum(1) for part in x.chunk(16, dim=1)], dim=1).sum(1, keepdim=True, dtype=dtype)


def _predicted_twice(logits: Tensor, target: Tensor, alpha: float) -> tuple[Tensor, ...]:
    """As `_exponentials`: shifted, the logits are log-probabilities.

    P and Q are rows 2i and 2i + 1. With d = log P - log Q, the gradient of KL(P || Q) with respect to P's logits is
    P (d - KL(P || Q)), that of KL(Q || P) is P - Q.
    """
    log_probs = logits.unflatten(0, (-1, 2)).log_softmax(2, dtype=_at_least_float32(logits.dtype))
    chosen = log_probs.flatten(0, 1).gather(1, target[:, None])
    probs, d = log_probs.exp(), log_probs[:, 0] - log_probs[:, 1]
    grads = torch.stack([d, -d], 1, out=log_probs)  # in place from here on: fresh memory would cost more
    apart = (probs * grads).sum(2, keepdim=True)
    grads.sub_(apart - 1).mul_(probs).sub_(probs.flip(1)).mul_(alpha / 2).add_(probs)
    spread = grads.flatten(0, 1).scatter_add_(1, target[:, None], -chosen.exp())
    shift = logits.gather(1, target[:, None]) - chosen
    return spread.to(logits.dtype), shift, chosen, 1 - chosen.exp(), apart.sum() * alpha / 2


def _at_least_float32(dtype: torch.dtype) -> torch.dtype:
    return torch.promote_types(dtype, torch.float32)
