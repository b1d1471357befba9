"""The checkpoints of a run: written whole or not at all, verified, no pickle.

A checkpoint is a directory that appears under its name only when every byte of it is on the disk; a manifest
holds the size and SHA-256 of each file, and loading falls back to the one before when they differ.
"""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from dragoman.errors import DataError
from dragoman.storage.model_directory import stored_tensors
from dragoman.system.atomic import check_space, new_folder, write_synced
from dragoman.system.seals import MANIFEST, fingerprint


class Checkpoints:
    """The checkpoints in one folder, named step_N; `mirror` copies them elsewhere."""

    def __init__(self, folder: Path, *, warn: Callable[[str], None], mirror: Callable[[], None] | None = None):
        self.folder, self.warn, self.mirror = folder, warn, mirror

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
        files = {f"{name}.safetensors": save(stored_tensors(group)) for name, group in tensors.items()}
        files["state.json"] = json.dumps(state).encode()
        files[MANIFEST] = json.dumps({name: fingerprint(data) for name, data in files.items()}).encode()
        for stale in self.folder.glob("*.tmp"):
            shutil.rmtree(stale, ignore_errors=True)
        check_space(self.folder, sum(map(len, files.values())))
        final = self._path(step)
        replaced = final.with_suffix(".old")
        with new_folder(final) as folder:
            for name, data in files.items():
                write_synced(folder / name, data)
            if final.exists():
                os.rename(final, replaced)
        shutil.rmtree(replaced, ignore_errors=True)

    def load(self, step: int) -> tuple[dict[str, dict[str, Tensor]], dict[str, Any]]:
        """The tensors and the state of one checkpoint; raises `DataError` if a byte of it is wrong."""
        path, name = self._path(step), MANIFEST
        try:
            manifest = json.loads((path / name).read_bytes())
            files = {}
            for name, mark in manifest.items():
                files[name] = (path / name).read_bytes()
                if fingerprint(files[name]) != mark:
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
