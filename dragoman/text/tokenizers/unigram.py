"""The unigram language model (Kudo 2018): all segmentations of many words at once, to be sampled from.

A word is a sequence of pieces, each drawn independently; its probability is the sum over all its segmentations.
`dragoman.text.tokenizers.unigram_training` learns the pieces.
"""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

_MAX_CELLS = 1 << 21
"""Most elements of the arrays of a block of words."""


class Lattice:
    """All segmentations of some words into pieces."""

    def __init__(self, words: Sequence[str], ids: Mapping[str, int], *, width: int):
        """`width` is the length of the longest piece."""
        self.lengths = np.array([len(word) for word in words])
        self.pieces = np.full((len(words), max(self.lengths), width), -1, np.int32)
        """[word, end - 1, size - 1] is the piece of this size that ends there, or -1."""
        longest = self.pieces.shape[1]
        cells, pieces = [], []
        for row, word in enumerate(words):
            for end in range(1, len(word) + 1):
                first = (row * longest + end - 1) * width - 1
                for size in range(1, min(end, width) + 1):
                    piece = ids.get(word[end - size : end])
                    if piece is not None:
                        cells.append(first + size)
                        pieces.append(piece)
        self.pieces.reshape(-1)[cells] = pieces

    def last_pieces(self, log_probs: np.ndarray) -> np.ndarray:
        """[word, end - 1, size - 1]: how likely the word up to `end` has a last piece of this size.

        `log_probs` has an entry for each piece, and -inf as the last one.
        """
        edges = log_probs[self.pieces]
        words, longest, width = edges.shape
        # Column `width + end` holds the log-probability of the word up to `end`; negative ends are impossible.
        prefixes = np.full((words, width + 1 + longest), -np.inf)
        prefixes[:, width] = 0
        for end in range(1, longest + 1):
            ways = edges[:, end - 1] + prefixes[:, end : width + end][:, ::-1]
            total = np.logaddexp.reduce(ways, axis=1)
            prefixes[:, width + end] = total
            edges[:, end - 1] = np.exp(ways - np.where(np.isfinite(total), total, 0)[:, None])
        return edges

    def sample(self, log_probs: np.ndarray, copies: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Segments each word `copies` times, in proportion to the probabilities: [copy, start] is a piece or -1."""
        last = self.last_pieces(log_probs)
        words = np.repeat(np.arange(len(self.lengths)), copies)
        sampled = np.full((len(words), self.pieces.shape[1]), -1, np.int32)
        # From the last piece to the first.
        rows, ends = np.arange(len(words)), self.lengths[words]
        while len(rows):
            chances = last[words[rows], ends - 1].cumsum(1)
            sizes = (chances <= rng.random((len(rows), 1)) * chances[:, -1:]).sum(1)
            starts = ends - sizes - 1
            sampled[rows, starts] = self.pieces[words[rows], ends - 1, sizes]
            rows, ends = rows[starts > 0], starts[starts > 0]
        return sampled


def blocks(lengths: np.ndarray, width: int) -> Iterator[slice]:
    """Slices of words, sorted by length, whose arrays of `width` columns a letter are not too large."""
    start = 0
    while start < len(lengths):
        stop = start + max(1, _MAX_CELLS // (int(lengths[start]) * width))
        # Lengths rise: all words of a block count with its greatest length.
        stop = start + max(1, _MAX_CELLS // (int(lengths[min(stop, len(lengths)) - 1]) * width))
        yield slice(start, stop)
        start = stop
