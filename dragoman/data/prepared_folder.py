"""A folder with prepared pairs, from which any number of runs can begin at once; `preparation` writes it."""

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
"""Remedy in messages about a folder that is damaged."""
STATES = "files.json"
"""File with the states of the files that a run has read its pairs from."""


class PreparedFolder:
    """A folder that is prepared, or being prepared."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.name = real_path(path).name

    @property
    def origin(self) -> dict[str, Any] | None:
        """The result of `origin` for its config; None if its preparation has not begun."""
        file = self.path / ORIGIN
        if not os.path.isfile(file):
            return None
        return read_sealed(file, into=dict, remedy=AGAIN)

    @property
    def counts(self) -> tuple[int, float]:
        """Number of pairs, and an estimate of their tokens."""
        pairs, tokens = read_sealed(self.path / COUNTS, remedy=AGAIN)
        return pairs, tokens

    @property
    def occurrences(self) -> dict[str, float]:
        """How often pairs of each corpus occur in an epoch, if `data.temperature` decided on it; else an empty dict."""
        return read_in(self.path, "about.json", into=dict, remedy=AGAIN).get("occurrences", {})

    @property
    def respelled(self) -> list[dict[str, Any]]:
        """How targets were written in one spelling, as `DataFacts.respelled` has it."""
        return read_in(self.path, "about.json", into=dict, remedy=AGAIN).get("respelled", [])

    @property
    def languages_were_open(self) -> bool:
        """Whether neither settings nor files said the languages, so that they were identified, or are not known."""
        if (self.origin or {})["settings"].get("data", {}).get("languages"):
            return False
        about = read_in(self.path, "about.json", into=dict, remedy=AGAIN)
        if about.get("directions"):
            return False
        prepared = load_config(parse_yaml(content_in(self.path, CONFIG, remedy=AGAIN).decode()), {})
        return bool(prepared.data.languages) or not (about["source_language"] and about["target_language"])

    def check(self) -> None:
        """Raise `DataError` unless all files are as they were written."""
        check_seal(self.path, remedy=AGAIN)

    def settle(self, given: RunConfig) -> RunConfig:
        """The config of a run, with the settings of this folder. Raises `UsageError` if `given` has others."""
        origin = self.origin or {}
        prepared = load_config(parse_yaml(content_in(self.path, CONFIG, remedy=AGAIN).decode()), {})
        if given.finetune.model:
            raise UsageError(f"--finetune prepares pairs as its model needs them; give pairs, not {self.path}.")
        if differing := self._differing_setting(given, prepared, origin):
            raise UsageError(
                f"{self.path} was prepared with another `{differing}`; leave it out, or prepare another folder with it."
            )
        given.data, given.tokenizer = prepared.data, prepared.tokenizer
        given.seed = given.seed if "seed" in given.model_fields_set else prepared.seed
        return RunConfig.validate(given.model_dump(exclude_unset=True))

    @staticmethod
    def _differing_setting(given: RunConfig, prepared: RunConfig, origin: dict[str, Any]) -> str | None:
        """The first setting of a run, such as data.max_length, that is not that of this folder."""
        settings = given.model_dump(mode="json", include={"data", "tokenizer"}, exclude_unset=True)
        complete = prepared.model_dump(mode="json")
        for section, values in without_secrets(settings).items():
            known = complete[section] | origin["settings"].get(section, {})
            for key, value in values.items():
                if isinstance(value, dict) and isinstance(known[key], dict):  # such as data.cleaning
                    inner = complete[section][key] | known[key]
                    different = next((name for name in value if value[name] != inner[name]), None)
                    if different:
                        return f"{section}.{key}.{different}"
                elif value != known[key]:
                    return f"{section}.{key}"
        if given.positions not in (None, origin["positions"]):
            return "model.max_positions"
        return None

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
    for corpus in data.corpora:
        names += [corpus.source, corpus.target, *corpus.valid, *corpus.test]
    names += [os.path.join(model, "model.safetensors") for model in data.cleaning.models or ()]
    return {without_secrets(name): _state(name) for name in names if name}


def changed_files(folder: Path) -> list[str]:
    """Names of the files that have changed since a run has read its pairs from them; `folder` is `data` in the run."""
    prepared = PreparedFolder(folder).origin
    if prepared:
        return list(_changed(prepared["files"]))
    file = folder / STATES
    return list(_changed(json.loads(file.read_bytes()))) if file.is_file() else []


def _changed(states: dict[str, list[int | str]]) -> Iterator[str]:
    """Names of the files whose state is another one now."""
    for name, state in states.items():
        with suppress(DragomanError):  # a URL that this machine cannot reach
            if _state(name) not in ([0, 0], state):
                yield name


def _state(name: str) -> list[int | str]:
    """The state of a file, or of the archive that it is in."""
    archive = None if is_url(name) else archive_of(Path(name))
    return list(file_stamp(archive or name))


def origin(config: RunConfig) -> dict[str, Any]:
    """Files as they are now, and settings: a folder with the same origin need not be prepared again."""
    settings = config.model_dump(mode="json", include={"data", "tokenizer", "seed"}, exclude_unset=True)
    return {
        "version": __version__,
        "files": file_states(config),
        "settings": without_secrets(settings),
        "positions": config.positions,
    }
