"""The `app`, the options that several commands share, and printing of scores."""

from collections.abc import Sequence
from functools import cache, partial
from inspect import Parameter, Signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer

from dragoman.cli.app import App, Context, options_of
from dragoman.errors import UsageError, command_line, did_you_mean, respell
from dragoman.system.streams import json_line

if TYPE_CHECKING:
    from dragoman.config.decoding import DecodingConfig
    from dragoman.evaluation.evaluate import Evaluation

app = App(help="Train, use and understand translation models: the Transformer from scratch.")

# `readable=False`: for a path that may not be read, our own error with its remedy replaces that of typer.
Argument, Option = partial(typer.Argument, readable=False), partial(typer.Option, readable=False)
File = partial(Option, metavar="FILE")
OUTPUT = ("--output", "-o")
METAVARS = {int: "N", float: "X", str: "TEXT"}
WITHOUT_OPTION = ("glossary", "forbid", "max_tokens", "min_ratios")
"""Fields of `DecodingConfig` that `translate` reads from files, or that only programs set."""


def choice(noun: str, values: Sequence[str], *, remedy: str = "") -> dict[str, Any]:
    """Keywords of an `Option` that takes one of these values: metavar, shell completion, and a check.

    The check raises a `UsageError` that says which `noun` is unknown, and ends with the `remedy`.
    """

    def check(value: str | None) -> str | None:
        if value is not None and value not in values:
            raise UsageError(
                f"There is no {noun} '{value}'{did_you_mean(value, values)}; choose {', '.join(values)}{remedy}."
            )
        return value

    return {"metavar": "|".join(values), "callback": check, "autocompletion": lambda: list(values)}


def recipes() -> list[str]:
    """Names of the recipes, for shell completion."""
    from dragoman.config.recipes import recipe_names

    return recipe_names()


def option_name(setting: str) -> str:
    """The option for a field of a config, such as --beam-size for beam_size."""
    return f"--{setting.replace('_', '-')}"


def beam_search(*others: str) -> list[Any]:
    """The options of `decoding` for the search for one translation, and for `others`."""
    from dragoman.config.decoding import BEAM_SEARCH

    return decoding(*BEAM_SEARCH, *others)


@cache
def decoding(*names: str) -> list[Any]:
    """Options for these fields of `DecodingConfig`, or for all but those `WITHOUT_OPTION`.

    Their values are texts, which `checks.check_decoding` validates. The model directory decides what is not given.
    """
    from dragoman.config.decoding import DecodingConfig

    if not names:
        names = tuple(name for name in DecodingConfig.model_fields if name not in WITHOUT_OPTION)

    def declare(**_: Any) -> None: ...

    declare.__signature__ = Signature([_decoding_parameter(DecodingConfig, name) for name in names])
    return options_of(declare)


def _decoding_parameter(section: "type[DecodingConfig]", name: str) -> Parameter:
    """Parameter of a function from which typer makes the option for this field of a section."""
    field = section.model_fields[name]
    (kind,) = {field.annotation, *get_args(field.annotation)} & {bool, *METAVARS}
    text = respell(section.descriptions().get(name, ""), section.model_fields, option_name)
    if kind is not bool and field.default not in (None, ""):
        text += f" Default: the model's, or {field.default:g}."
    spelling = option_name(name)
    if field.default is True:
        spelling += "/" + option_name(f"no_{name}")
    option = Option(spelling, metavar=METAVARS.get(kind), help=text)
    value_type = bool if kind is bool else str
    return Parameter(name, Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[value_type | None, option])


TRAINING_PRECISIONS = choice("precision", ("auto", "float32", "bfloat16"))
PRECISIONS = choice("precision", ("auto", "float32", "bfloat16", "int8"))


def pairs(sides: str = "SOURCE TARGET", *, setting: str = "'data.languages=[en,fr]'") -> Any:
    """Argument of commands that read sentence pairs: files and settings."""
    formats = "TSV, CSV, JSON, TMX, XLIFF or PO; plain, .gz, .bz2, .xz or .zst; or its URL"
    return Argument(
        metavar=f"DATA | {sides} [key=value ...]",
        help=f"A file of pairs ({formats}), two aligned files, hf:NAME or builtin:grammar; then settings, such as "
        f"{setting}.",
    )


def _as_setting(columns: str | None) -> str | None:
    """The option --columns as the setting that it stands for."""
    return columns and f"data.columns=[{columns}]"


HELD_OUT = "pairs; give it twice for two aligned files. Default: split off by `train`."
Valid = Annotated[list[str] | None, File(help=f"Validation {HELD_OUT}")]
Test = Annotated[list[str] | None, File(help=f"Test {HELD_OUT}")]
COLUMNS = "Source and target column of a table or of JSON: numbers from 1, or names. Default: found by what they hold."
Columns = Annotated[str | None, Option(metavar="N,N", help=COLUMNS, callback=_as_setting)]
Recipe = Annotated[
    str | None, Option(metavar="NAME", help="A named recipe, or a YAML file with settings.", autocompletion=recipes)
]
Target = Annotated[
    str | None, Option(metavar="TEXT", help="A translation to look at. Default: the model's own translation.")
]
CODE = "of a model that knows many, such as de, deu or deu_Latn. Default: the model's."
From = Annotated[str | None, Option("--from", metavar="CODE", help=f"Source language {CODE}")]
To = Annotated[str | None, Option("--to", metavar="CODE", help=f"Target language {CODE}")]
Model = Annotated[Path, Argument(metavar="MODEL", help="A model directory, as `train` writes it.")]
Ensemble = Annotated[
    list[Path] | None, Option(metavar="MODEL", help="A model to average with, of the same vocabulary; may be repeated.")
]
Remembered = Annotated[
    Path | None,
    File("--memory", help="Translation memory, as `data memory` writes it, whose translations are reused."),
]
Glossary = Annotated[
    Path | None, File(help="Source terms and, after a tab (in .csv a comma), target terms that must appear.")
]
Forbidden = Annotated[Path | None, File("--forbid", help="Target terms that must not appear, one on each line.")]
Adapter = Annotated[
    Path | None,
    Option(metavar="PATH", help="The adapter of a run with finetune.lora, or its folder, to translate with."),
]
Precision = Annotated[
    str, Option(**PRECISIONS, help="Precision of matrix products; auto is the fastest that the hardware supports.")
]
Workers = Annotated[
    int | None, Option(metavar="N", min=1, help="Processes that share the work on a CPU. Default: one per core.")
]


def print_scores(
    context: Context, evaluation: "Evaluation", title: str, *, examples: Sequence[dict[str, str]] = ()
) -> None:
    """Print scores as a table, or as JSON. `examples` have a `source`, a `translation` and a `reference` each."""
    for warning in evaluation.warnings:
        context.display().warn(warning)
    if context.as_json:
        scores = evaluation.to_dict()
        if examples:
            scores["examples"] = examples
        print_json(scores)
        return
    from dragoman.system.figures import printable
    from dragoman.terminal import console
    from dragoman.terminal.tables import results_table, scores_table

    console().print(scores_table(title, evaluation.to_dict()))
    for remark in [*evaluation.remarks, *evaluation.outlook]:
        context.display().note(remark)
    if examples:
        rows = []
        for example in examples:
            source, translation, reference = (printable(example[key]) for key in ("source", "translation", "reference"))
            rows.append((source, translation, f"reference: {reference}"))
        console().print(results_table("Examples", rows, text=True))


def print_trained(context: Context, evaluation: "Evaluation", path: Path) -> None:
    """Print the scores of the run in `path`, and how to use its model."""
    print_scores(context, evaluation, "On the test pairs")
    context.display().note(f"Try it:  {command_line('translate', path, '...')}")


def print_json(result: Any) -> None:
    """Print a result as one line of JSON."""
    print(json_line(result))
