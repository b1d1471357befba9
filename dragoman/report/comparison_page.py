"""One page for several runs: a table of what they cost and reached, and their curves over each other."""

from collections.abc import Sequence
from html import escape
from pathlib import Path

from dragoman.report.comparison import ComparedRun, remarks, setting_rows, table_rows
from dragoman.report.page import document, note, table
from dragoman.report.pictures import OVERLAYS, plot_runs, to_svg
from dragoman.report.pictures.style import line_style
from dragoman.storage.atomic import write_file


def write_comparison(path: Path, runs: Sequence[ComparedRun]) -> None:
    """Write the page to the file `path`."""
    settings = setting_rows(runs)
    metrics = {str(number): run.metrics for number, run in enumerate(runs, start=1)}
    curves = "".join(f"<figure>{to_svg(plot_runs(metrics, [panel]), panel)}</figure>" for panel in OVERLAYS)
    sections = [
        f"<header><h1>{len(runs)} runs compared</h1></header>",
        _table(runs, table_rows(runs)),
        "".join(note(escape(remark)) for remark in remarks(runs)),
        f'<h2>Curves</h2><div class="curves">{curves}</div>',
        "<h2>Settings that differ</h2>" + (_table(runs, settings) if settings else "<p>None.</p>"),
    ]
    write_file(path, document("Runs compared", sections).encode())


def _table(runs: Sequence[ComparedRun], rows: dict[str, list[str]]) -> str:
    # The folders above a run are private.
    heads = "".join(
        f'<th><span style="color: {line_style(index)["color"]}">&#9632;</span> {index + 1} '
        f"{escape(Path(run.name).name)}</th>"
        for index, run in enumerate(runs)
    )
    cells = ((name, (f"<td>{escape(cell)}</td>" for cell in row)) for name, row in rows.items())
    return f"<figure>{table(cells, head=f'<thead><tr><th></th>{heads}</tr></thead>', kind='runs')}</figure>"
