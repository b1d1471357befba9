"""Pictures: every function returns a figure that notebooks show in place and `save_picture` writes to a file."""

from dragoman.report.pictures.attention import plot_attention, plot_heads
from dragoman.report.pictures.curves import PANELS, plot_curves, plot_runs
from dragoman.report.pictures.files import save_picture, to_svg
from dragoman.report.pictures.masks import plot_causal_mask, plot_example_mask
from dragoman.report.pictures.positions import plot_position_products, plot_positions
from dragoman.report.pictures.schedules import example_schedules, paper_peak, plot_schedules
from dragoman.report.pictures.split import plot_split

__all__ = [
    "PANELS",
    "example_schedules",
    "paper_peak",
    "plot_attention",
    "plot_causal_mask",
    "plot_curves",
    "plot_example_mask",
    "plot_heads",
    "plot_position_products",
    "plot_positions",
    "plot_runs",
    "plot_schedules",
    "plot_split",
    "save_picture",
    "to_svg",
]
