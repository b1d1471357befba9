"""A folder with what `preparation` writes, from which any number of runs can begin at once."""

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from dragoman import __version__
from dragoman.config.data import without_secrets
from dragoman.config.recipes import parse_yaml
from dragoman.config.run import RunConfig, load_config
from dragoman.data.readers.archives import archive_of
from dragoman.errors import DragomanError, UsageError
from dragoman.system.atomic import real_path
from dragoman.system.seals import LOCK, check_seal, content_in, read_in, read_sealed
from dragoman.system.urls import file_stamp, is_url

ORIGIN, COUNTS, CONFIG = "origin.json", "counts.json", "config.yaml"
"""Files of the folder: its origin, the numbers of its pairs and tokens, and all settings of its preparation."""
AGAIN = "prepare the pairs again, into another folder"
STATES = "files.json"
"""The states of the files that a run has read its pairs from."""


class PreparedFolder:
    """A folder that is prepared, or being prepared."""

    def __init__(self, path: Path) -> None:
        self.path, self.name = path, real_path(path).name

    @property
    def origin(self) -> dict[str, Any] | None:
        """The result of `origin` for its config, if its preparation has begun."""
        file = self.path / ORIGIN
        return read_sealed(file, into=dict, remedy=AGAIN) if os.path.isfile(file) else None

    @property
    def counts(self) -> tuple[int, float]:
        """Number of pairs, and about how many tokens they have."""
        pairs, tokens = read_sealed(self.path / COUNTS, remedy=AGAIN)
        return pairs, tokens

    @property
    def occurrences(self) -> dict[str, float]:
        """How often pairs of each corpus occur in an epoch, if `data.temperature` said it."""
        return read_in(self.path, "about.json", into=dict, remedy=AGAIN).get("occurrences", {})

    def check(self) -> None:
        """Raise `DataError` unless all files are as they were written."""
        check_seal(self.path, remedy=AGAIN)

    def settle(self, given: RunConfig) -> RunConfig:
        """The config of a run, with the settings of this folder. Raises `UsageError` if it is given others."""
        origin = self.origin or {}
        prepared = load_config(parse_yaml(content_in(self.path, CONFIG, remedy=AGAIN).decode()), {})
        if given.finetune.model:
            raise UsageError(f"--finetune reads pairs with the vocabulary of its model; give pairs, not {self.path}.")
        asked = given.model_dump(mode="json", include={"data", "tokenizer"}, exclude_unset=True)
        kept = prepared.model_dump(mode="json")
        wrong = [
            f"{section}.{key}"
            for section, values in without_secrets(asked).items()
            for key, value in values.items()
            if value != origin["settings"].get(section, {}).get(key, kept[section][key])
        ]
        wrong += ["model.max_positions"] * (given.positions not in (None, origin["positions"]))
        if wrong:
            raise UsageError(
                f"{self.path} was prepared with another `{wrong[0]}`; leave it out, or prepare another folder with it."
            )
        given.data, given.tokenizer = prepared.data, prepared.tokenizer
        given.seed = given.seed if "seed" in given.model_fields_set else prepared.seed
        return RunConfig.validate(given.model_dump(exclude_unset=True))

    def changes(self) -> Iterator[str]:
        """A sentence for each file that has changed since the folder was prepared."""
        for name in _changed((self.origin or {})["files"]):
            yield f"{name} has changed since {self.path} was prepared, which has it as it was."

    def place(self, folder: Path) -> None:
        """Put the files into a run, as links where the disk is the same: no run changes them."""
        for file in self.path.iterdir():
            if file.name == LOCK:
                continue
            try:
                os.link(file, folder / file.name)
            except OSError:
                shutil.copyfile(file, folder / file.name)


def file_states(config: RunConfig) -> dict[str, list[int | str]]:
    """Size and time, or version, of each file that pairs are read from, by its name; secrets of URLs left out."""
    data = config.data
    names = [data.source, data.target, *data.valid, *data.test, *config.tokenizer.pairs]
    names += [*config.finetune.mix, *config.finetune.test]
    names += [name for each in data.corpora for name in (each.source, each.target, *each.valid, *each.test)]
    names += [os.path.join(model, "model.safetensors") for model in data.cleaning.models or ()]
    return {without_secrets(name): _state(name) for name in names if name}


def changed_files(folder: Path) -> list[str]:
    """Names of the files that have changed since a run has read its pairs from them; `folder` is its `data`."""
    prepared = PreparedFolder(folder).origin
    if prepared:
        return list(_changed(prepared["files"]))
    file = folder / STATES
    return list(_changed(json.loads(file.read_bytes()))) if file.is_file() else []


def _changed(states: dict[str, list[int | str]]) -> Iterator[str]:
    for name, state in states.items():
        with suppress(DragomanError):  # a URL that this machine cannot reach
            if _state(name) not in ([0, 0], state):
                yield name


def _state(name: str) -> list[int | str]:
    """The state of a file, or of the archive that it is in."""
    archive = None if is_url(name) else archive_of(Path(name))
    return list(file_stamp(archive or name))


def origin(config: RunConfig) -> dict[str, Any]:
    """What tells whether a folder is prepared from these files, as they are now, and by these settings."""
    settings = config.model_dump(mode="json", include={"data", "tokenizer", "seed"}, exclude_unset=True)
    return {
        "version": __version__,
        "files": file_states(config),
        "settings": without_secrets(settings),
        "positions": config.positions,
    }
