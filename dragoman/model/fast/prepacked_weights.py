"""Linear layers with weights stored in oneDNN's order: for few rows, making it takes longer than the product."""

import copy
from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor, nn

from dragoman.model.attention import CrossAttention, MultiHeadAttention
from dragoman.model.transformer import Transformer

SMALLEST = 2**18
"""Elements of the smallest float32 matrix for which it pays; in half precision it always does."""

Product = Callable[[Tensor], Tensor]


def prepack(model: Transformer) -> Transformer:
    """A copy for inference on a CPU, whose linear layers have their weights in the quicker order too.

    It does not see later changes of the weights. Returns `model` itself where oneDNN has no such product: on a GPU,
    with a build of PyTorch without oneDNN, or on processors without the instructions.
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
    """A copy with the same parameters whose linear layers are replaced by `product_of(weight, bias)`.

    Projections of one input become one product. Layers whose weight is not `worth_it` stay.
    """
    twin = copy.deepcopy(model, {id(parameter): parameter for parameter in model.parameters()})
    joined = set()
    for module in twin.modules():
        if isinstance(module, MultiHeadAttention):
            # Queries of cross-attention come from the target, keys and values from the memory.
            together = [module.key, module.value]
            if not isinstance(module, CrossAttention):
                together.insert(0, module.query)
            weight = torch.cat([linear.weight for linear in together])
            if worth_it(weight):
                product = product_of(weight, torch.cat([linear.bias for linear in together]))
                module.project = partial(project_prepacked, product)
                joined.update(together)
        elif isinstance(module, nn.Linear) and module not in joined and worth_it(module.weight):
            module.forward = product_of(module.weight, module.bias)  # type: ignore[assignment, method-assign]
    return twin


def prepacked_linear(weight: Tensor, bias: Tensor | None) -> Product:
    """Returns a function that applies a linear layer with these weights, in oneDNN's order; see `can_prepack`."""
    in_order = torch.ops.mkldnn._reorder_linear_weight(weight.detach())
    bias = None if bias is None else bias.detach()
    return lambda x: torch.ops.mkldnn._linear_pointwise(x, in_order, bias, "none", [], "")


def project_prepacked(product: Product, x: Tensor, *projections: nn.Linear) -> Sequence[Tensor]:
    """The same as `dragoman.model.attention.project`; `product` is the layer of all `projections` together."""
    return product(x).chunk(len(projections), dim=-1)


def can_prepack(dtype: torch.dtype) -> bool:
    """Whether this PyTorch and this processor have oneDNN's product of prepacked weights."""
    operations = ("_reorder_linear_weight", "_linear_pointwise", "_is_mkldnn_bf16_supported")
    if not (torch.backends.mkldnn.is_available() and all(hasattr(torch.ops.mkldnn, name) for name in operations)):
        return False
    return dtype == torch.float32 or (dtype == torch.bfloat16 and torch.ops.mkldnn._is_mkldnn_bf16_supported())


def _worth_it(weight: Tensor) -> bool:
    return weight.dtype == torch.bfloat16 or weight.numel() >= SMALLEST
