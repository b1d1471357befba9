"""Commands on data alone: data check."""

import json
import re
from typing import TYPE_CHECKING, Annotated

import typer

from dragoman.cli.app import App
from dragoman.cli.options import Argument, Json, Option, Quiet, app
from dragoman.errors import DataError, UsageError

if TYPE_CHECKING:
    from rich.table import Table

    from dragoman.data.check import Finding, PartReport, Report

TITLES = {"train": "To train on", "valid": "To validate on", "test": "To test on"}
BARS = " ▁▂▃▄▅▆▇█"
NUM_BARS = 12
NOT_BY_LINE = re.compile(r"(?i)(builtin|hf):|.*\.(tmx|xlf|xliff|po|jsonl?)(\.\w+)?$")
"""Names of data in which pair N is not in line N of a file."""

data = App(help="Look at sentence pairs before training on them.")
app.add_typer(data, name="data")


@data.command()
def check(
    paths: Annotated[
        list[str],
        Argument(metavar="DATA | SOURCE TARGET", help="Sentence pairs, as `train` takes them.", show_default=False),
    ],
    valid: Annotated[
        list[str] | None, Option(help="Validation pairs: a TSV file; give it twice for two.", show_default="none")
    ] = None,
    test: Annotated[list[str] | None, Option(help="Test pairs, likewise.", show_default="none")] = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Tell what is in sentence pairs, what is wrong with them, and what quality to expect. Trains nothing."""
    given = {"train": paths} | {part: files for part, files in (("valid", valid), ("test", test)) if files}
    for part, files in given.items():
        if len(files) > 2:
            name = "`data check`" if part == "train" else f"--{part}"
            raise UsageError(f"{name} takes a file of pairs or two aligned files, not {len(files)} files.")
    from dragoman.data.bitext import Bitext
    from dragoman.data.check import check as check_data
    from dragoman.terminal import Display, command

    bitexts = {part: Bitext.open(*files) for part, files in given.items()}
    with Display(quiet=quiet).progress("Reading") as advance:
        report = check_data(bitexts.pop("train"), held_out=bitexts, progress=advance)
    if as_json:
        print(json.dumps(report.to_dict(), ensure_ascii=False))
    else:
        _show(report, unit="pair" if NOT_BY_LINE.match(paths[0]) else "line", quiet=quiet)
        if report.trainable and not quiet:
            options = [word for part in bitexts for file in given[part] for word in (f"--{part}", file)]
            print(f"Next:  {command('train', *paths, *options)}")
    if not report.trainable:
        raise typer.Exit(DataError.exit_code)


def _show(report: "Report", *, unit: str, quiet: bool) -> None:
    """Print it all; when quiet, problems and the verdict alone. `unit` is what has a number."""
    from rich.markup import escape

    from dragoman.terminal import console

    screen = console()
    if not quiet:
        for part in report.parts:
            screen.print(_sizes(part))
        screen.print()
    for finding in report.findings:
        if finding.severity == "problem":
            screen.print(f"[bold yellow]Problem[/]  {escape(_sentence(finding, unit))}", soft_wrap=True)
        elif not quiet:
            screen.print(f"[bold]Note[/]     {escape(_sentence(finding, unit))}", soft_wrap=True)
    screen.print(escape("\n" + "\n".join(report.verdict)), soft_wrap=True)


def _sentence(finding: "Finding", unit: str) -> str:
    """What, how many, where, what to do, in one line."""
    where = ", ".join(f"{number:,}" for number in finding.tally.examples)
    share = f"{100 * finding.share:.2g}" if finding.share < 0.995 else "100"
    seen = f"{share} % of {finding.total:,} looked at, {unit}{'s' * (len(finding.tally.examples) > 1)} {where}"
    part = "" if finding.part == "train" else f"{finding.part}: "
    return f"{part}{finding.what}: {finding.tally.count:,} ({seen}); {finding.advice}."


def _sizes(part: "PartReport") -> "Table":
    """Counts and lengths."""
    from dragoman.terminal import results_table

    end = max(side.characters.percentile(99) for side in (part.source, part.target))
    rows = []
    for name, side in (("source", part.source), ("target", part.target)):
        length, longest = side.characters, max(side.characters.counts, default=0)
        half = f"half {length.percentile(25)}-{length.percentile(75)}"
        remark = f"{length.mean:.0f} characters ({half}, longest {longest:,}), {side.words.mean:.1f} words"
        language = side.declared or side.detected or ""
        rows.append((f"{name} {language}", _bars(length.histogram(NUM_BARS, end)), remark))
    spread = f"times as many characters in the target (90 % {part.ratio(5):.2f}-{part.ratio(95):.2f})"
    rows.append(("ratio", f"{part.ratio(50):.2f}", spread))
    counts = f"{part.pairs:,} pairs, {part.different:,} different, {part.different_sources:,} sources"
    return results_table(f"{TITLES[part.part]} ({part.name}): {counts}", rows)


def _bars(heights: list[int]) -> str:
    """A histogram in one line; what is not 0 can be seen."""
    top = max(heights)
    return "".join(BARS[max(1, round((len(BARS) - 1) * height / top))] if height else BARS[0] for height in heights)
