"""Weights as oneDNN reads them: with few rows, to put them in that order takes longer than the product itself."""

import copy
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn

from dragoman.model.attention import CrossAttention, MultiHeadAttention
from dragoman.model.kernels import can_prepack, prepacked_linear, project_prepacked
from dragoman.model.transformer import Transformer

SMALLEST = 2**18
"""Weights of a matrix in float32 that gain by it; in half precision all do."""


Product = Callable[[Tensor], Tensor]


def prepack(model: Transformer) -> Transformer:
    """A copy for inference on a CPU, which has the weights of `model` twice: shared with it, and in the quicker order.

    It does not see later changes of them. On a device, a build of PyTorch without oneDNN or a processor for whose
    instructions oneDNN has no such product it is `model` itself.
    """
    weight = model.projection.weight
    if weight.device.type != "cpu" or not can_prepack(weight.dtype):
        return model
    return with_products(model, prepacked_linear, _worth_it)


def with_products(
    model: Transformer,
    product_of: Callable[[Tensor, Tensor | None], Product],
    worth_it: Callable[[Tensor], bool] = lambda weight: True,
) -> Transformer:
    """A copy with the same parameters whose linear layers are what `product_of` makes of weight and bias."""
    twin = copy.deepcopy(model, {id(parameter): parameter for parameter in model.parameters()})
    joined = set()
    for module in twin.modules():
        if isinstance(module, MultiHeadAttention):
            # Queries of cross-attention come from the target, keys and values from the memory.
            first = [] if isinstance(module, CrossAttention) else [module.query]
            together = [*first, module.key, module.value]
            weight = torch.cat([each.weight for each in together])
            if worth_it(weight):
                product = product_of(weight, torch.cat([each.bias for each in together]))
                module.project = partial(project_prepacked, product)
                joined.update(together)
        elif isinstance(module, nn.Linear) and module not in joined and worth_it(module.weight):
            module.forward = product_of(module.weight, module.bias)  # type: ignore[assignment, method-assign]
    return twin


def _worth_it(weight: Tensor) -> bool:
    return weight.dtype == torch.bfloat16 or weight.numel() >= SMALLEST
