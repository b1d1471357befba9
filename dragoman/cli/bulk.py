"""`translate` of many files into a folder."""

import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from dragoman.bulk.jobs import PATTERN, Job, plan, shard_of
from dragoman.cli.options import option_name, print_json
from dragoman.errors import DataError, UsageError, respell

if TYPE_CHECKING:
    from dragoman.bulk.lines import BulkTranslator
    from dragoman.cli.app import Context
    from dragoman.config.decoding import DecodingConfig
    from dragoman.decoding.translator import Translator
    from dragoman.terminal import Display


def is_bulk(inputs: Sequence[str] | None, output: str | None, shard: str | None, resume: bool) -> bool:
    """Whether a command asks for a folder of translations."""
    inputs = inputs or ()
    patterns = any(PATTERN.search(each) and not os.path.exists(each) for each in inputs)
    to_folder = output is not None and (output.endswith(("/", os.sep)) or os.path.isdir(output))
    return bool(shard or resume or len(inputs) > 1 or patterns or to_folder)


def plan_bulk(
    inputs: Sequence[str] | None, output: str | None, shard: str | None, others: Iterable[object]
) -> list[Job]:
    """The files of a shard. Raises for a command that does not say what goes where."""
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


def translate_bulk(
    context: "Context",
    jobs: Sequence[Job],
    load: Callable[[], "Translator"],
    config: "DecodingConfig",
    *,
    resume: bool,
) -> None:
    """Translate files, with `resume` those that are not done, and print how many, with --json as JSON.

    A file that cannot be read is warned of, and the others are translated before `DataError` is raised.
    """
    if config.n_best > 1:
        raise UsageError("A folder of translations has a line for each line; leave out --n-best, or give --n-best 1.")
    display, started = context.display(), time.monotonic()
    todo = [job for job in jobs if not (resume and job.is_done())]
    failed: list[DataError] = []
    total = Counter(files=0, skipped=len(jobs) - len(todo), lines=0, rejected=0)
    if todo:  # else no model is loaded
        todo[0].output.parent.mkdir(parents=True, exist_ok=True)
        with load() as translator:
            from dragoman.bulk.lines import BulkTranslator

            bulk = BulkTranslator(translator, config, row=lambda translation: translation.to_rows()[0])
            total.update(_translate(todo, bulk, display, failed))
    seconds = time.monotonic() - started
    speed = round(total["lines"] / seconds, 1)
    if context.as_json:
        print_json(dict(total) | {"seconds": round(seconds, 3), "lines_per_second": speed})
    else:
        display.note(
            f"{total['files']:,} files translated, {total['skipped']:,} done before; {total['lines']:,} lines in "
            f"{seconds:,.0f} s ({speed:,} lines/s), {total['rejected']:,} of them rejected"
        )
    if failed:
        raise DataError(f"{len(failed)} of {len(todo)} files were not translated. The first: {failed[0]}")


def _translate(
    jobs: Sequence[Job], bulk: "BulkTranslator", display: "Display", failed: list[DataError]
) -> Counter[str]:
    """Files, lines and rejected lines; the errors of files that cannot be read are appended to `failed`."""
    from dragoman.bulk.files import translate_file

    total: Counter[str] = Counter()
    with display.file_progress("Translating", len(jobs)) as advance:
        for number, job in enumerate(jobs, start=1):
            try:
                done = translate_file(job, bulk, partial(advance, 0))
            except DataError as error:
                failed.append(error)
                display.warn(str(error))
                continue
            finally:
                advance(1, 0)
            total.update(files=1, lines=done.lines, rejected=done.rejected)
            if done.cut:
                warning = respell(done.warning, ["max_source_length"], option_name)
                more = f" and {len(done.cut) - 1:,} more" if len(done.cut) > 1 else ""
                display.warn(f"{job.source}, line {done.cut[0]:,}{more}: {warning}")
            if not display.console.is_terminal:  # where there is no bar
                display.note(f"{job.source}: {done.lines:,} lines; file {number:,} of {len(jobs):,}")
    return total
