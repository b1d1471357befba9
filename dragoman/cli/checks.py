"""What is seen of a mistake before torch is loaded, which takes over a second."""

import json
import os
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from dragoman.errors import DataError, UsageError

if TYPE_CHECKING:
    from dragoman.data.bitext import Bitext

CHECKED_PAIRS = 100_000
"""Read in less time than torch needs to load."""
READING = ("data.languages", "data.replace_bad_bytes")
"""Settings that decide how a file is read."""


def check_model(model: Path, others: Sequence[str] = (), *, ensemble: Sequence[Path] | None = None) -> None:
    """Raise for a folder that is no whole model; `others` are the arguments after it, one of which may be it."""
    from dragoman.storage.validate import check_files

    try:
        check_files(model)
    except DataError:
        swapped = [other for other in others if _has_config(other)]
        if swapped and not _has_config(model):
            raise UsageError(f"MODEL comes first: write {swapped[0]} before the other arguments.") from None
        raise
    for other in ensemble or ():
        check_files(other)


def check_snapshots(model: Path) -> None:
    """Raise for a model whose run has left nothing to average."""
    from dragoman.storage.run_directory import RunDirectory

    check_model(model)
    if not RunDirectory(model).snapshots.is_dir():
        raise DataError(
            f"{model} has no snapshots in run/; give a model whose run/ is still there, trained with "
            "training.average above 1."
        )


def check_import(
    file: Path, output: Path, *, style: str, source: Path | None, target: Path | None
) -> tuple[Path, Path] | None:
    """The tokenizers of both sides, if there are any.

    Raises for files that are not there, a library that is missing and a folder that is in use.
    """
    from dragoman.data.readers.text_io import open_input
    from dragoman.storage.run_directory import refuse_to_overwrite
    from dragoman.system.optional import require

    if (source is None) != (target is None):
        raise UsageError(
            "Give --source-tokenizer and --target-tokenizer, the same file twice if both sides share it; or neither, "
            "and sentences are ids."
        )
    for path in filter(None, (file, source, target)):
        open_input(path).close()
    if style == "keras":
        require("h5py", extra="keras", purpose="Reading weights of Keras")
    refuse_to_overwrite(output)
    return None if source is None else (source, target)


def check_translation(
    texts: Sequence[str] | None, source: Path | None, output: Path | None, *, terms: Sequence[Path | None]
) -> None:
    """Raise for an input or an output that cannot be used; warn of texts that look like files."""
    from dragoman.data.readers.text_io import check_input, check_output
    from dragoman.terminal import Display

    if texts and source:
        raise UsageError("Give sentences on the command line or in --input, not both.")
    if not texts:
        check_input(source)
    if output:
        check_output(output, read=[source, *terms])
    for text in texts or []:
        if os.path.isfile(text):
            Display().warn(f"{text} is translated as a text; to translate the lines of the file: --input {text}")


def open_pairs(
    command: str, model: Path, arguments: Sequence[str], *, ensemble: Sequence[Path] | None, output: Path | None
) -> "Bitext":
    """What to score with a model, in its languages unless others are set.

    Raises for models, sentence pairs (of a large file: the first ones) or an output that cannot be used.
    """
    paths, settings = files_and_settings(command, arguments)
    check_model(model, paths, ensemble=ensemble)
    from dragoman.data.bitext import Bitext
    from dragoman.data.readers.text_io import check_output
    from dragoman.runs.plan import choose_data
    from dragoman.storage.validate import languages

    data = choose_data(paths, settings=settings)
    refuse_others(command, settings, READING)
    options = {"languages": data.languages or languages(model), "replace_bad_bytes": data.replace_bad_bytes}
    bitext = Bitext.open(*paths, **options)
    for _ in islice(bitext, CHECKED_PAIRS):
        pass
    if output:
        check_output(output, read=paths)
    return bitext


def files_and_settings(
    command: str,
    arguments: Sequence[str],
    *,
    required: bool = True,
    valid: Sequence[str] | None = None,
    test: Sequence[str] | None = None,
) -> tuple[list[str], list[str]]:
    """Files and `key=value` settings among the arguments; those to validate and test on are settings too.

    Raises for more than two files, and for none if they are `required`.
    """
    settings = [argument for argument in arguments if "=" in argument and not os.path.exists(argument)]
    paths = [argument for argument in arguments if argument not in settings]
    if len(paths) > 2 or (required and not paths):
        raise UsageError(
            f"`{command}` takes a file of pairs or two aligned files, not {len(paths)} files; quote a name with spaces."
        )
    held_out = {"data.valid": valid, "data.test": test}
    return paths, settings + [f"{key}={json.dumps(files)}" for key, files in held_out.items() if files]


def refuse_others(command: str, settings: Sequence[str], known: tuple[str, ...]) -> None:
    """Raise for a setting that this command does not read; they begin with one of `known`."""
    for setting in settings:
        if not setting.startswith(known):
            names = " and ".join(f"those of {name[:-1]}" if name.endswith(".") else name for name in known)
            raise UsageError(f"`{command}` takes no other settings than {names}; leave out {setting}.")


def _has_config(folder: str | Path) -> bool:
    # os.path answers False where pathlib raises: a sentence may be too long for a name.
    return os.path.isfile(os.path.join(folder, "config.json"))
