"""How far the cleaning of corpora is, kept beside the pairs: after a process was killed, the next one goes on there."""

import hashlib
import os
import shutil
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from dragoman.data.filtering import CleaningReport
from dragoman.errors import DataError
from dragoman.system.seals import read_sealed, write_sealed

AT_ONCE = 1 << 20
"""Bytes that are read at a time."""
CLEANING = "cleaning"
"""The folder with pairs and journal, inside of the one that is prepared."""


@dataclass
class CleaningProgress:
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
    sha256: str = hashlib.sha256().hexdigest()
    """Checksum of the bytes that are written to the file of pairs."""


class Journal:
    """The file of pairs in a folder that is being prepared, and how far it is written."""

    def __init__(self, folder: Path, origin: dict[str, Any]) -> None:
        """`origin` tells what the pairs are made from; what is there from another one is not gone on with."""
        self.folder, self.origin = folder / CLEANING, origin
        self._file = self.folder / "journal.json"
        self._digest, self._digested = hashlib.sha256(), 0

    def open(self) -> IO[bytes]:
        """The file of pairs, to be read and written."""
        self.folder.mkdir(parents=True, exist_ok=True)
        return open(os.open(self.folder / "pairs", os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o666), "r+b")

    def read(self) -> CleaningProgress:
        """How far the pairs are written; not at all if there are none, or if they are not what was written."""
        try:
            origin, progress = read_sealed(self._file, into=_progress)
            with self.open() as pairs:
                digest = self._digest_of(pairs, progress.size)
        except DataError:
            return CleaningProgress()
        if origin == self.origin and digest == progress.sha256:
            return progress
        self._digest, self._digested = hashlib.sha256(), 0
        return CleaningProgress()

    def write(self, pairs: IO[bytes], progress: CleaningProgress) -> None:
        """Put it on the disk that the pairs, up to where they are written, are those of `progress`."""
        pairs.flush()
        os.fsync(pairs.fileno())
        progress.size = pairs.tell()
        progress.sha256 = self._digest_of(pairs, progress.size)
        pairs.seek(progress.size)
        write_sealed(self._file, {"origin": self.origin, **vars(progress), "report": vars(progress.report)})

    def _digest_of(self, pairs: IO[bytes], size: int) -> str:
        """The SHA-256 of the first bytes of the pairs; what it is told of already is not read again."""
        if size < self._digested:
            self._digest, self._digested = hashlib.sha256(), 0
        pairs.seek(self._digested)
        while self._digested < size and (part := pairs.read(min(AT_ONCE, size - self._digested))):
            self._digest.update(part)
            self._digested += len(part)
        return self._digest.hexdigest()

    def clear(self) -> None:
        """Delete the pairs, when all that follows from them is written."""
        shutil.rmtree(self.folder)


def _progress(written: dict[str, Any]) -> tuple[dict[str, Any], CleaningProgress]:
    """The origin of the pairs, and how far they are written, as JSON says it."""
    origin, report = written.pop("origin"), written.pop("report")
    dropped = Counter(report.pop("dropped"))
    return origin, CleaningProgress(report=CleaningReport(dropped=dropped, **report), **written)
