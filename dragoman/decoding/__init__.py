"""Sentences in, translations out."""
