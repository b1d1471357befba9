"""Commands that draw: plot mask, positions, schedules, split, curves, attention."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from dragoman.cli import options
from dragoman.cli.app import App
from dragoman.cli.checks import check_decoding, check_model
from dragoman.cli.options import OUTPUT, Argument, Context, Model, Option, Target, app, choice, decoding, print_json
from dragoman.errors import DataError, UsageError, did_you_mean
from dragoman.system.atomic import check_output

if TYPE_CHECKING:
    from dragoman.report.pictures.picture import Picture

plot = App(help="Draw masks, positions, schedules, splits, curves and attention, as PNG or SVG.")
app.add_typer(plot, name="plot")


def _check_picture(path: Path) -> Path:
    """Raise `UsageError` for a file that cannot be written, before anything is computed."""
    check_output(path)
    from dragoman.report.pictures.files import check_suffix

    check_suffix(path)
    return path


Output = Annotated[Path, Option(*OUTPUT, metavar="FILE", help="File to write, .png or .svg.", callback=_check_picture)]
Count = Annotated[int | None, Option(metavar="N", min=0, help="Number of sentence pairs, instead of a run's.")]


@plot.command(needs_torch=True, epilog='dragoman plot mask --length 20\ndragoman plot mask "I see a small cat"')
def mask(
    context: Context,
    text: Annotated[str | None, Argument(metavar="[TEXT]", help="A sentence to show with padding after it.")] = None,
    length: Annotated[
        int | None,
        Option(metavar="N", min=1, max=200, help="Positions. Default: 20, or the length of the sentence and 3 more."),
    ] = None,
    output: Output = Path("mask.png"),
) -> None:
    """Draw the look-ahead mask, or what look-ahead and padding hide together in a sentence."""
    from dragoman.report.pictures import plot_causal_mask, plot_example_mask

    figure = plot_causal_mask(length or 20) if text is None else plot_example_mask(text.split(), length=length)
    _save(context, figure, output)


@plot.command(
    needs_torch=True, epilog="dragoman plot positions\ndragoman plot positions --products --output products.svg"
)
def positions(
    context: Context,
    length: Annotated[int, Option(metavar="N", min=2, max=2000, help="Positions.")] = 100,
    d_model: Annotated[int, Option(metavar="N", min=2, max=4096, help="Features.")] = 128,
    products: Annotated[bool, Option("--products", help="Draw the dot products of all encodings instead.")] = False,
    output: Output = Path("positions.png"),
) -> None:
    """Draw the sinusoidal positional encoding, or its dot products, which depend on distances alone."""
    from dragoman.report.pictures import plot_position_products, plot_positions

    draw = plot_position_products if products else plot_positions
    _save(context, draw(length=length, d_model=d_model), output)


@plot.command(
    needs_torch=True,
    epilog="dragoman plot schedules\ndragoman plot schedules d_model=512,warmup=4000 learning_rate=2e-3",
)
def schedules(
    context: Context,
    curves: Annotated[
        list[str] | None,
        Argument(
            metavar="[CURVE ...]",
            help="Settings of a schedule, such as warmup=4000,d_model=512 or schedule=inverse_sqrt,learning_rate=1e-3. "
            "Default: the paper's, and one of each kind.",
        ),
    ] = None,
    steps: Annotated[int, Option(metavar="N", min=1, max=10_000_000, help="Steps to draw.")] = 20_000,
    output: Output = Path("schedules.png"),
) -> None:
    """Draw learning rates over the steps of a run."""
    from dragoman.report.pictures import example_schedules, plot_schedules, read_curve

    if curves:
        configs = {curve.replace(",", ", "): read_curve(curve, steps=steps) for curve in curves}
        figure = plot_schedules({"Learning rate": configs}, steps=steps)
    else:
        figure = plot_schedules(example_schedules(steps), steps=steps)
    _save(context, figure, output)


@plot.command(
    needs_torch=True,
    epilog="dragoman plot split runs/en-fr\ndragoman plot split --train 70000 --valid 20000 --test 10000",
)
def split(
    context: Context,
    run: Annotated[Path | None, Argument(metavar="[RUN]", help="A model directory with its run/ folder.")] = None,
    train: Count = None,
    valid: Count = None,
    test: Count = None,
    output: Output = Path("split.png"),
) -> None:
    """Draw how sentence pairs are split into training, validation and test pairs."""
    options = {"training": train, "validation": valid, "test": test}
    counts = {name: count for name, count in options.items() if count is not None}
    if bool(run) == bool(counts):
        raise UsageError("`plot split` takes a run, or counts with --train, --valid and --test; give one of the two.")
    from dragoman.report.pictures import plot_split, read_split

    _save(context, plot_split(read_split(run) if run else counts), output)


@plot.command(
    needs_torch=True,
    epilog="dragoman plot curves runs/en-fr\ndragoman plot curves runs/en-fr runs/en-de --output both.svg",
)
def curves(
    context: Context,
    runs: Annotated[list[Path], Argument(metavar="RUN ...", help="Model directories with their run/ folders.")],
    panel: Annotated[
        list[str] | None,
        Option(
            metavar="NAME", help="Draw this panel only; may be repeated. Default: all; of several runs, loss and BLEU."
        ),
    ] = None,
    output: Output = Path("curves.png"),
) -> None:
    """Draw the loss and the scores of a run over its steps, or of several runs over each other."""
    from dragoman.report.pictures import OVERLAYS, PANELS, plot_curves, plot_runs
    from dragoman.storage.metrics_log import read_metrics
    from dragoman.storage.run_directory import RunDirectory

    known = PANELS if len(runs) == 1 else OVERLAYS
    for name in panel or []:
        if name not in known:
            raise UsageError(f"There is no panel '{name}'{did_you_mean(name, known)}; choose {', '.join(known)}.")
    files = {run: RunDirectory(run).metrics for run in runs}
    for run, file in files.items():
        if not file.is_file():
            raise DataError(f"{run} holds no run: there is no {file}; give folders that `dragoman train` wrote.")
    metrics = {_name(run, runs): read_metrics(file) for run, file in files.items()}
    figure = plot_runs(metrics, panel or ()) if len(runs) > 1 else plot_curves(*metrics.values(), panel or ())
    _save(context, figure, output)


@plot.command(
    needs_torch=True, settings=lambda: decoding("beam_size"), epilog='dragoman plot attention runs/en-fr "I see a cat."'
)
def attention(
    context: Context,
    model: Model,
    text: Annotated[str, Argument(metavar="TEXT", help="A sentence, in quotes.")],
    target: Target = None,
    source_language: options.From = None,
    target_language: options.To = None,
    kind: Annotated[
        str, Option(**choice("attention", ("cross", "encoder", "decoder")), help="Attention to draw.")
    ] = "cross",
    layer: Annotated[int | None, Option(metavar="N", help="Layer to draw large. Default: the clearest one.")] = None,
    head: Annotated[int | None, Option(metavar="N", help="Head to draw large. Default: the mean of all.")] = None,
    output: Output = Path("attention.png"),
) -> None:
    """Draw which words the words of a sentence attended to, in each layer and head."""
    check_model(model, [text])
    from dragoman.storage.validate import check_languages

    check_languages(model, source_language, target_language)
    config = check_decoding(model, context.settings)
    from dragoman.report import inspect_translation
    from dragoman.report.pictures import plot_heads
    from dragoman.storage.model_directory import ModelDirectory

    directory = ModelDirectory.load(model).speaking(source_language, target_language)
    directory.require_languages()
    inspection = inspect_translation(directory, text, target=target, beam_size=config.beam_size)
    _save(context, plot_heads(inspection, kind, layer=layer, head=head), output)


def _name(run: Path, runs: list[Path]) -> str:
    """The name of a run's folder, or its path if the folders of several runs have that name."""
    names = [path.name for path in runs]
    return run.name if names.count(run.name) == 1 else str(run)


def _save(context: Context, figure: "Picture", path: Path) -> None:
    """Write the picture, and print the name of its file."""
    from dragoman.report.pictures import save_picture

    save_picture(figure, path)
    if context.as_json:
        print_json({"picture": str(path)})
    else:
        print(path)
