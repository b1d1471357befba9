"""What was asked of a run whose pairs models make, written into its folder, so that it can go on where it broke off."""

import os
import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Self

from dragoman import __version__
from dragoman.config.run import RunConfig
from dragoman.config.settings import Settings, merged
from dragoman.config.training import NO_TEACHER
from dragoman.data.bitext import open_corpora, open_held_out
from dragoman.errors import DataError, UsageError, command_line
from dragoman.runs.finetune import refuse_new_tokenizers
from dragoman.runs.plan import read_config
from dragoman.storage.run_directory import RunDirectory
from dragoman.storage.validate import WEIGHTS
from dragoman.system.resources import started_together
from dragoman.system.seals import read_sealed, write_sealed
from dragoman.system.urls import file_stamp

ASKED = "asked.json"
ANEW = "begin anew, in another folder"
CHEAP = {ASKED, "pairs", "sources"}
"""What is made in seconds: a run that has no more is begun anew, as after a mistake in the command."""


@dataclass(frozen=True)
class SyntheticRunRequest:
    """The real pairs, recipe and settings of a run, what models make for it, and the files that this is read from."""

    how: str
    """A key of `dragoman.runs.synthetic.run.MAKERS`."""
    paths: list[str]
    recipe: str | None
    settings: Settings
    options: dict[str, Any]
    files: dict[str, list[int]]
    """Size and time of each file whose change would mix two runs."""
    version: str = __version__
    changed: Settings = field(default_factory=dict, compare=False)
    """Settings of commands that went on with it."""

    @classmethod
    def read(cls, path: Path) -> Self | None:
        """What was asked of the run in `path`; None for other runs."""
        file = _file(path)
        if not file.is_file():
            return None
        request = read_sealed(file, into=lambda written: cls(**written), remedy=ANEW)
        if not isinstance(request.settings, dict) or not isinstance(request.changed, dict):
            raise DataError(f"{path} was begun by an older version of Dragoman; {ANEW}.")
        return request

    def write(self, path: Path) -> None:
        """Begin the run in `path`, unless that is done. Raises `UsageError` if it is another one."""
        refuse_several_processes()
        directory, begun = RunDirectory(path), self.read(path)
        directory.refuse_if_locked()
        if begun not in (None, self) and {each.name for each in directory.teaching.iterdir()} <= CHEAP:
            shutil.rmtree(directory.teaching)
            begun = None
        if begun is None:
            config = self.config
            if config.finetune.model:
                raise UsageError("Models make pairs for new models, not for one that is gone on from; leave that out.")
            if self.options.get("soft_targets"):
                # A recipe, such as edge, may have these for students with a vocabulary of their own; the user may not.
                given = self.settings.get("tokenizer", {}).keys()
                kept = {"shared", "placeholders", "symbols", "vocab_size"} - given
                refuse_new_tokenizers(config.tokenizer, self.options["teachers"][0], kept=kept)
            open_held_out(config.data, open_corpora(config.data).languages)
            directory.refuse_if_used()
            directory.teaching.mkdir(parents=True, exist_ok=True)
            self.save(path)
        elif begun != self:
            go_on = command_line("train", "--resume", path)
            raise UsageError(
                f"{path} was begun with other files, models or settings; choose another folder, or go on: {go_on}"
            )

    @property
    def config(self) -> RunConfig:
        """The config of these files, this recipe and these settings. Raises `UsageError` if there can be none."""
        config = read_config(self.paths, self.recipe, self.settings)
        if config.training.soft_targets and not self.options.get("soft_targets"):
            raise UsageError(NO_TEACHER)
        return config

    def going_on(self, path: Path, settings: Settings) -> Self:
        """What is asked for together with all settings of commands that went on; new ones are kept for the next."""
        kept = replace(self, changed=merged(self.changed, settings))
        asked = replace(kept, settings=merged(kept.settings, kept.changed))
        if settings and asked.config:  # which raises for settings that make no sense: they would stay
            kept.save(path)
        return asked

    def save(self, path: Path) -> None:
        """Write it down for the run in `path`."""
        write_sealed(_file(path), asdict(self))

    def refuse_changes(self, path: Path) -> None:
        """Raise `DataError` that names a file which is not as it was when the run was begun."""
        for name, stamp in self.files.items():
            if list(file_stamp(name)) != stamp:
                raise DataError(f"{name} has changed since {path} was begun; begin anew in another folder.")


def refuse_several_processes() -> None:
    """Raise `UsageError` if torchrun has started this process and others."""
    if started_together()[0] > 1:
        raise UsageError(
            "Models make pairs in one process; leave out torchrun. Once the run itself trains, "
            "`torchrun ... -m dragoman train --resume RUN` goes on with it."
        )


def stamps(files: Sequence[str], models: Sequence[str]) -> dict[str, list[int]]:
    """The `SyntheticRunRequest.files` for files of text and model directories."""
    names = [*files, *(os.path.join(model, WEIGHTS) for model in models)]
    return {os.path.abspath(name): list(file_stamp(name)) for name in names if os.path.isfile(name)}


def _file(path: Path) -> Path:
    return RunDirectory(path).teaching / ASKED
