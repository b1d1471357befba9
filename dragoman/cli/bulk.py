"""Translation of documents, and of many files into a folder, for the command `translate`."""

import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dragoman.bulk.jobs import PATTERN, Job, plan, shard_of
from dragoman.cli.files import untranslated
from dragoman.cli.options import option_name, print_json
from dragoman.errors import DataError, UsageError, respell
from dragoman.system.streams import json_line

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
    names: Sequence[str] | None,
    output: str | None,
    shard: str | None,
    *,
    option: str,
    others: Iterable[object],
    read: Sequence[Path | None],
) -> list[Job]:
    """The files of a shard, each with the file of its translations; an `option` names them, or patterns. Other files
    are `read` meanwhile.

    Raises `UsageError` for a command that does not say which files go where, or that has `others` to translate.
    """
    if any(others):
        raise UsageError(
            f"A folder as --output is for the files of {option}: leave out other texts, or name a file for them; put "
            f"quotes around a pattern, such as {option} 'in/*'."
        )
    if not names:
        raise UsageError(f"There is nothing to translate into a folder; name files, such as {option} 'in/*'.")
    if output is None or (os.path.lexists(output.rstrip("/" + os.sep)) and not os.path.isdir(output)):
        raise UsageError("Many files are translated into a folder; name one, such as --output out/.")
    return shard_of(plan(names, Path(output), read=read), shard)


def translate_documents(
    context: "Context",
    jobs: Sequence[Job],
    load: Callable[[], "Translator"],
    config: "DecodingConfig",
    *,
    resume: bool = False,
) -> None:
    """Write the translations of documents, and print what became of their texts; with `resume`, only those that are
    missing.

    Warns of each document that cannot be read if there are several, and raises `DataError` when all others are
    translated.
    """
    config = config.for_one("A document", is_explicit="n_best" in context.settings, option="--n-best")
    display, results = context.display(), sys.stdout  # which the progress takes for itself
    missing = [job for job in jobs if not (resume and os.path.isfile(job.output))]
    errors: list[DataError] = []
    if missing:  # else no model is loaded
        missing[0].output.parent.mkdir(parents=True, exist_ok=True)
        with load() as translator, display.progress("Translating") as advance:
            for job in missing:
                try:
                    outcome = _translate_document(context, job, translator, config, partial(advance, 1))
                    if context.as_json:
                        print(json_line(outcome), file=results, flush=True)
                except DataError as error:
                    if len(jobs) == 1:
                        raise
                    errors.append(error)
                    display.warn(str(error))
    if len(jobs) > 1:
        translated = len(missing) - len(errors)
        documents = "document" if translated == 1 else "documents"
        display.note(f"{translated:,} {documents} translated, {len(jobs) - len(missing):,} done before")
    if errors:
        raise DataError(f"{len(errors)} of {len(missing)} documents were not translated. The first: {errors[0]}")


def _translate_document(
    context: "Context", job: Job, translator: "Translator", config: "DecodingConfig", done: Callable[[], None]
) -> dict[str, Any]:
    """Write the translation of a document and say what became of it; returns the same as content of JSON."""
    from dragoman.documents import registry
    from dragoman.documents.translate import engine_of
    from dragoman.system.atomic import write_output

    display, document, output = context.display(), str(job.source), str(job.output)
    content = registry.read_document(job.source)
    engine = engine_of(translator, config, done=done)
    translated = registry.translate_document(content, document, translator.languages, engine)
    write_output(job.output, translated.content)
    report = translated.report
    display.note(report.outcome(document, output))
    for note in report.notes():
        display.warn(f"{document} {note}")
    return {"document": document, "output": output, **report.to_dict()}


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
    config = config.for_one("A folder of translations", is_explicit="n_best" in context.settings, option="--n-best")
    display, started = context.display(), time.monotonic()
    missing = [job for job in jobs if not (resume and job.is_done())]
    errors: list[DataError] = []
    total = Counter(files=0, skipped=len(jobs) - len(missing), lines=0, rejected=0)
    if missing:  # else no model is loaded
        missing[0].output.parent.mkdir(parents=True, exist_ok=True)
        with load() as translator:
            from dragoman.bulk.lines import BulkTranslator, as_row

            bulk = BulkTranslator(translator, config, row=as_row(config))
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
