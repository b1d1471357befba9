"""Commands that make models, and compare how: demo, train, average, compare.

Budget: a command takes more parameters than a function may, since they are its options.
"""

import json
import sys
from pathlib import Path
from typing import Annotated

from dragoman.cli.options import PRECISIONS, Argument, Json, Option, Quiet, app, print_scores
from dragoman.errors import UsageError

SIZES = ("tiny", "small", "base", "big")


@app.command()
def demo(
    output: Annotated[Path | None, Option("--output", "-o", help="Model directory.", show_default="runs/demo")] = None,
    quiet: Quiet = False,
) -> None:
    """Train a small English-French translator on built-in sentences, score it and try it: three minutes, offline."""
    from dragoman.demo import run_demo, unused
    from dragoman.terminal import Display

    run_demo(output or unused(Path("runs/demo")), display=Display(quiet=quiet))


@app.command()
def train(
    data: Annotated[
        list[str] | None,
        Argument(
            metavar="DATA | SOURCE TARGET [key=value ...]",
            help="A TSV file, or a source and a target file, plain or .gz; or builtin:grammar. "
            "Settings such as training.learning_rate=1e-3 may follow.",
            show_default=False,
        ),
    ] = None,
    output: Annotated[Path | None, Option("--output", "-o", help="Model directory.", show_default="runs/NAME")] = None,
    valid: Annotated[
        list[str] | None, Option(help="Validation pairs: a TSV file; give it twice for two.", show_default="split off")
    ] = None,
    test: Annotated[list[str] | None, Option(help="Test pairs, likewise.", show_default="split off")] = None,
    size: Annotated[
        str | None, Option(metavar="|".join(SIZES), help="Recipe of this size.", show_default="by the amount of data")
    ] = None,
    recipe: Annotated[str | None, Option(help="A named recipe, or a YAML file with settings.")] = None,
    max_minutes: Annotated[
        float | None, Option(help="Stop training after this long.", show_default="when BLEU stops rising")
    ] = None,
    precision: Annotated[str | None, Option(metavar=PRECISIONS, help="Of the products.", show_default="auto")] = None,
    tensorboard: Annotated[bool, Option("--tensorboard", help="Also write the curves for TensorBoard.")] = False,
    seed: Annotated[int | None, Option(help="For split, weights, order, dropout.", show_default="1")] = None,
    resume: Annotated[Path | None, Option(metavar="DIR", help="Go on with the run in this directory.")] = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Train a translator on sentence pairs."""
    from dragoman import run
    from dragoman.terminal import Display

    settings = [argument for argument in data or [] if "=" in argument and not Path(argument).exists()]
    paths = [argument for argument in data or [] if argument not in settings]
    given = {"training.max_minutes": max_minutes, "training.precision": precision, "seed": seed}
    given["training.tensorboard"] = "true" if tensorboard else None
    settings += [f"{key}={value}" for key, value in given.items() if value is not None]
    display = Display(quiet=quiet)
    if resume:
        if paths or output or valid or test or size or recipe:
            raise UsageError("--resume takes data, size and folder from the run; leave them out, or start a new run.")
        directory, evaluation = resume, run.resume(resume, settings, display=display)
    else:
        if size and recipe:
            raise UsageError("--size and --recipe both choose the settings; give one of them.")
        if size and size not in SIZES:
            raise UsageError(f"There is no size '{size}'; choose {', '.join(SIZES)}, or a recipe with --recipe.")
        if len(paths) not in (1, 2):
            raise UsageError(f"`train` takes a file of pairs or two aligned files, not {len(paths)} files.")
        settings += [f"data.{name}={json.dumps(files)}" for name, files in (("valid", valid), ("test", test)) if files]
        config, bitext = run.configure(paths, recipe=recipe or size, settings=settings)
        directory = output or Path("runs", bitext.name)
        evaluation = run.start(bitext, config, directory, display=display)
    print_scores(evaluation, "On the test pairs", as_json=as_json)
    display.note(f'Try it:  dragoman translate {directory} "..."')


@app.command()
def average(
    run: Annotated[Path, Argument(metavar="RUN", help="A model directory with its run/ folder.", show_default=False)],
    output: Annotated[Path, Option("--output", "-o", help="Model directory to write.")],
    last: Annotated[int, Option(min=2, help="How many of the last snapshots.")] = 5,
) -> None:
    """Average the weights of a run's last validations into a new model."""
    from dragoman.training.averaging import average_snapshots

    steps = average_snapshots(run, output, last=last)
    print(f"{output} holds the average of steps {', '.join(f'{step:,}' for step in steps)}.", file=sys.stderr)


@app.command()
def compare(
    runs: Annotated[
        list[Path],
        Argument(metavar="RUN RUN ...", help="Model directories with their run/ folders.", show_default=False),
    ],
    output: Annotated[Path | None, Option("--output", "-o", help="HTML page with the curves of all runs.")] = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Compare runs: size, data, time, scores, and the settings that differ."""
    if len(runs) < 2:
        raise UsageError(f"`compare` takes two runs or more; give another one beside {runs[0]}.")
    from dragoman.report.comparison import ComparedRun, differing_settings, remarks, setting_rows, table_rows
    from dragoman.report.comparison_page import write_comparison
    from dragoman.terminal import Display, comparison_table

    compared = [ComparedRun.read(path) for path in runs]
    if output:
        write_comparison(output, compared)
        Display(quiet=quiet).note(f"The curves are in {output}.")
    if as_json:
        settings = differing_settings(compared)
        figures = [
            run.figures() | {"settings": {key: values[index] for key, values in settings.items()}}
            for index, run in enumerate(compared)
        ]
        print(json.dumps(figures, ensure_ascii=False))
        return
    from rich.console import Console

    Console().print(comparison_table([run.name for run in compared], table_rows(compared) | setting_rows(compared)))
    for remark in remarks(compared):
        print(remark)
