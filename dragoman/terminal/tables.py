"""Tables of results."""

from typing import Any

from rich.markup import escape
from rich.table import Table

BY_SOURCE = {
    "trained_on": "whose source sentence was trained on with another translation",
    "new": "with a source sentence that is new",
}
"""The parts of test pairs in `Evaluation.by_source`."""


def scores_table(title: str, evaluation: dict[str, Any]) -> Table:
    """The figures of `Evaluation.to_dict`, with the sacrebleu signatures."""
    signatures = evaluation["signatures"]
    by_source = evaluation.get("by_source", {})
    rows = [
        ("BLEU", f"{evaluation['bleu']:.2f}", signatures["bleu"]),
        *(
            (
                f"  {part.replace('_', ' ')}",
                f"{by_source[part]['bleu']:.2f}",
                f"{by_source[part]['sentences']:,} {words}",
            )
            for part, words in BY_SOURCE.items()
            if part in by_source
        ),
        ("chrF++", f"{evaluation['chrf']:.2f}", signatures["chrf"]),
        ("TER", f"{evaluation['ter']:.2f}", signatures["ter"]),
        ("perplexity", f"{evaluation['perplexity']:.3f}", "per token"),
        (
            "token accuracy",
            f"{100 * evaluation['token_accuracy']:.2f} %",
            "next token, given the true beginning",
        ),
        (
            "sentences/s",
            f"{evaluation['sentences_per_second']:.1f}",
            f"{evaluation['sentences']:,} sentences",
        ),
    ]
    return results_table(title, rows)


def results_table(title: str, rows: list[tuple[str, str, str]], *, text: bool = False) -> Table:
    """Name, value and remark, a row each; values are numbers, to the right, or with `text` to the left."""
    table = Table(title=escape(title), title_justify="left", box=None, show_header=False)
    table.add_column(style="bold")
    table.add_column(justify="left" if text else "right")
    table.add_column(style="dim", overflow="fold")
    for row in rows:
        table.add_row(*map(escape, row))
    return table


def comparison_table(heads: list[str], rows: dict[str, list[str]]) -> Table:
    """A row for each name, a column for each head."""
    table = Table(box=None)
    table.add_column(style="bold", no_wrap=True)
    for head in heads:
        table.add_column(escape(head), justify="right", overflow="fold")
    for name, cells in rows.items():
        table.add_row(*map(escape, (name, *cells)))
    return table
