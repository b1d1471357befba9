"""The first minute: train on the built-in grammar, score what was held out, translate what was never seen."""

from pathlib import Path

from rich.table import Table

from dragoman.evaluation.evaluate import Evaluation
from dragoman.runs.plan import plan_run
from dragoman.runs.train import start_run
from dragoman.storage.run_directory import RunDirectory
from dragoman.system.listener import LastSteps
from dragoman.terminal import Display
from dragoman.terminal.tables import results_table

SENTENCES = 6
"""Held-out sentences to show with their translations."""


def run_demo(directory: Path, *, display: Display) -> Evaluation:
    """Train the recipe `demo` into a folder and show examples of its translations. Returns its held-out scores."""
    display.note(
        "A translator from English to French, trained on sentences that a small grammar makes up.\n"
        "Held out are whole combinations of words (this adjective with that noun), in training never seen together."
    )
    config, pairs = plan_run(["builtin:grammar"], recipe="demo", settings={})
    evaluation = start_run(pairs, config, directory, listener=display)
    with LastSteps(display, later=f"See {directory / 'report.html'}.")("Examples"):
        display.show(_examples(evaluation, RunDirectory(directory).pairs("test")))
    return evaluation


def _examples(evaluation: Evaluation, pairs: list[tuple[str, str]]) -> Table:
    """A table of some sentences of medium length with their translations, and the reference where it differs."""
    rows = [
        (source, translation, "" if translation == reference else f"reference: {reference}")
        for (source, reference), translation in zip(pairs, evaluation.translations, strict=True)
        if 6 <= len(source.split()) <= 12
    ]
    return results_table("Sentences it has never seen", rows[:SENTENCES], text=True)
