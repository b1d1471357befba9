"""Speed of translation beside other engines, with the same weights: many sentences, or one at a time.

    .venv/bin/python benchmarks/decoding.py throughput MODEL SOURCE [--rounds 5]
    .venv/bin/python benchmarks/decoding.py latency MODEL SOURCE [--size base] [--sentences 50]

MODEL is a model directory of Marian's architecture, which is made with

    dragoman train ... model.norm_order=post model.positions=sinusoidal-concatenated model.projection_bias=true

SOURCE is a file of sentences. `throughput` translates it greedily and with beam 5: Dragoman as `dragoman translate`
does, a process a core; MarianMTModel with as many threads, in batches of 32, 64 or 128 sentences of similar length;
CTranslate2 as so many workers of one thread each, in batches of 512 to 4,096 tokens. What is best of these is tried
first. Tokenization counts for all. Which share of the texts is the same in float32 stands below the table.

`latency` translates one sentence after the other with beam 5, everybody on the better of one thread and all. With
--size the weights are random, of that size, and cannot end a sentence, so that each engine writes 2 n + 20 tokens for
n: milliseconds per token compare with those of a trained model, milliseconds per sentence do not.
"""

import argparse
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import quantiles
from typing import TYPE_CHECKING

import environment
from table import OURS, Contestant, Row, Table, add_options, number, rate, show, tournament

if TYPE_CHECKING:
    from dragoman.storage.model_directory import ModelDirectory
    from engines import Engine

PACKAGES = "transformers", "ctranslate2"
BLOCK = 5
"""Sentences that an engine translates one after the other before it is the next one's turn."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(required=True)
    for name, measure in (("throughput", throughput), ("latency", latency)):
        verb = verbs.add_parser(name)
        verb.add_argument("model", type=Path)
        verb.add_argument("source", type=Path)
        verb.set_defaults(measure=measure)
        add_options(verb)
    verb.add_argument("--size", choices=("tiny", "small", "base", "big"), help="random weights of this size")
    verb.add_argument("--sentences", type=int, default=50, help="of each round (default 50)")
    arguments = parser.parse_args()
    environment.enter("peers")
    show(arguments.measure(arguments), arguments)


def throughput(arguments: argparse.Namespace) -> list[Table]:
    """A table for greedy search, and one for beam 5."""
    directory, sentences = _opened(arguments)
    from engines import engines

    tables = [Table(_title("Translation", beam_size), "sentences/s", [], PACKAGES) for beam_size in (1, 5)]
    with engines(directory, alone=False) as taking_part:
        for table, beam_size in zip(tables, (1, 5), strict=True):
            table.rows = tournament([_contestant(e, sentences, beam_size) for e in taking_part], arguments.rounds)
            table.notes = _agreements(taking_part, sentences, beam_size)
    return tables


def latency(arguments: argparse.Namespace) -> list[Table]:
    """One table, of milliseconds a sentence."""
    directory, sentences = _opened(arguments)
    from engines import engines, random_weights

    if arguments.size:
        directory = random_weights(directory, arguments.size)
    sentences = sentences[: arguments.sentences]
    blocks = [sentences[start : start + BLOCK] for start in range(0, len(sentences), BLOCK)]
    weights = f"random weights of size {arguments.size}" if arguments.size else str(arguments.model)
    table = Table(_title(f"One sentence at a time, {weights}", 5), "ms a sentence", [], PACKAGES, times=True)
    with engines(directory, alone=True, guard=not arguments.size) as taking_part:
        rows = [_tried(engine, blocks[0]) for engine in taking_part]
        tokens = [0 for _ in rows]
        for block in blocks * arguments.rounds:
            for place, (engine, row) in enumerate(zip(taking_part, rows, strict=True)):
                timed = _times(engine, block, int(row.setting.split()[0]))
                row.values += [milliseconds for milliseconds, _ in timed]
                tokens[place] += sum(count for _, count in timed)
        for row, count in zip(rows, tokens, strict=True):
            row.about["90 % take at most"] = number(quantiles(row.values, n=10)[-1])
            row.about["ms a token"] = number(sum(row.values) / count)
            row.about["tokens"] = f"{count / len(row.values):.1f}"
        table.rows, table.notes = rows, _agreements(taking_part, sentences, 5)
    return [table]


def _opened(arguments: argparse.Namespace) -> tuple["ModelDirectory", list[str]]:
    """The model directory and the sentences; after it, torch is loaded."""
    from dragoman.cli import tune_process

    tune_process()
    from dragoman.storage.model_directory import ModelDirectory

    sentences = arguments.source.read_text(encoding="utf-8").removesuffix("\n").split("\n")
    return ModelDirectory.load(arguments.model), sentences


def _title(what: str, beam_size: int) -> str:
    return f"{what}, {'greedy' if beam_size == 1 else f'beam {beam_size}'}"


def _contestant(engine: "Engine", sentences: list[str], beam_size: int) -> Contestant:
    def run(setting: int) -> float:
        return rate(lambda: len(engine.translate(sentences, beam_size=beam_size, setting=setting)))

    return Contestant(engine.name, {f"{s:,} {engine.unit}": partial(run, s) for s in engine.settings})


def _tried(engine: "Engine", block: list[str]) -> Row:
    """An empty row of an engine at its best number of threads."""
    tried = {
        f"{n} thread{'s' * (n > 1)}": sum(ms for ms, _ in _times(engine, block, n)) / len(block)
        for n in engine.settings
    }
    return Row(engine.name, min(tried, key=tried.get), [], tried)


def _times(engine: "Engine", block: list[str], threads: int) -> list[tuple[float, int]]:
    """Milliseconds and tokens of each sentence; the first runs once before, since the caches are somebody else's."""
    times = []
    for text in [block[0], *block]:
        started = time.perf_counter()
        ((_, tokens),) = engine.translate([text], beam_size=5, setting=threads)
        times.append((1000 * (time.perf_counter() - started), tokens))
    return times[1:]


def _agreements(taking_part: list["Engine"], sentences: list[str], beam_size: int) -> list[str]:
    """The share of our float32 texts that each other engine gives, too; without our guard, which the others lack."""
    from engines import agreement

    texts_of_engine = {}
    for engine in taking_part:
        alike = replace(engine, guard=False) if engine.name.startswith(OURS) else engine
        texts = [[sentence] for sentence in sentences] if engine.alone else [sentences]
        translated = [alike.translate(part, beam_size=beam_size, setting=engine.settings[-1]) for part in texts]
        texts_of_engine[engine.name] = [text for part in translated for text in part]
    ours = texts_of_engine.pop(f"{OURS} float32")
    shares = ", ".join(f"{name} {100 * agreement(ours, other):.1f} %" for name, other in texts_of_engine.items())
    return [f"the same text as {OURS} in float32, without its guard against loops: {shares}"]


if __name__ == "__main__":
    main()
