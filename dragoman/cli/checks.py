"""What is seen of a mistake before torch is loaded, which takes over a second."""

import os
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from dragoman.errors import DataError, UsageError

CHECKED_PAIRS = 100_000
"""Read in less time than torch needs to load."""


def check_model(model: Path, others: Sequence[str] = ()) -> None:
    """Raise for a folder that is no whole model; `others` are the arguments after it, one of which may be it."""
    from dragoman.model_files import check_files

    try:
        check_files(model)
    except DataError:
        swapped = [other for other in others if _has_config(other)]
        if swapped and not _has_config(model):
            raise UsageError(f"MODEL comes first: write {swapped[0]} before the other arguments.") from None
        raise


def check_snapshots(model: Path) -> None:
    """Raise for a model whose run has left nothing to average."""
    from dragoman.run_directory import RunDirectory

    check_model(model)
    if not RunDirectory(model).snapshots.is_dir():
        raise DataError(
            f"{model} has no snapshots in run/; give a model whose run/ is still there, trained with "
            "training.average above 1."
        )


def check_import(file: Path, output: Path, source: Path | None, target: Path | None) -> tuple[Path, Path] | None:
    """The tokenizers, if there are any; raises for files that are not there and a folder that is in use."""
    from dragoman.lines import open_input
    from dragoman.run_directory import refuse_to_overwrite

    if (source is None) != (target is None):
        raise UsageError(
            "Give --source-tokenizer and --target-tokenizer, the same file twice if both sides share it; or neither, "
            "and sentences are ids."
        )
    for path in filter(None, (file, source, target)):
        open_input(path).close()
    refuse_to_overwrite(output)
    return None if source is None else (source, target)


def check_translation(model: Path, texts: Sequence[str] | None, source: Path | None, output: Path | None) -> None:
    """Raise for a model, an input or an output that cannot be used; warn of texts that look like files."""
    from dragoman.lines import check_input, check_output
    from dragoman.terminal import Display

    if texts and source:
        raise UsageError("Give sentences on the command line or in --input, not both.")
    check_model(model, texts or [])
    if not texts:
        check_input(source)
    if output:
        check_output(output, source=source)
    for text in texts or []:
        if os.path.isfile(text):
            Display().warn(f"{text} is translated as a text; to translate the lines of the file: --input {text}")


def check_evaluation(model: Path, data: Sequence[str], output: Path | None) -> None:
    """Raise for a model, sentence pairs (of a large file: the first ones) or an output that cannot be used."""
    from dragoman.data.bitext import Bitext
    from dragoman.lines import check_output
    from dragoman.model_files import languages

    check_number_of_files("evaluate", data)
    check_model(model, data)
    for _ in islice(Bitext.open(*data, languages=languages(model)), CHECKED_PAIRS):
        pass
    if output:
        check_output(output)


def check_number_of_files(command: str, paths: Sequence[str]) -> None:
    """Raise unless there are one or two."""
    if len(paths) not in (1, 2):
        raise UsageError(
            f"`{command}` takes a file of pairs or two aligned files, not {len(paths)} files; quote a name with spaces."
        )


def _has_config(folder: str | Path) -> bool:
    # os.path answers False where pathlib raises: a sentence may be too long for a name.
    return os.path.isfile(os.path.join(folder, "config.json"))
