"""How far the cleaning of corpora is, kept beside the pairs: after a process was killed, the next one goes on there."""

import json
import os
import shutil
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from dragoman.data.filtering import CleaningReport

CLEANING = "cleaning"
"""The folder with pairs and journal, inside of the one that is prepared."""


@dataclass
class Progress:
    """What has come of the blocks that are cleaned."""

    blocks: int = 0
    size: int = 0
    """Bytes of the file of pairs."""
    report: CleaningReport = field(default_factory=CleaningReport)
    tokens: float = 0.0
    distinct: int = 0
    labels: list[str] = field(default_factory=list)
    """These three are those of `pair_file.Counts`."""
    whole: bool = False
    """Whether these are all blocks."""


class Journal:
    """The file of pairs in a folder that is being prepared, and how far it is written."""

    def __init__(self, folder: Path, origin: dict[str, Any]) -> None:
        """`origin` tells what the pairs are made from; what is there from another one is not gone on with."""
        self.folder, self.origin = folder / CLEANING, origin
        self._file = self.folder / "journal.json"

    def open(self) -> IO[bytes]:
        """The file of pairs, to be read and written."""
        self.folder.mkdir(parents=True, exist_ok=True)
        return open(os.open(self.folder / "pairs", os.O_RDWR | os.O_CREAT, 0o666), "r+b")

    def read(self) -> Progress:
        """How far the pairs are written; not at all if there are none."""
        try:
            written = json.loads(self._file.read_bytes())
        except FileNotFoundError:
            return Progress()
        if written.pop("origin") != self.origin:
            return Progress()
        report = written.pop("report")
        dropped = Counter(report.pop("dropped"))
        return Progress(report=CleaningReport(dropped=dropped, **report), **written)

    def write(self, pairs: IO[bytes], progress: Progress) -> None:
        """Put it on the disk that the pairs, up to where they are written, are those of `progress`."""
        pairs.flush()
        os.fsync(pairs.fileno())
        progress.size = pairs.tell()
        unfinished = self._file.with_suffix(".tmp")
        with open(unfinished, "w", encoding="utf-8") as file:
            json.dump({"origin": self.origin, **vars(progress), "report": vars(progress.report)}, file)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(self._file)

    def clear(self) -> None:
        """Delete the pairs, when all that follows from them is written."""
        shutil.rmtree(self.folder)
