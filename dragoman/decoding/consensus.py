"""Minimum Bayes risk decoding: of several translations, the one that is most like all the others.

The most probable translation may be an odd one; the one that most others agree with seldom is. Likeness is chrF, the
F-score of character n-grams (Popović 2015), so that it counts what a metric counts. Kumar and Byrne 2004, "Minimum
Bayes-Risk Decoding for Statistical Machine Translation"; Eikema and Aziz 2020, "Is MAP Decoding All You Need?".
"""

from collections.abc import Sequence

import numpy as np

from dragoman.engine.shapes import Float

ORDER, BETA = 6, 2.0
"""Longest character n-grams, and how much more recall counts than precision: those of chrF."""


def agreement(texts: Sequence[str]) -> Float[np.ndarray, " texts"]:
    """How like each text is to all of them, in chrF from 0 to 1; a text that occurs twice counts twice.

    Takes time for the square of the number of different texts, times the number of different n-grams of all of them.
    """
    different = list(dict.fromkeys(texts))
    occurrences = np.array([texts.count(text) for text in different])
    mean = likeness(different) @ occurrences / occurrences.sum()
    return np.array([mean[different.index(text)] for text in texts])


def likeness(texts: Sequence[str]) -> Float[np.ndarray, "texts references"]:
    """The chrF of each text with each of them as its reference, without spaces, from 0 to 1."""
    stripped = ["".join(text.split()) for text in texts]
    precision = np.zeros((len(texts), len(texts)))
    recall, orders = np.zeros_like(precision), np.zeros_like(precision)
    for order in range(1, ORDER + 1):
        counts = _counts(stripped, order)
        totals = counts.sum(axis=1)
        common = np.array([np.minimum(row, counts).sum(axis=1) for row in counts]).reshape(precision.shape)
        # Texts shorter than an n-gram have none; the order then does not count.
        both = (totals[:, None] > 0) & (totals > 0)
        precision += np.divide(common, totals[:, None], out=np.zeros_like(precision), where=both)
        recall += np.divide(common, totals, out=np.zeros_like(recall), where=both)
        orders += both
    precision, recall = (
        np.divide(part, orders, out=np.zeros_like(part), where=orders > 0) for part in (precision, recall)
    )
    weighted = BETA**2 * precision + recall
    return np.divide((1 + BETA**2) * precision * recall, weighted, out=np.zeros_like(weighted), where=weighted > 0)


def _counts(texts: Sequence[str], order: int) -> Float[np.ndarray, "texts grams"]:
    """How often each n-gram of this order that any text has occurs in each text."""
    numbers: dict[str, int] = {}
    rows, columns = [], []
    for row, text in enumerate(texts):
        for begin in range(len(text) - order + 1):
            rows.append(row)
            columns.append(numbers.setdefault(text[begin : begin + order], len(numbers)))
    counts = np.zeros((len(texts), max(1, len(numbers))))
    np.add.at(counts, (rows, columns), 1.0)
    return counts
