"""The real pairs of a run as files: pairs to train on, and held-out pairs, which no model changes."""

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
from dragoman.evaluation.agreement import best_pairs
from dragoman.runs.plan import describe_respelled, plan_run
from dragoman.runs.synthetic.request import ANEW, SyntheticRunRequest
from dragoman.system.atomic import new_file, new_folder
from dragoman.system.seals import mark_of, read_sealed, write_sealed

ABOUT = "about.json"
"""Name of the file with facts on the real pairs."""
HELD_OUT = ("valid", "test")
PARTS = ("train", *HELD_OUT)
LONGEST_NAME = 40
"""Most characters of the joined names of all corpora in a file name, which may have 255 bytes."""


@dataclass(frozen=True)
class RealPairs:
    """Cleaned pairs, split once into files of pairs to train, validate and test on."""

    folder: Path
    name: str
    """Joined name of the corpora, cut off to `LONGEST_NAME` characters, with which the names of the files begin."""
    count: int
    """Number of pairs to train on, each counted as often as it occurs in an epoch."""
    languages: tuple[str, str] | None
    notes: list[str]
    """A sentence on the origin of the test pairs; none if the user gave them."""

    def file(self, part: str) -> Path:
        """File with the pairs of one of the `PARTS`."""
        return self.folder / _file_name(self.name, part)

    @property
    def train(self) -> Path:
        """File with the pairs to train on."""
        return self.file("train")

    def held_out(self) -> Iterator[Pair]:
        """The pairs to validate and to test on."""
        for part in HELD_OUT:
            yield from read_pairs(self.file(part))

    def settings(self, corpora: dict[Path, float], *, reverse: bool = False) -> Settings:
        """Settings of a run on files of pairs with these weights, which is scored on the held-out real pairs.

        With `reverse`, it translates from target to source.
        """
        columns = ["target", "source"] if reverse else None
        data: dict[str, Any] = {
            "source": None,
            "target": None,
            "columns": columns,
            "languages": self.languages[::-1] if reverse and self.languages else self.languages,
            # Pairs with a weight are repeated on purpose, and models have chosen among the pairs already.
            "cleaning": {"drop_repeated": False, "models": None, "keep": CleaningConfig().keep},
            "corpora": [
                {"source": str(path), "columns": columns, "weight": weight} for path, weight in corpora.items()
            ],
            "temperature": None,  # the real pairs are mixed already
            "share": 1.0,  # and those of the share are chosen
            "split": "sentence",  # they are split, too
        }
        for part in HELD_OUT:
            data[part] = [str(self.file(part))]
        return {"data": data}


def real_pairs(request: SyntheticRunRequest, folder: Path, tell: Callable[[str], None]) -> RealPairs:
    """Clean and split the requested pairs into files in `folder`, unless that is done; returns them.

    `tell` is called with the number of pairs scored so far, if models choose among them.
    """
    if not folder.is_dir():
        _write_real_pairs(request, folder, tell)
    about = read_sealed(folder / ABOUT, into=dict, remedy=ANEW)
    languages = tuple(about["languages"]) if about["languages"] else None
    real = RealPairs(folder, about["name"], about["count"], languages, notes=about["told"])
    for part in PARTS:
        check_pairs(real.file(part))
    return real


def _write_real_pairs(request: SyntheticRunRequest, folder: Path, tell: Callable[[str], None]) -> None:
    config, pairs = plan_run(request.paths, recipe=request.recipe, settings=request.settings, near=folder)
    if pairs.counts.labels:
        raise UsageError(
            "Models make pairs for one pair of languages, without data.language_column or corpora of several; give the "
            "pairs of one target language alone."
        )
    pairs = best_pairs(pairs, config, near=folder.parent, tell=tell)
    name = pairs.name[:LONGEST_NAME]
    notes = describe_respelled(record.to_dict() for record in pairs.counts.respelled)
    if not config.data.held_out_files("test"):
        unit = "line" if config.data.split == "line" else "source sentence"
        near = ", without training on pairs that are nearly the same" if config.data.split == "groups" else ""
        notes.append(f"Tested on pairs held out of {pairs.name} by {unit}{near}.")
    with new_folder(folder) as new:
        counts = {}
        for part, bitext in zip(PARTS, split_off(pairs, config), strict=True):
            counts[part] = write_pairs(new / _file_name(name, part), bitext)
        about = {"name": name, "count": counts["train"], "languages": pairs.languages, "told": notes}
        write_sealed(new / ABOUT, about)


def _file_name(name: str, part: str) -> str:
    return f"{name}.{part}.jsonl"


def write_pairs(path: Path, pairs: Iterable[Pair]) -> int:
    """Write pairs, one JSON object a line, whole or not at all, and their mark beside them; returns their number."""
    count = 0
    with new_file(path) as file:
        for source, target in pairs:
            count += 1
            file.write(f"{json.dumps({'source': source, 'target': target})}\n".encode("ascii"))
    write_sealed(_mark(path), mark_of(path))
    return count


def are_made(path: Path) -> bool:
    """Whether `write_pairs` has written this file. Raises `DataError` if its content is not what was written."""
    if not _mark(path).is_file():
        return False
    check_pairs(path)
    return True


def check_pairs(path: Path) -> None:
    """Raise `DataError` unless a file of pairs is as `write_pairs` wrote it."""
    mark = read_sealed(_mark(path), remedy=ANEW)
    if not path.is_file() or mark_of(path) != mark:
        raise DataError(f"{path} is damaged (it is not what was written); {ANEW}.")


def _mark(path: Path) -> Path:
    return path.with_name(f"{path.name}.mark")


def read_pairs(path: Path) -> Iterator[Pair]:
    """The pairs of a file that `write_pairs` wrote."""
    with open(path, encoding="ascii") as file:
        for line in file:
            record: dict[str, Any] = json.loads(line)
            yield record["source"], record["target"]
