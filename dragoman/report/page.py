"""The page of a run: scores, curves, translations and attention in one HTML file.

It loads nothing and runs nothing, and texts stand in it escaped.
"""

from collections.abc import Iterable
from html import escape
from pathlib import Path

import numpy as np

from dragoman import __version__
from dragoman.metrics import METRICS, TESTED
from dragoman.report.attention import WordAttention
from dragoman.report.pictures import PANELS, plot_attention, plot_curves, to_svg
from dragoman.report.summary import RunSummary
from dragoman.report.templates import read_static, render
from dragoman.storage.atomic import write_file

SHOWN_VALIDATIONS = 5


def write_report(directory: Path, summary: RunSummary) -> Path:
    """Write `directory`/report.html and return its path."""
    path = directory / "report.html"
    write_file(path, document(summary.title, _sections(summary)).encode())
    return path


def document(title: str, sections: Iterable[str]) -> str:
    """A page of HTML `sections`, in which the browser is told to load nothing and to run nothing."""
    body = "\n".join(filter(None, sections))
    return render("page.html", title=escape(title), style=read_static("page.css"), body=body, version=__version__)


def note(markup: str) -> str:
    return f'<p class="soft">{markup}</p>'


def table(rows: Iterable[tuple[str, Iterable[str]]], *, head: str = "", kind: str = "facts") -> str:
    """A table of named rows; `head` and the cells are HTML already."""
    body = "".join(f"<tr><th>{escape(name)}</th>{''.join(cells)}</tr>" for name, cells in rows)
    return f'<table class="{kind}">{head}<tbody>{body}</tbody></table>'


def _sections(summary: RunSummary) -> Iterable[str]:
    yield (
        f"<header><h1>{escape(summary.title)}</h1><p>A Transformer trained from scratch on "
        f"{summary.pairs['train']:,} sentence pairs of {escape(summary.data)}.</p></header>"
    )
    yield _scores(summary)
    yield "<h2>The run</h2>" + table((name, [f"<td>{escape(text)}</td>"]) for name, text in summary.facts().items())
    if warnings := "".join(f"<li>{escape(event['text'])}</li>" for event in summary.events("warning")):
        yield f"<h2>Warnings</h2><ul>{warnings}</ul>"
    yield _curves(summary)
    yield _growth(summary)
    yield _samples(summary)
    if summary.attention:
        yield _attention(summary.attention)
    yield (
        "<h2>Configuration</h2><details><summary>Everything that decided what this run did"
        f"</summary><pre>{escape(summary.config_yaml)}</pre></details>"
    )


def _scores(summary: RunSummary) -> str:
    tiles = "".join(f"<div><dt>{name}</dt><dd>{value}</dd></div>" for name, value in summary.figures().items())
    if not summary.evaluation:
        return f"<dl>{tiles}</dl>" + note("The test pairs have not been translated yet.")
    high, low = (", ".join(each.label for each in TESTED if each.higher_is_better == way) for way in (True, False))
    signatures = summary.evaluation["signatures"].items()
    lines = "<br>".join(f"{METRICS[name].label} <code>{escape(value)}</code>" for name, value in signatures)
    return f"<dl>{tiles}</dl>" + note(
        f"On {summary.test_pairs}. Higher is better: {high}. Lower is better: {low}.<br>{lines}"
    )


def _curves(summary: RunSummary) -> str:
    if not summary.metrics:
        return "<h2>Curves</h2><p>No step has been recorded yet.</p>"
    figures = "".join(f"<figure>{to_svg(plot_curves(summary.metrics, [panel]), panel)}</figure>" for panel in PANELS)
    smoothing = summary.config.training.label_smoothing
    remark = "Validation scores are those of greedy search."
    if smoothing:
        remark += f" The training loss includes label smoothing of {smoothing:g}, the other does not."
    return f'<h2>Curves</h2><div class="curves">{figures}</div>' + note(remark)


def _growth(summary: RunSummary) -> str:
    """The same sentences at some validations, more of them early on, when more happens."""
    validations = [event for event in summary.events("validation") if event.get("samples")]
    if not validations:
        return ""
    indices = np.geomspace(1, len(validations), SHOWN_VALIDATIONS).round().astype(int) - 1
    shown = [validations[index] for index in sorted(set(indices))]
    tables = []
    for last in shown[-1]["samples"]:
        texts = {
            f"Step {event['step']:,}": sample["translation"]
            for event in shown
            for sample in event["samples"]
            if sample["source"] == last["source"]
        } | {"Reference": last["reference"]}
        source = f"<caption {_language(summary.source_language)}>{escape(last['source'])}</caption>"
        rows = ((name, [_cell(text, summary.target_language)]) for name, text in texts.items())
        tables.append(table(rows, head=source, kind="growth"))
    return "<h2>How the translations grew</h2>" + "".join(tables)


def _samples(summary: RunSummary) -> str:
    if not summary.samples:
        return ""
    target = summary.target_language
    languages = {"Source": summary.source_language, "Reference": target, "Translation": target}
    head = "".join(f"<th>{name}</th>" for name in languages)
    rows = "".join(
        "<tr>" + "".join(_cell(sample[k.lower()], languages[k], k) for k in languages) + "</tr>"
        for sample in summary.samples
    )
    return f'<h2>Test sentences</h2><table class="samples"><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>'


def _attention(attention: WordAttention) -> str:
    layer = attention.clearest_layer()
    figure = plot_attention(attention.layers[layer], attention.source_words, attention.target_words)
    picture = f'<figure class="attention">{to_svg(figure, "attention")}</figure>'
    return f"<h2>Where the model looked</h2>{picture}" + note(
        "A row shows which source words were attended to when the model predicted the target word "
        "at its left; off the diagonal, translation changed the order of words. Mean over the "
        f"heads of decoder layer {layer + 1} of {len(attention.layers)}, the one that tells words apart most "
        "clearly; &lt;/s&gt; ends a sentence."
    )


def _cell(text: str, language: str | None, name: str = "") -> str:
    return f'<td data-name="{name}" {_language(language)}>{escape(text)}</td>'


def _language(language: str | None) -> str:
    # The language chooses the right glyphs in the browser, and the direction the right side.
    return f'dir="auto" lang="{escape(language or "")}"'
