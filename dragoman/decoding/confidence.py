"""Features of a translation that cost nothing beside its search, from which its confidence follows."""

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np

from dragoman.decoding.search import Hypothesis
from dragoman.engine.confidence import SIGNS
from dragoman.engine.shapes import Float
from dragoman.text.scripts import WORD

LOWEST = 2
"""Tokens whose mean is the feature `lowest_log_prob`."""


def features(
    source: str,
    text: str,
    best: Hypothesis,
    decoded: Sequence[str],
    *,
    source_tokens: int,
    familiarity: float | None,
) -> Float[np.ndarray, " features"]:
    """The features of the translation `text` of a sentence, in the order of `SIGNS`; NaN for one that is not known.

    `decoded` are the texts of all hypotheses, that of the best one first; `familiarity` is that of the sentence by a
    sketch.
    """
    log_probs = best.token_log_probs
    if not len(log_probs):
        return np.full(len(SIGNS), np.nan)
    source_words, words = words_of(source), words_of(text)
    values = {
        "mean_log_prob": float(log_probs.mean()),
        "mean_probability": float(np.exp(log_probs).mean()),
        "lowest_log_prob": float(np.sort(log_probs)[:LOWEST].mean()),
        "familiarity": math.nan if familiarity is None else familiarity,
        "agreement": _agreement(decoded),
        "piece_length": len(source) / (source_tokens + 1),
        "repeated": 1 - len(set(words)) / max(1, len(words)),
        "copied": sum(word in source_words for word in words) / max(1, len(words)),
    }
    return np.array([values[name] for name in SIGNS])


def words_of(text: str) -> list[str]:
    """The words of a text, without case, numbers and punctuation."""
    return [word for word in WORD.findall(text.casefold()) if word[0].isalpha()]


def _agreement(decoded: Sequence[str]) -> float:
    """How similar the other translations are to the best one: the mean share of character trigrams in common."""
    best, *others = (Counter(map("".join, zip(text, text[1:], text[2:], strict=False))) for text in decoded)
    if not others:
        return math.nan
    shares = [2 * (best & other).total() / max(1, best.total() + other.total()) for other in others]
    return sum(shares) / len(shares)
