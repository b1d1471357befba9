"""A file translated into another one, packed as it is."""

import bz2
import gzip
import lzma
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, field
from typing import IO, BinaryIO

from dragoman.bulk.jobs import Job
from dragoman.bulk.lines import BulkTranslator, Rejected
from dragoman.formats.other_files import WEB_PAGE, refuse_other_files
from dragoman.formats.text_files import open_input, packing_of, zstd
from dragoman.system.atomic import new_file


@dataclass
class Done:
    """What became of a file."""

    lines: int = 0
    rejected: int = 0
    cut: list[int] = field(default_factory=list)
    """Numbers of the lines with a sentence that was too long."""
    warning: str = ""
    """The warning that the first of these lines was cut with; empty if there is none."""


def translate_file(job: Job, bulk: BulkTranslator, advance: Callable[[int], None] = lambda lines: None) -> Done:
    """Write the output of a job, packed as its source is, with a line for each line; whole or not at all.

    Raises `DataError` if the source is damaged or is no text.
    """
    done = Done()
    rejects: BinaryIO | None = None
    refuse_other_files(job.source, but=WEB_PAGE)
    with ExitStack() as opened:
        stream = opened.enter_context(open_input(job.source))
        file = opened.enter_context(new_file(job.output))
        out = opened.enter_context(packed(file, packing_of(job.source)))

        def reject(line: Rejected) -> None:
            # Opened last, so that it is in its place before the output is.
            nonlocal rejects
            rejects = rejects or opened.enter_context(new_file(job.rejected))
            rejects.write(f"{line.to_row()}\n".encode())
            done.rejected += 1

        for window in bulk.windows(bulk.read(stream, str(job.source), reject), advance):
            for row, warning in window:
                done.lines += 1
                out.write(f"{row}\n".encode())
                if warning:
                    done.cut.append(done.lines)
                    done.warning = done.warning or warning
        if not rejects:
            job.rejected.unlink(missing_ok=True)  # of an earlier translation
    return done


def packed(file: BinaryIO, packing: str) -> AbstractContextManager[IO[bytes]]:
    """A stream that packs what it is given into `file`, which stays open; the same bytes each time."""
    if packing == ".gz":
        return gzip.GzipFile("", "wb", fileobj=file, mtime=0)
    if packing == ".xz":
        return lzma.open(file, "wb")
    if packing == ".bz2":
        return bz2.open(file, "wb")
    return zstd().open(file, "wb") if packing == ".zst" else nullcontext(file)
