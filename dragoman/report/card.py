"""The model card: a README.md in Markdown for people who find a model directory."""

import json
import shlex
from collections.abc import Mapping

from dragoman.metrics import METRICS
from dragoman.report.summary import RunSummary
from dragoman.report.templates import render


def model_card(summary: RunSummary) -> str:
    """The card of a trained model."""
    return render(
        "card.md",
        title=_plain(summary.title),
        source=_plain(summary.source_language or "the source language"),
        target=_plain(summary.target_language or "the target language"),
        data=_plain(summary.data),
        **_shared(summary.facts(), _example(summary)),
        train=f"{summary.pairs['train']:,}",
        scores=_scores(summary),
    )


def imported_card(*, title: str, notebook: str, files: str, facts: Mapping[str, str], text: str, example: str) -> str:
    """The card of a model directory that was made from a notebook's files."""
    texts = {"title": _plain(title), "notebook": notebook, "files": _plain(files), "text": text}
    return render("imported_card.md", **texts, **_shared(facts, example))


def _shared(facts: Mapping[str, str], example: str) -> dict[str, str]:
    """The parts of both cards."""
    quoted = {"shell_example": shlex.quote(example), "python_example": json.dumps(example, ensure_ascii=False)}
    return {
        "facts": "\n".join(f"| {name} | {_plain(value)} |" for name, value in facts.items()),
        "use": render("card_use.md", **quoted).strip(),
        "caution": render("card_caution.md").strip(),
    }


def _scores(summary: RunSummary) -> str:
    if not summary.evaluation:
        return "It has not been scored on test pairs yet."
    rows = "\n".join(f"| {name} | {value} |" for name, value in summary.figures().items())
    # Not in the table: there a "|" ends a cell even inside a code span.
    signatures = summary.evaluation["signatures"].items()
    lines = "\n".join(f"- {METRICS[name].label} `{signature}`" for name, signature in signatures)
    return (
        f"On {summary.test_pairs}. Beam size {summary.config.decoding.beam_size}.\n\n"
        f"| score | value |\n| --- | --- |\n{rows}\n\nSignatures:\n\n{lines}"
    )


def _example(summary: RunSummary) -> str:
    """The shortest of the sample sentences that cannot be mistaken for Markdown."""
    sources = [s["source"] for s in summary.samples if s["source"].isprintable()]
    return min((s for s in sources if s and "`" not in s), key=len, default="Hello.")


def _plain(text: str) -> str:
    """The text on one line, with Markdown and HTML signs escaped."""
    return "".join(f"\\{c}" if c in "\\`*_|<>[]#" else c if c.isprintable() else " " for c in text)
