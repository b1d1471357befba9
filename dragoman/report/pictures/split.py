"""Picture of the split: how many sentence pairs are for training, validation and test."""

from collections.abc import Mapping
from pathlib import Path

from dragoman.errors import DataError, UsageError
from dragoman.report.pictures import style
from dragoman.report.pictures.picture import Picture
from dragoman.storage.run_directory import RunDirectory


def read_split(run: Path) -> dict[str, int]:
    """The number of sentence pairs in each part of the run in the model directory `run`. Raises `DataError` if there is
    none."""
    directory = RunDirectory(run)
    if not directory.data.is_dir():
        raise DataError(f"{run} holds no run with its data; give a folder that `dragoman train` wrote.")
    train = directory.about()["train_pairs"]
    return {"training": train, "validation": len(directory.pairs("valid")), "test": len(directory.pairs("test"))}


def plot_split(counts: Mapping[str, int]) -> Picture:
    """A bar with a segment for each part, and their sizes and shares below; raises `UsageError` without any pair."""
    total = sum(counts.values())
    if not total:
        raise UsageError("There is no split to draw: all parts have 0 sentence pairs.")
    figure = style.new_figure(7.2, 1.3)
    axes = figure.subplots()
    start = 0
    colors = {}
    for (name, count), color in zip(counts.items(), style.COLORS, strict=False):
        axes.barh(0, count, left=start, color=color, edgecolor="white", linewidth=1)
        share = "< 0.1 %" if 0 < count / total < 0.001 else f"{100 * count / total:.1f} %"
        colors[f"{name}: {count:,} ({share})"] = color
        start += count
    style.dress(axes, title=f"{total:,} sentence pairs")
    axes.set(xlim=(0, total), xticks=[], yticks=[])
    axes.spines[:].set_visible(False)
    style.add_colors_below(figure, colors)
    return figure
