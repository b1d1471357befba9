"""Label-smoothed cross-entropy (section 5.4 of the paper) as a sum and a count, and R-Drop.

The logits of a batch, (tokens, vocabulary), are by far its largest tensor. They are computed here in slices
that fit in the cache, and each slice turns into its gradient at once, so the whole tensor never exists.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable

_SLICE_ELEMENTS = {"cpu": 2**21, "cuda": 2**27}  # 8 MB of float32 stay in a CPU's cache


def cross_entropy(
    states: Float[Tensor, "*shape d_model"],
    targets: Int[Tensor, "*shape"],
    *,
    weight: Float[Tensor, "vocab d_model"],
    bias: Float[Tensor, " vocab"] | None = None,
    pad_id: int,
    smoothing: float = 0.0,
) -> tuple[Float[Tensor, ""], Int[Tensor, ""]]:
    """Sum over all tokens of the cross-entropy of softmax(states weight^T + bias), in nats, and their number.

    Targets equal to `pad_id` do not count. A share `smoothing` of each target is spread over the vocabulary,
    as `torch.nn.functional.cross_entropy` does. Under autocast the products run in its precision; sums and
    probabilities are float32, or float64 where the states are.
    """
    counted = (targets != pad_id).flatten()
    states, targets = states.flatten(0, -2)[counted], targets.flatten()[counted]
    # Inside a Function gradients are always off; whether they are wanted has to be asked here.
    options = smoothing, 0.0, torch.is_grad_enabled()
    return _ProjectedCrossEntropy.apply(states, weight, bias, targets, options), counted.sum()


def r_drop(
    states: Float[Tensor, "tokens 2 d_model"],
    targets: Int[Tensor, " tokens"],
    *,
    alpha: float,
    weight: Float[Tensor, "vocab d_model"],
    bias: Float[Tensor, " vocab"] | None = None,
    smoothing: float = 0.0,
) -> Float[Tensor, ""]:
    """The loss of R-Drop (Liang et al. 2021, arXiv 2106.14448), summed over tokens, none of them padding.

    Each target is predicted twice, by P and Q, which differ by dropout: to the two cross-entropies comes `alpha` times
    (KL(P || Q) + KL(Q || P)) / 2.
    """
    options = smoothing, alpha, torch.is_grad_enabled()
    return _ProjectedCrossEntropy.apply(states.flatten(0, 1), weight, bias, targets.repeat_interleave(2), options)


class _ProjectedCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, states, weight, bias, targets, options):
        smoothing, alpha, grad_enabled = options
        kind = states.device.type
        dtype = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else states.dtype
        # detach: a gradient is wanted from here on only for what is computed below, by hand.
        hidden, matrix = states.detach().to(dtype), weight.detach().to(dtype)
        with_gradient = grad_enabled and any(ctx.needs_input_grad)
        total = states.new_zeros((), dtype=torch.float64)
        states_grad = torch.empty_like(hidden) if with_gradient else None
        weight_grad = torch.zeros_like(weight, dtype=_at_least_float32(dtype)) if with_gradient else None
        bias_grad = torch.zeros_like(bias) if with_gradient and bias is not None else None
        rows = max(16, _SLICE_ELEMENTS.get(kind, 2**24) // weight.size(0))
        rows -= rows % 2 if alpha else 0  # both predictions of a target are in one slice
        with torch.autocast(kind, enabled=False):
            for start in range(0, len(hidden), rows):
                part = hidden[start : start + rows]
                logits = part @ matrix.T
                if bias is not None:
                    logits += bias.to(dtype)
                target = targets[start : start + rows]
                loss, grad = _slice_loss(logits, target, smoothing, alpha, with_gradient=with_gradient)
                total += loss
                if with_gradient:
                    rounded = grad.to(dtype)
                    torch.mm(rounded, matrix, out=states_grad[start : start + rows])
                    weight_grad += rounded.T @ part
                    if bias_grad is not None:
                        bias_grad += grad.sum(0)
        ctx.save_for_backward(states_grad, weight_grad, bias_grad)
        ctx.dtypes = states.dtype, weight.dtype
        return total.to(_at_least_float32(states.dtype))

    @staticmethod
    @once_differentiable
    def backward(ctx, scale):
        states_grad, weight_grad, bias_grad = ctx.saved_tensors
        states_dtype, weight_dtype = ctx.dtypes
        bias_grad = None if bias_grad is None else bias_grad * scale
        return (states_grad * scale).to(states_dtype), (weight_grad * scale).to(weight_dtype), bias_grad, None, None


def _slice_loss(
    logits: Tensor, target: Tensor, smoothing: float, alpha: float, *, with_gradient: bool
) -> tuple[Tensor, Tensor | None]:
    """The summed loss of some rows, and its gradient with respect to their logits, in float32 at least.

    With p = softmax(z): loss = log sum exp z - (1 - smoothing) z_target - smoothing mean(z), and the gradient is
    p minus the smoothed target.
    """
    index = target.unsqueeze(1)
    vocab, dtype = logits.size(1), _at_least_float32(logits.dtype)
    chosen = logits.gather(1, index).to(dtype)
    mean = logits.mean(1, keepdim=True, dtype=dtype) if smoothing else 0.0
    apart, towards = _divergence(logits) if alpha else (0.0, 0.0)
    if not with_gradient:
        normaliser = logits.to(dtype).logsumexp(1, keepdim=True)
        return (normaliser - (1 - smoothing) * chosen - smoothing * mean).sum() + alpha * apart, None
    probabilities = logits.softmax(1, dtype=dtype)
    # Below the smallest float32 the loss of a token is cut at 87 nats; its gradient stays right.
    log_chosen = probabilities.gather(1, index).clamp_min(torch.finfo(dtype).tiny).log()
    loss = (smoothing * (chosen - mean) - log_chosen).sum() + alpha * apart
    grad = probabilities.sub_(smoothing / vocab) if smoothing else probabilities
    grad = grad.scatter_add_(1, index, torch.full_like(chosen, smoothing - 1))
    return loss, grad.add_(towards, alpha=alpha) if alpha else grad


def _divergence(logits: Tensor) -> tuple[Tensor, Tensor]:
    """(KL(P || Q) + KL(Q || P)) / 2, summed over tokens, and its gradient; P and Q are rows 2i and 2i + 1.

    With d = log P - log Q, that of KL(P || Q) with respect to P's logits is P (d - KL(P || Q)), that of KL(Q || P)
    is P - Q.
    """
    log_p, log_q = logits.unflatten(0, (-1, 2)).log_softmax(2, dtype=_at_least_float32(logits.dtype)).unbind(1)
    p, q, d = log_p.exp(), log_q.exp(), log_p - log_q
    p_from_q, q_from_p = (p * d).sum(1, keepdim=True), -(q * d).sum(1, keepdim=True)
    grads = p * (d - p_from_q) + (p - q), q * (-d - q_from_p) + (q - p)
    return (p_from_q + q_from_p).sum() / 2, torch.stack(grads, 1).flatten(0, 1) / 2


def _at_least_float32(dtype: torch.dtype) -> torch.dtype:
    return torch.promote_types(dtype, torch.float32)
