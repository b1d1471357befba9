"""Whether a picture can be read: measured on the boxes around its texts, as drawn."""

import itertools
import math

import numpy as np
from matplotlib.axis import Axis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.legend import Legend
from matplotlib.text import Text


def drawn(figure: Figure) -> Figure:
    """The figure after its layout."""
    FigureCanvasAgg(figure).draw()
    return figure


def shown_texts(figure: Figure) -> list[Text]:
    """All that is written in the picture."""
    texts = [text for part in (figure, *figure.subfigs) for text in part.texts]
    texts += [text for legend in figure.findobj(Legend) for text in legend.get_texts()]
    for axes in figure.axes:
        texts += [axes.title, axes._left_title, axes.xaxis.label, axes.yaxis.label, *axes.texts]
        for axis in (axes.xaxis, axes.yaxis):
            texts += [axis.get_offset_text(), *tick_labels(axis)]
    return [text for text in texts if text.get_visible() and text.get_text().strip()]


def tick_labels(axis: Axis) -> list[Text]:
    """Those inside the axes; others are not drawn."""
    low, high = sorted(axis.get_view_interval())
    return [
        label
        for tick in axis.get_major_ticks()
        for label in (tick.label1, tick.label2)
        if label.get_visible() and label.get_text() and low <= tick.get_loc() <= high
    ]


def clipped_texts(figure: Figure) -> list[str]:
    """Texts that stick out of the picture."""
    box = figure.bbox
    return [
        text.get_text()
        for text in shown_texts(figure)
        if not (
            box.x0 - 1 <= (extent := text.get_window_extent()).x0
            and extent.x1 <= box.x1 + 1
            and box.y0 - 1 <= extent.y0
            and extent.y1 <= box.y1 + 1
        )
    ]


def overlapping_tick_labels(figure: Figure) -> list[tuple[str, str]]:
    """Neighbours along an axis without room between them."""
    pairs = []
    for axis in (axis for axes in figure.axes for axis in (axes.xaxis, axes.yaxis)):
        for left, right in itertools.pairwise(tick_labels(axis)):
            if left.get_rotation() % 90:
                # The boxes of slanted words overlap, their lines need the height of a letter between them.
                gap = np.subtract(right.get_window_extent().p0, left.get_window_extent().p0)
                room = np.hypot(*gap) * math.sin(math.radians(left.get_rotation()))
                close = room < left.get_fontsize() * figure.dpi / 72
            else:
                close = left.get_window_extent().overlaps(right.get_window_extent())
            if close:
                pairs.append((left.get_text(), right.get_text()))
    return pairs


def small_texts(figure: Figure) -> list[str]:
    """Texts of less than nine points."""
    return [text.get_text() for text in shown_texts(figure) if text.get_fontsize() < 9]
