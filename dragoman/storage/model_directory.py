"""A model directory with its model in torch: written at once, as `directory.py` reads it."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from safetensors.torch import save
from torch import Tensor
from torch.overrides import TorchFunctionMode

from dragoman.engine import parameters
from dragoman.model import Transformer, TransformerConfig
from dragoman.storage.directory import Directory
from dragoman.storage.validate import DIRECTIONS, FORMAT, INT8_BLEU, STYLE, WEIGHTS, config_checksum
from dragoman.storage.weights_file import sealed
from dragoman.system.atomic import write_files
from dragoman.system.ranks import sharded_like
from dragoman.system.seals import checksum
from dragoman.text.preprocessing import SourceStyle

NUMBERS = (torch.float32, torch.bfloat16, torch.float16, torch.float64)
"""Formats that weights may have."""


class ModelDirectory(Directory[Transformer]):
    """Content of a model directory: all that is needed to translate raw text, with the model in torch."""

    def save(self, path: Path, *, int8: bool = False) -> None:
        """Write config.json, the tokenizers and model.safetensors, which replace those of another model at once.

        With `int8`, matrices are rounded to eight bits, which takes a quarter of the space.
        """
        path.mkdir(parents=True, exist_ok=True)
        if self.source_tokenizer is self.target_tokenizer:
            source_name = target_name = "tokenizer.json"
        else:
            source_name, target_name = "source_tokenizer.json", "target_tokenizer.json"
        files = {source_name: self.source_tokenizer.to_json().encode()}
        if target_name != source_name:
            files[target_name] = self.target_tokenizer.to_json().encode()
        style_name = None
        if self.style != SourceStyle():
            style_name = "source_style.json"
            files[style_name] = self.style.model_dump_json().encode()
        config = {
            "format": FORMAT,
            "source_language": self.source_language,
            "target_language": self.target_language,
            **({DIRECTIONS: self.directions} if self.directions else {}),
            "source_tokenizer": source_name,
            "target_tokenizer": target_name,
            STYLE: style_name,
            "decoding": self.decoding.model_dump(mode="json", exclude_none=True, exclude={"max_tokens"}),
            **({INT8_BLEU: self.int8_bleu} if self.int8_bleu is not None else {}),
            "model": self.model.config.to_dict(),
        }
        sums = {name: checksum(content) for name, content in files.items()} | config_checksum(config)
        files[WEIGHTS] = weights_file(self.model, sums, int8=int8)
        # Written last: a folder with a config is a whole model, even if the process ends between two files.
        files["config.json"] = (json.dumps(config, indent=2, ensure_ascii=False) + "\n").encode()
        write_files({path / name: content for name, content in files.items()})

    @classmethod
    def load(cls, path: Path, *, adapter: Path | None = None, device: torch.device | str = "cpu") -> Self:
        """As `Directory.load`, with the model on a device."""
        directory = super().load(path, adapter=adapter)
        directory.model = directory.model.to(device)
        return directory

    @classmethod
    def _model_of(cls, architecture: TransformerConfig, weights: dict[str, np.ndarray]) -> Transformer:
        return model_of(architecture, {name: torch.from_numpy(array) for name, array in weights.items()}).eval()


def with_weights(architecture: TransformerConfig, weights: Mapping[str, Tensor], *, origin: Path) -> Transformer:
    """A model with copies of these weights. Raises `DataError` as `dragoman.engine.parameters.check` does."""
    # Before any memory is allocated: the sizes in a stranger's config may be huge.
    check_weights(weights, architecture, origin=origin)
    return model_of(architecture, {name: weight.clone() for name, weight in weights.items()})


def model_of(architecture: TransformerConfig, weights: Mapping[str, Tensor]) -> Transformer:
    """A model that takes these tensors as its weights, in float32; they were checked."""
    with _Uninitialised():
        model = Transformer(architecture)
    for name, parameter in model.named_parameters():
        parameter.data = weights[name].to(parameter.dtype)
    return model


class _Uninitialised(TorchFunctionMode):
    """Skips the random initialisation of modules, and runs `torch.arange` on the CPU.

    On the device "meta", both would import sympy, which takes a second.
    """

    def __torch_function__(self, function: Callable, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        device = {"device": "cpu"} if function is torch.arange else {}
        if function.__name__ not in ("normal_", "uniform_", "kaiming_uniform_"):
            return function(*args, **(kwargs or {}) | device)


def weights_file(model: Transformer, sums: dict[str, str], *, int8: bool = False) -> bytes:
    """The content of model.safetensors: each tensor once, and the checksums of the tensors and of other files.

    `sums` are the checksums of the other files. With `int8`, matrices are rounded to eight bits.
    """
    tensors = stored_tensors(dict(model.named_parameters()))
    if int8:
        tensors = _with_quantised_matrices(tensors)
    return sealed(tensors, save, sums, name=WEIGHTS)


def _with_quantised_matrices(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    arrays = parameters.with_quantised_matrices({name: tensor.float().numpy() for name, tensor in tensors.items()})
    return {name: torch.from_numpy(array) for name, array in arrays.items()}


def copy_weights(weights: Mapping[str, Tensor], model: Transformer, *, origin: Path) -> None:
    """Copy `weights` into `model`. Raises `DataError` as `check_weights` does, before anything is copied."""
    check_weights(weights, model.config, origin=origin)
    _copy(weights, model)


def check_weights(weights: Mapping[str, Tensor], config: TransformerConfig, *, origin: Path) -> None:
    """`dragoman.engine.parameters.check` for tensors."""
    parameters.check(config, weights, origin=origin, are_numbers=_are_numbers)


def _are_numbers(weight: Tensor) -> bool:
    return weight.dtype in NUMBERS and bool(weight.isfinite().all())


@torch.no_grad()
def _copy(weights: Mapping[str, Tensor], model: Transformer) -> None:
    for name, parameter in model.named_parameters():
        parameter.copy_(sharded_like(weights[name], parameter))


def stored_tensors(named: dict[str, Tensor]) -> dict[str, Tensor]:
    """The tensors as safetensors requires them: without gradient, on the CPU, contiguous."""
    return {name: tensor.detach().cpu().contiguous() for name, tensor in named.items()}
