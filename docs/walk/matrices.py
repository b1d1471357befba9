"""Draws small matrices with their numbers in colour, for the pages of the walk."""

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from dragoman.report.pictures.picture import Picture
from dragoman.report.pictures.style import frameless, new_figure


@dataclass(frozen=True)
class Matrix:
    """A matrix with the names of its rows and columns; no names of columns stand for the features 1, 2, ..."""

    title: str
    numbers: Tensor
    rows: Sequence[str]
    columns: Sequence[str] = ()


def draw(matrices: Sequence[Matrix], *, across: int = 3) -> Picture:
    """The matrices one after another, so many in each row: violet is above 0, orange below."""
    down = -(-len(matrices) // across)
    figure = new_figure(3.2 * across, 1.75 * down)
    for index, matrix in enumerate(matrices):
        axes = figure.add_subplot(down, across, index + 1)
        numbers = matrix.numbers.detach().numpy()
        largest = max(1e-9, abs(numbers).max())
        axes.imshow(numbers, cmap="PuOr", vmin=-1.6 * largest, vmax=1.6 * largest, aspect="auto")
        for row, column in ((r, c) for r in range(numbers.shape[0]) for c in range(numbers.shape[1])):
            axes.text(column, row, f"{numbers[row, column]:.2f}", ha="center", va="center", fontsize=8)
        axes.set_title(matrix.title, fontsize=9)
        names = matrix.columns or [str(number + 1) for number in range(numbers.shape[1])]
        axes.set_xticks(range(len(names)), names, fontsize=8)
        axes.set_yticks(range(len(matrix.rows)), matrix.rows, fontsize=8)
        frameless(axes)
    return figure
