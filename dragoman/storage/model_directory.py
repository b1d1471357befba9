"""The model directory: config.json, the tokenizers and model.safetensors, written file by file and verified."""

import json
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor

from dragoman.data.tokenizers.tokenizer import Tokenizer
from dragoman.errors import DataError
from dragoman.model import Transformer
from dragoman.storage.atomic import write_file
from dragoman.storage.validate import FORMAT, LANGUAGES, TOKENIZERS, read_architecture, read_config


@dataclass
class ModelDirectory:
    """What a model directory holds: everything between raw text in and detokenised text out."""

    model: Transformer
    source_tokenizer: Tokenizer
    target_tokenizer: Tokenizer
    source_language: str | None = None
    target_language: str | None = None

    def save(self, path: Path) -> None:
        """Write config.json, the tokenizers and model.safetensors, each file atomically, the weights last."""
        path.mkdir(parents=True, exist_ok=True)
        shared = self.source_tokenizer is self.target_tokenizer
        names = ("tokenizer.json",) * 2 if shared else ("source_tokenizer.json", "target_tokenizer.json")
        for name, tokenizer in zip(names, (self.source_tokenizer, self.target_tokenizer), strict=True):
            write_file(path / name, tokenizer.to_json().encode())
        config = {
            "format": FORMAT,
            "source_language": self.source_language,
            "target_language": self.target_language,
            "source_tokenizer": names[0],
            "target_tokenizer": names[1],
            "model": self.model.config.to_dict(),
        }
        write_file(path / "config.json", (json.dumps(config, indent=2) + "\n").encode())
        save_weights(path, self.model)

    @classmethod
    def load(cls, path: Path, *, device: torch.device | str = "cpu") -> "ModelDirectory":
        """Read a model directory; raises `DataError` for one that is missing, damaged or of another version."""
        config = read_config(path)
        model_config = read_architecture(path, config)
        source, target = (config[key] for key in TOKENIZERS)
        source_tokenizer = Tokenizer.load(path / source)
        target_tokenizer = source_tokenizer if source == target else Tokenizer.load(path / target)
        for side, tokenizer, size in (
            ("source", source_tokenizer, model_config.source_vocab_size),
            ("target", target_tokenizer, model_config.target_vocab_size),
        ):
            if tokenizer.vocab_size != size:
                raise DataError(
                    f"The {side} tokenizer in {path} has {tokenizer.vocab_size} entries, but the model {size}: "
                    "the files are of two different models; copy the whole folder again."
                )
        weights = _read_tensors(path / "model.safetensors")
        with torch.device("meta"):
            # Before any memory is asked for: the sizes in a stranger's config may be huge.
            check_weights(weights, Transformer(model_config), origin=path / "model.safetensors")
        model = Transformer(model_config)
        copy_weights(weights, model, origin=path / "model.safetensors")
        languages = (config[key] for key in LANGUAGES)
        return cls(model.to(device).eval(), source_tokenizer, target_tokenizer, *languages)


def save_weights(path: Path, model: Transformer) -> None:
    """Write `path`/model.safetensors; tensors that several names share are stored once."""
    write_file(path / "model.safetensors", save(_tensors(dict(model.named_parameters()))))


@torch.no_grad()
def copy_weights(weights: dict[str, Tensor], model: Transformer, *, origin: Path) -> None:
    """Copy `weights` into `model`, all or, where `check_weights` refuses them, none."""
    check_weights(weights, model, origin=origin)
    for name, parameter in model.named_parameters():
        parameter.copy_(weights[name])


def check_weights(weights: dict[str, Tensor], model: Transformer, *, origin: Path) -> None:
    """Raise `DataError` that names what is missing, superfluous, misshapen or no number."""
    own = dict(model.named_parameters())
    if missing := sorted(own.keys() - weights.keys()):
        raise DataError(f"{origin} lacks the weights '{missing[0]}' that config.json asks for; copy the model again.")
    if extra := sorted(weights.keys() - own.keys()):
        raise DataError(f"{origin} has the weights '{extra[0]}' that config.json does not know; copy the model again.")
    for name, parameter in own.items():
        if weights[name].shape != parameter.shape:
            raise DataError(
                f"{origin} has '{name}' of shape {tuple(weights[name].shape)}, but config.json describes "
                f"{tuple(parameter.shape)}; the two files belong to different models."
            )
        if not weights[name].is_floating_point() or not weights[name].isfinite().all():
            raise DataError(f"{origin} has weights '{name}' that are no finite numbers; train or copy the model again.")


def _tensors(named: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.detach().cpu().contiguous() for name, tensor in named.items()}


def _read_tensors(path: Path) -> dict[str, Tensor]:
    try:
        return load_file(path)
    except (OSError, SafetensorError) as error:
        raise DataError(f"{path} cannot be read as weights ({error}); copy the model again.") from None
