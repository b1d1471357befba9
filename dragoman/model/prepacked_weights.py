"""Weights as oneDNN reads them: with few rows, to put them in that order takes longer than the product itself."""

import copy
from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor, nn

from dragoman.model.attention import CrossAttention, MultiHeadAttention
from dragoman.model.transformer import Transformer

SMALLEST = 2**18
"""Weights of a matrix in float32 that gain by it; in half precision all do."""


def prepack(model: Transformer) -> Transformer:
    """A copy for inference on a CPU, which has the weights of `model` twice: shared with it, and in the quicker order.

    It does not see later changes of them. On a device, a build of PyTorch without oneDNN or a processor for whose
    instructions oneDNN has no such product it is `model` itself.
    """
    weight = model.projection.weight
    if weight.device.type != "cpu" or not _available(weight.dtype):
        return model
    twin = copy.deepcopy(model, {id(parameter): parameter for parameter in model.parameters()})
    joined = set()
    for module in twin.modules():
        if isinstance(module, MultiHeadAttention):
            # Queries of cross-attention come from the target, keys and values from the memory.
            first = [] if isinstance(module, CrossAttention) else [module.query]
            together = [*first, module.key, module.value]
            weight = torch.cat([each.weight for each in together])
            if _worth_it(weight):
                product = _prepacked(weight, torch.cat([each.bias for each in together]))
                module.project = partial(_projections, product)
                joined.update(together)
        elif isinstance(module, nn.Linear) and module not in joined and _worth_it(module.weight):
            module.forward = _prepacked(module.weight, module.bias)
    return twin


def _projections(product: Callable[[Tensor], Tensor], x: Tensor, *projections: nn.Linear) -> Sequence[Tensor]:
    """As `kernels.project`, of projections that were joined before."""
    return product(x).chunk(len(projections), dim=-1)


def _prepacked(weight: Tensor, bias: Tensor | None) -> partial[Tensor]:
    """The linear map with these, as a function."""
    in_order = torch.ops.mkldnn._reorder_linear_weight(weight.detach())
    bias = None if bias is None else bias.detach()
    return partial(_linear, in_order, bias)


def _linear(weight: Tensor, bias: Tensor | None, x: Tensor) -> Tensor:
    return torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")


def _worth_it(weight: Tensor) -> bool:
    return weight.dtype == torch.bfloat16 or weight.numel() >= SMALLEST


def _available(dtype: torch.dtype) -> bool:
    operations = ("_reorder_linear_weight", "_linear_pointwise", "_is_mkldnn_bf16_supported")
    if not (torch.backends.mkldnn.is_available() and all(hasattr(torch.ops.mkldnn, name) for name in operations)):
        return False
    return dtype == torch.float32 or (dtype == torch.bfloat16 and torch.ops.mkldnn._is_mkldnn_bf16_supported())
