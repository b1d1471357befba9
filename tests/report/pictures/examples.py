"""One of every picture, at usual sizes and at extremes."""

from collections.abc import Callable
from functools import cache

from matplotlib.figure import Figure

from dragoman.config.training import TrainingConfig
from dragoman.report import Inspection, inspect_translation
from dragoman.report.pictures import (
    example_schedules,
    plot_attention,
    plot_causal_mask,
    plot_curves,
    plot_example_mask,
    plot_heads,
    plot_position_products,
    plot_positions,
    plot_runs,
    plot_schedules,
    plot_split,
)
from tests.report.models import small_model
from tests.report.runs import attention_of, steps, validation, words

MODEL = cache(small_model)
LONG = "The extraordinarily long internationalisations of 1,000,000 red houses are very old ."


def run_of(count: int) -> list[dict]:
    return [*steps(count), *map(validation, range(1, count, 7))]


@cache
def inspected(text: str) -> Inspection:
    """What a small untrained model makes of a text and a given translation."""
    return inspect_translation(MODEL(), text, target="le chat noir", beam_size=1)


def heads(text: str, kind: str = "cross", **options) -> Figure:
    return plot_heads(inspected(text), kind, **options)


EXAMPLES: dict[str, Callable[[], Figure]] = {
    "mask": lambda: plot_causal_mask(20),
    "mask of 1": lambda: plot_causal_mask(1),
    "mask of 200": lambda: plot_causal_mask(200),
    "example mask": lambda: plot_example_mask(["I", "see", "a", "cat"]),
    "empty example mask": lambda: plot_example_mask([], length=1),
    "long example mask": lambda: plot_example_mask(LONG.split(), length=40),
    "positions": plot_positions,
    "few positions": lambda: plot_positions(length=2, d_model=3),
    "products": plot_position_products,
    "schedules": lambda: plot_schedules(example_schedules(20_000), steps=20_000),
    "one step of a schedule": lambda: plot_schedules({"Rate": {"a": TrainingConfig()}}, steps=1),
    "many steps of a schedule": lambda: plot_schedules({"Rate": {"a": TrainingConfig()}}, steps=10_000_000),
    "split": lambda: plot_split({"training": 28_999, "validation": 1014, "test": 1000}),
    "uneven split": lambda: plot_split({"training": 1_160_000_000, "validation": 3000, "test": 1}),
    "curves": lambda: plot_curves(run_of(211)),
    "no curves": lambda: plot_curves([]),
    "runs": lambda: plot_runs({"one": run_of(211), "two": run_of(31), "x" * 50: run_of(3), "none": []}),
    "attention": lambda: plot_attention(attention_of([2, 0, 1]), words(3), words(3, "long" * 7)),
    "heads": lambda: heads("the red house sleeps"),
    "heads of a word": lambda: heads("a", layer=2, head=3),
    "heads of a long sentence": lambda: heads(LONG, "encoder"),
}
