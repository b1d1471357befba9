"""Tables of results."""

from collections.abc import Sequence
from typing import Any

from rich.markup import escape
from rich.table import Table

from dragoman.metrics import MAIN, TESTED

BY_SOURCE = {
    "trained_on": "whose source sentence was trained on with another translation",
    "new": "with a source sentence that is new",
}
"""The parts of the test pairs in `Evaluation.by_source`."""


def scores_table(title: str, evaluation: dict[str, Any]) -> Table:
    """The values of `Evaluation.to_dict`, with the signatures of the scores."""
    rows = []
    for metric in TESTED:
        remark = evaluation["signatures"].get(metric.name, metric.remark)
        rows.append((metric.label, metric.write(evaluation[metric.name], more_digits=1), remark))
        if metric is MAIN:
            for part, scores in evaluation.get("by_source", {}).items():
                value = metric.write(scores[metric.name], more_digits=1)
                rows.append((f"  {part.replace('_', ' ')}", value, f"{scores['sentences']:,} {BY_SOURCE[part]}"))
            for part, scores in evaluation.get("by_languages", {}).items():
                value = metric.write(scores[metric.name], more_digits=1)
                rows.append((f"  {part}", value, f"{scores['sentences']:,} sentences"))
            for part, scores in evaluation.get("finetuning", {}).items():
                if part != "own after":  # which is the row above
                    rows.append((f"  {part}", metric.write(scores[metric.name], more_digits=1), "the fine-tuning"))
    speed = f"{evaluation['sentences_per_second']:.1f}"
    return results_table(title, [*rows, ("sentences/s", speed, f"{evaluation['sentences']:,} sentences")])


def results_table(title: str, rows: Sequence[tuple[str, str, str]], *, text: bool = False) -> Table:
    """A row for each name, value and remark; values are numbers, to the right, or with `text` to the left."""
    table = Table(title=escape(title), title_justify="left", box=None, show_header=False)
    table.add_column(style="bold")
    table.add_column(justify="left" if text else "right")
    table.add_column(style="dim", overflow="fold")
    for row in rows:
        table.add_row(*map(escape, row))
    return table


def comparison_table(heads: Sequence[str], rows: dict[str, list[str]]) -> Table:
    """A row for each name, a column for each head."""
    table = Table(box=None)
    table.add_column(style="bold", no_wrap=True)
    for head in heads:
        table.add_column(escape(head), justify="right", overflow="fold")
    for name, cells in rows.items():
        table.add_row(*map(escape, (name, *cells)))
    return table
