"""The one `app`, the options that several commands share, and how scores are printed."""

from collections.abc import Sequence
from functools import cache, partial
from inspect import Parameter, Signature
from pathlib import Path
from typing import Annotated, Any, get_args

import typer

from dragoman.cli.app import App, Context, options_of
from dragoman.errors import UsageError, command_line, did_you_mean, respell
from dragoman.system.streams import json_line

app = App(help="Train, use and understand translation models: the Transformer from scratch.")

# A path that may not be read is an error of ours, with the remedy.
Argument, Option = partial(typer.Argument, readable=False), partial(typer.Option, readable=False)
File = partial(Option, metavar="FILE")
OUTPUT = ("--output", "-o")
METAVARS = {int: "N", float: "X", str: "TEXT"}
NO_OPTIONS = ("glossary", "forbid", "max_tokens")
"""Fields of `DecodingConfig` that `translate` reads from files, or that only programs set."""


def choice(what: str, known: Sequence[str], *, remedy: str = "") -> dict[str, Any]:
    """Keywords of an `Option` that takes one of `known`: metavar, shell completion, and a sentence for other values."""

    def check(value: str | None) -> str | None:
        if value is not None and value not in known:
            raise UsageError(
                f"There is no {what} '{value}'{did_you_mean(value, known)}; choose {', '.join(known)}{remedy}."
            )
        return value

    return {"metavar": "|".join(known), "callback": check, "autocompletion": lambda: list(known)}


def recipes() -> list[str]:
    """Names of recipes, for shell completion."""
    from dragoman.config.recipes import recipe_names

    return recipe_names()


def option_name(setting: str) -> str:
    """--beam-size for beam_size."""
    return f"--{setting.replace('_', '-')}"


@cache
def decoding(*names: str) -> list[Any]:
    """Options for these fields of `DecodingConfig`, or for all but `NO_OPTIONS`.

    They take texts, which `checks.check_decoding` validates; what is not given follows from the model directory.
    """
    from dragoman.config.decoding import DecodingConfig

    fields, parameters = DecodingConfig.model_fields, []
    for name in names or [name for name in fields if name not in NO_OPTIONS]:
        kind, default = fields[name].annotation, fields[name].default
        plain = next(each for each in (kind, *get_args(kind)) if each in (bool, *METAVARS))
        text = respell(" ".join(fields[name].description.split()), fields, option_name)
        text += "" if default in (None, "") or plain is bool else f" Default: the model's, or {default:g}."
        typed_as = f"{option_name(name)}/{option_name('no_' + name)}" if default is True else option_name(name)
        option = Option(typed_as, metavar=METAVARS.get(plain), help=text)
        typed = Annotated[(bool if plain is bool else str) | None, option]
        parameters.append(Parameter(name, Parameter.KEYWORD_ONLY, default=None, annotation=typed))

    def declare(**_: Any) -> None: ...

    declare.__signature__ = Signature(parameters)
    return options_of(declare)


TRAINED_IN = choice("precision", ("auto", "float32", "bfloat16"))
PRECISIONS = choice("precision", ("auto", "float32", "bfloat16", "int8"))


def pairs(sides: str = "SOURCE TARGET", *, setting: str = "'data.languages=[en,fr]'") -> Any:
    """The argument of commands that read sentence pairs."""
    formats = "TSV, CSV, JSON, TMX, XLIFF or PO; plain, .gz, .bz2, .xz or .zst; or its URL"
    return Argument(
        metavar=f"DATA | {sides} [key=value ...]",
        help=f"A file of pairs ({formats}), two aligned files, hf:NAME or builtin:grammar; then settings, such as "
        f"{setting}.",
    )


HELD_OUT = "pairs; twice for two files. Default: split off by `train`."
Valid = Annotated[list[str] | None, File(help=f"Validation {HELD_OUT}")]
Test = Annotated[list[str] | None, File(help=f"Test {HELD_OUT}")]
COLUMNS = "Source and target column of a table or of JSON: numbers from 1, or names. Default: found by what they hold."
Columns = Annotated[
    str | None, Option(metavar="N,N", help=COLUMNS, callback=lambda value: value and f"data.columns=[{value}]")
]
"""Given to a command as the setting that it is."""
Recipe = Annotated[
    str | None, Option(metavar="NAME", help="A named recipe, or a YAML file with settings.", autocompletion=recipes)
]
Target = Annotated[
    str | None, Option(metavar="TEXT", help="A translation to look at. Default: the model's own translation.")
]
CODE = "in any style, such as de, deu or deu_Latn. Default: the model's."
From = Annotated[
    str | None, Option("--from", metavar="CODE", help=f"Source language of a model that knows many, {CODE}")
]
To = Annotated[str | None, Option("--to", metavar="CODE", help=f"Target language of a model that knows many, {CODE}")]
Model = Annotated[Path, Argument(metavar="MODEL", help="A model directory, as `train` writes it.")]
Ensemble = Annotated[
    list[Path] | None, Option(metavar="MODEL", help="A model to average with, of the same vocabulary; may be repeated.")
]
Precision = Annotated[
    str, Option(**PRECISIONS, help="Precision of matrix products; auto is the quickest that the hardware multiplies.")
]
Workers = Annotated[
    int | None, Option(metavar="N", min=1, help="Processes that share the work on a CPU. Default: one per core.")
]


def print_scores(context: Context, evaluation: Any, title: str, *, examples: Sequence[dict[str, str]] = ()) -> None:
    """Print an `Evaluation` as a table, or as JSON, and examples of its translations."""
    for warning in evaluation.warnings:
        context.display().warn(warning)
    if context.as_json:
        return print_json(evaluation.to_dict() | ({"examples": examples} if examples else {}))
    from dragoman.system.figures import printable
    from dragoman.terminal import console, results_table, scores_table

    console().print(scores_table(title, evaluation.to_dict()))
    if examples:
        rows = [(s, t, f"reference: {r}") for s, t, r in (map(printable, each.values()) for each in examples)]
        console().print(results_table("Examples", rows, text=True))


def print_trained(context: Context, evaluation: Any, path: Path) -> None:
    """Print the scores of the run in `path`, and how to use its model."""
    print_scores(context, evaluation, "On the test pairs")
    context.display().note(f"Try it:  {command_line('translate', path, '...')}")


def print_json(result: Any) -> None:
    """Print a result in one line."""
    print(json_line(result))
