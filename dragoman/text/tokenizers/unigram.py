"""The unigram language model (Kudo 2018): all segmentations of many words at once, summed up and sampled from.

A word is a sequence of pieces, each drawn independently; its probability is the sum over all its segmentations.
Training starts from many pieces and alternates between expectation maximisation and dropping the pieces that matter
least. NumPy alone, one order of summation: the same words give the same pieces, whatever the number of threads.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from dragoman.text.tokenizers.byte_level import CONTINUATIONS

MAX_CHARACTERS = 16
"""Longest piece, as in SentencePiece."""
MAX_WORDS = 100_000
"""Most words that are learned from, the most frequent ones: more would take memory and change little."""
MAX_WORD_LENGTH = 96
"""Longer words, in bytes, are split up for training, as in scripts without spaces."""
SEEDS_PER_PIECE = 10
"""Number of pieces to start from, for each piece that is kept in the end."""
KEPT = 0.75
"""Share of the pieces that is kept in each round."""
_MAX_CELLS = 1 << 21
"""Most elements of the arrays of a block of words."""


class Lattice:
    """All segmentations of some words into pieces."""

    def __init__(self, words: Sequence[str], ids: Mapping[str, int], *, width: int, unsplit: bool = True):
        """`width` is the length of the longest piece; without `unsplit`, every word has at least two pieces."""
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
                    if piece is not None and (unsplit or size < len(word)):
                        cells.append(first + size)
                        pieces.append(piece)
        self.pieces.reshape(-1)[cells] = pieces

    def sum(self, log_probs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Log-probability of each word, and [word, end - 1, size - 1]: the probability of a piece, if one ends there.

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
        return prefixes[np.arange(words), width + self.lengths], edges

    def expected_counts(self, log_probs: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Expected number of uses of each piece, over all segmentations of words that occur `weights` times."""
        _, last = self.sum(log_probs)
        words, longest, width = last.shape
        borders = np.zeros((words, width + 1 + longest))
        borders[np.arange(words), width + self.lengths] = weights
        for end in range(longest, 0, -1):
            last[:, end - 1] *= borders[:, width + end, None]
            borders[:, end : width + end] += last[:, end - 1, ::-1]
        return np.bincount(self.pieces.reshape(-1) + 1, last.reshape(-1), len(log_probs))[1:]

    def sample(self, log_probs: np.ndarray, copies: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Segments each word `copies` times, in proportion to the probabilities: [copy, start] is a piece or -1."""
        _, last = self.sum(log_probs)
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


def train_unigram(words: Counter[str], *, alphabet: Sequence[str], size: int) -> list[tuple[str, float]]:
    """At most `size` pieces with their log-probabilities, likeliest first; the letters of `alphabet` are among them.

    `words` are spelled in byte characters, as `dragoman.text.tokenizers.algorithms` spells them.
    """
    counts = _shortened(words)
    seeds = _seeds(counts, SEEDS_PER_PIECE * size)
    letters, pieces = len(alphabet), [*alphabet, *seeds]
    ids = {piece: id_ for id_, piece in enumerate(pieces)}
    width = max(map(len, pieces))
    corpus = [
        (Lattice(block, ids, width=width), np.array([counts[word] for word in block], float))
        for block in _blocks(sorted(counts, key=_by_length), width)
    ]
    split = [Lattice(block, ids, width=width, unsplit=False) for block in _blocks(list(seeds), width)]
    log_probs = _log_probs(np.array([1.0] * letters + list(seeds.values())), letters)
    while True:
        for _ in range(2):
            used = np.zeros(len(pieces))
            for lattice, weights in corpus:
                used = used + lattice.expected_counts(log_probs, weights)
            log_probs = _log_probs(used, letters)
        alive = np.isfinite(log_probs[:-1])
        if alive.sum() <= size:
            break
        # The log-probability that the corpus would lose without each piece, if other pieces spelled it.
        without = np.concatenate([lattice.sum(log_probs)[0] for lattice in split])
        loss = used[letters:] * (np.where(alive, log_probs[:-1], 0)[letters:] - without)
        loss[~alive[letters:]] = -np.inf
        # A stable sort, so that equal ones stay in the order of the pieces.
        order = letters + np.argsort(-loss, kind="stable")
        log_probs[order[max(size, int(KEPT * alive.sum())) - letters :]] = -np.inf
    # Six decimals, which JSON readers give back as they were.
    learned = [(pieces[id_], round(float(log_probs[id_]), 6)) for id_ in np.flatnonzero(alive)]
    return sorted(learned, key=lambda entry: (-entry[1], entry[0]))


def _by_length(word: str) -> tuple[int, str]:
    return len(word), word


def _shortened(words: Counter[str]) -> Counter[str]:
    """The most frequent words, none too long; ties by spelling, so that the order of the texts does not matter."""
    counts: Counter[str] = Counter()
    for word, count in sorted(words.items(), key=lambda entry: (-entry[1], entry[0]))[:MAX_WORDS]:
        for start in range(0, len(word), MAX_WORD_LENGTH):
            counts[word[start : start + MAX_WORD_LENGTH]] += count
    return counts


def _seeds(words: Counter[str], most: int) -> dict[str, float]:
    """The substrings of whole characters that cover most text, with their counts, shortest first."""
    parts: Counter[str] = Counter()
    for word, count in words.items():
        borders = [index for index, letter in enumerate(word) if letter not in CONTINUATIONS] + [len(word)]
        for first, start in enumerate(borders):
            for end in borders[first + 1 : first + 1 + MAX_CHARACTERS]:
                parts[word[start:end]] += count
    ranked = sorted((-count * len(part), part) for part, count in parts.items() if count > 1 and len(part) > 1)
    best = [part for _, part in ranked[:most]]
    return {part: float(parts[part]) for part in sorted(best, key=_by_length)}


def _blocks(words: list[str], width: int) -> list[list[str]]:
    """Words, sorted by length, in blocks that are small enough for a `Lattice` each."""
    return [words[block] for block in blocks(np.array(list(map(len, words))), width)]


def _log_probs(used: np.ndarray, num_letters: int) -> np.ndarray:
    """Log-probabilities from counts, with -inf for pieces that hardly occur, and as the last entry."""
    counts = np.where(used < 0.5, 0, used)
    # Letters that were never seen must be spelled nevertheless, if they come.
    counts[:num_letters] = np.maximum(counts[:num_letters], 0.1)
    with np.errstate(divide="ignore"):
        return np.append(np.log(counts) - np.log(counts.sum()), -np.inf)
