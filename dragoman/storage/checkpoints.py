"""The checkpoints of a run: written whole or not at all, verified, no pickle.

A checkpoint is a directory that appears under its name only when every byte of it is on the disk; a manifest
holds the size and SHA-256 of each file, and loading falls back to the one before when they differ.
"""

import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from dragoman.errors import DataError
from dragoman.storage.model_directory import stored_tensors
from dragoman.system.atomic import check_space, new_folder, write_synced
from dragoman.system.seals import MANIFEST, fingerprint


def _files(tensors: dict[str, dict[str, Tensor]], state: dict[str, Any]) -> Iterator[tuple[str, bytes]]:
    """Names and contents of the files of a checkpoint, one at a time: together they may be larger than the memory."""
    for name, group in tensors.items():
        yield f"{name}.safetensors", save(stored_tensors(group))
    yield "state.json", json.dumps(state).encode()


class Checkpoints:
    """The checkpoints in one folder, named step_N. `mirror` copies the run elsewhere after one is saved."""

    def __init__(self, folder: Path, *, warn: Callable[[str], None], mirror: Callable[[], None] | None = None):
        self.folder, self.warn, self.mirror = folder, warn, mirror

    def steps(self) -> list[int]:
        """The steps that have a checkpoint, oldest first."""
        for replaced in self.folder.glob("step_*.old"):
            # Left by a crash while a step was saved again: either the new one is in place, or the old one is restored.
            if replaced.with_suffix("").exists():
                shutil.rmtree(replaced, ignore_errors=True)
            else:
                os.rename(replaced, replaced.with_suffix(""))
        numbers = (entry.name.removeprefix("step_") for entry in self.folder.glob("step_*") if entry.is_dir())
        return sorted(int(number) for number in numbers if number.isdecimal())

    def save(self, step: int, tensors: dict[str, dict[str, Tensor]], state: dict[str, Any]) -> None:
        """Write one safetensors file for each group of `tensors`, and `state` as JSON.

        Raises `ResourceError` on a full disk.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        for stale in self.folder.glob("*.tmp"):
            shutil.rmtree(stale, ignore_errors=True)
        check_space(self.folder, sum(tensor.nbytes for group in tensors.values() for tensor in group.values()))
        final = self._path(step)
        replaced = final.with_suffix(".old")
        with new_folder(final) as folder:
            manifest = {}
            for name, data in _files(tensors, state):
                write_synced(folder / name, data)
                manifest[name] = fingerprint(data)
                del data  # before the next one is made
            write_synced(folder / MANIFEST, json.dumps(manifest).encode())
            if final.exists():
                os.rename(final, replaced)
        shutil.rmtree(replaced, ignore_errors=True)

    def load(self, step: int) -> tuple[dict[str, dict[str, Tensor]], dict[str, Any]]:
        """The tensors and the state of one checkpoint; raises `DataError` if a byte of it is wrong."""
        path = self._path(step)
        at_hand = MANIFEST  # name of the file that is being read, for the message
        try:
            manifest = json.loads((path / at_hand).read_bytes())
            files = {}
            for name, mark in manifest.items():
                at_hand = name
                files[name] = (path / name).read_bytes()
                if fingerprint(files[name]) != mark:
                    raise ValueError(name)
            at_hand = "state.json"
            state = json.loads(files.pop(at_hand))
            # Read from the verified bytes: not from the folder again, and no file that the manifest does not list.
            tensors = {name.removesuffix(".safetensors"): load(data) for name, data in files.items()}
            return tensors, state
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, SafetensorError):
            raise DataError(
                f"The checkpoint {path} is damaged ({at_hand} is not what was written); delete its folder to do "
                "without it."
            ) from None

    def load_latest(self) -> tuple[dict[str, dict[str, Tensor]], dict[str, Any]] | None:
        """Tensors and state of the newest checkpoint that is whole, or None; warns if it has to skip one."""
        for step in reversed(self.steps()):
            try:
                return self.load(step)
            except DataError as error:
                self.warn(f"{error} Going back to the one before, or else to the start.")
        return None

    def prune(self, keep: set[int]) -> None:
        """Delete all checkpoints except those of the steps in `keep`."""
        for step in self.steps():
            if step not in keep:
                shutil.rmtree(self._path(step), ignore_errors=True)

    def _path(self, step: int) -> Path:
        return self.folder / f"step_{step:08d}"
