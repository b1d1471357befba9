"""Commands on data alone: data check, data prepare, data memory."""

import sys
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dragoman.cli.app import App
from dragoman.cli.checks import SECTIONS, files_and_settings, refuse_others, whole_output
from dragoman.cli.options import OUTPUT, Columns, Context, File, Option, Recipe, Test, Valid, app, pairs, print_json
from dragoman.errors import DataError, UsageError, command_line, redacted
from dragoman.system.atomic import check_output

if TYPE_CHECKING:
    from rich.table import Table

    from dragoman.data.bitext import Bitext, CleanedBitext
    from dragoman.data_check import CheckResult, Finding, Location, PartResult
    from dragoman.data_check.result import Part

TITLES = {"train": "To train on", "valid": "To validate on", "test": "To test on"}
NUM_BARS = 12
"""Bars of a histogram of lengths."""
data = App(help="Look at sentence pairs before training on them.")
app.add_typer(data, name="data")


@data.command(
    epilog="dragoman data check pairs.tsv\n"
    "dragoman data check train.en train.fr --test test.en --test test.fr\n"
    "dragoman data check memory.tmx 'data.languages=[en,fr]'\n"
    "dragoman data check pairs.csv --columns 2,4 --output clean.tsv\n"
    "dragoman data check --recipe corpora.yaml"
)
def check(
    context: Context,
    arguments: Annotated[list[str] | None, pairs()] = None,
    columns: Columns = None,
    valid: Valid = None,
    test: Test = None,
    recipe: Recipe = None,
    examples: Annotated[int, Option(metavar="N", min=0, help="Also show N of the pairs, drawn at random.")] = 0,
    output: Annotated[Path | None, File(*OUTPUT, help="File to write the pairs to that `train` would keep.")] = None,
) -> None:
    """Tell what is in sentence pairs, what is wrong with them, and what quality to expect. Trains nothing."""
    words = [*(arguments or ()), columns]
    files, settings = files_and_settings("data check", words, required=False, valid=valid, test=test)
    from dragoman.config.settings import setting, spelled
    from dragoman.data.corpora import open_corpora, open_held_out
    from dragoman.data.splitting import MIN_PAIRS
    from dragoman.data_check import by_languages
    from dragoman.data_check import check as check_data
    from dragoman.data_check.verdict import too_few
    from dragoman.runs.plan import choose_data

    config = choose_data(files, recipe=recipe, settings=settings)
    refuse_others("data check", settings, ("data",))
    bitext = open_corpora(config)
    held_out = open_held_out(config, bitext.languages, labelled=bitext.has_labels)
    if output and output.suffix not in (".tsv", ".txt"):
        raise UsageError(f"--output is {output}, but tab-separated text is written; give a name that ends in .tsv.")
    if output and bitext.has_labels:
        raise UsageError("--output is for pairs of two languages, and these have more; check each corpus on its own.")
    bitexts = [*(corpus.bitext for corpus in bitext.corpora), *held_out.values()]
    check_output(output, read=[file for opened in bitexts for file in opened.files])
    parts = by_languages(bitext, held_out) if bitext.has_labels else {"": (bitext, held_out)}
    results = {}
    with context.display().progress("Reading") as advance:
        for languages, (part, part_held_out) in parts.items():
            elsewhere = held_out.values() if languages else ()
            results[languages] = check_data(
                part,
                held_out=part_held_out,
                elsewhere=elsewhere,
                fewest=1 if languages else MIN_PAIRS,  # of several languages, all pairs are split together
                examples=examples,
                progress=advance,
            )
    num_pairs = sum(result.num_pairs for result in results.values())
    enough = num_pairs >= MIN_PAIRS or len(held_out) == 2
    trainable = enough and all(result.trainable for result in results.values())
    # Those of this command, after `data check`.
    train_arguments: list[Any] | None = [redacted(word) for word in _without_option("--examples", sys.argv[3:])]
    try:
        if output:
            train_arguments = _write_clean(context, output, bitext, held_out)
            cleaning = setting(settings, "data.cleaning", {})
            if cleaning and train_arguments:
                train_arguments += spelled({"data": {"cleaning": cleaning}})
    finally:  # the results are printed even if the file cannot be written
        if context.as_json:
            figures = {languages: result.to_dict() for languages, result in results.items()}
            print_json({"trainable": trainable, "languages": figures} if bitext.has_labels else figures[""])
        else:
            for result in results.values():
                _show(result, quiet=context.quiet)
            if bitext.has_labels and not enough:
                print(too_few(num_pairs, MIN_PAIRS))
    if trainable and train_arguments and not (context.as_json or context.quiet):
        print(f"Next:  {command_line('train', *train_arguments)}")
    if not trainable:
        raise typer.Exit(DataError.exit_code)


@data.command(
    needs_torch=True,
    epilog="dragoman data prepare pairs.tsv --output prepared/en-fr\n"
    "dragoman data prepare --recipe corpora.yaml --output prepared/en-fr tokenizer.vocab_size=32000\n"
    "dragoman train prepared/en-fr --size small",
)
def prepare(
    context: Context,
    output: Annotated[Path, Option(*OUTPUT, metavar="DIR", help="Folder to write, which `train` takes as DATA.")],
    arguments: Annotated[list[str] | None, pairs(setting="tokenizer.vocab_size=32000")] = None,
    columns: Columns = None,
    valid: Valid = None,
    test: Test = None,
    recipe: Recipe = None,
) -> None:
    """Clean pairs, hold some out, and write token ids, once for many runs.

    If it is interrupted, the same command goes on with it.
    """
    words = [*(arguments or ()), columns]
    files, settings = files_and_settings("data prepare", words, required=False, valid=valid, test=test)
    refuse_others("data prepare", settings, (*SECTIONS, "seed"))
    from dragoman.runs.plan import describe_occurrences, describe_respelled
    from dragoman.runs.prepared import prepare_folder
    from dragoman.system.seals import read_in

    display = context.display()
    with display.status("Preparing") as tell:
        prepare_folder(files, output, recipe=recipe, settings=settings, tell=tell)
    about = read_in(output, "about.json")
    if context.as_json:
        print_json({"folder": str(output), **about})
        return
    for reason, count in about["dropped"].items():
        display.note(f"Left out {count:,} {'pair' if count == 1 else 'pairs'}: {reason}.")
    for line in [*describe_respelled(about.get("respelled", [])), *describe_occurrences(about["occurrences"])]:
        display.note(line)
    display.note(f"{output} holds {about['train_pairs']:,} pairs to train on.\nNext:  {command_line('train', output)}")


@data.command(
    epilog="dragoman data memory pairs.tsv --output memory.db 'data.languages=[en,fr]'\n"
    "dragoman data memory catalogue.tmx --output memory.db\n"
    "dragoman translate runs/en-fr --input new.en --memory memory.db"
)
def memory(
    context: Context,
    output: Annotated[Path, File(*OUTPUT, help="Translation memory to write, or to add to.")],
    arguments: Annotated[list[str] | None, pairs()] = None,
    columns: Columns = None,
    recipe: Recipe = None,
) -> None:
    """Put sentence pairs into a translation memory, for `translate --memory` and `serve --memory`.

    Pairs that `train` would leave out are left out. Of several translations of a text the first one is kept, and what
    the memory has already stays.
    """
    files, settings = files_and_settings("data memory", [*(arguments or ()), columns], required=False)
    from dragoman.data.corpora import open_corpora, open_held_out
    from dragoman.runs.plan import choose_data
    from dragoman.storage.memory import Memory

    config = choose_data(files, recipe=recipe, settings=settings)
    refuse_others("data memory", settings, ("data",))
    bitext = open_corpora(config)
    if bitext.has_labels or not bitext.languages or None in bitext.languages:
        raise UsageError("A memory needs to know the two languages of the pairs; add 'data.languages=[en,fr]'.")
    check_output(output, read=[file for corpus in bitext.corpora for file in corpus.bitext.files])
    held_out = open_held_out(config, bitext.languages)
    kept = bitext.cleaned(held_out=[part.cleaned() for part in held_out.values()])
    source, target = bitext.languages
    with closing(Memory(output)) as opened, context.display().progress("Remembering") as advance:
        added = opened.add_all((source, target), kept, progress=advance)
    figures = {"memory": str(output), "added": added, "read": kept.report.read}
    if context.as_json:
        print_json(figures)
        return
    context.display().note(f"{added:,} of {kept.report.read:,} pairs are new in {output}.")


def _write_clean(
    context: Context, output: Path, bitext: "CleanedBitext", held_out: "dict[Part, Bitext]"
) -> list[str | Path] | None:
    """Write the pairs that `train` keeps as tab-separated text.

    Returns the arguments for `train` to train on them; None if it has no option for pairs that are held out of several
    corpora.
    """
    from dragoman.data.bitext import CleanedBitext

    kept = bitext.cleaned(held_out=[part.cleaned() for part in held_out.values()])
    with whole_output(output) as file:
        file.writelines("\t".join(side.replace("\t", " ") for side in pair) + "\n" for pair in kept)
    context.display().note(
        f"{output} holds the {kept.report.read - kept.report.dropped.total():,} pairs that are kept."
    )
    arguments: list[str | Path] = [output]
    for name, part in held_out.items():
        corpora = part.corpora if isinstance(part, CleanedBitext) else ()
        if len(corpora) > 1:
            context.display().note(
                f"The {name} pairs are of {len(corpora)} corpora; to train on {output}, write them into one file, "
                f"and give it with --{name}."
            )
            return None
        for path in part.files:
            arguments += [f"--{name}", path]
    if bitext.languages:
        arguments.append(f"data.languages=[{','.join(bitext.languages)}]")
    return arguments


def _without_option(name: str, words: Iterable[str]) -> list[str]:
    """The words of a command without an option and its value, which may be one word or two."""
    kept, remaining = [], iter(words)
    for word in remaining:
        if word == name:
            next(remaining, None)
        elif not word.startswith(f"{name}="):
            kept.append(word)
    return kept


def _show(result: "CheckResult", *, quiet: bool) -> None:
    """Print a result; when quiet, only problems and the verdict."""
    from rich.markup import escape

    from dragoman.terminal import console

    screen = console()
    if not quiet:
        for part in result.parts:
            screen.print(_sizes(part, ascii_only=screen.options.ascii_only))
            if part.examples:
                screen.print(_examples(part))
        screen.print()
    labels = {"problem": "[bold yellow]Problem[/]  ", "note": "[bold]Note[/]     "}
    shown = [finding for finding in result.findings if finding.severity == "problem" or not quiet]
    for finding in shown:
        screen.print(labels[finding.severity] + escape(_sentence(finding)), soft_wrap=True)
    if shown:
        screen.print()
    screen.print(escape("\n".join(result.verdict)), soft_wrap=True)


def _examples(part: "PartResult") -> "Table":
    """A table of the pairs that were drawn from a part, with their places."""
    from dragoman.system.figures import printable
    from dragoman.terminal.tables import results_table

    rows = [
        (printable(example.source), printable(example.target), _places([example.location])) for example in part.examples
    ]
    return results_table("Pairs at random", rows, text=True)


def _sentence(finding: "Finding") -> str:
    """A finding in one line: its kind, count, examples and advice."""
    share = f"{100 * finding.share:.2g}" if finding.share < 0.995 else "100"
    extent = f"{share} % of {finding.total:,} looked at; {_places(finding.examples)}"
    part = "" if finding.part == "train" else f"{finding.part}: "
    return f"{part}{finding.what}: {finding.count:,} ({extent}); {finding.advice}."


def _places(locations: "list[Location]") -> str:
    """Files with their lines: "a.tsv, lines 8, 9"."""
    numbers: dict[tuple[str, str], list[str]] = {}
    for location in locations:
        numbers.setdefault((" and ".join(location.files), location.unit), []).append(f"{location.number:,}")
    places = []
    for (files, unit), listed in numbers.items():
        plural = "s" if len(listed) > 1 else ""
        places.append(f"{files}, {unit}{plural} {', '.join(listed)}")
    return "; ".join(places)


def _sizes(part: "PartResult", *, ascii_only: bool) -> "Table":
    """A table of the counts and lengths of a part; with `ascii_only`, without bars."""
    from dragoman.system.figures import sparkline
    from dragoman.terminal.tables import results_table

    end = max(side.characters.percentile(99) for side in (part.source, part.target))
    rows = []
    for name, side in (("source", part.source), ("target", part.target)):
        length, longest = side.characters, max(side.characters, default=0)
        middle = f"half {length.percentile(25)}-{length.percentile(75)}"
        remark = f"{length.mean:.0f} characters ({middle}, longest {longest:,}), {side.words.mean:.1f} words"
        language = side.declared or side.detected or ""
        # A bar of height 0, which is left out again, makes the scale begin at zero.
        bars = "" if ascii_only else sparkline([0, *length.histogram(NUM_BARS, end)], NUM_BARS + 1)[1:]
        rows.append((f"{name} {language}", bars, remark))
    spread = f"target to source characters (90 % {part.ratio(5):.2f}-{part.ratio(95):.2f})"
    rows.append(("ratio", f"{part.ratio(50):.2f}", spread))
    counts = f"{part.pairs:,} pairs, {part.different:,} different, {part.different_sources:,} sources"
    return results_table(f"{TITLES[part.part]} ({part.name}): {counts}", rows)
