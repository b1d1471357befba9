"""Plans the translation of files into a folder: finds the files, takes a shard of them, and tells which are done."""

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from glob import glob
from pathlib import Path

from dragoman.errors import DataError, UsageError
from dragoman.formats.text_files import open_input, unpacking_errors
from dragoman.system.atomic import check_output, real_path

CHUNK = 1 << 20
"""Bytes that are read at once to count lines."""
PATTERN = re.compile(r"[*?[]")
"""Characters that make a name a pattern of names."""


@dataclass(frozen=True)
class Job:
    """A file to translate, and the file of its translations."""

    source: Path
    output: Path

    @property
    def rejected(self) -> Path:
        """The file that lists the lines which cannot be translated; only written if there are some."""
        return self.output.with_name(f"{self.output.name}.rejected.tsv")

    def is_done(self) -> bool:
        """Whether the output is there and has as many lines as the source."""
        try:
            return self.output.is_file() and count_lines(self.output) == count_lines(self.source)
        except (DataError, *unpacking_errors()):
            return False  # translating it anew tells what is wrong


def plan(inputs: Sequence[str], folder: Path, *, read: Sequence[Path | None] = ()) -> list[Job]:
    """A job for each file that is named or matches a pattern, sorted by path. Other files are `read` meanwhile.

    Raises `DataError` if one cannot be read, and `UsageError` if an output cannot be written, or would replace an input
    or another output.
    """
    paths = sorted({path for pattern in inputs for path in _matching(pattern)}, key=str)
    jobs = [Job(path, folder / path.name) for path in paths]
    taken: dict[str, Path] = {}
    for parent in {path.parent for path in paths}:
        if real_path(parent).is_relative_to(real_path(folder)):
            raise UsageError(f"Files in {parent} are read, which lies in {folder}; choose another folder as --output.")
    sources = {real_path(path) for path in paths}
    for job in jobs:
        for output in (job.output, job.rejected):
            if real_path(output) in sources:
                raise UsageError(f"{output} is read and cannot be written at the same time; choose another --output.")
            if folder.is_dir():
                check_output(output, read=read)
            first_source = taken.setdefault(output.name, job.source)
            if first_source != job.source:
                raise UsageError(
                    f"{first_source} and {job.source} would both write {output}; translate them into different folders."
                )
    for pattern in inputs:
        top, is_recursive, _ = pattern.partition("**")
        # Translations that are written there now would be read the next time.
        if is_recursive and real_path(folder).is_relative_to(real_path(Path(top))):
            raise UsageError(f"{folder} lies where '{pattern}' looks for files; choose another folder as --output.")
    return jobs


def shard_of(jobs: list[Job], shard: str | None) -> list[Job]:
    """The jobs of shard K of N, given as K/N: every N-th one, from the K-th on."""
    if shard is None:
        return jobs
    match = re.fullmatch(r"(\d{1,9})/(\d{1,9})", shard)
    number, count = (int(match[1]), int(match[2])) if match else (0, 0)
    if not 1 <= number <= count:
        raise UsageError(f"--shard is {shard}; write K/N, such as 1/8 for the first of eight shards, up to 8/8.")
    return jobs[number - 1 :: count]


def count_lines(path: Path) -> int:
    """Lines of a file, unpacked; the last one may lack its end."""
    count, last = 0, b"\n"
    with open_input(path) as stream:
        while chunk := stream.read(CHUNK):
            count, last = count + chunk.count(b"\n"), chunk
    return count + (not last.endswith(b"\n"))


def _matching(pattern: str) -> Iterator[Path]:
    """The file of this name, or else the files that match it as a pattern."""
    path = Path(pattern)
    # os.path answers False where pathlib raises, such as for a name that is too long.
    if os.path.exists(path) or not PATTERN.search(pattern):
        if os.path.exists(path) and not os.path.isfile(path):
            raise UsageError(f"{path} is no file; name files, or give a pattern such as '{path}/*'.")
        open_input(path).close()
        yield path
        return
    paths = [path for path in map(Path, glob(pattern, recursive=True)) if path.is_file()]
    if not paths:
        raise DataError(f"No file matches '{pattern}'; check the pattern.")
    yield from paths
