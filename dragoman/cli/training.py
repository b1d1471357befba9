"""Commands that make models and compare runs: demo, train, average, compare."""

import json
import os
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from dragoman.cli import options
from dragoman.cli.checks import check_model, check_output, chosen_settings, files_and_settings
from dragoman.cli.notices import mention_missing_kernels
from dragoman.cli.options import OUTPUT, TRAINED_IN, Argument, Context, File, Option, app, choice, print_json
from dragoman.errors import UsageError, command_line
from dragoman.system.urls import is_url

if TYPE_CHECKING:
    from dragoman.config.run import RunConfig
    from dragoman.config.settings import Settings
    from dragoman.data.pair_file import PairFile
    from dragoman.data.prepared_folder import PreparedFolder
    from dragoman.report.comparison import ComparedRun
    from dragoman.system.ranks import Ranks
    from dragoman.terminal import Display

SIZE = choice("size", ("tiny", "small", "base", "big"), remedy=", or a recipe with --recipe")


def directory(default: str) -> Any:
    """The option for a model directory to write."""
    return Option(*OUTPUT, metavar="DIR", help=f"Model directory to write.{default}")


@app.command(epilog="dragoman demo\ndragoman demo --output runs/first")
def demo(
    context: Context,
    output: Annotated[Path | None, directory(" Default: runs/demo.")] = None,
) -> None:
    """Train a small English-French translator on built-in sentences, score it and try it: three minutes, offline."""
    from dragoman.storage.run_directory import RunDirectory, unused

    path = output or unused(Path("runs/demo"))
    RunDirectory(path).refuse_if_used()
    from dragoman.cli.demo import run_demo

    display = context.display()
    mention_missing_kernels(context)
    options.print_scores(context, run_demo(path, display=display), "On held-out combinations of words")
    display.note(
        f"The model is in {path}, its curves and attention in {path / 'report.html'}.\n"
        "What to type next:\n"
        f"  {command_line('translate', path, 'The little girl does not like the old green umbrella.')}\n"
        f"  {command_line('evaluate', path, 'builtin:grammar:500:test')}\n"
        f"  {command_line('train', 'YOUR-PAIRS.tsv')}"
    )


@app.command(
    epilog="dragoman train pairs.tsv --max-minutes 20\n"
    "dragoman train train.en train.fr --valid valid.en --valid valid.fr --output runs/en-fr\n"
    "dragoman train pairs.tsv training.learning_rate=1e-3 model.norm=rms\n"
    "dragoman train prepared/en-fr --size small\n"
    "dragoman train our-pairs.tsv --finetune runs/en-fr --mix general.tsv:0.25 --max-minutes 10\n"
    "dragoman train pairs.tsv --monolingual news.fr --max-minutes 60 --output runs/en-fr\n"
    "dragoman train --resume runs/en-fr --max-minutes 40"
)
def train(
    context: Context,
    data: Annotated[list[str] | None, options.pairs(setting="training.learning_rate=1e-3")] = None,
    output: Annotated[Path | None, directory(" Default: runs/NAME.")] = None,
    columns: options.Columns = None,
    valid: options.Valid = None,
    test: options.Test = None,
    size: Annotated[str | None, Option(**SIZE, help="Recipe of this size. Default: by the amount of data.")] = None,
    recipe: options.Recipe = None,
    finetune: Annotated[
        str | None, Option(metavar="MODEL", help="Go on from this model directory, with its tokenizers and layers.")
    ] = None,
    mix: Annotated[
        str | None,
        Option(metavar="FILE:SHARE", help="With --finetune: general pairs, and their share of an epoch, such as 0.25."),
    ] = None,
    monolingual: Annotated[
        list[str] | None, File(help="Target sentences, one on each line, to back-translate and learn from; repeatable.")
    ] = None,
    reverse: Annotated[
        Path | None,
        Option(metavar="MODEL", help="With --monolingual: a model of the other direction. Default: one is trained."),
    ] = None,
    ratio: Annotated[
        str | None,
        Option(
            metavar="X[,X ...]", help="Back-translated pairs for each real one; several are tried. Default: up to 1."
        ),
    ] = None,
    max_minutes: Annotated[
        str | None, Option(metavar="X", help="Minutes from start to report. Default: as long as it gets better.")
    ] = None,
    precision: Annotated[str | None, Option(**TRAINED_IN, help="Precision of matrix products. Default: auto.")] = None,
    seed: Annotated[
        str | None, Option(metavar="N", help="Seed of the split, the first weights, the order and dropout. Default: 1.")
    ] = None,
    tensorboard: Annotated[bool, Option("--tensorboard", help="Also write the curves for TensorBoard.")] = False,
    resume: Annotated[
        str | None, Option(metavar="DIR", help="Resume the run in this directory, or at the URL of its mirror.")
    ] = None,
    dry_run: Annotated[
        bool, Option("--dry-run", help="Train nothing; print what is chosen, and the memory of 1, 8 and 64 GPUs.")
    ] = False,
) -> None:
    """Train a translator on sentence pairs."""
    paths, settings = files_and_settings("train", [*(data or ()), columns], required=False, valid=valid, test=test)
    given = {"training.max_minutes": max_minutes, "training.precision": precision, "seed": seed}
    given["training.tensorboard"] = tensorboard or None
    given["finetune.model"] = finetune and json.dumps(finetune)
    from dragoman.config.settings import merged

    settings = merged(settings, chosen_settings(size, recipe, given | _mixture(mix)))
    placed = output and not is_url(resume or "")  # a run at a URL has no folder here yet
    if resume and (paths or columns or placed or valid or test or size or recipe or seed or finetune or mix):
        raise UsageError("--resume takes data, model, size, seed and folder from the run; leave them out.")
    if output and is_url(str(output).replace(":/", "://", 1)):
        raise UsageError(
            "--output is a folder of this machine; to keep a copy of the run at a URL, set training.mirror."
        )
    if size and finetune:
        raise UsageError("--finetune keeps the size of its model; leave out --size.")
    if monolingual or reverse or ratio:
        from dragoman.cli.teaching import back_translate

        if resume or finetune or dry_run:
            raise UsageError("--monolingual is for a new model; leave out --resume, --finetune and --dry-run.")
        run, sentences = (paths, recipe or size, settings), (monolingual, reverse, ratio)
        return back_translate(context, run, sentences, output, started=context.started)
    if resume and not dry_run and not is_url(resume):
        from dragoman.cli.teaching import go_on, is_taught

        if is_taught(Path(resume)):
            return go_on(context, Path(resume), settings, started=context.started)
    with nullcontext() if dry_run else _ranks() as ranks:
        if ranks and ranks.index:
            from dragoman.runs.train import follow_run

            return follow_run(ranks)
        display = context.display()
        source = _resumed(recipe or size, settings, output=output, resume=resume) if ranks else resume
        if source:
            path, config = _plan_resume(source, settings if resume else {}, output=output, display=display)
            pairs = None
        else:
            path, config, pairs = _plan(paths, recipe or size, settings, output=output)
        if dry_run:
            return _print_estimate(context, config)
        from dragoman.runs.train import resume_run, start_run

        mention_missing_kernels(context)
        if pairs is not None:
            evaluation = start_run(pairs, config, path, listener=display, started=context.started, ranks=ranks)
        else:
            evaluation = resume_run(path, config, listener=display, started=context.started, ranks=ranks)
        options.print_trained(context, evaluation, path)


def _ranks() -> AbstractContextManager["Ranks | None"]:
    """The processes that torchrun has started with this one; None if there are no others."""
    from dragoman.system.resources import started_together

    if started_together()[0] == 1:  # then torch is not loaded yet
        return nullcontext()
    from dragoman.system.ranks import open_ranks

    return open_ranks()


def _resumed(recipe: str | None, settings: "Settings", *, output: Path | None, resume: str | None) -> str | None:
    """The run that a command goes on with, if it was interrupted: torchrun, Slurm and others repeat it as it was."""
    from dragoman.runs.mirrored import mirror_in_use
    from dragoman.storage.run_directory import RunDirectory

    if output and RunDirectory(output).config.exists():
        return str(output)
    return resume or (mirror_in_use(recipe, settings) if output else None)


def _plan_resume(
    source: str, settings: "Settings", *, output: Path | None, display: "Display"
) -> tuple[Path, "RunConfig"]:
    """The folder and the config of a run that goes on; one at a URL is downloaded first."""
    from dragoman.runs.mirrored import fetch_run
    from dragoman.runs.plan import plan_resume

    if not is_url(source):
        return Path(source), plan_resume(Path(source), settings)
    with display.status(f"Fetching the run from {source}"):
        return fetch_run(source, output, settings, warn=display.warn)


def _plan(
    paths: list[str], recipe: str | None, settings: "Settings", *, output: Path | None
) -> tuple[Path, "RunConfig", "PairFile | PreparedFolder"]:
    """The folder, the config and the pairs of a new run."""
    from dragoman.config.training import NO_TEACHER
    from dragoman.runs.plan import plan_run, settled
    from dragoman.storage.run_directory import RunDirectory

    if output:
        RunDirectory(output).refuse_if_used()
    if settled([], recipe, settings).training.soft_targets:
        raise UsageError(NO_TEACHER)
    config, pairs = plan_run(paths, recipe=recipe, settings=settings, near=output or Path())
    path = output or Path("runs", pairs.name)
    RunDirectory(path).refuse_if_used()
    return path, config, pairs


def _print_estimate(context: Context, config: "RunConfig") -> None:
    """What was chosen for a run, and the memory of each of its processes."""
    from dragoman.runs.estimate import estimate

    found = [each.to_dict() for each in estimate(config)]
    if context.as_json:
        return print_json({"chosen": config.chosen, "memory": found})
    from dragoman.terminal import comparison_table, console

    for line in config.chosen:
        print(line)
    heads = [name for name in found[0] if name not in ("ranks", "parallel")]
    rows = {
        f"{each['ranks']} GPU{'s' * (each['ranks'] > 1)}, {each['parallel']}": [f"{each[h] / 1e9:.2f}" for h in heads]
        for each in found
    }
    console().print("Memory of each GPU, GB", comparison_table(heads, rows))


def _mixture(mix: str | None) -> dict[str, str | None]:
    """The settings that FILE:SHARE or SOURCE,TARGET:SHARE means."""
    if mix is None:
        return {}
    files, colon, share = mix.rpartition(":")
    if not colon or not files:
        raise UsageError(f"--mix {mix} has no share; write FILE:SHARE, such as general.tsv:0.25.")
    names = [files] if os.path.exists(files) else files.split(",")
    return {"finetune.mix": json.dumps(names), "finetune.share": share}


@app.command(epilog="dragoman average runs/en-fr --last 5 --output runs/en-fr-averaged")
def average(
    context: Context,
    run: Annotated[Path, Argument(metavar="RUN", help="A model directory with its run/ folder.")],
    output: Annotated[Path, directory("")],
    last: Annotated[int, Option(metavar="N", min=2, help="How many of the last snapshots to average.")] = 5,
) -> None:
    """Average the weights of a run's last validations, which it keeps with `training.average` above 1."""
    from dragoman.storage.run_directory import refuse_to_overwrite

    refuse_to_overwrite(output)
    check_model(run)
    from dragoman.runs.average import average_snapshots

    steps = average_snapshots(run, output, last=last)
    if context.as_json:
        print_json({"model": str(output), "steps": steps})
    shown = ", ".join(f"{step:,}" for step in steps)
    context.display().note(f"{output} holds the average of steps {shown}.")


@app.command()
def compare(
    context: Context,
    runs: Annotated[list[Path], Argument(metavar="RUN RUN ...", help="Model directories with their run/ folders.")],
    output: Annotated[Path | None, File(*OUTPUT, help="HTML page to write, with all curves.")] = None,
) -> None:
    """Compare runs: size, data, time, scores, and the settings that differ."""
    if len(runs) < 2:
        raise UsageError(f"`compare` takes two runs or more; give another one beside {runs[0]}.")
    check_output(output)
    from dragoman.report.comparison import ComparedRun

    compared = [ComparedRun.read(path) for path in runs]
    try:
        if output:
            from dragoman.report.comparison_page import write_comparison

            write_comparison(output, compared)
            context.display().note(f"The curves are in {output}.")
    finally:  # a page that cannot be written costs nothing but itself
        _print_compared(context, compared)


def _print_compared(context: Context, compared: "list[ComparedRun]") -> None:
    """Print the figures of runs as a table, or as JSON."""
    from dragoman.report.comparison import differing_settings, remarks, setting_rows, table_rows
    from dragoman.terminal import comparison_table, console

    if context.as_json:
        settings = differing_settings(compared)
        figures = [
            run.figures() | {"settings": {key: values[index] for key, values in settings.items()}}
            for index, run in enumerate(compared)
        ]
        return print_json(figures)
    rows = table_rows(compared) | setting_rows(compared)
    console().print(comparison_table([run.name for run in compared], rows))
    for remark in remarks(compared):
        print(remark)
