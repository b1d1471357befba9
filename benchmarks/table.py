"""Contestants in turn, and the one table that all benchmarks print."""

import argparse
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

OURS = "Dragoman"
"""Beginning of the names of our own rows. All others are peers."""


@dataclass
class Contestant:
    """A program that is measured, in each of the settings that are tried."""

    name: str
    settings: dict[str, Callable[[], float]]
    """Function to run for each setting, by its name. It returns a rate, or the time that it took."""
    about: dict[str, str] = field(default_factory=dict)
    """Texts of further columns, by their headings."""


@dataclass
class Row:
    """Measured values of a contestant."""

    name: str
    setting: str
    values: list[float]
    tried: dict[str, float] = field(default_factory=dict)
    """One value of each setting, from the trial."""
    about: dict[str, str] = field(default_factory=dict)

    @property
    def median(self) -> float:
        return statistics.median(self.values)


@dataclass
class Table:
    """The rows of one comparison; the largest value is the best, or the smallest if they are `times`."""

    title: str
    unit: str
    rows: list[Row]
    packages: Sequence[str] = ()
    """Packages whose versions are printed below the table."""
    notes: list[str] = field(default_factory=list)
    times: bool = False
    machine: str = field(default_factory=lambda: machine())
    """Processor, cores, threads and load at the time of the measurement."""

    @property
    def best_peer(self) -> float | None:
        """The best median of the peers; None if there are none."""
        medians = [row.median for row in self.rows if not row.name.startswith(OURS)]
        return (min if self.times else max)(medians, default=None)

    def to_dict(self) -> dict:
        """The table as content of JSON."""
        rows = [asdict(row) | {"median": row.median, "ratio": self.ratio(row)} for row in self.rows]
        content = {"title": self.title, "unit": self.unit, "rows": rows, "notes": self.notes}
        return content | {"machine": self.machine, "versions": self._versions()}

    def __str__(self) -> str:
        columns = ["setting", self.unit, "lowest to highest", *(["of the best peer"] if self.best_peer else [])]
        columns += dict.fromkeys(heading for row in self.rows for heading in row.about)
        lines = [["", *columns], ["---", "---", *("---:" for _ in columns[1:])]]
        for row in sorted(self.rows, key=lambda row: row.median, reverse=not self.times):
            spread = f"{number(min(row.values))} to {number(max(row.values))}"
            cells = {"setting": row.setting, self.unit: number(row.median), "lowest to highest": spread} | row.about
            if self.best_peer:
                cells["of the best peer"] = f"{self.ratio(row):.2f}"
            lines.append([row.name, *(cells.get(column, "") for column in columns)])
        return "\n".join([self.title, "", *(f"| {' | '.join(line)} |" for line in lines), "", *self._below(), ""])

    def ratio(self, row: Row, beside: str | None = None) -> float | None:
        """The median of a row divided by that of the peer `beside`, by default the best; None without peers."""
        if beside is None:
            return row.median / self.best_peer if self.best_peer else None
        return row.median / next(peer.median for peer in self.rows if peer.name == beside)

    def falls_short(self, goal: float, beside: str | None) -> bool:
        """Whether our best row is less than `goal` times as fast as a peer, or takes more than `goal` times as long."""
        ratios = [self.ratio(row, beside) for row in self.rows if row.name.startswith(OURS)]
        return min(ratios) > goal if self.times else max(ratios) < goal

    def _below(self) -> list[str]:
        tried = [
            f"{row.name} was tried with " + ", ".join(f"{name} {number(value)}" for name, value in row.tried.items())
            for row in self.rows
            if len(row.tried) > 1
        ]
        versions = ", ".join(map(" ".join, self._versions().items()))
        return [*self.notes, *tried, f"{self.machine}; {versions}"]

    def _versions(self) -> dict[str, str]:
        return {name: release for name in ("torch", *self.packages) if (release := installed(name))}


def tournament(contestants: list[Contestant], rounds: int) -> list[Row]:
    """Each contestant at its best setting, one after the other, round by round."""
    rows = [trial(contestant) for contestant in contestants]
    play(contestants, rows, rounds)
    return rows


def trial(contestant: Contestant, *, warm: bool = True) -> Row:
    """A row without values yet, at the setting of the highest rate; unless `warm`, nothing runs twice."""
    tried = {}
    for name, run in contestant.settings.items():
        tried[name] = run()
        if warm and len(contestant.settings) > 1:
            tried[name] = run()
    return Row(contestant.name, max(tried, key=tried.get), [], tried, contestant.about)


def play(contestants: list[Contestant], rows: list[Row], rounds: int) -> None:
    """Add a value to each row in each round."""
    for _ in range(rounds):
        for contestant, row in zip(contestants, rows, strict=True):
            row.values.append(contestant.settings[row.setting]())


def rate(action: Callable[[], int]) -> float:
    """Rate a second of an `action` that returns how much it did."""
    started = time.perf_counter()
    count = action()
    return count / (time.perf_counter() - started)


def number(value: float) -> str:
    """A number with three digits at least."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def precisions() -> list[str]:
    """Precisions to try: float32, and bfloat16 where the CPU multiplies it; elsewhere it takes ten times as long."""
    import torch

    from dragoman.system.device import choose_precision

    auto = str(choose_precision("auto", torch.device("cpu"))).removeprefix("torch.")
    return list(dict.fromkeys(("float32", auto)))


def installed(package: str) -> str | None:
    """Version of an installed package; None if it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def machine() -> str:
    """The processor, the cores that may be used, PyTorch's threads, and how many processes want to run."""
    import torch

    file = Path("/proc/cpuinfo")
    lines = file.read_text(encoding="utf-8").splitlines() if file.is_file() else []
    processor = dict(map(str.strip, line.split(":", 1)) for line in lines if ":" in line)
    name = processor.get("model name") or platform.processor() or platform.machine()
    family = f" (family {processor['cpu family']}, model {processor['model']})" if "cpu family" in processor else ""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    load = f"load {os.getloadavg()[0]:.1f} at the start"
    return f"{name}{family}, {cores} cores, {torch.get_num_threads()} threads, {load}"


def training_parser(description: str) -> argparse.ArgumentParser:
    """A parser for commands that train a model of each size: two files, settings and sizes."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source")
    parser.add_argument("target")
    parser.add_argument("settings", nargs="*", help="key=value, as for `dragoman train`")
    parser.add_argument("--size", action="append", choices=("tiny", "small", "base"), help="repeatable; default tiny")
    return parser


def add_options(parser: argparse.ArgumentParser, *, rounds: int = 5) -> None:
    """Add the options that all commands have."""
    parser.add_argument("--rounds", type=int, default=rounds, help=f"(default {rounds})")
    parser.add_argument("--json", action="store_true", help="print figures instead of tables")
    goal = (
        "exit with 1 unless Dragoman is so many times as fast as a peer (of times: takes at most so many times as long)"
    )
    parser.add_argument("--goal", type=float, metavar="RATIO", help=goal)
    parser.add_argument("--beside", metavar="PEER", help="the peer of --goal, as tables call it (default the best)")


def show(tables: list[Table], arguments: argparse.Namespace) -> None:
    """Print tables, as JSON in one list, and exit with 1 if one falls short of the goal."""
    text = json.dumps([t.to_dict() for t in tables]) if arguments.json else "\n\n".join(map(str, tables))
    print(text)
    if arguments.goal is not None and any(t.falls_short(arguments.goal, arguments.beside) for t in tables):
        sys.exit(f"Dragoman falls short of {arguments.goal:g} times {arguments.beside or 'the best peer'}.")
