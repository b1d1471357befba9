"""Report of a run: scores, curves, translations and attention in one HTML file, which loads and runs nothing."""

from pathlib import Path
from typing import Any

import numpy as np

from dragoman.metrics import METRICS, TESTED, TEXT_METRICS
from dragoman.report.summary import RunSummary
from dragoman.system.atomic import encoded, write_file
from dragoman.system.templates import render

SHOWN_VALIDATIONS = 5
"""Most validations whose translations are shown."""


def write_report(directory: Path, summary: RunSummary) -> Path:
    """Write `directory`/report.html and return its path."""
    from dragoman.report.pictures import PANELS, plot_curves, to_svg  # a card is written without matplotlib

    path = directory / "report.html"
    curves = [to_svg(plot_curves(summary.metrics, [panel]), panel) for panel in PANELS if summary.metrics]
    pictures = {"curves": curves, "attention": _attention(summary)}
    tables = {
        "validations": _shown_validations(summary),
        "metrics": METRICS,
        "tested": TESTED,
        "text_metrics": TEXT_METRICS,
    }
    page = render("report/static/report.html", title=summary.title, run=summary, **pictures, **tables)
    write_file(path, encoded(page))
    return path


def _shown_validations(summary: RunSummary) -> list[dict[str, Any]]:
    """Some of the validations with translations, more of the early ones, when translations change most."""
    validations = [event for event in summary.events("validation") if event.get("samples")]
    if not validations:
        return []
    indices = np.geomspace(1, len(validations), SHOWN_VALIDATIONS).round().astype(int) - 1
    return [validations[index] for index in np.unique(indices)]


def _attention(summary: RunSummary) -> str:
    """Picture of the attention of one sentence as an SVG element; empty without attention."""
    attention = summary.attention
    if not attention:
        return ""
    from dragoman.report.pictures import plot_attention, to_svg

    weights = attention.layers[attention.clearest_layer()]
    return to_svg(plot_attention(weights, attention.source_words, attention.target_words), "attention")
