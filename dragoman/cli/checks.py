"""Argument checks that run before torch is imported, which takes over a second."""

import io
import os
import stat
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from dragoman.cli.options import option_name
from dragoman.errors import DataError, ResourceError, UsageError, reason_of, redacted
from dragoman.system.atomic import OutputFile, new_output, real_path
from dragoman.system.streams import ESCAPED, results
from dragoman.system.urls import is_url

if TYPE_CHECKING:
    from dragoman.cli.app import Context
    from dragoman.config.decoding import DecodingConfig
    from dragoman.config.settings import Settings
    from dragoman.data.bitext import Bitext

CHECKED_PAIRS = 100_000
"""Read in less time than torch needs to load."""
READING = ("data.columns", "data.languages", "data.language_column", "data.replace_bad_bytes")
"""Settings that decide how a file is read."""
SECTIONS = ("data", "tokenizer", "model")
"""Sections of settings that commands on data read."""
SPELLED = {"finetune.model": "--finetune", "finetune.mix": "--mix", "finetune.share": "--mix"}


def check_model(model: Path, others: Sequence[str] = (), *, ensemble: Sequence[Path] | None = None) -> None:
    """Raise for an incomplete model directory; `others` are the arguments after it, one of which may be the model."""
    from dragoman.storage.validate import check_files

    def has_config(folder: str | Path) -> bool:
        # os.path answers False where pathlib raises: a sentence may be too long for a name.
        return os.path.isfile(os.path.join(folder, "config.json"))

    try:
        check_files(model)
    except DataError:
        swapped = [other for other in others if has_config(other)]
        if swapped and not has_config(model):
            raise UsageError(f"MODEL comes first: write {swapped[0]} before the other arguments.") from None
        raise
    for other in ensemble or ():
        check_files(other)


def check_decoding(model: Path, given: dict[str, Any]) -> "DecodingConfig":
    """The search that a model was scored with, changed by the options that are `given`."""
    from dragoman.config.decoding import DecodingConfig
    from dragoman.storage.validate import decoding_defaults

    defaults = decoding_defaults(model).model_dump(exclude_unset=True)
    return DecodingConfig.validate(defaults | given, spell=option_name)


def open_pairs(
    context: "Context",
    model: Path,
    arguments: Iterable[str | None],
    *,
    ensemble: Sequence[Path] | None,
    output: Path | None,
    wanted: tuple[str | None, str | None] = (None, None),
) -> "Bitext":
    """The pairs to score with a model, in the languages that are `wanted`, or else in its own.

    Raises for models, sentence pairs (of a large file: the first ones) or an output that cannot be used, and warns of
    entries that are no pairs.
    """
    paths, settings = files_and_settings(context.info_name, arguments)
    check_model(model, paths, ensemble=ensemble)
    from dragoman.data.bitext import Bitext
    from dragoman.data.readers.tsv import NAMES
    from dragoman.data.readers.types import Skipped
    from dragoman.runs.plan import as_read_by, choose_data, languages_for
    from dragoman.storage.validate import check_languages

    data = choose_data(paths, settings=settings)
    refuse_others(context.info_name, settings, READING)
    wanted = check_languages(model, *wanted, required=False)
    own = data.languages or languages_for(model, wanted)
    chosen = {"languages": own, "columns": data.columns, "language_column": data.language_column}
    bitext = Bitext.open(*paths, **chosen, replace_bad_bytes=data.replace_bad_bytes)
    entries = (entry for _, entry in islice(bitext.entries(), CHECKED_PAIRS))
    skipped = Counter(entry.reason for entry in entries if isinstance(entry, Skipped) and entry != NAMES)
    check_output(output, read=paths)
    if bitext.remark:
        context.display().warn(f"{redacted(' and '.join(paths))} {bitext.remark}")
    for reason, count in skipped.items():
        context.display().warn(f"{redacted(' and '.join(paths))}: {count:,} left out, which are no pairs ({reason}).")
    # A column of languages has labelled them.
    return as_read_by(model, bitext, wanted) if data.language_column is None else bitext


def check_output(path: Path | None, *, read: Iterable[str | Path | None] = ()) -> None:
    """Raise `UsageError` for a file that cannot be written, or that is `read` meanwhile; None is stdout."""
    if path is None:
        return
    # os.path answers False where pathlib raises, such as for a name that is too long.
    if os.path.isfile(path) and any(other and os.path.exists(other) and path.samefile(other) for other in read):
        raise UsageError(f"{path} is read and cannot be written at the same time; choose another --output.")
    if why := _why_not(path):
        raise UsageError(f"{path} cannot be written: {why}; choose another --output.")


def _why_not(path: Path) -> str | None:
    """Why a file cannot be written; None if it can."""
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:  # also of a link to a file that is not there yet
        folder = real_path(path).parent
        if not folder.is_dir():
            return f"there is no folder {path.parent if not path.is_symlink() else folder}"
        return None if os.access(folder, os.W_OK) else "you may not write there"
    except (OSError, ValueError) as error:
        return reason_of(error).removeprefix(f"{path}: ")
    if stat.S_ISDIR(mode):
        return "it is a folder"
    if stat.S_ISBLK(mode) or stat.S_ISSOCK(mode):
        return "it is a disk or a socket, and no file"
    return None if os.access(path, os.W_OK) else "you may not write there"


@contextmanager
def open_output(path: Path | None) -> Iterator[TextIO]:
    """A file that grows while others may read it, or stdout for None.

    Raises `ResourceError` if somebody has deleted the file meanwhile: what was written is nowhere then.
    """
    if path is None:
        with results() as out:
            yield out
        return
    with io.TextIOWrapper(io.BufferedWriter(OutputFile(path, path)), encoding="utf-8", errors=ESCAPED) as out:
        yield out
        out.flush()
        if not os.fstat(out.fileno()).st_nlink:
            raise ResourceError(f"{path} was deleted while it was written; run the command again.")


@contextmanager
def whole_output(path: Path) -> Iterator[TextIO]:
    """A file that is there when all of it is written; one of the same name stays as it is until then."""
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
    """Files and `key=value` settings among the arguments; those to validate and test on become settings too.

    Raises for more than two files, and for none if they are `required`.
    """
    given = [argument for argument in arguments if argument is not None]
    texts = [argument for argument in given if "=" in argument and not (os.path.exists(argument) or is_url(argument))]
    paths = [argument for argument in given if argument not in texts]
    for name, files in ((f"`{command}`", paths), ("--valid", valid or ()), ("--test", test or ())):
        if len(files) > 2 or (required and not paths):
            raise UsageError(
                f"{name} takes a file of pairs or two aligned files, not {len(files)} files; quote a name with spaces."
            )
    from dragoman.config.settings import merged, parse_settings

    held_out = {part: list(files) for part, files in (("valid", valid), ("test", test)) if files}
    return paths, merged(parse_settings(texts), {"data": held_out} if held_out else {})


def chosen_settings(size: str | None, recipe: str | None, given: dict[str, Any]) -> "Settings":
    """The options of a training that were `given`, as settings. Raises `UsageError` for a wrong one, by its name."""
    from dragoman.config.run import load_config
    from dragoman.config.settings import parse_settings

    if size and recipe:
        raise UsageError("--size and --recipe both choose the settings; give one of them.")
    settings = parse_settings(f"{key}={value}" for key, value in given.items() if value is not None)
    load_config({}, settings, spell=lambda key: SPELLED.get(key) or option_name(key.removeprefix("training.")))
    return settings


def refuse_others(command: str, settings: "Settings", known: Sequence[str]) -> None:
    """Raise for a setting that this command does not read; it reads the sections and the keys that are `known`."""
    from dragoman.config.settings import spelled

    for text in spelled(settings):
        key = text.partition("=")[0]
        if not any(key == name or key.startswith(f"{name}.") for name in known):
            names = ", ".join(f"those of {name}" if name in SECTIONS else name for name in known)
            raise UsageError(f"`{command}` takes no other settings than {names}; leave out {text}.")
