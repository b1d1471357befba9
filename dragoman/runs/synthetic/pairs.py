"""The real pairs of a run in files: those to train on, and those that are held out, which no model changes."""

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dragoman.config.data import CleaningConfig
from dragoman.config.settings import Settings
from dragoman.data.preparation import split_off
from dragoman.data.readers.types import Pair
from dragoman.errors import DataError, UsageError
from dragoman.evaluation.agreement import keep_best
from dragoman.runs.plan import plan_run
from dragoman.runs.synthetic.request import ANEW, SyntheticRunRequest
from dragoman.system.atomic import new_file, new_folder
from dragoman.system.seals import mark_of, read_sealed, write_sealed

ABOUT, PARTS = "about.json", ("train", "valid", "test")
LONGEST_NAME = 40
"""Characters of the names of all corpora together in the names of files, which have at most 255 bytes."""


@dataclass(frozen=True)
class RealPairs:
    """Cleaned pairs, split once."""

    folder: Path
    name: str
    """The name of the corpora together, which the pairs to train on have, too."""
    count: int
    """Number of the pairs to train on, each counted as often as it occurs in an epoch."""
    languages: tuple[str, str] | None
    told: list[str]
    """A sentence on the origin of the test pairs, unless they are given."""

    @property
    def train(self) -> Path:
        return self.folder / f"{self.name}.train.jsonl"

    def held_out(self) -> Iterator[Pair]:
        """The pairs to validate and to test on."""
        for name in PARTS[1:]:
            yield from read_pairs(self.folder / f"{self.name}.{name}.jsonl")

    def settings(self, corpora: dict[Path, float], *, reverse: bool = False) -> Settings:
        """The settings of a run on files of pairs with these weights, scored on the real pairs that are held out."""
        columns = ["target", "source"] if reverse else None
        languages = self.languages[::-1] if reverse and self.languages else self.languages
        # Those with a weight are repeated on purpose, and models have chosen among them already.
        cleaning = {"drop_repeated": False, "models": None, "keep": CleaningConfig().keep}
        data = {"source": None, "target": None, "columns": columns, "languages": languages, "cleaning": cleaning}
        data |= {part: [str(self.folder / f"{self.name}.{part}.jsonl")] for part in PARTS[1:]}
        data["corpora"] = [{"source": str(path), "columns": columns, "weight": w} for path, w in corpora.items()]
        data["temperature"] = None  # the real pairs are mixed already
        return {"data": data}


def real_pairs(asked: SyntheticRunRequest, folder: Path, tell: Callable[[str], None]) -> RealPairs:
    """Clean and split the pairs that were asked for into files in `folder`, unless that is done.

    `tell` is told how many are scored, if models choose among them.
    """
    if not folder.is_dir():
        config, pairs = plan_run(asked.paths, recipe=asked.recipe, settings=asked.settings, near=folder)
        if pairs.counts.labels:
            raise UsageError("These pairs have several target languages; give those of one.")
        if config.data.cleaning.models:
            pairs = keep_best(pairs, config, near=folder.parent, tell=tell)
        unit = "source sentence" if config.data.split == "sentence" else "line"
        with new_folder(folder) as new:
            counts = {
                part: write_pairs(new / f"{pairs.name[:LONGEST_NAME]}.{part}.jsonl", bitext)
                for part, bitext in zip(PARTS, split_off(pairs, config), strict=True)
            }
            about = {"name": pairs.name[:LONGEST_NAME], "count": counts["train"], "languages": pairs.languages}
            told = f"Tested on pairs held out of {pairs.name} by {unit}."
            about["told"] = [] if config.data.held_out_files("test") else [told]
            write_sealed(new / ABOUT, about)
    about = read_sealed(folder / ABOUT, into=dict, remedy=ANEW)
    real = RealPairs(folder, **about | {"languages": about["languages"] and tuple(about["languages"])})
    for part in PARTS:
        check_pairs(folder / f"{real.name}.{part}.jsonl")
    return real


def write_pairs(path: Path, pairs: Iterable[Pair]) -> int:
    """Write pairs as JSON, one on each line, whole or not at all, and a mark of them; returns how many."""
    count = 0
    with new_file(path) as file:
        for source, target in pairs:
            count += 1
            file.write(f"{json.dumps({'source': source, 'target': target})}\n".encode("ascii"))
    write_sealed(_mark(path), mark_of(path))
    return count


def are_made(path: Path) -> bool:
    """Whether `write_pairs` has written these pairs. Raises `DataError` if they are not what was written."""
    if not _mark(path).is_file():
        return False
    check_pairs(path)
    return True


def check_pairs(path: Path) -> None:
    """Raise `DataError` unless pairs are what `write_pairs` wrote."""
    mark = read_sealed(_mark(path), remedy=ANEW)
    if not path.is_file() or mark_of(path) != mark:
        raise DataError(f"{path} is damaged (it is not what was written); {ANEW}.")


def _mark(path: Path) -> Path:
    return path.with_name(f"{path.name}.mark")


def read_pairs(path: Path) -> Iterator[Pair]:
    """The pairs that `write_pairs` wrote."""
    with open(path, encoding="ascii") as file:
        for line in file:
            record: dict[str, Any] = json.loads(line)
            yield record["source"], record["target"]
