"""The first minute: train on the built-in grammar, score what was held out, translate what was never seen."""

from pathlib import Path

from dragoman import run
from dragoman.decoding.translator import Translator
from dragoman.evaluation import Evaluation
from dragoman.run_directory import RunDirectory
from dragoman.terminal import Display, results_table

SENTENCES = 6
"""Held-out sentences to show with their translations."""


def run_demo(directory: Path, *, display: Display) -> Evaluation:
    """Train the recipe `demo` into `directory` and show what it can do; returns its scores on held-out sentences."""
    display.note(
        "A translator from English to French, trained on sentences that a small grammar makes up.\n"
        "Held out are whole combinations of words (this adjective with that noun), in training never seen together."
    )
    config, bitext = run.configure(["builtin:grammar"], recipe="demo", settings=[])
    evaluation = run.start(bitext, config, directory, display=display)
    display.show(_examples(directory))
    display.note(
        f"\nThe model is in {directory}, its curves and attention in {directory / 'report.html'}.\n"
        "What to type next:\n"
        f'  dragoman translate {directory} "The little girl does not like the old green umbrella."\n'
        f"  dragoman evaluate {directory} builtin:grammar:500:test\n"
        "  dragoman train YOUR-PAIRS.tsv"
    )
    return evaluation


def _examples(directory: Path):
    pairs = [p for p in RunDirectory(directory).pairs("test") if 6 <= len(p[0].split()) <= 12][:SENTENCES]
    translator = Translator.load(directory)
    found = translator.translate([source for source, _ in pairs])
    rows = [
        (source, t.text, "" if t.text == reference else f"reference: {reference}")
        for (source, reference), t in zip(pairs, found, strict=True)
    ]
    return results_table("Sentences it has never seen", rows)


def unused(path: Path) -> Path:
    """`path`, or path-2, path-3 ... if there is something already."""
    number, free = 1, path
    while free.exists():
        number += 1
        free = path.with_name(f"{path.name}-{number}")
    return free
