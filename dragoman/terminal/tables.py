"""Tables of results."""

from collections.abc import Iterator, Sequence
from typing import Any

from rich.markup import escape
from rich.table import Table

from dragoman.metrics import MAIN, SHOWN
from dragoman.text.variants import DESCRIPTIONS

BY_SOURCE = {
    "trained_on": "whose source sentence was trained on with another translation",
    "new": "with a source sentence that is new",
}
"""Descriptions of the parts of the test pairs in `Evaluation.by_source`."""
BY_TWINS = {
    "twins": "pairs that are nearly the same as a training pair",
    "unlike": "pairs that are like no training pair",
}
"""Descriptions of the parts of the test pairs in `Evaluation.by_twins`."""
BY_MEMORY = {
    "same": "sentences that the memory has",
    "90": "sentences with an entry of 90 % or more",
    "75": "sentences with an entry of 75 to 90 %",
    "60": "sentences with an entry of 60 to 75 %",
    "50": "sentences with an entry of 50 to 60 %",
    "none": "sentences without a similar entry",
}
"""Descriptions of the bands in `Evaluation.memory`."""


def scores_table(title: str, evaluation: dict[str, Any]) -> Table:
    """The values of `Evaluation.to_dict`, with the signatures of the scores."""
    rows = []
    for metric in SHOWN:
        if metric.name not in evaluation:
            continue
        remark = evaluation["signatures"].get(metric.name, metric.remark)
        rows.append((metric.label, metric.write_with_interval(evaluation, more_digits=1), remark))
        if metric is MAIN:
            rows += _rows_of_parts(evaluation)
    speed = f"{evaluation['sentences_per_second']:.1f}"
    rows.append(("sentences/s", speed, f"{evaluation['sentences']:,} sentences"))
    return results_table(title, rows)


def _rows_of_parts(evaluation: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Rows with the main score of parts of the test pairs, and of a model before it was fine-tuned."""

    def main_score(scores: dict[str, Any]) -> str:
        return MAIN.write_with_interval(scores, more_digits=1)

    for key, descriptions in (("by_source", BY_SOURCE), ("by_twins", BY_TWINS)):
        for part, scores in evaluation.get(key, {}).items():
            yield f"  {part.replace('_', ' ')}", main_score(scores), f"{scores['sentences']:,} {descriptions[part]}"
    for languages, scores in evaluation.get("by_languages", {}).items():
        yield f"  {languages}", main_score(scores), f"{scores['sentences']:,} sentences"
    for name, scores in evaluation.get("variants", {}).items():
        undisturbed = MAIN.write(scores["before"], more_digits=1)
        remark = f"{scores['sentences']:,} {DESCRIPTIONS[name]}; undisturbed {undisturbed}"
        yield f"  {name}", main_score(scores), remark
    for name, scores in evaluation.get("memory", {}).items():
        before = MAIN.write(scores["before"], more_digits=1)
        remark = f"{scores['sentences']:,} {BY_MEMORY[name]}; without the memory {before}"
        yield f"  memory {name}", main_score(scores), remark
    for name, scores in evaluation.get("finetuning", {}).items():
        if name != "own after":  # this is the score of the row above
            yield f"  {name}", main_score(scores), "the fine-tuning"


def results_table(title: str, rows: Sequence[tuple[str, str, str]], *, text: bool = False) -> Table:
    """A row for each (name, value, remark). Values are right-aligned numbers, or with `text` left-aligned texts."""
    table = Table(title=escape(title), title_justify="left", box=None, show_header=False)
    table.add_column(style="bold")
    table.add_column(justify="left" if text else "right")
    table.add_column(style="dim", overflow="fold")
    for row in rows:
        table.add_row(*map(escape, row))
    return table


def comparison_table(heads: Sequence[str], rows: dict[str, list[str]]) -> Table:
    """A table with a row for each name, and a column for each head."""
    table = Table(box=None)
    table.add_column(style="bold", no_wrap=True)
    for head in heads:
        table.add_column(escape(head), justify="right", overflow="fold")
    for name, cells in rows.items():
        table.add_row(*map(escape, (name, *cells)))
    return table
