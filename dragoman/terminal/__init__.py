"""Output of commands in a terminal: notes, progress, the live table of a training, tables of results."""

from dragoman.terminal.display import Display, console

__all__ = ["Display", "console"]
