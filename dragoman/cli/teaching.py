"""The command distill, and what `train` takes to learn from sentences without translations."""

import os
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from dragoman.cli import options
from dragoman.cli.checks import check_model, chosen_settings, files_and_settings
from dragoman.cli.options import Argument, Context, Ensemble, File, Option, app, choice
from dragoman.errors import UsageError

if TYPE_CHECKING:
    from dragoman.config.settings import Settings
    from dragoman.runs.synthetic.request import SyntheticRunRequest

SIZE = choice("size", ("edge", "edge-2", "tiny", "small", "base"), remedy=", or a recipe with --recipe")
MOST = 100
"""Back-translated pairs for each real one."""
CHOOSE = choice("choice", ("closest", "best"))


@app.command(
    epilog="dragoman distill runs/en-fr runs/edge --data train.en --data train.fr\n"
    "dragoman distill runs/a runs/edge --ensemble runs/b --data pairs.tsv --max-minutes 60"
)
def distill(
    context: Context,
    teacher: options.Model,
    output: Annotated[Path, Argument(metavar="OUT", help="Model directory to write.")],
    given: Annotated[
        list[str] | None,
        Argument(metavar="[key=value ...]", help="Settings of the student, such as training.learning_rate=1e-3."),
    ] = None,
    data: Annotated[list[str] | None, File(help="Pairs, such as those of the teacher; twice for two files.")] = None,
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
        float, Option(metavar="SHARE", min=0, max=0.99, help="Share of references in an epoch, beside translations.")
    ] = 0.0,
    soft_targets: Annotated[
        float,
        Option(metavar="SHARE", min=0, max=1, help="Share of each target that is what the teacher expects there."),
    ] = 0.0,
    source: options.From = None,
    target: options.To = None,
    max_minutes: Annotated[
        str | None, Option(metavar="X", help="Minutes from start to report. Default: as long as it gets better.")
    ] = None,
    seed: Annotated[str | None, Option(metavar="N", help="Seed of split and training. Default: 1.")] = None,
) -> None:
    """Train a small, fast student on what a teacher translates, a model or several together.

    The same command goes on where it broke off, and so does `dragoman train --resume OUT`.
    """
    files, held_out = [*(data or ()), *(given or ()), columns], {"valid": valid, "test": test}
    paths, settings = files_and_settings("--data", files, required=recipe is None, **held_out)
    check_model(teacher, paths, ensemble=ensemble)
    from dragoman.config.settings import merged, setting

    settings = merged(settings, chosen_settings(size, recipe, {"training.max_minutes": max_minutes, "seed": seed}))
    from dragoman.storage.validate import languages

    teachers = [os.path.abspath(each) for each in (teacher, *(ensemble or ()))]
    known = (source, target) if source and target else languages(teacher)
    if known and setting(settings, "data.languages", missing := object()) is missing:
        settings = merged(settings, {"data": {"languages": list(known)}})
    wanted = {"teachers": teachers, "choose": choose, "references": references, "languages": [source, target]}
    wanted["soft_targets"] = soft_targets
    asked = ask("distill", (paths, recipe or size or "edge", settings), wanted, models=teachers)
    train_taught(context, asked, output, started=context.started)


def back_translate(
    context: Context,
    run: tuple[list[str], str | None, "Settings"],
    sentences: tuple[list[str] | None, Path | None, str | None],
    output: Path | None,
    *,
    started: float,
) -> None:
    """Train the run of these files, this recipe and these settings with sentences that a reverse model translates."""
    monolingual, reverse, ratio = sentences
    if not monolingual:
        raise UsageError("--reverse and --ratio are for sentences without translations; name some with --monolingual.")
    if reverse:
        check_model(reverse)
    from dragoman.data.bitext import open_corpora
    from dragoman.formats.text_files import open_input
    from dragoman.runs.plan import read_config

    for each in monolingual:
        open_input(Path(each)).close()
    path = output or Path("runs", open_corpora(read_config(*run).data).name)
    texts, model = [os.path.abspath(each) for each in monolingual], reverse and os.path.abspath(reverse)
    wanted = {"monolingual": texts, "reverse": model, "ratios": _ratios(ratio)}
    asked = ask("back-translate", run, wanted, models=[model] if model else [], texts=texts)
    train_taught(context, asked, path, started=started)


def _ratios(given: str | None) -> list[float]:
    try:
        ratios = [float(each) for each in given.split(",")] if given else []
    except ValueError:
        ratios = [0.0]
    if not all(0 < ratio <= MOST for ratio in ratios):
        raise UsageError(f"--ratio is {given}; give numbers above 0 to {MOST}, such as 1 or 0.5,1,2.")
    return ratios


def ask(
    how: str,
    run: tuple[list[str], str | None, "Settings"],
    wanted: dict[str, Any],
    *,
    models: Sequence[str],
    texts: Sequence[str] = (),
) -> "SyntheticRunRequest":
    """What a command asks for: how pairs are made for a run of these files, this recipe and these settings."""
    from dragoman.config.recipes import recipe_names
    from dragoman.config.settings import merged
    from dragoman.runs.plan import read_config
    from dragoman.runs.synthetic.request import SyntheticRunRequest, stamps

    paths, recipe, settings = run
    config = read_config(paths, recipe, settings)
    named = {"data.valid": config.data.valid, "data.test": config.data.test, "tokenizer.pairs": config.tokenizer.pairs}
    named = {key: list(map(_absolute, files)) for key, files in named.items() if files}
    settings = merged(settings, *({key.split(".")[0]: {key.split(".")[1]: files}} for key, files in named.items()))
    paths, recipe = list(map(_absolute, paths)), recipe and (recipe if recipe in recipe_names() else _absolute(recipe))
    read = [*paths, *([recipe] if recipe else []), *chain(*named.values()), *texts]
    return SyntheticRunRequest(how, paths, recipe, settings, wanted, stamps(read, models))


def _absolute(name: str) -> str:
    """The name, with its folder if it is a file: a run goes on from any folder."""
    return os.path.abspath(name) if os.path.exists(name) else name


def train_taught(context: Context, asked: "SyntheticRunRequest", path: Path, *, started: float) -> None:
    """Begin the run, or go on with it, and print its scores."""
    asked.write(path)
    go_on(context, path, {}, started=started)


def is_taught(path: Path) -> bool:
    """Whether models make pairs for the run in `path`, whose training has not begun."""
    from dragoman.runs.synthetic.request import SyntheticRunRequest
    from dragoman.storage.run_directory import RunDirectory

    return SyntheticRunRequest.read(path) is not None and not RunDirectory(path).config.is_file()


def go_on(context: Context, path: Path, settings: "Settings", *, started: float) -> None:
    """Make the pairs of the run in `path`, as far as they are not there, train it, and print its scores."""
    from dragoman.runs.synthetic.run import run_taught

    evaluation = run_taught(path, settings, listener=context.display(), started=started)
    options.print_trained(context, evaluation, path)
