"""What there is to read about a run and about one translation: pages with pictures, and the model card."""

from dragoman.report.attention import WordAttention, most_reordered, word_attention
from dragoman.report.card import model_card
from dragoman.report.inspection import Inspection, inspect_translation
from dragoman.report.inspection_page import render_inspection
from dragoman.report.page import write_report
from dragoman.report.pictures import plot_attention, plot_curves, to_png, to_svg
from dragoman.report.summary import RunSummary

__all__ = [
    "Inspection",
    "RunSummary",
    "WordAttention",
    "inspect_translation",
    "model_card",
    "most_reordered",
    "plot_attention",
    "plot_curves",
    "render_inspection",
    "to_png",
    "to_svg",
    "word_attention",
    "write_report",
]
