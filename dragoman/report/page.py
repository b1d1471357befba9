"""The page of a run: scores, curves, translations and attention in one HTML file.

It loads nothing and runs nothing, and texts stand in it escaped.
"""

from collections.abc import Iterable
from html import escape
from pathlib import Path

import numpy as np

from dragoman import __version__
from dragoman.report.attention import WordAttention
from dragoman.report.pictures import PANELS, plot_attention, plot_curves, to_svg
from dragoman.report.summary import SCORES, RunSummary
from dragoman.storage.atomic import write_file

SHOWN_VALIDATIONS = 5

STYLE = """
:root { color-scheme: light dark; --ink: #1d1d1f; --soft: #62626a; --paper: #fff; --card: #f4f4f6;
  --line: #dcdce1; --accent: #0072b2; }
@media (prefers-color-scheme: dark) { :root { --ink: #ececf0; --soft: #a2a2ac; --paper: #16171a;
  --card: #202227; --line: #383a41; --accent: #62b5e5; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 2rem 1.1rem 3rem; max-width: 60rem; color: var(--ink);
  background: var(--paper); font: 1rem/1.5 system-ui, sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 2rem; line-height: 1.15; margin: 0 0 .5rem; }
h2 { font-size: 1.25rem; margin: 2.8rem 0 .8rem; }
p, figcaption { max-width: 44rem; }
.soft, figcaption, th, dt, footer { color: var(--soft); font-size: .875rem; }
dl { display: grid; gap: .7rem; grid-template-columns: repeat(auto-fill, minmax(9rem, 1fr)); }
dl div { background: var(--card); border-radius: .6rem; padding: .7rem .9rem; }
dd { margin: 0; font-size: 1.6rem; font-weight: 600; font-variant-numeric: tabular-nums; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: start; vertical-align: baseline; padding: .45rem .8rem .45rem 0;
  border-bottom: 1px solid var(--line); }
th { font-weight: 500; white-space: nowrap; }
.facts th, .growth th { width: 8.5rem; }
.growth caption { text-align: start; font-weight: 600; padding: 1.2rem 0 .3rem; }
.growth tr:last-child td { color: var(--accent); }
.curves { display: grid; gap: 1.5rem; grid-template-columns: repeat(auto-fit, minmax(19rem, 1fr)); }
figure { margin: 0; overflow-x: auto; }
svg { display: block; max-width: 100%; height: auto; }
.attention svg { max-width: none; }
svg text { font-family: inherit !important; }
pre, code { font: .8rem/1.5 ui-monospace, monospace; }
pre { background: var(--card); border-radius: .6rem; padding: 1rem; overflow-x: auto;
  overflow-wrap: normal; }
summary { cursor: pointer; }
footer { margin-top: 3rem; }
@media (max-width: 40rem) {
  .samples, .samples tbody, .samples tr, .samples td { display: block; border: 0; }
  .samples thead { display: none; }
  .samples tr { padding: .7rem 0; border-bottom: 1px solid var(--line); }
  .samples td { padding: .1rem 0; }
  .samples td::before { content: attr(data-name); display: block; color: var(--soft);
    font-size: .75rem; }
}
"""


def write_report(directory: Path, summary: RunSummary) -> Path:
    """Write `directory`/report.html and return its path."""
    path = directory / "report.html"
    write_file(path, _page(summary).encode())
    return path


def _page(summary: RunSummary) -> str:
    sections = [
        f"<header><h1>{escape(summary.title)}</h1><p>A Transformer trained from scratch on "
        f"{summary.pairs['train']:,} sentence pairs of {escape(summary.data)}.</p></header>",
        _scores(summary),
        _facts(summary.facts()),
        _warnings(summary),
        _curves(summary),
        _growth(summary),
        _samples(summary),
        _attention(summary.attention) if summary.attention else "",
        "<h2>Configuration</h2><details><summary>Everything that decided what this run did"
        f"</summary><pre>{escape(summary.config_yaml)}</pre></details>",
    ]
    return document(summary.title, sections)


def document(title: str, sections: Iterable[str]) -> str:
    """A page that loads nothing and runs nothing; `sections` are HTML already."""
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        # The browser shall see to it that nothing is loaded or run.
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; '
        "style-src 'unsafe-inline'; img-src data:\">\n"
        f"<title>{escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n"
        + "\n".join(filter(None, sections))
        + f"\n<footer>Written by Dragoman {__version__}.</footer>\n</body>\n</html>\n"
    )


def _scores(summary: RunSummary) -> str:
    figures = summary.figures().items()
    tiles = "".join(f"<div><dt>{name}</dt><dd>{value}</dd></div>" for name, value in figures)
    if not summary.evaluation:
        return f"<dl>{tiles}</dl>" + _note("The test pairs have not been translated yet.")
    signatures = "<br>".join(
        f"{SCORES[key]} <code>{escape(value)}</code>" for key, value in summary.evaluation["signatures"].items()
    )
    return f"<dl>{tiles}</dl>" + _note(
        f"On {summary.test_pairs}. BLEU and chrF++ are better high, TER and perplexity low.<br>" + signatures
    )


def _facts(facts: dict[str, str]) -> str:
    rows = "".join(f"<tr><th>{name}</th><td>{escape(facts[name])}</td></tr>" for name in facts)
    return f'<h2>The run</h2><table class="facts">{rows}</table>'


def _warnings(summary: RunSummary) -> str:
    items = "".join(f"<li>{escape(event['text'])}</li>" for event in summary.events("warning"))
    return f"<h2>Warnings</h2><ul>{items}</ul>" if items else ""


def _curves(summary: RunSummary) -> str:
    if not summary.metrics:
        return "<h2>Curves</h2><p>No step has been recorded yet.</p>"
    figures = "".join(f"<figure>{to_svg(plot_curves(summary.metrics, [panel]), panel)}</figure>" for panel in PANELS)
    smoothing = summary.config.training.label_smoothing
    note = "Validation scores are those of greedy search."
    if smoothing:
        note += f" The training loss includes label smoothing of {smoothing:g}, the other does not."
    return f'<h2>Curves</h2><div class="curves">{figures}</div>' + _note(note)


def _growth(summary: RunSummary) -> str:
    """The same sentences at some validations, more of them early on, where more happens."""
    validations = [event for event in summary.events("validation") if event.get("samples")]
    if not validations:
        return ""
    places = np.geomspace(1, len(validations), SHOWN_VALIDATIONS).round().astype(int) - 1
    shown = [validations[place] for place in sorted(set(places))]
    tables = []
    for last in shown[-1]["samples"]:
        texts = {
            f"Step {event['step']:,}": sample["translation"]
            for event in shown
            for sample in event["samples"]
            if sample["source"] == last["source"]
        }
        texts["Reference"] = last["reference"]
        rows = "".join(
            f"<tr><th>{name}</th>{_cell(text, summary.target_language)}</tr>" for name, text in texts.items()
        )
        source = f"<caption {_language(summary.source_language)}>{escape(last['source'])}</caption>"
        tables.append(f'<table class="growth">{source}{rows}</table>')
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
    weights, count = attention.layers[layer], len(attention.layers)
    figure = plot_attention(weights, attention.source_words, attention.target_words)
    picture = f'<figure class="attention">{to_svg(figure, "attention")}</figure>'
    return f"<h2>Where the model looked</h2>{picture}" + _note(
        "A row shows which source words were attended to when the model predicted the target word "
        "at its left; off the diagonal, translation changed the order of words. Mean over the "
        f"heads of decoder layer {layer + 1} of {count}, the one that tells words apart most "
        "clearly; &lt;/s&gt; ends a sentence."
    )


def _note(markup: str) -> str:
    return f'<p class="soft">{markup}</p>'


def _cell(text: str, language: str | None, name: str = "") -> str:
    return f'<td data-name="{name}" {_language(language)}>{escape(text)}</td>'


def _language(language: str | None) -> str:
    # With the language the browser finds the right glyphs, with the direction the right side.
    return f'dir="auto" lang="{escape(language or "")}"'
