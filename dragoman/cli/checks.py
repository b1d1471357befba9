"""Argument checks that run before torch is imported, which takes over a second."""

import io
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from dragoman.cli.options import option_name
from dragoman.errors import DataError, ResourceError, UsageError, redacted
from dragoman.formats.text_files import packed
from dragoman.system.atomic import OutputFile, check_output, new_output
from dragoman.system.streams import ESCAPED, results
from dragoman.system.urls import is_url

if TYPE_CHECKING:
    from dragoman.cli.app import Context
    from dragoman.config.decoding import DecodingConfig
    from dragoman.config.settings import Settings
    from dragoman.data.bitext import Bitext

CHECKED_PAIRS = 100_000
"""Most pairs of a file that are checked. They are read in less time than torch needs to load."""
READING = ("data.columns", "data.languages", "data.language_column", "data.replace_bad_bytes")
"""Settings that decide how a file is read."""
SECTIONS = ("data", "tokenizer", "model")
"""Sections of settings that commands on data read."""
OPTIONS = {
    "finetune.model": "--finetune",
    "finetune.vocabulary": "--new-vocabulary",
    "finetune.add_language": "--add-language",
    "finetune.mix": "--mix",
    "finetune.share": "--mix",
}
"""Options that are named otherwise than the settings they stand for."""


@dataclass(frozen=True)
class NewRun:
    """A new run as a command line describes it; what is left open is chosen later."""

    paths: list[str]
    """One or two files of pairs; empty: those that the recipe or the settings name."""
    recipe: str | None
    """Name of a recipe or a size, or a YAML file; None: chosen by the amount of data."""
    settings: "Settings"


def check_model(model: Path, others: Sequence[str] = (), *, ensemble: Sequence[Path] | None = None) -> None:
    """Raise for an incomplete model directory; `others` are the arguments after it, one of which may be the model."""
    from dragoman.storage.validate import check_files

    def has_config(folder: str | Path) -> bool:
        # os.path answers False where pathlib raises: a sentence may be too long for a name.
        return os.path.isfile(os.path.join(folder, "config.json"))

    try:
        check_files(model)
    except DataError:
        models = [argument for argument in others if has_config(argument)]
        if models and not has_config(model):
            raise UsageError(f"MODEL comes first: write {models[0]} before the other arguments.") from None
        raise
    for member in ensemble or ():
        check_files(member)


def check_adapter(adapter: Path | None) -> None:
    """Raise `DataError` for what is no adapter, by its header. None is none."""
    if adapter:
        from dragoman.storage import adapter as adapters

        adapters.check_adapter(adapter)


def check_decoding(model: Path, options: dict[str, Any]) -> "DecodingConfig":
    """The search that a model was scored with, changed by these options. Raises `UsageError` for a wrong one."""
    from dragoman.storage.validate import decoding_defaults

    return decoding_defaults(model).with_options(options, spell=option_name)


def open_pairs(
    context: "Context",
    model: Path | None,
    arguments: Iterable[str | None],
    *,
    ensemble: Sequence[Path] | None,
    output: Path | None,
    wanted: tuple[str | None, str | None] = (None, None),
) -> "Bitext":
    """The pairs to score with a model, in the `wanted` languages (source and target), by default those of the model.
    Without a model, they are for translations that are there already.

    Raises for models, sentence pairs (of a large file: the first ones) or an output that cannot be used, and warns of
    entries that are no pairs.
    """
    paths, settings = files_and_settings(context.info_name, arguments)
    if model:
        check_model(model, paths, ensemble=ensemble)
    from dragoman.data.bitext import Bitext
    from dragoman.data.readers.tsv import NAMES
    from dragoman.data.readers.types import Skipped
    from dragoman.runs.plan import as_read_by, choose_data, languages_for
    from dragoman.storage.validate import check_languages

    data = choose_data(paths, settings=settings)
    refuse_others(context.info_name, settings, READING)
    if model:
        wanted = check_languages(model, *wanted, required=False)
    bitext = Bitext.open(
        *paths,
        languages=data.languages or languages_for(model, wanted),
        columns=data.columns,
        language_column=data.language_column,
        replace_bad_bytes=data.replace_bad_bytes,
    )
    skipped: Counter[str] = Counter()
    for _, entry in islice(bitext.entries(), CHECKED_PAIRS):
        if isinstance(entry, Skipped) and entry != NAMES:
            skipped[entry.reason] += 1
    check_output(output, read=paths)
    name = redacted(" and ".join(paths))
    if bitext.remark:
        context.display().warn(f"{name} {bitext.remark}")
    for reason, count in skipped.items():
        context.display().warn(f"{name}: {count:,} left out, which are no pairs ({reason}).")
    if model is None or data.language_column is not None:
        return bitext  # a column of languages has labelled each pair
    return as_read_by(model, bitext, wanted)


@contextmanager
def open_output(path: Path | None) -> Iterator[TextIO]:
    """A file to write line by line, which others may read meanwhile, or stdout for None.

    Raises `ResourceError` if somebody has deleted the file meanwhile, so that what was written is lost.
    """
    if path is None:
        with results() as out:
            yield out
        return
    with (
        io.BufferedWriter(OutputFile(path, path)) as file,
        packed(file, path.suffix.lower()) as content,
        io.TextIOWrapper(content, encoding="utf-8", errors=ESCAPED) as out,
    ):
        yield out
        out.flush()
        if not os.fstat(file.fileno()).st_nlink:
            raise ResourceError(f"{path} was deleted while it was written; run the command again.")


@contextmanager
def whole_output(path: Path) -> Iterator[TextIO]:
    """A file that appears when all of it is written. Until then, an older file of this name stays as it is."""
    with new_output(path) as file:
        out = io.TextIOWrapper(file, encoding="utf-8", errors=ESCAPED, write_through=True)
        yield out
        out.detach()


def files_and_settings(
    command: str,
    arguments: Iterable[str | None],
    *,
    required: bool = True,
    valid: Sequence[str] | None = None,
    test: Sequence[str] | None = None,
) -> tuple[list[str], "Settings"]:
    """Separates the arguments into files and `key=value` settings. `valid` and `test` files become settings, too.

    Raises `UsageError` for more than two files, and for none if they are `required`.
    """
    paths, texts = [], []
    for argument in arguments:
        if argument is None:
            continue
        if "=" in argument and not os.path.exists(argument) and not is_url(argument):
            texts.append(argument)
        else:
            paths.append(argument)
    for name, files in ((f"`{command}`", paths), ("--valid", valid or ()), ("--test", test or ())):
        if len(files) > 2 or (required and not paths):
            several = ", and list several corpora under data.corpora in a recipe" if name == "`train`" else ""
            raise UsageError(
                f"{name} takes a file of pairs or two aligned files, not {len(files)} files; quote a name with spaces"
                f"{several}."
            )
    from dragoman.config.settings import merged, parse_settings

    held_out = {part: list(files) for part, files in (("valid", valid), ("test", test)) if files}
    return paths, merged(parse_settings(texts), {"data": held_out} if held_out else {})


def chosen_settings(size: str | None, recipe: str | None, options: dict[str, Any]) -> "Settings":
    """The options of a training, by the setting that each stands for, as settings; None is an option not given.

    Raises `UsageError` that names the option for a wrong value, and for a size beside a recipe.
    """
    from dragoman.config.run import load_config
    from dragoman.config.settings import parse_settings

    if size and recipe:
        raise UsageError("--size and --recipe both choose the settings; give one of them.")
    settings = parse_settings(f"{key}={value}" for key, value in options.items() if value is not None)
    load_config({}, settings, spell=lambda key: OPTIONS.get(key) or option_name(key.removeprefix("training.")))
    return settings


def refuse_others(command: str, settings: "Settings", known: Sequence[str]) -> None:
    """Raise `UsageError` for a setting that is not among the sections and keys that this command reads."""
    from dragoman.config.settings import spelled

    for text in spelled(settings):
        key = text.partition("=")[0]
        if not any(key == name or key.startswith(f"{name}.") for name in known):
            names = ", ".join(f"those of {name}" if name in SECTIONS else name for name in known)
            raise UsageError(f"`{command}` takes no other settings than {names}; leave out {text}.")
