"""Whole processes that translate, as a user starts them: their time from start to end, and their memory."""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from resources import peak_memory
from table import OURS, Row, Table, number

PACKAGES = "ctranslate2", "tokenizers"
SCRIPT = Path(__file__).with_name("peers") / "ctranslate_script.py"
INTERVAL = 0.02
"""Seconds between two readings of the memory."""
TIMER = """
import json, os, sys, time
started = time.perf_counter()
process = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ)
_, status, usage = os.wait4(process, 0)
seconds = time.perf_counter() - started
print(json.dumps([seconds, usage.ru_maxrss / 1024, os.waitstatus_to_exitcode(status)]), file=sys.stderr)
"""
"""Program that runs a command and writes its seconds, its peak memory in MB and its exit code as the last line of
stderr. It is a process of its own, because Linux counts the memory of the process that starts a command, too."""


@dataclass
class Command:
    """A command that translates stdin, or what its arguments say, to stdout."""

    name: str
    setting: str
    arguments: list[str]
    stdin: Path | None = None


def start(arguments: argparse.Namespace) -> list[Table]:
    """One table, of seconds that a process takes for the first sentence of the file with beam 5."""
    table = Table("A whole process for one sentence, beam 5", "s", [], PACKAGES, times=True)
    with _folder(arguments.model) as folder:
        text = arguments.source.read_text(encoding="utf-8").split("\n")[0]
        (folder / "one.txt").write_text(f"{text}\n", encoding="utf-8")
        ours = [*_dragoman(arguments.model, beam_size=5), text]
        commands = [
            Command(OURS, "dragoman translate MODEL TEXT", ours),
            _ctranslate(arguments.model, folder, folder / "one.txt", beam_size=5),
        ]
        table.rows = [Row(command.name, command.setting, []) for command in commands]
        table.notes = [f"{command.name}: {_timed(command)[2]}" for command in commands]  # warms the caches, too
        memory: dict[str, list[float]] = {command.name: [] for command in commands}
        for _ in range(arguments.rounds):
            for command, row in zip(commands, table.rows, strict=True):
                seconds, megabytes, _ = _timed(command)
                row.values.append(seconds)
                memory[row.name].append(megabytes)
    for row in table.rows:
        row.about["peak memory, MB"] = number(statistics.median(memory[row.name]))
    return [table]


def memory(arguments: argparse.Namespace) -> list[Table]:
    """A table for greedy search and one for beam 5, of the peak memory of all processes of a command."""
    tables = []
    with _folder(arguments.model) as folder:
        for beam_size in (1, 5):
            search = "greedy" if beam_size == 1 else f"beam {beam_size}"
            table = Table(f"Peak memory of all processes, {search}", "MB", [], PACKAGES, times=True)
            ours = [*_dragoman(arguments.model, beam_size=beam_size), "--input", str(arguments.source)]
            commands = [
                Command(OURS, "dragoman translate MODEL --input FILE", ours),
                _ctranslate(arguments.model, folder, arguments.source, beam_size=beam_size),
            ]
            table.rows = [Row(command.name, command.setting, []) for command in commands]
            seconds: dict[str, list[float]] = {command.name: [] for command in commands}
            texts = {}
            for _ in range(arguments.rounds):
                for command, row in zip(commands, table.rows, strict=True):
                    started = time.perf_counter()
                    megabytes, texts[row.name] = _sampled(command, folder / "out.txt")
                    seconds[row.name].append(time.perf_counter() - started)
                    row.values.append(megabytes)
            for row in table.rows:
                row.about["s"] = number(statistics.median(seconds[row.name]))
            table.notes = [_same(texts)]
            tables.append(table)
    return tables


@contextmanager
def _folder(model: Path) -> Iterator[Path]:
    """A temporary folder with the model as CTranslate2 reads it."""
    from dragoman.storage.model_directory import ModelDirectory
    from peers.ctranslate import save
    from peers.marian import with_weights_of

    with TemporaryDirectory() as name:
        save(with_weights_of(ModelDirectory.load(model).model), Path(name))
        yield Path(name)


def _dragoman(model: Path, *, beam_size: int) -> list[str]:
    return [sys.executable, "-m", "dragoman", "translate", str(model), "--beam-size", str(beam_size)]


def _ctranslate(model: Path, folder: Path, source: Path, *, beam_size: int) -> Command:
    """The script for CTranslate2, with a worker for each core."""
    config = json.loads((model / "config.json").read_text(encoding="utf-8"))
    tokenizers = [str(model / config[f"{side}_tokenizer"]) for side in ("source", "target")]
    workers = len(os.sched_getaffinity(0))
    command = [sys.executable, str(SCRIPT), str(folder), *tokenizers, str(beam_size), str(workers)]
    return Command("CTranslate2 int8", f"{SCRIPT.name}, {workers} workers", command, source)


def _timed(command: Command) -> tuple[float, float, str]:
    """Seconds, peak memory in MB and output of a command that is one process."""
    whole = [sys.executable, "-I", "-S", "-c", TIMER, *command.arguments]
    given = command.stdin.read_text(encoding="utf-8") if command.stdin else ""
    done = subprocess.run(whole, input=given, capture_output=True, text=True, check=True)
    seconds, megabytes, code = json.loads(done.stderr.splitlines()[-1])
    if code:
        sys.exit(f"{command.name} failed: {done.stderr}")
    return seconds, megabytes, done.stdout.strip()


def _sampled(command: Command, output: Path) -> tuple[float, list[str]]:
    """Peak memory in MB of a command and its descendants, and the lines that it wrote."""
    with open(command.stdin or os.devnull, "rb") as given, output.open("wb") as written:
        process = subprocess.Popen(command.arguments, stdin=given, stdout=written, stderr=subprocess.DEVNULL)
        peak = peak_memory(process, INTERVAL)
    if process.returncode:
        sys.exit(f"{command.name} failed with code {process.returncode}: {' '.join(command.arguments)}")
    return peak, output.read_bytes().decode().removesuffix("\n").split("\n")


def _same(texts: dict[str, list[str]]) -> str:
    """How many lines of two commands are the same."""
    (first, ours), (second, others) = texts.items()
    same = sum(a == b for a, b in zip(ours, others, strict=True))
    return f"the same text from {first} and {second}: {100 * same / len(ours):.1f} %"
