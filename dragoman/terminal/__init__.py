"""Output of commands in a terminal: notes, progress, the live table of a training, tables of results."""

from dragoman.terminal.display import Display, console
from dragoman.terminal.tables import comparison_table, results_table, scores_table

__all__ = ["Display", "comparison_table", "console", "results_table", "scores_table"]
