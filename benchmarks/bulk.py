"""Many files translated by processes that are killed, beside one that is not; and what a large corpus takes.

    .venv/bin/python benchmarks/bulk.py kills MODEL TEXT --lines 100000 --files 20 --kills 20 [--workers 2]
    .venv/bin/python benchmarks/bulk.py kills MODEL TEXT --lines 100000 --files 20 --kills 20 --ray 2
    .venv/bin/python benchmarks/bulk.py cost --sentences 1e9 --speed 408 --hours 24 [--price 0.5] [--lost 0.1]

`kills` makes as many lines as are asked for, each of the first half of one line of TEXT and the second half of another,
so that hardly any is there twice. They are translated by one plain `dragoman translate`, file by file into a folder by
an uninterrupted run, and into another folder by a run that is ended by SIGKILL at random moments and started again.
Prints one line of JSON, and exits with 1 unless the folders have the same bytes and nothing is left behind.

`cost` prints machines, hours and, if you give the price of a machine and an hour, costs. `--speed` are the sentences
that one machine translates in a second; `--lost` is the share of its time that goes to starts, kills and waiting.
"""

import argparse
import json
import math
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import islice
from operator import eq
from pathlib import Path

ROOT = Path(__file__).parents[1]
DAYS = 24.0


def mixed(text: list[str]) -> Iterator[str]:
    """Lines without end: the first half of one and the second half of another, in another order each round."""
    halves = [(words[: len(words) // 2], words[len(words) // 2 :]) for words in map(str.split, text)]
    for shift in range(len(halves)):
        for number, (first, _) in enumerate(halves):
            yield " ".join(first + halves[(number + shift) % len(halves)][1])


def write_files(text: list[str], folder: Path, lines: int, files: int) -> None:
    """`lines` lines in `files` files of nearly equal size."""
    folder.mkdir()
    mixed_lines = mixed(text)
    for number in range(files):
        share = lines * (number + 1) // files - lines * number // files
        content = "".join(f"{line}\n" for line in islice(mixed_lines, share))
        (folder / f"{number:06}.txt").write_text(content, encoding="utf-8")


class Bulk:
    """Commands that translate the files of `in`, in a folder."""

    def __init__(self, folder: Path, given: argparse.Namespace):
        self.folder, self.given = folder, given
        self.environment = os.environ | {"PYTHONPATH": str(ROOT)}

    def command(self, output: str) -> list[str]:
        model = str(self.given.model.resolve())
        search = str(self.given.beam_size)
        if self.given.ray:
            script = [str(ROOT / "launch/ray_translate.py"), model, "in/*", output, "--actors", str(self.given.ray)]
            return [sys.executable, *script, "--set", f"beam_size={search}"]
        return [*self.translate(model, search), "--input", "in/*", "--output", f"{output}/", "--resume", "--json"]

    def translate(self, model: str, search: str) -> list[str]:
        options = ["--beam-size", search, "--workers", str(self.given.workers), "--quiet"]
        return [sys.executable, "-m", "dragoman", "translate", model, *options]

    def start(self, command: list[str]) -> subprocess.Popen:
        with open(self.folder / "log", "ab") as log:
            return subprocess.Popen(command, cwd=self.folder, env=self.environment, stdout=log, stderr=log)

    def run(self, command: list[str]) -> float:
        """Seconds of a command, which must succeed."""
        started = time.monotonic()
        if code := self.start(command).wait():
            sys.exit(f"exit code {code}: {' '.join(command)}\n{(self.folder / 'log').read_text()[-3000:]}")
        return time.monotonic() - started

    def plain(self) -> float:
        """Seconds in which one process translates the lines of all files."""
        with open(self.folder / "all.txt", "wb") as whole:
            for path in sorted((self.folder / "in").iterdir()):
                whole.write(path.read_bytes())
        files = ["--input", "all.txt", "--output", "plain.txt"]
        return self.run([*self.translate(str(self.given.model.resolve()), str(self.given.beam_size)), *files])

    def killed(self, output: str, seconds: float) -> tuple[int, float]:
        """Number of kills that a run survived, and its seconds in all. An uninterrupted run takes `seconds`."""
        dice, kills, started = random.Random(self.given.seed), 0, time.monotonic()
        for _ in range(self.given.kills):
            process = self.start(self.command(output))
            try:
                # On average these are as long together as the work, and a start-up each.
                process.wait(dice.uniform(0, 2) * seconds / self.given.kills + dice.uniform(0, self.given.start_up))
            except subprocess.TimeoutExpired:
                process.kill()
                kills += 1
            process.wait()
        self.run(self.command(output))
        return kills, time.monotonic() - started


def differences(whole: Path, killed: Path, sources: Path) -> dict[str, int]:
    """Files that are missing, differ, are too many, or have another number of lines than their source."""
    names = {path.name for path in whole.iterdir()}
    killed_names = {path.name for path in killed.iterdir()}
    both = names & killed_names
    lines = {path.name: path.read_bytes().count(b"\n") for path in sources.iterdir()}
    counted = {path.name: path.read_bytes().count(b"\n") for path in killed.iterdir()}
    return {
        "missing": len(names - killed_names),
        "too_many": len(killed_names - names),
        "different": sum((whole / name).read_bytes() != (killed / name).read_bytes() for name in both),
        "other_numbers_of_lines": sum(counted.get(name) != count for name, count in lines.items()),
    }


def kills(given: argparse.Namespace) -> int:
    """Translate plainly, unharmed and killed; print what came of it, and return the exit code."""
    text = [line for line in given.text.read_text(encoding="utf-8").split("\n") if line.strip()]
    if given.lines > len(text) ** 2:
        sys.exit(f"{given.text} has {len(text):,} lines, of which {len(text) ** 2:,} can be made; give more text.")
    folder = Path(tempfile.mkdtemp(dir=given.folder))
    bulk = Bulk(folder, given)
    try:
        write_files(text, folder / "in", given.lines, given.files)
        plain, whole = bulk.plain(), bulk.run(bulk.command("whole"))
        count, killed = bulk.killed("killed", whole)
        wrong = differences(folder / "whole", folder / "killed", folder / "in")
        same = sum(map(eq, lines_of([folder / "plain.txt"]), lines_of(sorted((folder / "whole").glob("*.txt")))))
    finally:
        shutil.rmtree(folder)
    speeds = {name: round(given.lines / seconds, 1) for name, seconds in (("plain", plain), ("whole", whole))}
    figures = {
        "engine": "ray" if given.ray else "translate",
        "lines": given.lines,
        "files": given.files,
        "kills": count,
        **wrong,
        "as_plain": same / given.lines,
    }
    figures |= {"seconds": {"plain": round(plain, 1), "whole": round(whole, 1), "killed": round(killed, 1)}}
    print(json.dumps(figures | {"sentences_per_second": speeds, "of_plain": round(plain / whole, 3)}))
    return int(any(wrong.values()))


def lines_of(files: list[Path]) -> Iterator[bytes]:
    """The lines of some files, one after another."""
    for path in files:
        with open(path, "rb") as file:
            yield from file


def cost(given: argparse.Namespace) -> int:
    """Print what a corpus takes."""
    hours = given.sentences / (given.speed * 3600) / (1 - given.lost)
    work = f"{given.sentences:,.0f} sentences / {given.speed:,g} a second / {1 - given.lost:g}"
    print(f"{work} = {hours:,.1f} machine-hours")
    print(f"{hours / DAYS:,.1f} days on one machine")
    machines = math.ceil(hours / given.hours)
    print(f"{machines:,} machines for {hours / machines:,.1f} hours, to be done in {given.hours:g}")
    if given.price is not None:
        print(f"costs {hours * given.price:,.2f} at {given.price:g} for a machine and an hour")
    return 0


def main() -> None:
    """Read the arguments and run one of the commands."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    killing = commands.add_parser("kills")
    killing.add_argument("model", type=Path)
    killing.add_argument("text", type=Path)
    killing.add_argument("--lines", type=int, default=100_000)
    killing.add_argument("--files", type=int, default=20)
    killing.add_argument("--kills", type=int, default=20)
    killing.add_argument("--workers", type=int, default=1, help="processes of a plain or bulk `translate`")
    killing.add_argument("--ray", type=int, default=0, metavar="ACTORS", help="kill launch/ray_translate.py instead")
    killing.add_argument("--beam-size", type=int, default=5)
    killing.add_argument("--start-up", type=float, default=6, help="most seconds that a kill waits for the start")
    killing.add_argument("--seed", type=int, default=7)
    killing.add_argument("--folder", type=Path, help="where files are made; default: the system's for temporary ones")
    costing = commands.add_parser("cost")
    costing.add_argument("--sentences", type=float, required=True)
    costing.add_argument("--speed", type=float, required=True, help="sentences a second on one machine")
    costing.add_argument("--hours", type=float, default=DAYS, help="until all must be done")
    costing.add_argument("--price", type=float, help="of a machine and an hour")
    costing.add_argument("--lost", type=float, default=0.0, help="share of the time, from 0 to below 1")
    given = parser.parse_args()
    sys.exit(kills(given) if given.command == "kills" else cost(given))


if __name__ == "__main__":
    main()
