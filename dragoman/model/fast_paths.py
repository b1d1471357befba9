"""Quicker ways to compute what attention.py states as formulas; tests compare each with its formula.

`fast_attention` and `project` choose by device, precision, size and whether gradients are wanted.
The compiled kernels for CPUs are in kernels.c.
"""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dragoman.model import kernels
from dragoman.model.dropout import Dropout
from dragoman.model.kernels import Keys, Mask, Queries


def fast_attention(
    query: Queries, key: Keys, value: Keys, mask: Mask | None = None, *, dropout: Dropout
) -> Queries | None:
    """The result of `attention.attention`, or None where no way is quicker than the formula."""
    drops = dropout.training and dropout.rate > 0
    if kernels.can_attend(query, key, value) and not drops:
        return kernels.attention(query, key, value, mask)
    # On a CPU, PyTorch's fused kernel pays only when the weights outgrow the cache, and it draws dropout from a
    # generator that all threads share.
    if query.device.type != "cpu" or (key.size(-2) > kernels.LONGEST and not drops):
        return fused_attention(query, key, value, mask, dropout=dropout)
    if kernels.can_soften(query, key):
        return compiled_attention(query, key, value, mask, dropout=dropout)
    return None


def fused_attention(query: Queries, key: Keys, value: Keys, mask: Mask | None = None, *, dropout: Dropout) -> Queries:
    """One kernel of PyTorch that never stores the weights. A query that may attend to nothing gets zeros, where the
    formula gives it the mean of the values.
    """
    rate = dropout.rate if dropout.training else 0.0
    return F.scaled_dot_product_attention(query, key, value, attn_mask=mask, dropout_p=rate)


def compiled_attention(
    query: Queries, key: Keys, value: Keys, mask: Mask | None = None, *, dropout: Dropout
) -> Queries:
    """For training: one compiled pass between the two matrix products, and one on the way back."""
    rate = dropout.rate if dropout.training else 0.0
    scores = query @ key.transpose(-2, -1)
    weights = kernels.masked_softmax_dropout(scores, mask, width=key.size(-1), rate=rate, generator=dropout.generator)
    return weights @ value


def project(x: Tensor, *projections: nn.Linear) -> Sequence[Tensor]:
    """Each projection of `x`; as a single product where `x` is large enough to be worth a copy of the weights.

    In half precision it always is: a product takes longer to begin, and a copy is half as large.
    """
    if x.element_size() > 2 and x.numel() < projections[0].weight.numel():
        return [each(x) for each in projections]
    weight = torch.cat([each.weight for each in projections])
    bias = torch.cat([each.bias for each in projections])
    return F.linear(x, weight, bias).chunk(len(projections), dim=-1)
