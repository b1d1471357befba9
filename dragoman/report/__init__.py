"""Pages with pictures to read about a run or about one translation, and the model card."""

from dragoman.report.attention import WordAttention, most_reordered, word_attention
from dragoman.report.card import model_card
from dragoman.report.inspection import Inspection, inspect_translation
from dragoman.report.inspection_page import render_inspection
from dragoman.report.summary import RunSummary
from dragoman.report.words import WordProbability, likely_next, word_probabilities

__all__ = [
    "Inspection", "RunSummary", "WordAttention", "WordProbability", "inspect_translation", "likely_next", "model_card",
    "most_reordered", "render_inspection", "word_attention", "word_probabilities",
]  # fmt: skip
