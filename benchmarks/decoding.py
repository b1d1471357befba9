"""Speed of translation beside other engines, with the same weights: many sentences, one at a time, or whole processes.

    .venv/bin/python benchmarks/decoding.py throughput MODEL SOURCE [--rounds 5] [--marian]
    .venv/bin/python benchmarks/decoding.py latency MODEL SOURCE [--size base] [--sentences 50] [--marian]
    .venv/bin/python benchmarks/decoding.py start MODEL SOURCE [--rounds 5]
    .venv/bin/python benchmarks/decoding.py memory MODEL SOURCE [--rounds 5]

MODEL is a model directory of Marian's architecture, which is made with

    dragoman train ... model.norm_order=post model.positions=sinusoidal-concatenated model.projection_bias=true

SOURCE is a file of sentences. `throughput` translates it greedily and with beam 5: Dragoman as `dragoman translate`
does, a process a core; MarianMTModel with as many threads, in batches of 32, 64 or 128 sentences of similar length;
CTranslate2 as so many workers of one thread each, in batches of 512 to 4,096 tokens. What is best of these is tried
first. Tokenization counts for all. Which share of the texts is the same in float32 stands below the table.

`latency` translates one sentence after the other with beam 5 and greedily, everybody on the better of one thread and
all. With --size the weights are random, of that size, and cannot end a sentence, so that each engine writes 2 n + 20
tokens for n: milliseconds per token compare with those of a trained model, milliseconds per sentence do not. There is
a table for beam 5 alone then. --beam-size chooses others.

With --marian, Marian itself takes part in both, in float32 and in eight bits. It comes with the package `pymarian`, a
download of 604 MB. It has the same weights, but other frequencies in the sines of positions, so that some texts differ.
As a proof of the weights, MarianMTModel translates once with Marian's frequencies: a note says how many texts are then
the same as Marian's.

`start` runs a command that translates one sentence with beam 5: `dragoman translate MODEL TEXT`, and a short script
with CTranslate2 in eight bits (`peers/ctranslate_script.py`). Each ran once before, so that its files are in memory.
Peak memory is what the system counted for the process. `memory` runs the same commands with the whole file, greedily
and with beam 5, and reads every 20 ms what all processes of a command have in memory (Linux). Both need a quiet
machine: memory that is shared with other programs counts in part.

fxtranslate 0.5.0, the engine of Firefox Translations, is not among the engines. It can be installed, but it computes
models whose decoder has SSRU cells instead of self-attention, so it cannot have the same weights. Given the file of
Marian's weights in eight bits, it says `unknown marian type value 0x10001`. Its own models are downloaded from Mozilla;
the machine of this test has no access to the internet.
"""

import argparse
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import quantiles
from typing import TYPE_CHECKING

import environment
import processes
from table import OURS, Contestant, Row, Table, add_options, number, rate, show, tournament

if TYPE_CHECKING:
    from dragoman.storage.model_directory import ModelDirectory
    from engines import Engine

PACKAGES = "transformers", "ctranslate2", "pymarian"
BLOCK = 5
"""Sentences that an engine translates one after the other before it is the next one's turn."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(required=True)
    measures = {"throughput": throughput, "latency": latency, "start": processes.start, "memory": processes.memory}
    for name, measure in measures.items():
        verb = verbs.add_parser(name)
        verb.add_argument("model", type=Path)
        verb.add_argument("source", type=Path)
        verb.set_defaults(measure=measure, marian=False)
        add_options(verb)
        if name in ("throughput", "latency"):
            verb.add_argument("--marian", action="store_true", help="measure Marian itself, too")
        if name == "latency":
            verb.add_argument("--size", choices=("tiny", "small", "base", "big"), help="random weights of this size")
            verb.add_argument("--sentences", type=int, default=50, help="of each round (default 50)")
            beams = "repeatable; 1 is greedy search (default 5 and 1; 5 with --size)"
            verb.add_argument("--beam-size", type=int, action="append", metavar="N", help=beams)
    arguments = parser.parse_args()
    environment.enter("marian" if arguments.marian else "peers")
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
    """A table for each beam size, of milliseconds a sentence."""
    directory, sentences = _opened(arguments)
    from engines import engines, random_weights

    if arguments.size:
        directory = random_weights(directory, arguments.size)
    sentences = sentences[: arguments.sentences]
    weights = f"random weights of size {arguments.size}" if arguments.size else str(arguments.model)
    tables = []
    with engines(directory, alone=True, guard=not arguments.size) as taking_part:
        for beam_size in arguments.beam_size or ((5,) if arguments.size else (5, 1)):
            title = _title(f"One sentence at a time, {weights}", beam_size)
            table = Table(title, "ms a sentence", [], PACKAGES, times=True)
            table.rows = _one_by_one(taking_part, sentences, beam_size, arguments.rounds)
            table.notes = _agreements(taking_part, sentences, beam_size)
            tables.append(table)
    return tables


def _one_by_one(taking_part: list["Engine"], sentences: list[str], beam_size: int, rounds: int) -> list[Row]:
    """Milliseconds of each sentence for each engine."""
    blocks = [sentences[start : start + BLOCK] for start in range(0, len(sentences), BLOCK)]
    rows = [_tried(engine, blocks[0], beam_size) for engine in taking_part]
    tokens = [0 for _ in rows]
    for block in blocks * rounds:
        for place, (engine, row) in enumerate(zip(taking_part, rows, strict=True)):
            timed = _times(engine, block, beam_size, int(row.setting.split()[0]))
            row.values += [milliseconds for milliseconds, _ in timed]
            tokens[place] += sum(count for _, count in timed)
    for row, count in zip(rows, tokens, strict=True):
        row.about["90 % take at most"] = number(quantiles(row.values, n=10)[-1])
        row.about["ms a token"] = number(sum(row.values) / count)
        row.about["tokens"] = f"{count / len(row.values):.1f}"
    return rows


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


def _tried(engine: "Engine", block: list[str], beam_size: int) -> Row:
    """An empty row of an engine at its best number of threads."""
    tried = {
        f"{n} thread{'s' * (n > 1)}": sum(ms for ms, _ in _times(engine, block, beam_size, n)) / len(block)
        for n in engine.settings
    }
    return Row(engine.name, min(tried, key=tried.get), [], tried)


def _times(engine: "Engine", block: list[str], beam_size: int, threads: int) -> list[tuple[float, int]]:
    """Milliseconds and tokens of each sentence; the first runs once before, since the caches are somebody else's."""
    times = []
    for text in [block[0], *block]:
        started = time.perf_counter()
        ((_, tokens),) = engine.translate([text], beam_size=beam_size, setting=threads)
        times.append((1000 * (time.perf_counter() - started), tokens))
    return times[1:]


def _agreements(taking_part: list["Engine"], sentences: list[str], beam_size: int) -> list[str]:
    """The share of our float32 texts that each other engine gives, too; without our guard, which the others lack."""
    from engines import agreement, like_marian

    found = {}
    for engine in taking_part:
        alike = replace(engine, guard=False) if engine.name.startswith(OURS) else engine
        found[engine.name] = _translated(alike, sentences, beam_size)
    ours = found[f"{OURS} float32"]
    shares = [f"{name} {100 * agreement(ours, other):.1f} %" for name, other in found.items() if other is not ours]
    notes = [f"the same text as {OURS} in float32, without its guard against loops: {', '.join(shares)}"]
    if marian := found.get("Marian float32"):
        model = next(engine for engine in taking_part if engine.name == "MarianMTModel float32")
        share = 100 * agreement(marian, _translated(like_marian(model), sentences, beam_size))
        notes.append(f"the same text from Marian float32 and from {model.name} with its frequencies: {share:.1f} %")
    return notes


def _translated(engine: "Engine", sentences: list[str], beam_size: int) -> list[tuple[str, int]]:
    """Text and number of tokens of each translation."""
    parts = [[sentence] for sentence in sentences] if engine.alone else [sentences]
    translated = [engine.translate(part, beam_size=beam_size, setting=engine.settings[-1]) for part in parts]
    return [text for part in translated for text in part]


if __name__ == "__main__":
    main()
