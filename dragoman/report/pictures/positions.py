"""Positional encodings (section 3.5 of the paper): the table itself, and the dot products of its rows."""

import numpy as np
from jaxtyping import Float

from dragoman.model import TransformerConfig
from dragoman.model.layers import SinusoidalPositions
from dragoman.report.pictures import style
from dragoman.report.pictures.picture import Picture

LAYOUTS = {
    "sinusoidal": "Interleaved: sine, cosine, sine, cosine, …",
    "sinusoidal-concatenated": "Concatenated: all sines, then all cosines",
}
"""Titles of the values of `TransformerConfig.positions` that are a fixed table."""


def encoding(layout: str, *, length: int, d_model: int) -> Float[np.ndarray, "length d_model"]:
    """The table that the model adds to its embeddings."""
    sizes = {"source_vocab_size": 4, "target_vocab_size": 4, "d_model": d_model, "num_heads": 1}
    return SinusoidalPositions(TransformerConfig(**sizes, positions=layout))(0, length).numpy()


def plot_positions(*, length: int = 100, d_model: int = 128) -> Picture:
    """The encoding of each position as a row, in both orders of its features."""
    figure = style.new_figure(9.6, 4.2)
    grid = figure.subplots(1, len(LAYOUTS), sharey=True)
    for axes, (layout, title) in zip(grid, LAYOUTS.items(), strict=True):
        table = encoding(layout, length=length, d_model=d_model)
        image = axes.imshow(table, style.SIGNED, vmin=-1, vmax=1, aspect="auto", interpolation="none")
        style.dress(axes, title=title, xlabel="feature", ylabel="position" if axes is grid[0] else "")
        axes.locator_params(integer=True)
    style.add_colorbar(image, list(grid), label="value added to the embedding")
    return figure


def plot_position_products(*, length: int = 100, d_model: int = 128) -> Picture:
    """The dot products of all encodings, and as lines: they depend on the distance of two positions alone."""
    # The order of the features does not matter to a product.
    table = encoding("sinusoidal", length=length, d_model=d_model)
    products = table @ table.T
    figure = style.new_figure(9.6, 4.2)
    matrix, lines = figure.subplots(1, 2, width_ratios=(1, 1.15))
    figure.get_layout_engine().set(wspace=0.05)
    image = matrix.imshow(products, style.WEIGHTS, interpolation="none")
    style.dress(matrix, title="PE(p) · PE(q)", xlabel="position q", ylabel="position p")
    matrix.locator_params(integer=True)
    style.add_colorbar(image, matrix, label="dot product")
    # Thick below thin: the lines lie on each other.
    for color, p, width in zip(style.COLORS, (0, length // 2, length - 1), (5.0, 2.5, 1.0), strict=False):
        look = {"color": color, "linewidth": width, "marker": "", "solid_joinstyle": "round"}
        style.draw_line(lines, np.arange(length) - p, products[p], label=f"p = {p}", **look)
    title = "PE(p) · PE(p + k): the same for every p"
    style.dress_curves(lines, title=title, xlabel="distance k", ylabel="dot product")
    lines.locator_params("x", nbins="auto")
    style.add_legend(lines)
    return figure
