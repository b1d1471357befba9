"""A figure that shows itself in notebooks."""

import io
import json
import warnings
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.text import Text

from dragoman.text.characters import well_formed

CSS_DPI = 96  # dots to an inch on a page
DRAWN = "Drawn"
"""Name of the text in a PNG file that holds what was drawn, as JSON (`Picture.drawn`)."""
MOST_NUMBERS = 1_000
"""Most numbers of a line or a matrix in it."""


class Picture(Figure):
    """A figure that notebooks show in place, without pyplot, and sharp on screens of high resolution."""

    def draw(self, renderer: object) -> None:
        """Draw the figure; half characters, as file names that are no text have them, become U+FFFD."""
        for text in self.findobj(Text):
            text.set_text(well_formed(text.get_text()))
        super().draw(renderer)

    def to_png(self, *, dpi: int) -> bytes:
        """The picture as a PNG file on white; the same picture gives the same bytes."""
        file = io.BytesIO()
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Glyph .* missing")  # drawn as a box
            self.savefig(file, format="png", dpi=dpi, metadata={"Software": None, DRAWN: json.dumps(self.drawn())})
        return file.getvalue()

    def drawn(self) -> list[dict[str, Any]]:
        """Lines, matrices and bars of each of the axes, as numbers of four digits; of long ones a part, evenly taken.

        Also what is written: titles, names of axes and lines, notes. Programs can compare pictures by them: dots of two
        lines that differ are hardly different in a large picture.
        """
        return [_drawn_in(axes) for axes in self.axes]

    def _repr_png_(self) -> tuple[bytes, dict[str, int]]:
        """The PNG file for Jupyter, and the size to show it at."""
        width, height = self.get_size_inches()
        return self.to_png(dpi=2 * CSS_DPI), {"width": round(CSS_DPI * width), "height": round(CSS_DPI * height)}


def _drawn_in(axes: Axes) -> dict[str, Any]:
    """Lines, matrices, bars and texts of axes."""
    return {
        "lines": [[_some(line.get_xdata()), _some(line.get_ydata())] for line in axes.get_lines()],
        "matrices": [_some(image.get_array()) for image in _matrices_of(axes)],
        "bars": [_some([*bar.get_xy(), bar.get_width(), bar.get_height()]) for bar in _bars_of(axes)],
        "texts": [text.get_text() for text in _texts_of(axes)],
    }


def _matrices_of(axes: Axes) -> list[Any]:
    """Images, and matrices that are drawn as squares."""
    return [*axes.get_images(), *(squares for squares in axes.collections if isinstance(squares, QuadMesh))]


def _bars_of(axes: Axes) -> list[Rectangle]:
    """Rectangles, of which charts of bars are made."""
    return [patch for patch in axes.patches if isinstance(patch, Rectangle)]


def _texts_of(axes: Axes) -> list[Text]:
    """What is written in and beside axes, but for the numbers and names along them."""
    legend = axes.get_legend()
    return [axes.title, axes.xaxis.label, axes.yaxis.label, *axes.texts, *(legend.get_texts() if legend else [])]


def _some(numbers: Any) -> list[float]:
    """At most `MOST_NUMBERS` of an array of any shape, rounded; what is no number is 0."""
    flat = np.asarray(np.ma.filled(np.ma.asarray(numbers, float), 0.0), float).ravel()
    chosen = flat[:: -(-len(flat) // MOST_NUMBERS) or 1]
    return [float(f"{number:.4g}") for number in np.nan_to_num(chosen, posinf=0.0, neginf=0.0)]
