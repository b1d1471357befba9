"""Journal of the cleaning of corpora, kept beside the pairs: if the process is killed, the next one goes on from it."""

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
"""Bytes that are read at a time for a checksum."""
CLEANING = "cleaning"
"""Name of the folder with pairs and journal, inside of the one that is prepared."""


@dataclass
class CleaningProgress:
    """Results of the blocks that are cleaned so far."""

    blocks: int = 0
    """Number of these blocks."""
    size: int = 0
    """Bytes that they take in the file of pairs."""
    report: CleaningReport = field(default_factory=CleaningReport)
    tokens: float = 0.0
    """As in `pair_file.Counts`."""
    distinct: int = 0
    """As in `pair_file.Counts`."""
    labels: list[str] = field(default_factory=list)
    """As in `pair_file.Counts`."""
    whole: bool = False
    """Whether these are all blocks."""
    sha256: str = hashlib.sha256().hexdigest()
    """Checksum of the first `size` bytes of the file of pairs."""


class Journal:
    """The file of pairs in a folder that is being prepared, and a record of how far it is written.

    `origin` describes the files and settings that the pairs are made from. Pairs of another origin are discarded.
    """

    def __init__(self, folder: Path, origin: dict[str, Any]) -> None:
        self.folder = folder / CLEANING
        self.origin = origin
        self._record = self.folder / "journal.json"
        self._reset_digest()

    def open(self) -> IO[bytes]:
        """The file of pairs, to be read and written."""
        self.folder.mkdir(parents=True, exist_ok=True)
        flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0)
        return open(os.open(self.folder / "pairs", flags, 0o666), "r+b")

    def read(self) -> CleaningProgress:
        """The progress that was recorded, or none if the origin is another one or the pairs are not as recorded."""
        try:
            origin, progress = read_sealed(self._record, into=_from_json)
            with self.open() as pairs:
                digest = self._digest_of(pairs, progress.size)
        except DataError:
            return CleaningProgress()
        if origin == self.origin and digest == progress.sha256:
            return progress
        self._reset_digest()
        return CleaningProgress()

    def write(self, pairs: IO[bytes], progress: CleaningProgress) -> None:
        """Record, once the pairs are on the disk, that all bytes of their file up to here belong to `progress`."""
        pairs.flush()
        os.fsync(pairs.fileno())
        progress.size = pairs.tell()
        progress.sha256 = self._digest_of(pairs, progress.size)
        pairs.seek(progress.size)
        write_sealed(self._record, {"origin": self.origin, **vars(progress), "report": vars(progress.report)})

    def _digest_of(self, pairs: IO[bytes], size: int) -> str:
        """The SHA-256 of the first `size` bytes of the pairs. Bytes that it has already are not read again."""
        if size < self._digested:
            self._reset_digest()
        pairs.seek(self._digested)
        while self._digested < size and (part := pairs.read(min(AT_ONCE, size - self._digested))):
            self._digest.update(part)
            self._digested += len(part)
        return self._digest.hexdigest()

    def _reset_digest(self) -> None:
        self._digest = hashlib.sha256()
        self._digested = 0

    def clear(self) -> None:
        """Delete pairs and record. Called when everything that is made from them is written."""
        shutil.rmtree(self.folder)


def _from_json(record: dict[str, Any]) -> tuple[dict[str, Any], CleaningProgress]:
    """The origin and the progress in a record."""
    origin, report = record.pop("origin"), record.pop("report")
    dropped = Counter(report.pop("dropped"))
    return origin, CleaningProgress(report=CleaningReport(dropped=dropped, **report), **record)
