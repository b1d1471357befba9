"""The one `app`, the options that several commands share, and how scores are printed."""

import json
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(
    help="Train, use and understand translation models: the Transformer from scratch.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Argument, Option = typer.Argument, typer.Option
PRECISIONS = "auto|float32|bfloat16"

Model = Annotated[Path, Argument(metavar="MODEL", help="A model directory, as `train` writes it.", show_default=False)]
BeamSize = Annotated[int, Option(min=1, max=64, help="Hypotheses kept alive; 1 is greedy search.")]
Ensemble = Annotated[
    list[Path] | None,
    Option(metavar="MODEL", help="Another model of the same vocabulary to translate with; may be repeated."),
]
LengthPenalty = Annotated[float, Option(min=0.0, help="Exponent of the length that log-probabilities are divided by.")]
Precision = Annotated[str, Option(metavar=PRECISIONS, help="Of the products; auto: bfloat16 where there is hardware.")]
Workers = Annotated[int | None, Option(min=1, help="Processes on a CPU.", show_default="one per core")]
Json = Annotated[bool, Option("--json", help="Print the result as JSON.")]
Quiet = Annotated[bool, Option("--quiet", "-q", help="Print results and warnings only.")]


def print_scores(evaluation, title: str, *, as_json: bool) -> None:
    """An `Evaluation` as a table, or as one line of JSON."""
    if as_json:
        print(json.dumps(evaluation.to_dict(), ensure_ascii=False))
        return
    from rich.console import Console

    from dragoman.terminal import scores_table

    Console().print(scores_table(title, evaluation.to_dict()))
