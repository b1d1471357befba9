"""Models in the precision in which they translate."""

import copy
from typing import Literal

import torch

from dragoman.errors import UsageError
from dragoman.model import Transformer
from dragoman.model.fast.int8 import can_quantise, in_int8, is_int8
from dragoman.model.fast.prepacked_weights import prepack
from dragoman.system.device import PRECISIONS, choose_precision

INT8 = "int8"
Precision = Literal["auto", "float32", "bfloat16", "int8"]
BATCH_TOKENS, INT8_BATCH_TOKENS = 12_288, 4_096
"""Source tokens of a batch, times beams. Products of eight bits are quick with few rows too, which fit into a cache."""


def batch_tokens(model: Transformer) -> int:
    """Source tokens of a batch, times beams, that suit a model as `ready` returns it."""
    tokens = INT8_BATCH_TOKENS if is_int8(model) else BATCH_TOKENS
    # Steps of one decoder layer are so short that it pays to take fewer, of more rows.
    return 2 * tokens if model.config.num_decoder_layers == 1 else tokens


def ready(model: Transformer, precision: str) -> Transformer:
    """A copy of `model`, or itself, for inference in `float32`, `bfloat16`, `int8` or, with `auto`, the quickest.

    Raises `UsageError` for another precision, and for int8 where the processor or the widths do not suit it.
    """
    if precision not in ("auto", INT8, *PRECISIONS):
        raise UsageError(f"The precision {precision!r} is unknown; choose auto, {', '.join(PRECISIONS)} or {INT8}.")
    device = model.projection.weight.device
    fits = device.type == "cpu" and can_quantise(model.config)
    if precision == INT8 and not fits:
        raise UsageError(
            "There is no int8 for this model on this machine: it needs an x86 CPU with AVX2, compiled "
            "kernels, and widths of heads and layers that are multiples of 16; choose --precision auto."
        )
    # What others have trained has seldom been seen in eight bits.
    if precision == INT8 or (precision == "auto" and fits and not model.config.is_pretrained):
        return in_int8(model.float())
    dtype = choose_precision(precision, device)
    # A copy in half precision, not autocast, which would round the weights anew in every step.
    return prepack(model if dtype == torch.float32 else copy.deepcopy(model).to(dtype))
