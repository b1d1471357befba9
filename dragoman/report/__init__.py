"""Pages with pictures to read about a run or about one translation, and the model card."""

from dragoman.report.attention import WordAttention, most_reordered, word_attention
from dragoman.report.card import model_card
from dragoman.report.inspection import Inspection, inspect_translation
from dragoman.report.inspection_page import render_inspection
from dragoman.report.summary import RunSummary

__all__ = [
    "Inspection", "RunSummary", "WordAttention", "inspect_translation", "model_card", "most_reordered",
    "render_inspection", "word_attention",
]  # fmt: skip
