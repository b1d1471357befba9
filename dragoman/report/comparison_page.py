"""One page for several runs: a table of what they cost and reached, and their curves over each other."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from dragoman.report.comparison import ComparedRun, remarks, setting_rows, table_rows
from dragoman.report.pictures import OVERLAYS, plot_runs, to_svg
from dragoman.report.pictures.style import line_style
from dragoman.system.atomic import encoded, write_output
from dragoman.system.templates import render


def write_comparison(path: Path, runs: Sequence[ComparedRun]) -> None:
    """Write the page to the file `path`."""
    metrics = {str(number): run.metrics for number, run in enumerate(runs, start=1)}
    curves = [to_svg(plot_runs(metrics, [panel]), panel) for panel in OVERLAYS]
    # The folders above a run are private.
    names = [Path(run.name).name for run in runs]
    heads = [(line_style(index)["color"], name) for index, name in enumerate(names)]
    runs = [replace(run, name=f"{number} {names[number - 1]}") for number, run in enumerate(runs, start=1)]
    tables = {"heads": heads, "figures": table_rows(runs), "settings": setting_rows(runs)}
    page = render(
        "report/static/comparison.html", title="Runs compared", curves=curves, remarks=remarks(runs), **tables
    )
    write_output(path, encoded(page))
