"""Whole courses of training, ours and MarianMTModel's, scored on the test set."""

import argparse
import math
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch

from corpus import prepared
from dragoman.system.device import PRECISIONS
from peers.marian import generate, marian_like, without_special
from peers.models import Marian
from protocol import PUBLISHED_TOKENS, Protocol, Scores, read, reference_tokens
from steps import PeerTraining
from table import OURS, Contestant, Row, Table, precisions, rate, trial


@dataclass(frozen=True)
class Course:
    """Data that all contestants train and are scored with."""

    protocol: Protocol
    train: list[Path]
    valid: list[Path]
    test: list[Path]
    references: list[str]
    """Raw references of the test set."""

    def scores(self, translations: list[str]) -> Scores:
        """Scores of translations of the test set."""
        return self.protocol.scores(translations, self.references)


@dataclass(frozen=True)
class Point:
    """A score, and the training before it."""

    minutes: float
    """Minutes of training; for a command, of all that it does except for the test."""
    scores: Scores


def compare(arguments: argparse.Namespace, protocol: Protocol, folder: Path) -> Table:
    """A row for each contestant and number of minutes."""
    parts = {part: protocol.write(getattr(arguments, part), folder / part) for part in ("train", "valid", "test")}
    course = Course(protocol, **parts, references=read(arguments.test[1]))
    table = Table(f"Quality, {arguments.size}, by minutes of training", "BLEU", [], ("transformers", "sacrebleu"))
    rows: dict[str, Row] = {}
    for seed in range(1, arguments.rounds + 1):
        for minutes in arguments.minutes:
            settings = [f"size={arguments.size}", f"seed={seed}", *arguments.settings]
            point = ours(course, folder / f"run-{seed}-{minutes:g}", minutes, settings)
            _add(rows, OURS, minutes, point)
        if arguments.marian_minutes:
            for number, point in enumerate(marian(course, arguments, seed), start=1):
                _add(rows, "MarianMTModel", number * arguments.marian_every, point)
    table.rows = list(rows.values())
    tokens = reference_tokens(course.references, protocol.target_language)
    length = f"the reference has {tokens:,} tokens ({PUBLISHED_TOKENS:,} in the published log of test 2016, en-de)"
    table.notes = [length, f"BLEU is {point.scores.signature}"]
    return table


def ours(course: Course, output: Path, minutes: float, settings: list[str]) -> Point:
    """`dragoman train`, then `dragoman translate`, each in a process of its own."""
    pairs = [option for name in ("valid", "test") for path in getattr(course, name) for option in (f"--{name}", path)]
    command = ["train", *course.train, *pairs, "--output", output, "--max-minutes", minutes, *settings]
    started = time.monotonic()
    _dragoman(command)
    whole = (time.monotonic() - started) / 60
    translated = output / "translated.txt"
    _dragoman(["translate", output, "--input", course.test[0], "--output", translated])
    return Point(whole, course.scores(read(translated)))


@dataclass
class Clock:
    """Minutes of training, without those of scoring."""

    minutes: float = 0.0


def marian(course: Course, arguments: argparse.Namespace, seed: int) -> Iterator[Point]:
    """A score every so many minutes; the time of scoring does not count."""
    torch.manual_seed(seed)
    with prepared(*course.train, size=arguments.size, settings=["data.held_out=2"]) as corpus:
        model = marian_like(corpus.config.transformer(corpus.vocab_size, corpus.vocab_size))
        training = PeerTraining(Marian(model), corpus.data.train, corpus.config)
        tokenizer = corpus.data.source_tokenizer
        sources = tokenizer.encode_batch(read(course.test[0]))
        step, minutes, precision = 0, 0.0, _quicker(training)
        peak, warmup, every = arguments.marian_rate, arguments.marian_warmup, arguments.marian_every
        for number in range(math.ceil(arguments.marian_minutes / every)):
            model.train()
            started, before = time.monotonic(), minutes
            while minutes < every * (number + 1):
                step += 1
                training.step(precision, peak * min(step / warmup, (warmup / step) ** 0.5))
                minutes = before + (time.monotonic() - started) / 60
            model.eval()
            translations = generate(model, sources, beam_size=5, batch=64)
            yield Point(minutes, course.scores(tokenizer.decode_batch([without_special(ids) for ids in translations])))


def _quicker(training: PeerTraining, steps: int = 3) -> torch.dtype:
    """The precision for MarianMTModel; the steps are taken at a rate of 0."""

    def run(precision: torch.dtype) -> float:
        return rate(lambda: sum(training.step(precision, 0.0) for _ in range(steps)))

    settings = {name: partial(run, PRECISIONS[name]) for name in precisions()}
    return PRECISIONS[trial(Contestant("", settings)).setting]


def _add(rows: dict[str, Row], name: str, minutes: float, point: Point) -> None:
    """Add the score of one more seed to a row."""
    row = rows.setdefault(f"{name} {minutes:g}", Row(name, f"{minutes:g} minutes", []))
    row.values.append(point.scores.sacrebleu)
    row.about |= {"tokenised": f"{point.scores.tokenised:.2f}", "minutes in all": f"{point.minutes:.1f}"}


def _dragoman(arguments: list[object]) -> None:
    # Its output is for people who wait. Standard output is for the table alone.
    process = subprocess.run([sys.executable, "-m", "dragoman", *map(str, arguments)], stdout=sys.stderr)
    if process.returncode:
        sys.exit(f"`dragoman {arguments[0]}` failed: see above.")
