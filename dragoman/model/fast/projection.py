"""Several projections of one input, computed as a single matrix product."""

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable


def is_worth_joining(x: Tensor, *projections: nn.Linear) -> bool:
    """Whether `x` is large enough for one product to be worth a copy of the weights.

    In half precision it always is: a product takes longer to begin, and a copy is half as large. Subclasses of
    `nn.Linear` have a product of their own.
    """
    if any(type(projection) is not nn.Linear for projection in projections):
        return False
    return x.element_size() <= 2 or x.numel() >= projections[0].weight.numel()


def project_together(x: Tensor, *projections: nn.Linear) -> Sequence[Tensor]:
    """The same as `dragoman.model.attention.project`."""
    weight = torch.cat([projection.weight for projection in projections])
    bias = torch.cat([projection.bias for projection in projections])
    return _Parts.apply(F.linear(x, weight, bias), len(projections))


class _Parts(torch.autograd.Function):
    """Splits the last dimension into equal parts. Gradients that lie side by side are joined without a copy."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, count: int) -> tuple[Tensor, ...]:
        return x.chunk(count, dim=-1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        first, count, width = gradients[0], len(gradients), gradients[0].size(-1)
        strides = first.stride()
        are_side_by_side = strides == (first.size(1) * count * width, count * width, 1)
        for index, gradient in enumerate(gradients):
            address = first.data_ptr() + index * width * gradient.itemsize
            are_side_by_side &= gradient.stride() == strides and gradient.data_ptr() == address
        if are_side_by_side:
            return first.as_strided((*first.shape[:-1], count * width), strides), None
        return torch.cat(gradients, dim=-1), None
