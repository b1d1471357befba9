"""Nearest neighbours of training pairs: for each source the pair whose source is most like it, but not the same.

A model that is given the translation of such a neighbour behind its source learns to reuse what fits (Bulté and Tezcan
2019, "Neural Fuzzy Repair"). Similarity is the share of tokens that need not be edited (`dragoman.text.edit_distance`).
Sources that have rare tokens, or rare pairs of neighbouring tokens, in common are compared.
"""

from functools import partial
from typing import NamedTuple

import numpy as np

from dragoman.data.batching import Sentences
from dragoman.engine.shapes import Float, Int
from dragoman.system.processes import map_on_cores
from dragoman.text.edit_distance import LEAST_SIMILAR, Compared

NONE = -1
"""Index where a source has no neighbour."""
MOST_PAIRS, MOST_TOKENS = 500_000, 8_000_000
"""Most pairs that neighbours are looked for among, and most tokens of their sources; later pairs have none."""
MOST_MET = 1_000
"""Most pairs, about, that have the rarest of a source's tokens in common with it, and are counted."""
MOST_COMPARED, MOST_READ = 8, 64
"""Most of these, those that have most in common, whose edit distance is computed, and that are read at all."""
_AT_ONCE = 5_000
"""Sources that a process is given together."""


class Neighbours(NamedTuple):
    """For each pair its neighbour and their similarity; `NONE` and 0 where it has none."""

    indices: Int[np.ndarray, " pairs"]
    similarities: Float[np.ndarray, " pairs"]


class _Grams:
    """Tokens and pairs of neighbouring tokens of some sentences, numbered, and the sentences that have each."""

    def __init__(self, sentences: Sentences):
        self.sentences = sentences
        lengths = sentences.lengths
        rows = np.repeat(np.arange(len(sentences), dtype=np.int32), lengths)
        ids = sentences.ids[: len(rows)].astype(np.int64)
        before = np.append(0, ids[:-1] + 1)
        before[(np.append(0, sentences.ends[:-1]))[lengths > 0]] = 0  # at the beginning of a sentence
        pairs = (before << 32) + ids + 1
        _, numbers = np.unique(np.concatenate([ids + 1 - (1 << 62), pairs]), return_inverse=True)
        # Of each sentence: its tokens, then its pairs.
        both = np.concatenate([rows, rows])
        order = np.argsort(both, kind="stable")
        self._numbers = numbers[order].astype(np.int32)
        self._ends = 2 * np.asarray(sentences.ends)
        order = np.argsort(numbers, kind="stable")
        self._rows = both[order]
        self.counts = np.bincount(numbers)
        self._starts = np.cumsum(self.counts) - self.counts
        self.weights = np.log(1 + len(sentences) / self.counts)

    def of(self, row: int) -> np.ndarray:
        """The different grams of a sentence, rarest first."""
        grams = np.unique(self._numbers[self._ends[row - 1] if row else 0 : self._ends[row]])
        return grams[np.argsort(self.counts[grams], kind="stable")]

    def meetings(self, grams: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Sentences that have the rarest of these grams, and how much they have in common with them."""
        counts = self.counts[grams]
        kept = max(1, int(np.searchsorted(np.cumsum(counts), MOST_MET, "right")))
        parts = []
        for gram, count in zip(grams[:kept].tolist(), counts[:kept].tolist(), strict=True):
            start = self._starts[gram]
            parts.append(self._rows[start : start + min(count, MOST_MET)])
        met = np.concatenate(parts)
        weights = np.repeat(self.weights[grams[:kept]], [len(part) for part in parts])
        rows, inverse = np.unique(met, return_inverse=True)
        return rows, np.bincount(inverse, weights)


def find_neighbours(sources: Sentences, *, least: float = LEAST_SIMILAR) -> Neighbours:
    """The neighbour of each source among the others. Uses all cores."""
    count = min(MOST_PAIRS, int(np.searchsorted(sources.ends, MOST_TOKENS, "right")))
    searched = Sentences(sources.ids, sources.ends[:count])
    grams = _Grams(searched)
    blocks = ((start, min(start + _AT_ONCE, len(searched))) for start in range(0, len(searched), _AT_ONCE))
    found = list(map_on_cores(partial(_found, grams, least), blocks))
    indices = np.full(len(sources), NONE, np.int32)
    similarities = np.zeros(len(sources), np.float32)
    if found:
        indices[: len(searched)] = np.concatenate([block.indices for block in found])
        similarities[: len(searched)] = np.concatenate([block.similarities for block in found])
    return Neighbours(indices, similarities)


def _found(grams: _Grams, least: float, start: int, stop: int) -> Neighbours:
    """The neighbours of some sources."""
    nearest = [_nearest(grams, row, least) for row in range(start, stop)]
    indices, similarities = zip(*nearest, strict=True)
    return Neighbours(np.array(indices, np.int32), np.array(similarities, np.float32))


def _nearest(grams: _Grams, row: int, least: float) -> tuple[int, float]:
    """The neighbour of a source and their similarity."""
    tokens = grams.sentences[row].tolist()
    best, similarity = NONE, 0.0
    if not tokens:
        return best, similarity
    compared = Compared(tokens)
    different: set[tuple[int, ...]] = {tuple(tokens)}
    for other in _candidates(grams, row, len(tokens)):
        others = tuple(grams.sentences[other].tolist())
        if others in different:
            continue
        different.add(others)
        score = compared.similarity(others)
        if score >= least and score > similarity:
            best, similarity = other, score
        if len(different) > MOST_COMPARED:
            break
    return best, similarity


def _candidates(grams: _Grams, row: int, length: int) -> list[int]:
    """Sentences that have most in common with one, by their tokens and lengths, those with most first."""
    rows, common = grams.meetings(grams.of(row))
    ends = grams.sentences.ends
    lengths = ends[rows] - np.where(rows > 0, ends[rows - 1], 0)
    score = common * np.minimum(lengths, length) / np.maximum(lengths, length)
    if len(score) > MOST_READ:
        kept = np.argpartition(-score, MOST_READ)[:MOST_READ]
        rows, score = rows[kept], score[kept]
    return rows[np.argsort(-score, kind="stable")].tolist()
