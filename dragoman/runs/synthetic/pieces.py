"""Translates any number of sentences piece by piece, so that finished pieces are kept when the command ends early."""

import time
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from dragoman.bulk.jobs import Job
from dragoman.bulk.lines import AT_ONCE, BulkTranslator
from dragoman.config.decoding import DecodingConfig
from dragoman.decoding.translation import Translation
from dragoman.decoding.translator import Translator
from dragoman.runs.synthetic.request import ANEW
from dragoman.system.atomic import new_folder
from dragoman.system.figures import duration
from dragoman.system.listener import Listener
from dragoman.system.seals import check_seal, read_sealed, seal, write_sealed
from dragoman.text.characters import one_line


class Pieces:
    """Pieces of up to `AT_ONCE` sentences: a file with the sentences of each, and one with their translations.

    A file is written whole or not at all.
    """

    def __init__(self, folder: Path) -> None:
        self.sources, self.translations = folder / "sources", folder / "translations"

    def write(self, sentences: Iterable[str]) -> None:
        """Write the sentences to translate, unless that is done."""
        if self.sources.is_dir():
            return
        with new_folder(self.sources) as new:
            for number, piece in enumerate(batched(map(one_line, sentences), AT_ONCE)):
                (new / f"{number:06}.txt").write_bytes("".join(f"{line}\n" for line in piece).encode())
            seal(new)

    @property
    def jobs(self) -> list[Job]:
        """One job for each piece. Raises `DataError` if the sentences are not what was written."""
        check_seal(self.sources, remedy=ANEW)
        return [Job(path, self.translations / path.name) for path in sorted(self.sources.glob("*.txt"))]

    def translate(
        self, load: Callable[[], Translator], config: DecodingConfig, listener: Listener, *, until: float | None = None
    ) -> None:
        """Translate the pieces that have no translations yet.

        After `until`, a `time.monotonic`, no further piece is begun; the first one is translated in any case.
        """
        jobs = self.jobs
        todo = [job for job in jobs if not job.output.is_file()]
        if not todo:
            return
        with load() as translator, listener.status("Translating") as tell:
            self.translations.mkdir(exist_ok=True)
            started = time.monotonic()
            finished = len(jobs) - len(todo)
            bulk = BulkTranslator(translator, config, row=_texts)
            for number, job in enumerate(todo, start=finished + 1):
                if number > 1 and until is not None and time.monotonic() > until:
                    return
                lines = ("" if bulk.refused(line) else line for line in lines_in(job.source))
                windows = bulk.windows(lines, lambda _: None)
                write_sealed(job.output, [line.item for window in windows for line in window])
                seconds_a_piece = (time.monotonic() - started) / (number - finished)
                left = seconds_a_piece * (len(jobs) - number)
                tell(f"piece {number:,} of {len(jobs):,}, of up to {AT_ONCE:,} sentences; {duration(left)} to go")

    def read(self) -> Iterator[tuple[str, list[str]]]:
        """The sentences of the translated pieces, each with its translations, best first."""
        for job in self.jobs:
            if job.output.is_file():
                translations = read_sealed(job.output, into=list, remedy=ANEW)
                yield from zip(lines_in(job.source), translations, strict=True)


def _texts(translation: Translation) -> list[str]:
    """The text of a translation, and those of its alternatives."""
    return [translation.text, *(alternative.text for alternative in translation.alternatives or ())]


def lines_in(path: Path) -> list[str]:
    """The lines of a file whose last character is a line break."""
    return path.read_bytes().decode().split("\n")[:-1]


def batched(items: Iterable[Any], size: int) -> Iterator[list[Any]]:
    """Lists of `size` items; the last one may be shorter."""
    rest = iter(items)
    while batch := list(islice(rest, size)):
        yield batch
