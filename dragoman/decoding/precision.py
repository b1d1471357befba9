"""Engines for models, in the precision in which they translate."""

import copy
from typing import TYPE_CHECKING, Literal, get_args

from dragoman.engine.engine import ArrayEngine, Engine
from dragoman.engine.int8 import Int8Engine, can_quantise
from dragoman.errors import UsageError
from dragoman.model.config import TransformerConfig
from dragoman.storage.directory import ModelArrays
from dragoman.system.optional import is_installed
from dragoman.system.resources import processor_has

if TYPE_CHECKING:
    from dragoman.model import Transformer

INT8 = "int8"
Precision = Literal["auto", "float32", "bfloat16", "int8"]
LEAST_BLEU = 98.0
"""BLEU in eight bits against float32 from which a pretrained model translates in eight bits by itself."""


def engine_of(model: "ModelArrays | Transformer", precision: str, *, int8_bleu: float | None = None) -> Engine:
    """An engine for a model, in `float32`, `bfloat16`, `int8` or, with `auto`, the quickest that suits it.

    `int8_bleu` is the BLEU of a pretrained model in eight bits against itself in float32, if that was measured. A model
    in torch stays on its device; it is not changed. Raises `UsageError` for another precision, and for int8 where there
    are no kernels or the widths do not suit it.
    """
    if precision not in get_args(Precision):
        names = "auto, float32, bfloat16 or int8"
        raise UsageError(f"The precision {precision!r} is unknown; choose {names}.")
    if not isinstance(model, ModelArrays):
        return _engine_of_torch(model, precision, int8_bleu)
    if _in_eight_bits(model.config, precision, int8_bleu):
        return Int8Engine(model.config, model.weights)
    if precision == "bfloat16" or (precision == "auto" and _is_quick_with_bfloat16()):
        import torch

        from dragoman.storage.model_directory import model_of

        weights = {name: torch.from_numpy(array) for name, array in model.weights.items()}
        return _engine_of_torch(model_of(model.config, weights), "bfloat16", int8_bleu)
    return ArrayEngine(model.config, model.weights)


def _engine_of_torch(model: "Transformer", precision: str, int8_bleu: float | None) -> Engine:
    import torch

    from dragoman.decoding.torch_engine import TorchEngine
    from dragoman.model.fast.prepacked_weights import prepack
    from dragoman.system.device import choose_precision, limit_kernel_caches

    limit_kernel_caches(8)
    model.eval()
    device = model.projection.weight.device
    if device.type != "cpu" and precision == INT8:
        raise _no_int8()
    if device.type == "cpu" and _in_eight_bits(model.config, precision, int8_bleu):
        arrays = {name: weight.detach().float().numpy() for name, weight in model.named_parameters()}
        return Int8Engine(model.config, arrays)
    dtype = choose_precision(precision, device)
    # A copy in half precision, not autocast, which would round the weights anew in every step.
    return TorchEngine(prepack(model if dtype == torch.float32 else copy.deepcopy(model).to(dtype)))


def holds_in_eight_bits(config: TransformerConfig, int8_bleu: float | None) -> bool:
    """Whether a model is known to translate in eight bits as in float32: one of ours, or shown on sentences."""
    return not config.is_pretrained or (int8_bleu is not None and int8_bleu >= LEAST_BLEU)


def _in_eight_bits(config: TransformerConfig, precision: str, int8_bleu: float | None) -> bool:
    """Whether a model on a CPU should translate in eight bits. Raises `UsageError` if it should, and cannot."""
    fits = can_quantise(config)
    if precision == INT8 and not fits:
        raise _no_int8()
    return precision == INT8 or (precision == "auto" and fits and holds_in_eight_bits(config, int8_bleu))


def _no_int8() -> UsageError:
    return UsageError(
        "There is no int8 for this model on this machine: it needs a CPU, compiled kernels "
        "(`dragoman doctor`), and widths of heads and layers that are multiples of 16; choose --precision auto."
    )


def _is_quick_with_bfloat16() -> bool:
    """Whether there is torch, and a processor that multiplies bfloat16 natively."""
    return processor_has("avx512_bf16") and is_installed("torch")
