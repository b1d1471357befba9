"""The Transformer, bottom up: config, dropout, attention, layers, transformer. Needs torch and nothing of ours."""

from dragoman.model.config import TransformerConfig
from dragoman.model.transformer import Transformer

__all__ = ["Transformer", "TransformerConfig"]
