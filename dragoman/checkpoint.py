"""The model directory, and the checkpoints of a run: written whole or not at all, verified, no pickle.

A checkpoint is a directory that appears under its name only when every byte of it is on the disk; a manifest
holds the size and SHA-256 of each file, and loading falls back to the one before when they differ.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load, load_file, save
from torch import Tensor

from dragoman.data.tokenizer import Tokenizer
from dragoman.errors import DataError, ResourceError
from dragoman.model import Transformer
from dragoman.model_files import FORMAT, LANGUAGES, TOKENIZERS, read_architecture, read_config


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


@contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """A folder to fill, which becomes `path`, new or empty before, when the block ends: whole or not at all."""
    path = path.absolute()
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    temporary.mkdir(parents=True)
    try:
        yield temporary
        _sync(temporary)
        if path.exists():
            path.rmdir()
        os.rename(temporary, path)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    _sync(path.parent)


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


class Checkpoints:
    """The checkpoints in one folder, named step_N."""

    def __init__(self, folder: Path, *, warn: Callable[[str], None]):
        self.folder, self.warn = folder, warn

    def steps(self) -> list[int]:
        """The steps that have a checkpoint, oldest first."""
        for replaced in self.folder.glob("step_*.old"):
            # Left by a crash while a step was saved again: the new one is in place, or the old one comes back.
            if replaced.with_suffix("").exists():
                shutil.rmtree(replaced, ignore_errors=True)
            else:
                os.rename(replaced, replaced.with_suffix(""))
        names = (entry.name for entry in self.folder.glob("step_*") if entry.is_dir())
        return sorted(int(name.removeprefix("step_")) for name in names if name.removeprefix("step_").isdecimal())

    def save(self, step: int, tensors: dict[str, dict[str, Tensor]], state: dict[str, Any]) -> None:
        """Write one file of tensors for each name, and `state` as JSON; raises `ResourceError` on a full disk."""
        self.folder.mkdir(parents=True, exist_ok=True)
        files = {f"{name}.safetensors": save(_tensors(group)) for name, group in tensors.items()}
        files["state.json"] = json.dumps(state).encode()
        files["manifest.json"] = json.dumps({name: _fingerprint(data) for name, data in files.items()}).encode()
        for stale in self.folder.glob("*.tmp"):
            shutil.rmtree(stale, ignore_errors=True)
        check_space(self.folder, sum(map(len, files.values())))
        temporary = self.folder / f"step_{step:08d}.{os.getpid()}.tmp"
        temporary.mkdir()
        for name, data in files.items():
            _write_synced(temporary / name, data)
        _sync(temporary)
        final = self._path(step)
        replaced = final.with_suffix(".old")
        if final.exists():
            os.rename(final, replaced)
        os.rename(temporary, final)
        _sync(self.folder)
        shutil.rmtree(replaced, ignore_errors=True)

    def load(self, step: int) -> tuple[dict[str, dict[str, Tensor]], dict[str, Any]]:
        """The tensors and the state of one checkpoint; raises `DataError` if a byte of it is wrong."""
        path, name = self._path(step), "manifest.json"
        try:
            manifest = json.loads((path / name).read_bytes())
            files = {}
            for name, mark in manifest.items():
                files[name] = (path / name).read_bytes()
                if _fingerprint(files[name]) != mark:
                    raise ValueError(name)
            name = "state.json"
            state = json.loads(files.pop(name))
            # What was verified is what is read: not the folder again, and no file beside the manifest's.
            return {name.removesuffix(".safetensors"): load(data) for name, data in files.items()}, state
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, SafetensorError):
            what = f"{path} is damaged ({name} is not what was written)"
            raise DataError(f"The checkpoint {what}; delete its folder to do without it.") from None

    def load_latest(self) -> tuple[dict[str, dict[str, Tensor]], dict[str, Any]] | None:
        """The newest checkpoint that is whole, or None; says so when it has to skip one."""
        for step in reversed(self.steps()):
            try:
                return self.load(step)
            except DataError as error:
                self.warn(f"{error} Going back to the one before, or else to the start.")
        return None

    def prune(self, keep: set[int]) -> None:
        """Delete all checkpoints but those of the steps in `keep`."""
        for step in self.steps():
            if step not in keep:
                shutil.rmtree(self._path(step), ignore_errors=True)

    def _path(self, step: int) -> Path:
        return self.folder / f"step_{step:08d}"


def write_file(path: Path, data: bytes) -> None:
    """Replace `path` by `data` in one move: a crash leaves the old file or the new one, never half of each."""
    check_space(path.parent, len(data))
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        _write_synced(temporary, data)
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _sync(path.parent)


def check_space(folder: Path, size: int) -> None:
    """Raise `ResourceError` unless the disk has room for `size` bytes and a fifth more."""
    free = shutil.disk_usage(folder).free
    if free < 1.2 * size:
        raise ResourceError(
            f"The disk of {folder} is full: {1.2 * size / 1e6:.3g} MB are needed and {free / 1e6:.3g} MB are free; "
            "make room and try again."
        )


def _write_synced(path: Path, data: bytes) -> None:
    with open(path, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _sync(folder: Path) -> None:
    # A directory can only be synced where it can be opened, which Windows refuses.
    if os.name == "posix":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _fingerprint(data: bytes) -> dict[str, Any]:
    return {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}


def _tensors(named: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.detach().cpu().contiguous() for name, tensor in named.items()}


def _read_tensors(path: Path) -> dict[str, Tensor]:
    try:
        return load_file(path)
    except (OSError, SafetensorError) as error:
        raise DataError(f"{path} cannot be read as weights ({error}); copy the model again.") from None
