"""What settings bring: runs of `dragoman train` that differ in them, scored on the validation pairs.

    .venv/bin/python benchmarks/trials.py SOURCE [TARGET] --valid SOURCE [TARGET] [--minutes 5 | --steps 1200]
        --trial "tiny: size=tiny" --trial "dropout 0: model.dropout=0" ... [--rounds 1] [key=value ...]

Each run is scored with beam search on the pairs that it validates on, so test sets stay untouched. With --minutes a run
has what it needs on this machine, alone; with --steps the same whatever else runs, and "CPU minutes" tell what that
costs. Losses of different vocabularies cannot be compared. Rounds are seeds.
"""

import argparse
import json
import resource
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from table import Row, Table, add_options, show


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pairs", nargs="+", help="one or two files, and key=value for all trials")
    parser.add_argument("--valid", type=Path, nargs="+", required=True)
    parser.add_argument("--trial", action="append", required=True, metavar="NAME: key=value ...")
    limit = parser.add_mutually_exclusive_group()
    limit.add_argument("--minutes", type=float, default=5.0, help="of a run, as --max-minutes (default 5)")
    limit.add_argument("--steps", type=int, help="of a run")
    add_options(parser, rounds=1)
    arguments = parser.parse_intermixed_args()
    rows = []
    with TemporaryDirectory() as folder:
        for number, trial in enumerate(arguments.trial):
            name, _, settings = trial.partition(":")
            row = Row(name, settings.strip(), [])
            for seed in range(1, arguments.rounds + 1):
                run(row, arguments, settings.split(), seed, Path(folder) / f"{number}-{seed}")
            rows.append(row)
        limit = f"{arguments.steps:,} steps" if arguments.steps else f"{arguments.minutes:g} minutes"
        show([Table(f"Trials of {limit}", "BLEU", rows, ("sacrebleu",))], arguments)


def run(row: Row, arguments: argparse.Namespace, settings: list[str], seed: int, output: Path) -> None:
    """One run; its score becomes a value of the row."""
    held_out = [option for name in ("--valid", "--test") for path in arguments.valid for option in (name, str(path))]
    limit = [f"training.max_steps={arguments.steps}"] if arguments.steps else ["--max-minutes", str(arguments.minutes)]
    fixed = ["--output", str(output), "--json", "--quiet", f"seed={seed}"]
    started, spent = time.monotonic(), cpu_seconds()
    command = [sys.executable, "-m", "dragoman", "train", *arguments.pairs, *held_out, *limit, *fixed, *settings]
    process = subprocess.run(command, capture_output=True, text=True)
    if process.returncode:
        sys.exit(process.stderr)
    scores = json.loads(process.stdout)
    events = [json.loads(line) for line in (output / "run/metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    losses = [event["valid_loss"] for event in events if event["event"] == "validation"]
    row.values.append(scores["bleu"])
    row.about |= {
        "chrF++": f"{scores['chrf']:.1f}",
        "validation loss": f"{losses[-1]:.3f}",
        "steps": f"{max(event['step'] for event in events):,}",
        "minutes": f"{(time.monotonic() - started) / 60:.1f}",
        "CPU minutes": f"{(cpu_seconds() - spent) / 60:.1f}",
    }


def cpu_seconds() -> float:
    """Processor seconds of all child processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
