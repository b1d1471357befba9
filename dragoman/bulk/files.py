"""Translation of a file of lines into another one, which is packed as its name says."""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import BinaryIO

from dragoman.bulk.jobs import Job
from dragoman.bulk.lines import BulkTranslator, Rejected
from dragoman.bulk.tally import Tally
from dragoman.formats.other_files import WEB_PAGE, refuse_other_files
from dragoman.formats.text_files import open_input, packed
from dragoman.system.atomic import new_file, new_output


@dataclass
class FileCounts:
    """Counts of a file that was translated."""

    lines: int = 0
    rejected: int = 0
    cut: list[int] = field(default_factory=list)
    """Numbers of the lines with a sentence that was too long."""
    warning: str = ""
    """The warning for the first of these lines; empty if there are none."""
    faults: Tally = field(default_factory=Tally)
    """What seems to be wrong with lines, in words, if `checks` was asked for."""
    untranslated: Tally = field(default_factory=Tally)
    """The lines that stay as they are because of `only_above`, and the confidence of each."""


def translate_file(job: Job, bulk: BulkTranslator, advance: Callable[[int], None] = lambda lines: None) -> FileCounts:
    """Write the output of a job, packed as its name says, with a line for each line; whole or not at all.

    Raises `DataError` if the source is damaged or is no text.
    """
    counts = FileCounts()
    rejects: BinaryIO | None = None
    refuse_other_files(job.source, but=WEB_PAGE)
    with ExitStack() as opened:
        stream = opened.enter_context(open_input(job.source))
        file = opened.enter_context(new_output(job.output))
        out = opened.enter_context(packed(file, job.output.suffix.lower()))

        def reject(line: Rejected) -> None:
            # Opened after the output, so that it is closed and in its place before that is.
            nonlocal rejects
            if rejects is None:
                rejects = opened.enter_context(new_file(job.rejected))
            rejects.write(f"{line.to_row()}\n".encode())
            counts.rejected += 1

        for window in bulk.windows(bulk.read(stream, str(job.source), reject), advance):
            for line in window:
                counts.lines += 1
                out.write(f"{line.item}\n".encode())
                if line.warning:
                    counts.cut.append(counts.lines)
                    counts.warning = counts.warning or line.warning
                for fault in line.faults:
                    counts.faults.add(f"line {counts.lines:,}: {fault}")
                if line.is_untranslated:
                    counts.untranslated.add(f"line {counts.lines:,} ({line.confidence or 0.0:.3f})")
        if rejects is None:
            job.rejected.unlink(missing_ok=True)  # it is from an earlier translation
    return counts
