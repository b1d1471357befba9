"""The saved request of a run whose pairs models make, so that it can be resumed."""

import os
import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Self

from dragoman import __version__
from dragoman.config.data import without_secrets
from dragoman.config.run import RunConfig
from dragoman.config.settings import Settings, merged
from dragoman.config.training import NO_TEACHER
from dragoman.data.corpora import open_corpora, open_held_out
from dragoman.errors import DataError, UsageError, command_line
from dragoman.runs.finetune import refuse_new_tokenizers
from dragoman.runs.plan import build_config_with_pairs
from dragoman.storage.run_directory import RunDirectory
from dragoman.storage.validate import WEIGHTS
from dragoman.system.resources import started_together
from dragoman.system.seals import read_sealed, write_sealed
from dragoman.system.urls import file_stamp

REQUEST = "asked.json"
"""Name of the file with the request."""
ANEW = "begin anew, in another folder"
"""Remedy for damaged files."""
CHEAP = {REQUEST, "pairs", "sources"}
"""Files and folders that are made in seconds. A run that has no others is begun anew if the request differs."""


@dataclass(frozen=True)
class SyntheticRunRequest:
    """Request of a distillation or back-translation: the real pairs, recipe and settings, and how models make pairs."""

    how: str
    """Name of the method that makes the pairs: a key of `dragoman.runs.synthetic.run.MAKERS`."""
    paths: list[str]
    """One or two files of real pairs; empty: those that recipe or settings name."""
    recipe: str | None
    settings: Settings
    options: dict[str, Any]
    """For distillation `teachers` (paths), `choose` ("closest" or "best"), `references` (share), `languages` and
    `soft_targets` (share); for back-translation `monolingual` (paths), `reverse` (path or None) and `ratios`."""
    files: dict[str, list[int]]
    """Size and time of each file that must not change before the pairs are made."""
    version: str = __version__
    changed: Settings = field(default_factory=dict, compare=False)
    """Settings of later commands that went on with the run."""

    @classmethod
    def read(cls, path: Path) -> Self | None:
        """The request of the run in `path`; None for other runs. Raises `DataError` if it is damaged or too old."""
        file = _file(path)
        if not file.is_file():
            return None
        request = read_sealed(file, into=lambda fields: cls(**fields), remedy=ANEW)
        if not isinstance(request.settings, dict) or not isinstance(request.changed, dict):
            raise DataError(f"{path} was begun by an older version of Dragoman; {ANEW}.")
        return request

    def write(self, path: Path) -> None:
        """Begin a run with this request in `path`, unless it is begun. Raises `UsageError` if there is another one."""
        refuse_several_processes()
        directory = RunDirectory(path)
        begun = self.read(path)
        directory.refuse_if_locked()
        is_other = begun is not None and begun.without_secrets() != self.without_secrets()
        if is_other and {entry.name for entry in directory.synthetic.iterdir()} <= CHEAP:
            shutil.rmtree(directory.synthetic)
            begun = None
        if begun is None:
            self._refuse_mistakes()
            directory.refuse_if_used()
            directory.synthetic.mkdir(parents=True, exist_ok=True)
            self.save(path)
        elif begun.without_secrets() != self.without_secrets():
            go_on = command_line("train", "--resume", path)
            raise UsageError(
                f"{path} was begun with other files, models or settings; choose another folder, or go on: {go_on}"
            )

    def _refuse_mistakes(self) -> None:
        """Raise `UsageError` or `DataError` for settings that do not fit, and for pairs that cannot be opened."""
        config = self.load_config()
        if config.finetune.model:
            raise UsageError("Models make pairs for new models, not for one that is gone on from; leave that out.")
        if self.options.get("soft_targets"):
            # A recipe, such as edge, may have these for students with a vocabulary of their own; the user may not.
            set_by_user = self.settings.get("tokenizer", {}).keys()
            kept = {"shared", "placeholders", "symbols", "vocab_size"} - set_by_user
            refuse_new_tokenizers(config.tokenizer, self.options["teachers"][0], kept=kept)
        open_held_out(config.data, open_corpora(config.data).languages)

    def load_config(self) -> RunConfig:
        """The config of these files, this recipe and these settings. Raises `UsageError` if they contradict."""
        config = build_config_with_pairs(self.paths, self.recipe, self.settings)
        if config.training.soft_targets and not self.options.get("soft_targets"):
            raise UsageError(NO_TEACHER)
        if config.training.joined:
            raise UsageError("Pairs that models make are not joined; leave out training.joined.")
        if config.training.has_hints and self.options.get("soft_targets"):
            raise UsageError(
                "training.fuzzy and training.terms need tokens in the vocabulary, and that is the teacher's with "
                "--soft-targets; leave these out, or --soft-targets."
            )
        return config

    def with_changes(self, path: Path, settings: Settings) -> Self:
        """The request with the settings of all commands that went on, the new `settings` last.

        The new ones are saved for the next command.
        """
        saved = replace(self, changed=merged(self.changed, settings))
        changed = replace(saved, settings=merged(saved.settings, saved.changed))
        if settings:
            changed.load_config()  # raises for settings that make no sense, before they are saved
            saved.save(path)
        return changed

    def without_secrets(self) -> Self:
        """The request with URLs that may be kept. It can be made once its pairs have been read."""
        fields = {name: without_secrets(getattr(self, name)) for name in ("paths", "settings", "options", "changed")}
        return replace(self, **fields)

    def save(self, path: Path) -> None:
        """Write the request into the run in `path`."""
        write_sealed(_file(path), asdict(self))

    @classmethod
    def forget_secrets(cls, path: Path) -> None:
        """Write the request of the run in `path` anew, without passwords and signatures of URLs, if it has any."""
        request = cls.read(path)
        if request and asdict(request) != asdict(request.without_secrets()):
            request.without_secrets().save(path)

    def refuse_changed_files(self, path: Path) -> None:
        """Raise `DataError` that names a file which has changed since the run in `path` was begun."""
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
    """Size and time of files and of the weights of models, by path, for `SyntheticRunRequest.files`."""
    names = [*files, *(os.path.join(model, WEIGHTS) for model in models)]
    return {os.path.abspath(name): list(file_stamp(name)) for name in names if os.path.isfile(name)}


def _file(path: Path) -> Path:
    return RunDirectory(path).synthetic / REQUEST


def is_synthetic(path: Path) -> bool:
    """Whether models make pairs for the run in `path`, whose training has not begun."""
    return SyntheticRunRequest.read(path) is not None and not RunDirectory(path).config.is_file()
