"""What a run leaves to read: a page with pictures, and the model card."""

from dragoman.report.attention import WordAttention, most_reordered, word_attention
from dragoman.report.card import model_card
from dragoman.report.page import write_report
from dragoman.report.pictures import plot_attention, plot_curves, to_png, to_svg
from dragoman.report.summary import RunSummary

__all__ = [
    "RunSummary",
    "WordAttention",
    "model_card",
    "most_reordered",
    "plot_attention",
    "plot_curves",
    "to_png",
    "to_svg",
    "word_attention",
    "write_report",
]
