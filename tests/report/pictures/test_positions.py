"""Positions: the table of section 3.5, computed again by its formula, and what its products show."""

import math

import numpy as np
import pytest

from dragoman.report.pictures import plot_position_products, plot_positions

LENGTH, WIDTH = 23, 14


def expected(position: int, feature: int) -> float:
    angle = position / 10_000 ** (2 * (feature // 2) / WIDTH)
    return math.cos(angle) if feature % 2 else math.sin(angle)


def test_both_panels_show_the_formula_in_their_order():
    interleaved, concatenated = (
        axes.images[0].get_array() for axes in plot_positions(length=LENGTH, d_model=WIDTH).axes[:2]
    )
    table = [[expected(position, feature) for feature in range(WIDTH)] for position in range(LENGTH)]
    np.testing.assert_allclose(interleaved, table, atol=1e-6)
    reordered = [*range(0, WIDTH, 2), *range(1, WIDTH, 2)]
    np.testing.assert_allclose(concatenated, np.array(table)[:, reordered], atol=1e-6)


def test_the_colours_are_even_around_0():
    image = plot_positions(length=LENGTH, d_model=WIDTH).axes[0].images[0]
    assert image.get_clim() == (-1, 1)


def test_products_depend_on_the_distance_alone():
    figure = plot_position_products(length=LENGTH, d_model=WIDTH)
    matrix, lines = figure.axes[:2]
    # cos(a - b) = cos(a) cos(b) + sin(a) sin(b), for each frequency
    rates = [10_000 ** (-2 * i / WIDTH) for i in range(WIDTH // 2)]
    product = {k: sum(math.cos(k * rate) for rate in rates) for k in range(-LENGTH, LENGTH + 1)}
    shown = matrix.images[0].get_array()
    np.testing.assert_allclose(shown, [[product[q - p] for q in range(LENGTH)] for p in range(LENGTH)], atol=1e-4)
    assert len(lines.lines) == 3
    for line, start in zip(lines.lines, (0, LENGTH // 2, LENGTH - 1), strict=True):
        distances, values = line.get_data()
        assert list(distances) == [q - start for q in range(LENGTH)]
        np.testing.assert_allclose(values, [product[k] for k in distances], atol=1e-4)


@pytest.mark.parametrize("width", [2, 3])
def test_narrow_tables_can_be_drawn(width):
    assert plot_positions(length=3, d_model=width).axes[0].images[0].get_array().shape == (3, width)
