"""How sentence pairs are shared out."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from dragoman.report.pictures.style import COLORS, INK, LABEL, TITLE, dress, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def plot_split(counts: Mapping[str, int]) -> "Figure":
    """A bar cut into the parts of `counts`, each with its number of pairs and its share."""
    from matplotlib.patches import Patch

    total = sum(counts.values())
    figure = new_figure(6.4, 1.7)
    axes = figure.subplots()
    start, parts = 0, []
    for (name, count), color in zip(counts.items(), COLORS, strict=False):
        axes.barh(0, count, left=start, color=color, edgecolor="white", linewidth=1)
        parts.append(Patch(color=color, label=f"{name}\n{count:,}\n{100 * count / total:.3g} %"))
        start += count
    dress(axes, title=f"{total:,} sentence pairs", xlabel="", ylabel="")
    axes.set(xlim=(0, total), xticks=[], yticks=[])
    axes.spines[:].set_visible(False)
    # Beside a bar of its own a small part would have no room for its figures.
    figure.legend(handles=parts, loc="outside lower left", ncols=len(parts), frameon=False, labelcolor=INK, fontsize=TITLE - 1)
    return figure
