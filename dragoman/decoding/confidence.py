"""Features of a translation that cost nothing beside its search, from which its confidence follows."""

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from dragoman.decoding.search import Hypothesis
from dragoman.engine.confidence import SIGNS
from dragoman.engine.shapes import Float
from dragoman.text.scripts import WORD

LOWEST = 2
"""Tokens whose mean is the feature `lowest_log_prob`."""


def features(
    source: str, text: str, hypotheses: Sequence[Hypothesis], *, source_tokens: int, familiarity: float | None
) -> Float[np.ndarray, " features"]:
    """The features of the translation `text` of a sentence, in the order of `SIGNS`; NaN for one that is not known.

    `hypotheses` are all that the search found, its best one first; `familiarity` is that of the sentence by a sketch.
    """
    log_probs = hypotheses[0].token_log_probs
    if not len(log_probs):
        return np.full(len(SIGNS), np.nan)
    source_words, words = words_of(source), words_of(text)
    values = {
        "mean_log_prob": float(log_probs.mean()),
        "mean_probability": float(np.exp(log_probs).mean()),
        "lowest_log_prob": float(np.sort(log_probs)[:LOWEST].mean()),
        "familiarity": math.nan if familiarity is None else familiarity,
        "agreement": _agreement(hypotheses),
        "piece_length": len(source) / (source_tokens + 1),
        "repeated": 1 - len(set(words)) / max(1, len(words)),
        "copied": sum(word in source_words for word in words) / max(1, len(words)),
    }
    return np.array([values[name] for name in SIGNS])


def words_of(text: str) -> list[str]:
    """The words of a text, without case, numbers and punctuation."""
    return [word for word in WORD.findall(text.casefold()) if word[0].isalpha()]


def _agreement(hypotheses: Sequence[Hypothesis]) -> float:
    """How similar the other hypotheses are to the best one: the mean share of their token pairs in common."""
    best, *others = ({*pairwise([None, *hypothesis.tokens, None])} for hypothesis in hypotheses)
    if not others:
        return math.nan
    return sum(2 * len(best & other) / (len(best) + len(other)) for other in others) / len(others)
