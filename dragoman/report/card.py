"""The model card: a README.md in Markdown for people who find a model directory."""

from dragoman.metrics import METRICS
from dragoman.report.summary import RunSummary
from dragoman.report.templates import render


def model_card(summary: RunSummary) -> str:
    """The card of a trained model; its example is the shortest sample that cannot be mistaken for Markdown."""
    sources = [sample["source"] for sample in summary.samples]
    legible = [source for source in sources if source and source.isprintable() and "`" not in source]
    example = min(legible, key=len, default="Hello.")
    return render("card.md", run=summary, metrics=METRICS, facts=summary.facts(), example=example)
