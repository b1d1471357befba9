"""Test sentences that a model was trained on, as its sketch knows: their score says nothing about new text."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from dragoman.evaluation.evaluate import Evaluation
from dragoman.evaluation.scores import scores_of_parts
from dragoman.metrics import MAIN
from dragoman.storage.adapter import run_of
from dragoman.storage.beside import read_sketch
from dragoman.text.sketch import Sketch

FEWEST = 3
"""Fewest sentences that have to be known before anybody is warned."""
SHARE = 0.02
"""Smallest share of the test sentences that is worth a warning."""
CHANCE = 3.0
"""Standard deviations that the number of known sentences has to be above what chance would give."""


def sketches_of(models: Sequence[Path], *, adapter: Path | None = None) -> list[Sketch | None]:
    """The sketches of models that translate together; with an adapter for the first, that of the run that wrote it."""
    first = run_of(adapter, models[0]) if adapter else models[0]
    return [read_sketch(path) if path else None for path in (first, *models[1:])]


def with_overlaps(
    evaluation: Evaluation,
    sketches: Sequence[Sketch | None],
    pairs: Sequence[tuple[str, str]],
    *,
    models: Sequence[str],
    target: str | None,
) -> Evaluation:
    """An evaluation on pairs as `with_overlap` makes it, by the sketch of one model after another."""
    for model, sketch in zip(models, sketches, strict=True):
        evaluation = with_overlap(evaluation, sketch, pairs, model=model, target=target)
    return evaluation


def with_overlap(
    evaluation: Evaluation,
    sketch: Sketch | None,
    pairs: Sequence[tuple[str, str]],
    *,
    model: str,
    target: str | None,
) -> Evaluation:
    """An evaluation on pairs with a warning if many of their sources were trained on, as the sketch of `model` says.

    Models that translate together are looked at one after another; the first one with such sources gives `overlap`.
    """
    if sketch is None:
        return evaluation
    known = sketch.knows([source for source, _ in pairs])
    overlap = _overlap(sketch, known)
    if not overlap:
        return evaluation
    decidable = [index for index, is_known in enumerate(known) if is_known is not None]
    parts = scores_of_parts(
        [evaluation.translations[index] for index in decidable],
        [pairs[index][1] for index in decidable],
        [pairs[index][0] for index in decidable],
        [position for position, index in enumerate(decidable) if known[index]],
        names=("trained_on", "new"),
        target_language=target,
    )
    overlap |= parts
    scores = ", ".join(
        f"{MAIN.write_with_interval(parts[name])} on {name_in_text}"
        for name, name_in_text in (("trained_on", "these"), ("new", "the others that it tells"))
        if name in parts
    )
    warning = (
        f"Some {100 * overlap['share']:.0f} % of the source sentences were trained on, as the sketch in {model} says "
        f"({overlap['known']:,} of {overlap['told']:,} that it can tell): {MAIN.label} is {scores}. Score on "
        "sentences that the model has not seen."
    )
    return replace(evaluation, overlap=evaluation.overlap or overlap, warnings=[*evaluation.warnings, warning])


def _overlap(sketch: Sketch, known: "Sequence[bool | None]") -> dict[str, Any]:
    """How many sentences are known; empty if these are few, or chance explains them."""
    answers = [is_known for is_known in known if is_known is not None]
    by_chance = sketch.false_share * len(answers)
    most_by_chance = by_chance + CHANCE * (by_chance * (1 - sketch.false_share)) ** 0.5
    share = (sum(answers) - by_chance) / max(1.0, len(answers) - by_chance)
    if sum(answers) < max(FEWEST, most_by_chance) or share < SHARE:
        return {}
    return {"told": len(answers), "known": sum(answers), "share": share}
