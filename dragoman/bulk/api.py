"""Files of lines from a program: a file in, a file with a translation on each line out."""

from os import PathLike
from pathlib import Path
from typing import Unpack

from dragoman.bulk.files import FileCounts
from dragoman.bulk.files import translate_file as translate_lines
from dragoman.bulk.jobs import Job
from dragoman.bulk.lines import BulkTranslator, as_row
from dragoman.config.decoding import DecodingConfig, DecodingOptions
from dragoman.decoding.translator import Translator
from dragoman.system.atomic import check_output


def translate_file(
    translator: Translator,
    file: str | PathLike[str],
    output: str | PathLike[str],
    *,
    config: DecodingConfig | None = None,
    **options: Unpack[DecodingOptions],
) -> FileCounts:
    """Translate a file of lines, perhaps packed, into another one with a line for each line; returns the counts.

        dragoman.translate_file(translator, "news.en.gz", "news.fr.gz", beam_size=1)

    Options are those of `Translator.translate`; with `confidence` and `alignments`, a line has columns of them behind
    the translation, separated by tabs. The output is packed as its name says, and written whole or not at all.
    Lines that cannot be translated, such as those that are not UTF-8, are empty, and listed in a file beside it.

    Raises `UsageError` for an output that cannot be written or is the file itself, and for an `n_best` above 1, and
    `DataError` for a file that cannot be read.
    """
    job = Job(Path(file), Path(output))
    check_output(job.output, read=[job.source], remedy="name another output")
    search = translator.search_options(config, options)
    search = search.for_one("A file of lines", is_explicit=config is not None or "n_best" in options)
    return translate_lines(job, BulkTranslator(translator, search, row=as_row(search)))
