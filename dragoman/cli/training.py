"""Commands that make models and compare runs: demo, train, average, compare."""

import json
import os
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from dragoman.cli import options
from dragoman.cli.checks import NewRun, check_model, chosen_settings, files_and_settings
from dragoman.cli.notices import mention_missing_kernels
from dragoman.cli.options import OUTPUT, TRAINING_PRECISIONS, Argument, Context, File, Option, app, choice, print_json
from dragoman.errors import UsageError, command_line
from dragoman.system.atomic import check_output
from dragoman.system.urls import as_typed, is_url

if TYPE_CHECKING:
    from dragoman.config.run import RunConfig
    from dragoman.config.settings import Settings
    from dragoman.data.pair_file import PairFile
    from dragoman.data.prepared_folder import PreparedFolder
    from dragoman.evaluation.evaluate import Evaluation
    from dragoman.report.comparison import ComparedRun
    from dragoman.system.ranks import Ranks

SIZE = choice("size", ("tiny", "small", "base", "big"), remedy=", or a recipe with --recipe")


def output_option(*, default: str = "") -> Any:
    """The option --output of a command that writes a model directory; `default` is the sentence about its default."""
    return Option(*OUTPUT, metavar="DIR", help=f"Model directory to write. {default}".rstrip())


@dataclass(frozen=True)
class PlannedRun:
    """A run that can start, or go on, with all its settings chosen."""

    path: Path
    config: "RunConfig"
    pairs: "PairFile | PreparedFolder | None" = None
    """Pairs of a new run; None for a run that goes on."""


@app.command(needs_torch=True, epilog="dragoman demo\ndragoman demo --output runs/first")
def demo(
    context: Context,
    output: Annotated[Path | None, output_option(default="Default: runs/demo.")] = None,
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
    needs_torch=True,
    epilog="dragoman train pairs.tsv --max-minutes 20\n"
    "dragoman train train.en train.fr --valid valid.en --valid valid.fr --output runs/en-fr\n"
    "dragoman train pairs.tsv training.learning_rate=1e-3 model.norm=rms\n"
    "dragoman train prepared/en-fr --size small\n"
    "dragoman train our-pairs.tsv --finetune runs/en-fr --mix general.tsv:0.25 --max-minutes 10\n"
    "dragoman train pairs.tsv --monolingual news.fr --max-minutes 60 --output runs/en-fr\n"
    "dragoman train --resume runs/en-fr --max-minutes 40",
)
def train(
    context: Context,
    data: Annotated[list[str] | None, options.pairs(setting="training.learning_rate=1e-3")] = None,
    output: Annotated[Path | None, output_option(default="Default: runs/NAME.")] = None,
    columns: options.Columns = None,
    valid: options.Valid = None,
    test: options.Test = None,
    size: Annotated[str | None, Option(**SIZE, help="Recipe of this size. Default: by the amount of data.")] = None,
    recipe: options.Recipe = None,
    finetune: Annotated[
        str | None,
        Option(metavar="MODEL", help="Fine-tune the model in this directory; tokenizers and layers are its own."),
    ] = None,
    new_vocabulary: Annotated[
        bool,
        Option("--new-vocabulary", help="With --finetune: the model is for other languages; train new tokenizers."),
    ] = False,
    add_language: Annotated[
        list[str] | None,
        Option(
            metavar="CODE[:like=CODE]",
            help="With --finetune: a language that the model does not know yet; may be repeated.",
        ),
    ] = None,
    mix: Annotated[
        str | None,
        Option(metavar="FILE:SHARE", help="With --finetune: general pairs, and their share of an epoch, such as 0.25."),
    ] = None,
    fuzzy: Annotated[
        bool,
        Option(
            "--fuzzy",
            help="Also learn to reuse translations of similar sentences, as `translate --memory` finds them: for text "
            "that repeats.",
        ),
    ] = False,
    terms: Annotated[
        bool,
        Option("--terms", help="Also learn to use the terms of a glossary, in the form that the sentence needs."),
    ] = False,
    monolingual: Annotated[
        list[str] | None,
        File(help="Sentences of the target language, one on each line, to back-translate; may be repeated."),
    ] = None,
    reverse: Annotated[
        Path | None,
        Option(metavar="MODEL", help="With --monolingual: a model of the other direction. Default: one is trained."),
    ] = None,
    ratio: Annotated[
        str | None,
        Option(
            metavar="X[,X ...]",
            help="Back-translated pairs for each real one; of several, the best is kept. Default: up to 1.",
        ),
    ] = None,
    max_minutes: Annotated[
        str | None, Option(metavar="X", help="Minutes from start to report. Default: until the model gets no better.")
    ] = None,
    precision: Annotated[
        str | None, Option(**TRAINING_PRECISIONS, help="Precision of matrix products. Default: auto.")
    ] = None,
    seed: Annotated[
        str | None, Option(metavar="N", help="Seed of the split, the first weights, the order and dropout. Default: 1.")
    ] = None,
    tensorboard: Annotated[bool, Option("--tensorboard", help="Also write the curves for TensorBoard.")] = False,
    no_sketch: Annotated[
        bool,
        Option(
            "--no-sketch",
            help="Keep no sketch of the training sentences with the model. No text can be read from one; `evaluate` "
            "warns by it of test sentences that were trained on.",
        ),
    ] = False,
    learning_curve: Annotated[
        bool,
        Option(
            "--learning-curve",
            help="Afterwards also train on a half and on a quarter of the pairs, for as large a share of the minutes, "
            "to tell what twice the pairs would bring.",
        ),
    ] = False,
    resume: Annotated[
        str | None, Option(metavar="DIR", help="Resume the run in this directory, or at the URL of its mirror.")
    ] = None,
    dry_run: Annotated[
        bool,
        Option("--dry-run", help="Train nothing; print what is chosen, and how much memory 1, 8 and 64 GPUs need."),
    ] = False,
) -> None:
    """Train a translator on sentence pairs."""
    from dragoman.config.settings import merged
    from dragoman.config.training import FUZZY, TERMS

    paths, settings = files_and_settings("train", [*(data or ()), columns], required=False, valid=valid, test=test)
    given = {
        "training.max_minutes": max_minutes,
        "training.precision": precision,
        "seed": seed,
        "training.tensorboard": tensorboard or None,
        "data.sketch": False if no_sketch else None,
        "finetune.model": finetune and json.dumps(finetune),
        "finetune.vocabulary": "new" if new_vocabulary else None,
        "training.fuzzy": FUZZY if fuzzy else None,
        "training.terms": TERMS if terms else None,
        "finetune.add_language": add_language and json.dumps(add_language),
        **_mixture(mix),
    }
    run = NewRun(paths, recipe or size, merged(settings, chosen_settings(size, recipe, given)))
    # A run at a URL has no folder on this machine yet, so --output may choose one.
    refused_output = None if is_url(resume or "") else output
    of_base = (finetune, new_vocabulary, add_language, mix)
    if resume and any((paths, columns, refused_output, valid, test, size, recipe, seed, *of_base, no_sketch)):
        raise UsageError("--resume takes data, model, size, seed and folder from the run; leave them out.")
    if output and is_url(as_typed(output)):
        raise UsageError(
            "--output is a folder of this machine; to keep a copy of the run at a URL, set training.mirror."
        )
    goes_on = bool(run.settings.get("finetune", {}).get("model"))
    if goes_on and (size or run.settings.get("size")):
        raise UsageError("--finetune keeps the size of its model; leave out --size.")
    if learning_curve and (resume or dry_run or monolingual or goes_on or _is_prepared_or_shared(paths)):
        raise UsageError(
            "--learning-curve is for a new run on files of pairs, in one process; leave out --resume, --dry-run, "
            "--monolingual, --finetune and torchrun, and give the files."
        )
    from dragoman.cli.teaching import back_translate, resume_synthetic
    from dragoman.runs.synthetic.request import is_synthetic

    if monolingual or reverse or ratio:
        if resume or goes_on or dry_run:
            raise UsageError("--monolingual is for a new model; leave out --resume, --finetune and --dry-run.")
        back_translate(context, run, output, monolingual=monolingual, reverse=reverse, ratio=ratio)
    elif dry_run:
        if resume:
            config = _plan_resume(context, resume, run.settings, output).config
        else:
            plan = _plan_new(run, output)
            config = plan.config
            _foresee_training(plan)
        _print_estimate(context, config)
    elif resume and not is_url(resume) and is_synthetic(Path(resume)):
        resume_synthetic(context, Path(resume), run.settings)
    else:
        with _ranks() as ranks:
            trained = _train(context, run, output, resume, ranks, in_parts=learning_curve)
            if learning_curve and trained:
                _train_parts(context, run, *trained)


def _is_prepared_or_shared(paths: list[str]) -> bool:
    """Whether pairs are prepared already, or several processes train together."""
    from dragoman.system.resources import started_together

    return bool(paths and os.path.isdir(paths[0])) or started_together()[0] > 1


def _ranks() -> AbstractContextManager["Ranks | None"]:
    """The processes that torchrun has started for this command; None if this one is alone."""
    from dragoman.system.resources import started_together

    if started_together()[0] == 1:  # then torch is not loaded yet
        return nullcontext()
    from dragoman.system.ranks import open_ranks

    return open_ranks()


def _train(
    context: Context, run: NewRun, output: Path | None, resume: str | None, ranks: "Ranks | None", *, in_parts: bool
) -> "tuple[PlannedRun, Evaluation] | None":
    """Start the run, or go on with the one to resume, and print its scores; ranks above 0 only compute.

    Pairs that are to be trained on `in_parts` later are refused if they have no parts.
    """
    if ranks and ranks.index:
        from dragoman.runs.train import follow_run

        follow_run(ranks)
        return None
    source = _interrupted_run(run, output, resume) if ranks else resume
    # Without --resume, this is the command that began the run, so its settings are those of the run already.
    settings = run.settings if resume else {}
    plan = _plan_resume(context, source, settings, output) if source else _plan_new(run, output)
    if in_parts:
        from dragoman.runs.learning_curve import refuse_without_parts

        refuse_without_parts(plan.config)
    from dragoman.runs.train import resume_run, start_run

    mention_missing_kernels(context)
    display, started = context.display(), context.started
    if plan.pairs is None:
        evaluation = resume_run(plan.path, plan.config, listener=display, started=started, ranks=ranks)
    else:
        evaluation = start_run(plan.pairs, plan.config, plan.path, listener=display, started=started, ranks=ranks)
    options.print_trained(context, evaluation, plan.path)
    return plan, evaluation


def _train_parts(context: Context, run: NewRun, plan: PlannedRun, whole: "Evaluation") -> None:
    """Train on parts of the pairs of a run, and say what twice as many would bring."""
    from dragoman.runs.learning_curve import train_on_parts
    from dragoman.runs.outlook import curve_sentence, gain_of_pairs

    points = train_on_parts(run.paths, run.recipe, run.settings, plan.path, plan.config, whole, context.display())
    if context.as_json:
        gain = gain_of_pairs(points)
        print_json({"learning_curve": [point.to_dict() for point in points], "gain_of_twice_the_pairs": asdict(gain)})
    context.display().note(curve_sentence(points))


def _interrupted_run(run: NewRun, output: Path | None, resume: str | None) -> str | None:
    """Folder or URL of the run that was interrupted, if torchrun, Slurm or another one repeats a command as it was."""
    from dragoman.runs.mirrored import mirror_in_use
    from dragoman.storage.run_directory import RunDirectory

    if output and RunDirectory(output).config.exists():
        return str(output)
    if resume or not output:
        return resume
    return mirror_in_use(run.recipe, run.settings)


def _plan_new(run: NewRun, output: Path | None) -> PlannedRun:
    """Choose what the command leaves open, and clean the pairs."""
    from dragoman.config.training import NO_TEACHER
    from dragoman.runs.plan import build_config, plan_run
    from dragoman.storage.run_directory import RunDirectory

    if output:
        RunDirectory(output).refuse_if_used()
    if build_config(run.recipe, run.settings).training.soft_targets:
        raise UsageError(NO_TEACHER)
    config, pairs = plan_run(run.paths, recipe=run.recipe, settings=run.settings, near=output or Path())
    path = output or Path("runs", pairs.name)
    RunDirectory(path).refuse_if_used()
    return PlannedRun(path, config, pairs)


def _plan_resume(context: Context, source: str, settings: "Settings", output: Path | None) -> PlannedRun:
    """The plan of a run that goes on; one at a URL is downloaded into `output` first."""
    from dragoman.runs.mirrored import fetch_run
    from dragoman.runs.plan import plan_resume

    if not is_url(source):
        return PlannedRun(Path(source), plan_resume(Path(source), settings))
    display = context.display()
    with display.status(f"Fetching the run from {source}"):
        path, config = fetch_run(source, output, settings, warn=display.warn)
    return PlannedRun(path, config)


def _foresee_training(plan: PlannedRun) -> None:
    """Fill in what a new run would choose, as far as that does not depend on its speed, and say what does."""
    from dragoman.data.pair_file import PairFile
    from dragoman.runs.choices import choose_training, needs_throughput, usual_batch
    from dragoman.runs.plan import resources
    from dragoman.storage.validate import check_files

    config = plan.config
    if needs_throughput(config):
        config.training.max_tokens = usual_batch(config)
        config.chosen.append(
            "Learning rate, dropout, R-Drop, label smoothing and the size of batches follow from how often pairs will "
            "be seen; `train` measures its speed for that. The memory is that of batches of "
            f"{config.training.max_tokens:,} target tokens without R-Drop; with it, activations are twice as many."
        )
    elif plan.pairs is not None:
        counts = plan.pairs.counts
        pairs, tokens = (counts.pairs, counts.tokens) if isinstance(plan.pairs, PairFile) else counts
        base = check_files(Path(config.finetune.model))[1] if config.finetune.model else None
        choose_training(config, resources(pairs, tokens), base)


def _print_estimate(context: Context, config: "RunConfig") -> None:
    """Print what was chosen for a run, and the memory that each GPU needs, for several numbers of GPUs."""
    from dragoman.runs.estimate import estimate

    cases = [case.to_dict() for case in estimate(config)]
    if context.as_json:
        print_json({"chosen": config.chosen, "memory": cases})
        return
    from dragoman.terminal import console
    from dragoman.terminal.tables import comparison_table

    for line in config.chosen:
        print(line)
    parts = [name for name in cases[0] if name not in ("ranks", "parallel")]
    rows = {}
    for case in cases:
        gpus = "1 GPU" if case["ranks"] == 1 else f"{case['ranks']} GPUs"
        rows[f"{gpus}, {case['parallel']}"] = [f"{case[part] / 1e9:.2f}" for part in parts]
    console().print("Memory of each GPU, GB", comparison_table(parts, rows))


def _mixture(mix: str | None) -> dict[str, str | None]:
    """Settings for the value of --mix, which is FILE:SHARE or SOURCE,TARGET:SHARE."""
    if mix is None:
        return {}
    files, colon, share = mix.rpartition(":")
    if not colon or not files:
        raise UsageError(f"--mix {mix} has no share; write FILE:SHARE, such as general.tsv:0.25.")
    names = [files] if os.path.exists(files) else files.split(",")
    return {"finetune.mix": json.dumps(names), "finetune.share": share}


@app.command(needs_torch=True, epilog="dragoman average runs/en-fr --last 5 --output runs/en-fr-averaged")
def average(
    context: Context,
    run: Annotated[Path, Argument(metavar="RUN", help="A model directory with its run/ folder.")],
    output: Annotated[Path, output_option()],
    last: Annotated[int, Option(metavar="N", min=2, help="How many of the last snapshots to average.")] = 5,
) -> None:
    """Average the weights of a run at its last validations, which it keeps if `training.average` is above 1."""
    from dragoman.storage.run_directory import refuse_to_overwrite

    refuse_to_overwrite(output)
    check_model(run)
    from dragoman.runs.average import average_snapshots

    steps = average_snapshots(run, output, last=last)
    if context.as_json:
        print_json({"model": str(output), "steps": steps})
    listed = ", ".join(f"{step:,}" for step in steps)
    context.display().note(f"{output} holds the average of steps {listed}.")


@app.command(needs_torch=True)
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
    finally:  # the figures are printed even if the page cannot be written
        _print_compared(context, compared)


def _print_compared(context: Context, compared: "list[ComparedRun]") -> None:
    """Print the figures of runs as a table, or as JSON."""
    from dragoman.report.comparison import differing_settings, paired_tests, remarks, setting_rows, table_rows
    from dragoman.terminal import console
    from dragoman.terminal.tables import comparison_table

    if context.as_json:
        differing = differing_settings(compared)
        figures = []
        for index, run in enumerate(compared):
            settings = {key: values[index] for key, values in differing.items()}
            figures.append(run.figures() | {"settings": settings})
        # Each test stands with the later of its two runs.
        for comparison in paired_tests(compared):
            later = next(entry for entry in figures if entry["run"] == comparison.system)
            later.setdefault("tests", []).append({"baseline": comparison.baseline, **comparison.to_dict()["tests"]})
        common = remarks(compared)
        for entry in figures:
            entry["remarks"] = common
        print_json(figures)
        return
    rows = table_rows(compared) | setting_rows(compared)
    console().print(comparison_table([run.name for run in compared], rows))
    for remark in remarks(compared):
        print(remark)
