"""The one `app`, the options that several commands share, and how scores are printed."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from dragoman.cli.app import App
from dragoman.errors import UsageError, did_you_mean

app = App(help="Train, use and understand translation models: the Transformer from scratch.")

Argument, Option = typer.Argument, typer.Option
OUTPUT = ("--output", "-o")
SIZES = ("tiny", "small", "base", "big")


def choice(what: str, known: Sequence[str], *, remedy: str = "") -> dict[str, Any]:
    """What makes an `Option` take one of `known`: its metavar, shell completion, and a sentence for other values."""

    def check(value: str | None) -> str | None:
        if value is not None and value not in known:
            raise UsageError(
                f"There is no {what} '{value}'{did_you_mean(value, known)}; choose {', '.join(known)}{remedy}."
            )
        return value

    def complete(incomplete: str) -> list[str]:
        return [name for name in known if name.startswith(incomplete)]

    return {"metavar": "|".join(known), "callback": check, "autocompletion": complete}


def recipes(incomplete: str) -> list[str]:
    """Names of recipes, for shell completion."""
    from dragoman.config import recipe_names

    return [name for name in recipe_names() if name.startswith(incomplete)]


PRECISIONS = choice("precision", ("auto", "float32", "bfloat16"))


def pairs(sides: str = "SOURCE TARGET", *, setting: str = "'data.languages=[en,fr]'") -> Any:
    """The argument of commands that read sentence pairs."""
    formats = "TSV, JSONL, TMX, XLIFF or PO; plain, .gz, .xz or .zst"
    return Argument(
        metavar=f"DATA | {sides} [key=value ...]",
        help=f"A file of pairs ({formats}), two aligned files, hf:NAME or builtin:grammar; then settings, such as "
        f"{setting}.",
        show_default=False,
    )


Valid = Annotated[
    list[str] | None,
    Option(metavar="FILE", help="Validation pairs, as DATA; twice for two files; without, `train` splits some off."),
]
Test = Annotated[list[str] | None, Option(metavar="FILE", help="Test pairs, likewise.")]
Recipe = Annotated[
    str | None, Option(metavar="NAME", help="A named recipe, or a YAML file with settings.", autocompletion=recipes)
]
Target = Annotated[
    str | None, Option(metavar="TEXT", help="A translation to look at.", show_default="the model's own translation")
]

Model = Annotated[Path, Argument(metavar="MODEL", help="A model directory, as `train` writes it.", show_default=False)]
BeamSize = Annotated[int, Option(metavar="N", min=1, max=64, help="Hypotheses kept alive; 1 is greedy search.")]
Ensemble = Annotated[
    list[Path] | None,
    Option(metavar="MODEL", help="Another model of the same vocabulary that has a say; may be repeated."),
]
LengthPenalty = Annotated[
    float,
    Option(
        metavar="X",
        min=0.0,
        max=10.0,
        help="Exponent of the length that log-probabilities are divided by.",
    ),
]
Precision = Annotated[str, Option(**PRECISIONS, help="Of the products; auto: bfloat16 where there is hardware.")]
Workers = Annotated[int | None, Option(metavar="N", min=1, help="Processes on a CPU.", show_default="one per core")]
Json = Annotated[bool, Option("--json", help="Print the result as JSON.")]
Quiet = Annotated[bool, Option("--quiet", "-q", help="Print results and warnings only.")]


def print_scores(evaluation: Any, title: str, *, as_json: bool) -> None:
    """An `Evaluation` as a table, or as one line of JSON."""
    if as_json:
        print(json.dumps(evaluation.to_dict(), ensure_ascii=False))
        return
    from dragoman.terminal import console, scores_table

    console().print(scores_table(title, evaluation.to_dict()))
