"""Runs whose pairs models make: the command distill, and back-translation for `train --monolingual`."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from dragoman.cli import options
from dragoman.cli.checks import NewRun, check_model, chosen_settings, files_and_settings
from dragoman.cli.options import Argument, Context, Ensemble, File, Option, app, choice
from dragoman.errors import UsageError

if TYPE_CHECKING:
    from dragoman.config.settings import Settings
    from dragoman.runs.synthetic.request import SyntheticRunRequest

SIZE = choice("size", ("edge", "edge-2", "tiny", "small", "base"), remedy=", or a recipe with --recipe")
MOST_RATIO = 100
"""Most back-translated pairs for each real one."""
CHOOSE = choice("choice", ("closest", "best"))


@app.command(
    needs_torch=True,
    epilog="dragoman distill runs/en-fr runs/edge --data train.en --data train.fr\n"
    "dragoman distill runs/a runs/edge --ensemble runs/b --data pairs.tsv --max-minutes 60",
)
def distill(
    context: Context,
    teacher: options.Model,
    output: Annotated[Path, Argument(metavar="OUT", help="Model directory to write.")],
    student_settings: Annotated[
        list[str] | None,
        Argument(metavar="[key=value ...]", help="Settings of the student, such as training.learning_rate=1e-3."),
    ] = None,
    data: Annotated[
        list[str] | None, File(help="Pairs, such as those of the teacher; give it twice for two aligned files.")
    ] = None,
    columns: options.Columns = None,
    valid: options.Valid = None,
    test: options.Test = None,
    size: Annotated[str | None, Option(**SIZE, help="Recipe of this size. Default: edge.")] = None,
    recipe: options.Recipe = None,
    ensemble: Ensemble = None,
    choose: Annotated[
        str,
        Option(**CHOOSE, help="Of the teacher's n best translations, learn the closest to the reference, or the best."),
    ] = "closest",
    references: Annotated[
        float,
        Option(
            metavar="SHARE",
            min=0,
            max=0.99,
            help="Share of the pairs that have the reference instead of a translation.",
        ),
    ] = 0.0,
    soft_targets: Annotated[
        float,
        Option(metavar="SHARE", min=0, max=1, help="Share of each target that is the probabilities of the teacher."),
    ] = 0.0,
    source: options.From = None,
    target: options.To = None,
    max_minutes: Annotated[
        str | None, Option(metavar="X", help="Minutes from start to report. Default: until the model gets no better.")
    ] = None,
    seed: Annotated[str | None, Option(metavar="N", help="Seed of split and training. Default: 1.")] = None,
) -> None:
    """Train a small, fast student on the translations of a teacher, which is a model or several together.

    If it is interrupted, the same command goes on with it, and so does `dragoman train --resume OUT`.
    """
    arguments = [*(data or ()), *(student_settings or ()), columns]
    paths, settings = files_and_settings("--data", arguments, required=recipe is None, valid=valid, test=test)
    check_model(teacher, paths, ensemble=ensemble)
    from dragoman.config.settings import merged, setting
    from dragoman.storage.validate import languages

    settings = merged(settings, chosen_settings(size, recipe, {"training.max_minutes": max_minutes, "seed": seed}))
    known = (source, target) if source and target else languages(teacher)
    unset = object()
    if known and setting(settings, "data.languages", unset) is unset:
        settings = merged(settings, {"data": {"languages": list(known)}})
    teachers = [os.path.abspath(model) for model in (teacher, *(ensemble or ()))]
    distillation = {
        "teachers": teachers,
        "choose": choose,
        "references": references,
        "languages": [source, target],
        "soft_targets": soft_targets,
    }
    run = NewRun(paths, recipe or size or "edge", settings)
    request = _request("distill", run, distillation, models=teachers)
    request.write(output)
    resume_synthetic(context, output, {})


def back_translate(
    context: Context,
    run: NewRun,
    output: Path | None,
    *,
    monolingual: Sequence[str] | None,
    reverse: Path | None,
    ratio: str | None,
) -> None:
    """Train the run with sentences that a reverse model translates; the keywords are the options of `train`."""
    if not monolingual:
        raise UsageError("--reverse and --ratio are for sentences without translations; name some with --monolingual.")
    if reverse:
        check_model(reverse)
    from dragoman.data.corpora import open_corpora
    from dragoman.formats.text_files import open_input
    from dragoman.runs.plan import build_config_with_pairs

    for text in monolingual:
        open_input(Path(text)).close()
    path = output or Path("runs", open_corpora(build_config_with_pairs(run.paths, run.recipe, run.settings).data).name)
    texts = [os.path.abspath(text) for text in monolingual]
    model = os.path.abspath(reverse) if reverse else None
    back_translation = {"monolingual": texts, "reverse": model, "ratios": _ratios(ratio)}
    request = _request("back-translate", run, back_translation, models=[model] if model else [], texts=texts)
    request.write(path)
    resume_synthetic(context, path, {})


def _ratios(ratio: str | None) -> list[float]:
    """The numbers in the value of --ratio. Raises `UsageError`."""
    try:
        ratios = [float(number) for number in ratio.split(",")] if ratio else []
    except ValueError:
        ratios = [0.0]
    if not all(0 < number <= MOST_RATIO for number in ratios):
        raise UsageError(f"--ratio is {ratio}; give numbers above 0 to {MOST_RATIO}, such as 1 or 0.5,1,2.")
    return ratios


def _request(
    kind: str, run: NewRun, choices: dict[str, Any], *, models: Sequence[str], texts: Sequence[str] = ()
) -> "SyntheticRunRequest":
    """The request for a run whose pairs models make, with absolute paths, so that it goes on from any folder.

    `choices` are the options of a `SyntheticRunRequest` of this kind. The models and the files of texts among them, and
    all other files that the run reads, must not change before the pairs are made.
    """
    from dragoman.config.recipes import recipe_names
    from dragoman.config.settings import merged
    from dragoman.runs.plan import build_config_with_pairs
    from dragoman.runs.synthetic.request import SyntheticRunRequest, stamps

    paths, recipe, settings = [_absolute(path) for path in run.paths], run.recipe, run.settings
    if recipe and recipe not in recipe_names():
        recipe = _absolute(recipe)
    files = [*paths, recipe] if recipe else [*paths]
    config = build_config_with_pairs(run.paths, run.recipe, run.settings)
    for section, key, names in (
        ("data", "valid", config.data.valid),
        ("data", "test", config.data.test),
        ("tokenizer", "pairs", config.tokenizer.pairs),
    ):
        if names:
            absolute = [_absolute(name) for name in names]
            settings = merged(settings, {section: {key: absolute}})
            files += absolute
    return SyntheticRunRequest(kind, paths, recipe, settings, choices, stamps([*files, *texts], models))


def _absolute(name: str) -> str:
    """The absolute path of a file; a name that is no file stays as it is."""
    return os.path.abspath(name) if os.path.exists(name) else name


def resume_synthetic(context: Context, path: Path, settings: "Settings") -> None:
    """Make the pairs of the run in `path` that are still missing, train it, and print its scores."""
    from dragoman.runs.synthetic.run import run_synthetic

    evaluation = run_synthetic(path, settings, listener=context.display(), started=context.started)
    options.print_trained(context, evaluation, path)
