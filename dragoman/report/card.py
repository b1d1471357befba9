"""The model card: a README.md in Markdown for people who find a model directory."""

from dragoman.metrics import METRICS, TEXT_METRICS
from dragoman.report.summary import RunSummary
from dragoman.system.templates import render
from dragoman.text.labels import token


def model_card(summary: RunSummary) -> str:
    """The card of a trained model; its example is the shortest sample that cannot be mistaken for Markdown."""
    tag = f"{token(summary.directions[0][1])} " if summary.directions else ""
    sources = [sample["source"].removeprefix(tag) for sample in summary.samples if sample["source"].startswith(tag)]
    legible = [source for source in sources if source and source.isprintable() and "`" not in source]
    example = min(legible, key=len, default="Hello.")
    return render(
        "report/static/card.md",
        run=summary,
        metrics=METRICS,
        text_metrics=TEXT_METRICS,
        facts=summary.facts(),
        example=example,
    )
