"""Training speed of whole toolkits: `dragoman train` beside Joey NMT and eole, each started as its users start it.

    .venv/bin/python benchmarks/toolkits.py SOURCE TARGET [--size tiny] [--pairs 4000] [--rounds 3] [key=value ...]

Each runs in a process and an environment of its own, one after the other, round by round: two passes over the same
pairs, cut into the same 8,000 shared BPE tokens, in batches of 4,096 tokens (target tokens for Dragoman, those of the
longer side for the others), with dropout 0.1, label smoothing 0.1, Adam, no validation. Tokens are source and target
tokens without padding, by each one's own log of the second pass; "whole run" are those of both passes by the clock,
with start and end. eole is tried in float32 and bfloat16. Who cannot be installed or run is left out, and it says why.
"""

import argparse
import statistics
from collections.abc import Callable
from functools import partial
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory

import environment
from corpus import prepared
from dragoman.data.bitext import Bitext
from peers.toolkits import TOOLKITS, Files, Run, ToolkitFailed, dragoman, write_files, write_texts
from table import OURS, Contestant, Table, add_options, number, play, show, training_parser, trial


def main() -> None:
    parser = training_parser(__doc__)
    parser.add_argument("--pairs", type=int, default=4000, help="of a pass (default 4,000)")
    add_options(parser, rounds=3)
    arguments = parser.parse_intermixed_args()
    show([measure(size, arguments) for size in arguments.size or ["tiny"]], arguments)


def measure(size: str, arguments: argparse.Namespace) -> Table:
    """The table of one size."""
    table = Table(f"Training with whole toolkits, {size}", "tokens/s", [])
    pairs = list(islice(Bitext.open(arguments.source, arguments.target), arguments.pairs))
    with TemporaryDirectory() as name:
        texts = write_texts(Path(name), pairs)
        with prepared(*texts, size=size, settings=arguments.settings) as corpus:
            files = write_files(Path(name), texts, corpus)
        walls: dict[str, list[float]] = {}
        taking_part = []
        for contestant in _contestants(files, corpus.settings, walls):
            try:
                table.rows.append(trial(contestant, warm=False))
                taking_part.append(contestant)
            except (environment.Unavailable, ToolkitFailed) as error:
                table.notes.append(f"{contestant.name} is left out: {error}")
        walls.clear()
        play(taking_part, table.rows, arguments.rounds)
        for row in table.rows:
            row.about["whole run"] = number(statistics.median(walls[row.name]))
    return table


def _contestants(files: Files, settings: list[str], walls: dict[str, list[float]]) -> list[Contestant]:
    """Ours and the toolkits; each run adds its rate by the clock to `walls`."""

    def of(name: str, run: Callable[[], Run]) -> Callable[[], float]:
        def rate() -> float:
            result = run()
            walls.setdefault(name, []).append(result.wall)
            return result.rate

        return rate

    contestants = [Contestant(OURS, {"as by default": of(OURS, lambda: dragoman(files, settings))})]
    for name, runs in TOOLKITS.items():
        timed = {setting: of(name, partial(run, files)) for setting, run in runs.items()}
        contestants.append(Contestant(name, timed))
    return contestants


if __name__ == "__main__":
    main()
