"""What people see while a command works: notes, a live table of the training, tables of results."""

from dragoman.terminal.display import Display, command, console
from dragoman.terminal.tables import results_table, scores_table

__all__ = ["Display", "command", "console", "results_table", "scores_table"]
