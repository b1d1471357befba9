"""Translation of many files into a folder, for the command `translate`."""

import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from dragoman.bulk.jobs import PATTERN, Job, plan, shard_of
from dragoman.cli.files import untranslated
from dragoman.cli.options import option_name, print_json
from dragoman.errors import DataError, UsageError, respell

if TYPE_CHECKING:
    from dragoman.bulk.lines import BulkTranslator
    from dragoman.cli.app import Context
    from dragoman.config.decoding import DecodingConfig
    from dragoman.decoding.translator import Translator
    from dragoman.terminal import Display


def wants_folder(inputs: Sequence[str] | None, output: str | None, shard: str | None, resume: bool) -> bool:
    """Whether a command asks for a folder of translations."""
    if shard or resume or len(inputs or ()) > 1:
        return True
    if any(PATTERN.search(name) and not os.path.exists(name) for name in inputs or ()):
        return True
    return output is not None and (output.endswith(("/", os.sep)) or os.path.isdir(output))


def plan_files(
    inputs: Sequence[str] | None, output: str | None, shard: str | None, *, others: Iterable[object]
) -> list[Job]:
    """The files of a shard, each with the file of its translations.

    Raises `UsageError` for a command that does not say which files go where, or that has `others` to translate.
    """
    if any(others):
        raise UsageError(
            "A folder as --output is for the files of --input: leave out other texts, or name a file for them; put "
            "quotes around a pattern, such as --input 'in/*'."
        )
    if not inputs:
        raise UsageError("There is nothing to translate into a folder; name files, such as --input 'in/*'.")
    if output is None or (os.path.lexists(output.rstrip("/" + os.sep)) and not os.path.isdir(output)):
        raise UsageError("Many files are translated into a folder; name one, such as --output out/.")
    return shard_of(plan(inputs, Path(output)), shard)


def translate_files(
    context: "Context",
    jobs: Sequence[Job],
    load: Callable[[], "Translator"],
    config: "DecodingConfig",
    *,
    resume: bool,
) -> None:
    """Translate files into a folder and print the counts; with `resume`, only the files that are not translated yet.

    Warns of each file that cannot be read, and raises `DataError` when all others are translated.
    """
    if config.n_best > 1:
        raise UsageError("A folder of translations has a line for each line; leave out --n-best, or give --n-best 1.")
    display, started = context.display(), time.monotonic()
    missing = [job for job in jobs if not (resume and job.is_done())]
    errors: list[DataError] = []
    total = Counter(files=0, skipped=len(jobs) - len(missing), lines=0, rejected=0)
    if missing:  # else no model is loaded
        missing[0].output.parent.mkdir(parents=True, exist_ok=True)
        with load() as translator:
            from dragoman.bulk.lines import BulkTranslator

            bulk = BulkTranslator(
                translator, config, row=lambda translation: translation.to_rows(with_confidence=config.confidence)[0]
            )
            total.update(_translate(missing, bulk, display, errors))
    seconds = time.monotonic() - started
    speed = round(total["lines"] / seconds, 1)
    if context.as_json:
        print_json(dict(total) | {"seconds": round(seconds, 3), "lines_per_second": speed})
    else:
        display.note(
            f"{total['files']:,} files translated, {total['skipped']:,} done before; {total['lines']:,} lines in "
            f"{seconds:,.0f} s ({speed:,} lines/s), {total['rejected']:,} of them rejected"
        )
    if errors:
        raise DataError(f"{len(errors)} of {len(missing)} files were not translated. The first: {errors[0]}")


def _translate(
    jobs: Sequence[Job], bulk: "BulkTranslator", display: "Display", errors: list[DataError]
) -> Counter[str]:
    """Translate files and count them, their lines and rejected lines.

    For a file that cannot be read, the error is appended to `errors`.
    """
    from dragoman.bulk.files import translate_file

    total: Counter[str] = Counter()
    with display.file_progress("Translating", len(jobs)) as advance:
        for number, job in enumerate(jobs, start=1):
            try:
                counts = translate_file(job, bulk, partial(advance, 0))
            except DataError as error:
                errors.append(error)
                display.warn(str(error))
                continue
            finally:
                advance(1, 0)
            total.update(files=1, lines=counts.lines, rejected=counts.rejected)
            if bulk.config.only_above is not None:
                total.update(untranslated=counts.untranslated.count)
            if counts.cut:
                warning = respell(counts.warning, ["max_source_length"], option_name)
                more = f" and {len(counts.cut) - 1:,} more" if len(counts.cut) > 1 else ""
                display.warn(f"{job.source}, line {counts.cut[0]:,}{more}: {warning}")
            if counts.faults.count:
                display.warn(f"{job.source}: {counts.faults.listed()}")
            if counts.untranslated.count:
                display.warn(f"{job.source}: {untranslated(counts.untranslated, counts.lines, bulk.config, 'lines')}")
            if not display.console.is_terminal:  # where there is no bar
                display.note(f"{job.source}: {counts.lines:,} lines; file {number:,} of {len(jobs):,}")
    return total
