"""Pictures: every function returns a figure that notebooks show in place and `save_picture` writes to a file."""

from dragoman.system.optional import settle_matplotlib

settle_matplotlib()  # which the files below import

# ruff: noqa: E402
from dragoman.report.pictures.attention import plot_attention, plot_heads
from dragoman.report.pictures.curves import OVERLAYS, PANELS, plot_curves, plot_runs
from dragoman.report.pictures.files import save_picture, to_svg
from dragoman.report.pictures.masks import plot_causal_mask, plot_example_mask
from dragoman.report.pictures.positions import plot_position_products, plot_positions
from dragoman.report.pictures.schedules import example_schedules, plot_schedules, read_curve
from dragoman.report.pictures.split import plot_split, read_split

__all__ = [
    "OVERLAYS", "PANELS", "example_schedules", "plot_attention", "plot_causal_mask", "plot_curves",
    "plot_example_mask", "plot_heads", "plot_position_products", "plot_positions", "plot_runs", "plot_schedules",
    "plot_split", "read_curve", "read_split", "save_picture", "to_svg",
]  # fmt: skip
