"""Any number of sentences, translated piece by piece: what is translated stays when the command ends early."""

import json
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from dragoman.bulk.jobs import Job
from dragoman.bulk.lines import AT_ONCE, BulkTranslator
from dragoman.config.decoding import DecodingConfig
from dragoman.data.text import one_line
from dragoman.decoding.translation import Translation
from dragoman.decoding.translator import Translator
from dragoman.storage.atomic import new_file, new_folder
from dragoman.terminal import Display


class Pieces:
    """Files with the sentences, and files with the translations of each, which are there whole or not at all."""

    def __init__(self, folder: Path) -> None:
        self.sources, self.translations = folder / "sources", folder / "translations"

    def write(self, sentences: Iterable[str]) -> None:
        """Write down what is to be translated, unless that is done."""
        if not self.sources.is_dir():
            with new_folder(self.sources) as new:
                for number, piece in enumerate(batched(map(one_line, sentences), AT_ONCE)):
                    (new / f"{number:06}.txt").write_bytes("".join(f"{each}\n" for each in piece).encode())

    @property
    def jobs(self) -> list[Job]:
        return [Job(path, self.translations / path.name) for path in sorted(self.sources.iterdir())]

    def translate(
        self, load: Callable[[], Translator], config: DecodingConfig, display: Display, *, until: float | None = None
    ) -> None:
        """Translate the pieces that are not done; after `until`, a `time.monotonic`, none is begun but the first."""
        jobs = self.jobs
        todo = [job for job in jobs if not job.is_done()]
        if not todo:
            return
        with load() as translator, display.file_progress("Translating", len(jobs), unit="pieces") as advance:
            self.translations.mkdir(exist_ok=True)
            advance(len(jobs) - len(todo), 0)
            bulk = BulkTranslator(translator, config, row=_row)
            for number, job in enumerate(todo, start=len(jobs) - len(todo) + 1):
                if number > 1 and until is not None and time.monotonic() > until:
                    return
                lines = ("" if bulk.refused(line) else line for line in lines_in(job.source))
                with new_file(job.output) as file:
                    for window in bulk.windows(lines, partial(advance, 0)):
                        file.write("".join(f"{row}\n" for row, _ in window).encode("ascii"))
                advance(1, 0)
                if not display.console.is_terminal:  # where there is no bar
                    display.note(f"Translated piece {number:,} of {len(jobs):,}, of up to {AT_ONCE:,} sentences.")

    def read(self) -> Iterator[tuple[str, list[str]]]:
        """The sentences of the pieces that are done, each with its translations, best first."""
        for job in self.jobs:
            if job.is_done():
                yield from zip(lines_in(job.source), map(json.loads, lines_in(job.output)), strict=True)


def _row(translation: Translation) -> str:
    return json.dumps([each.text for each in (translation, *(translation.alternatives or ()))])


def lines_in(path: Path) -> list[str]:
    """The lines of a file that ends with one."""
    return path.read_bytes().decode().split("\n")[:-1]


def batched(items: Iterable[Any], size: int) -> Iterator[list[Any]]:
    """Lists of `size` items; the last one may be shorter."""
    rest = iter(items)
    while batch := list(islice(rest, size)):
        yield batch
