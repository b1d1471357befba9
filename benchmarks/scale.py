"""How cost grows with the corpus, the vocabulary, the length of sentences, the model and the processes.

    .venv/bin/python benchmarks/scale.py SOURCE TARGET MODEL [--of corpus vocabulary length model workers] [--rounds 3]

Each is measured at three sizes or more, the rest as by default (tiny, 8,000 tokens); a power of the size is fitted to
the medians, and taken as far as WMT14 English-German (4.5 million pairs, 37,000 tokens, the size base; a pass) and a
billion sentences to translate with MODEL, on this machine. `corpus` prepares the first pairs of SOURCE and
TARGET; `length` joins 1, 4 and 16 pairs to one; `workers` translates the first 1,000 sentences of SOURCE with beam 5.
"""

import argparse
import math
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import environment
from table import OURS, Contestant, Table, add_options, number, rate, show, tournament

PAIRS, VOCABULARY, TOKENS_A_SIDE = 4_500_000, 37_000, 28
"""WMT14 English-German as the paper has it; the tokens of a sentence are an estimate."""
SENTENCES = 1_000_000_000


@dataclass(frozen=True)
class Growth:
    """A cost that is a power of a size."""

    factor: float
    exponent: float

    @classmethod
    def of(cls, costs: dict[float, float]) -> "Growth":
        """The line through the logarithms that leaves the smallest squares."""
        x, y = [math.log(size) for size in costs], [math.log(cost) for cost in costs.values()]
        mean_x, mean_y = sum(x) / len(x), sum(y) / len(y)
        slope = sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y, strict=True)) / sum((a - mean_x) ** 2 for a in x)
        return cls(math.exp(mean_y - slope * mean_x), slope)

    def at(self, size: float) -> float:
        """The cost of a size that was not measured."""
        return self.factor * size**self.exponent


@dataclass
class Axis:
    """A size that grows, and the measurement of its cost."""

    unit: str
    """Unit of the cost."""
    sizes: Callable[[argparse.Namespace, Path, ExitStack], Iterator[tuple[float, str, Callable[[], float]]]]
    """Each size, its name, and what measures its cost."""


def corpus(arguments: argparse.Namespace, folder: Path, _: ExitStack) -> Iterator:
    """Quarters, halves and all of the pairs, each prepared in a process of its own."""
    texts = [_lines(path) for path in (arguments.source, arguments.target)]
    for count in (len(texts[0]) // 4, len(texts[0]) // 2, len(texts[0])):
        paths = [_written(folder / f"{count}-{side}", lines[:count]) for side, lines in enumerate(texts)]
        yield count, f"{count:,} pairs", partial(_seconds_to_prepare, paths, arguments.settings)


def vocabulary(arguments: argparse.Namespace, folder: Path, opened: ExitStack) -> Iterator:
    """Steps with ever more tokens in the softmax."""
    for size in arguments.vocabularies:
        yield size, f"{size:,} tokens", _training(arguments, opened, settings=[f"tokenizer.vocab_size={size}"])


def length(arguments: argparse.Namespace, folder: Path, opened: ExitStack) -> Iterator:
    """Steps with sentences of 1, 4 and 16 times the length."""
    texts = [_lines(path) for path in (arguments.source, arguments.target)]
    for times in (1, 4, 16):
        joined = [[" ".join(lines[i : i + times]) for i in range(0, len(lines), times)] for lines in texts]
        paths = [_written(folder / f"{times}-{side}", lines) for side, lines in enumerate(joined)]
        run = _training(arguments, opened, paths=paths, settings=["data.max_length=4096", "data.held_out=5"])
        yield times, f"{times} times the length", run


def model(arguments: argparse.Namespace, folder: Path, opened: ExitStack) -> Iterator:
    """Steps of the presets, by weights."""
    from dragoman.model import Transformer, TransformerConfig
    from steps import weights

    for size in ("tiny", "small", "base"):
        ids = {"source_vocab_size": 8000, "target_vocab_size": 8000, "share_embeddings": True}
        count = weights(Transformer(TransformerConfig.preset(size, **ids)))
        yield count, f"{size}, {count:,} weights", _training(arguments, opened, size=size)


def workers(arguments: argparse.Namespace, folder: Path, opened: ExitStack) -> Iterator:
    """Beam search in more and more processes, three at least."""
    from dragoman.decoding.translator import Translator
    from dragoman.system.processes import available_workers

    sentences = _lines(arguments.source)[: arguments.sentences]
    cores = available_workers()
    for count in sorted({1, 2, 3, max(1, cores // 2), cores}):
        translator = opened.enter_context(Translator.load(arguments.model, precision="auto", workers=count))
        run = partial(_milliseconds, lambda t=translator: len(t.translate(sentences)))
        yield count, f"{count} process{'es' * (count > 1)}", run


AXES = {
    "corpus": Axis("seconds", corpus),
    "vocabulary": Axis("ms for 1,000 tokens", vocabulary),
    "length": Axis("ms for 1,000 tokens", length),
    "model": Axis("ms for 1,000 tokens", model),
    "workers": Axis("ms a sentence", workers),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("model", type=Path, help="what `workers` translates with")
    parser.add_argument("settings", nargs="*", help="key=value, as for `dragoman train`")
    parser.add_argument("--of", nargs="+", choices=AXES, default=list(AXES), help="(default all)")
    parser.add_argument("--steps", type=int, default=10, help="of training, in a round (default 10)")
    parser.add_argument("--sentences", type=int, default=1000, help="to translate, in a round (default 1,000)")
    sizes = {"type": int, "nargs": "+", "default": [2000, 4000, 8000, 16000]}
    parser.add_argument("--vocabularies", **sizes, help="(default 2000 4000 8000 16000)")
    add_options(parser, rounds=3)
    arguments = parser.parse_intermixed_args()
    environment.enter("peers")
    from dragoman.cli import tune_process

    tune_process()
    costs: dict[str, dict[float, float]] = {}
    tables = [measure(name, arguments, costs) for name in arguments.of]
    tables[-1].notes += extrapolations(costs)
    show(tables, arguments)


def measure(name: str, arguments: argparse.Namespace, costs: dict[str, dict[float, float]]) -> Table:
    """The table of an axis; its medians by size into `costs`."""
    axis = AXES[name]
    table = Table(f"Cost by {name}", axis.unit, [], times=True)
    with ExitStack() as opened:
        folder = Path(opened.enter_context(TemporaryDirectory()))
        measured = list(axis.sizes(arguments, folder, opened))
        taking_part = [Contestant(OURS, {label: run}) for _, label, run in measured]
        table.rows = tournament(taking_part, arguments.rounds)
    costs[name] = {size: row.median for (size, _, _), row in zip(measured, table.rows, strict=True)}
    table.notes.append(f"cost grows as the power {Growth.of(costs[name]).exponent:.2f} of the size")
    return table


def extrapolations(costs: dict[str, dict[float, float]]) -> list[str]:
    """Sentences that say what WMT14 and a billion sentences would take, as far as the costs were measured."""
    growths = {name: Growth.of(measured) for name, measured in costs.items()}
    sentences = []
    if "corpus" in costs:
        sentences.append(f"to prepare {PAIRS:,} pairs: {_duration(growths['corpus'].at(PAIRS))}")
    if {"vocabulary", "model"} <= costs.keys():
        larger = growths["vocabulary"].at(VOCABULARY) / growths["vocabulary"].at(8000)
        base = max(costs["model"].values()) / 1e6
        a_pass = _duration(base * larger * PAIRS * 2 * TOKENS_A_SIDE)
        sentences.append(f"a pass over them, {TOKENS_A_SIDE} tokens a side, with the size base: {a_pass}")
    if "workers" in costs:
        fastest = min(costs["workers"].values())
        sentences.append(
            f"to translate {SENTENCES:,} sentences with the model: {_duration(fastest / 1000 * SENTENCES)}"
        )
    return sentences


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").removesuffix("\n").split("\n")


def _written(path: Path, lines: list[str]) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def _training(arguments, opened: ExitStack, *, size="tiny", paths=(), settings=()) -> Callable[[], float]:
    """Function that measures the milliseconds of training steps for 1,000 tokens."""
    from corpus import prepared
    from steps import our_tokens, our_trainer

    files = paths or (arguments.source, arguments.target)
    given = opened.enter_context(prepared(*files, size=size, settings=[*arguments.settings, *settings]))
    trainer = opened.enter_context(our_trainer(given, given.config.training.precision))
    return partial(_milliseconds, lambda: our_tokens(trainer, arguments.steps) / 1000)


def _milliseconds(action: Callable[[], float]) -> float:
    """Milliseconds for each of the things that `action` counts."""
    return 1000 / rate(action)


def _seconds_to_prepare(paths: list[Path], settings: list[str]) -> float:
    """Seconds that preparation.py prints, in tenths; 0.0 counts as 0.05."""
    command = [sys.executable, environment.HERE / "preparation.py", "prepare", *paths, *settings]
    printed = subprocess.run([*map(str, command)], check=True, capture_output=True, text=True).stdout
    return max(0.05, float(re.search(r"pairs in ([\d.]+) s", printed)[1]))


def _duration(seconds: float) -> str:
    """A duration in days, hours, minutes or seconds, whichever suits it."""
    for unit, length in (("days", 86_400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * length:
            return f"{number(seconds / length)} {unit}"
    return f"{number(seconds)} seconds"


if __name__ == "__main__":
    main()
