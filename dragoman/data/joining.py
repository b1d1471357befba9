"""Joins training pairs into longer ones, others in each epoch, so that a model learns texts longer than its pairs.

Where most pairs are short, a model that has seen them alone ends longer sentences too early. Token ids of joined
sentences are those of their text with spaces between.
"""

from collections.abc import Sequence

import numpy as np

from dragoman.data.batching import Sentences, Store
from dragoman.errors import UsageError
from dragoman.text.tokenizers.tokenizer import Tokenizer

MOST_JOINED = 3
"""Most pairs that are joined to another one."""


class JoinedSentences:
    """Sentences of which some are followed by others, with the token ids `separator` between.

    Row i of `parts` has the numbers of sentence i and of those that follow it; -1 stands for none.
    """

    def __init__(self, sentences: Sentences, parts: np.ndarray, separator: Sequence[int]):
        self.sentences, self.parts = sentences, parts
        self.separator = np.array(separator, np.uint32)
        self._is_joined = parts[:, 1] >= 0
        self.lengths = lengths_of_parts(sentences.lengths, parts, separator).sum(axis=1)

    def __len__(self) -> int:
        return len(self.parts)

    def __getitem__(self, index: int) -> np.ndarray:
        """The token ids of one sentence and of those that follow it."""
        if not self._is_joined[index]:
            return self.sentences[index]
        first, *others = (self.sentences[part] for part in self.parts[index].tolist() if part >= 0)
        return np.concatenate([first, *(ids for other in others for ids in (self.separator, other))])


class JoinedStores:
    """The sources and the targets of pairs, of which a `share` is followed by up to `MOST_JOINED` others.

    Others are drawn in each epoch, by `seed`. No side gets more than `limit` tokens by joining. `separators` are the
    token ids between sentences on each side. `sides` are two stores whose `epoch` gives the joined sentences.
    """

    def __init__(
        self, stores: Sequence[Store], separators: Sequence[Sequence[int]], *, share: float, seed: int, limit: int
    ):
        self.stores, self.separators = stores, separators
        self.share, self.seed, self.limit = share, seed, limit
        self.sides = [JoinedStore(self, side) for side in range(len(stores))]
        self._opened: tuple[int, list[JoinedSentences]] | None = None

    def epoch(self, number: int) -> list[JoinedSentences]:
        """Both sides of the pairs of an epoch."""
        if self._opened is None or self._opened[0] != number:
            sides = [store.epoch(number) for store in self.stores]
            parts = self._drawn(number, [side.lengths for side in sides])
            opened = [JoinedSentences(side, parts, ids) for side, ids in zip(sides, self.separators, strict=True)]
            self._opened = number, opened
        return self._opened[1]

    def _drawn(self, number: int, lengths: Sequence[np.ndarray]) -> np.ndarray:
        """The parts of each pair, without those that would make a side too long."""
        rng = np.random.default_rng((self.seed, number, MOST_JOINED))
        count = len(lengths[0])
        others = rng.integers(0, count, (count, MOST_JOINED))
        how_many = np.where(rng.random(count) < self.share, rng.integers(1, MOST_JOINED + 1, count), 0)
        others[np.arange(MOST_JOINED) >= how_many[:, None]] = -1
        parts = np.column_stack([np.arange(count), others])
        fits = np.ones(parts.shape, bool)
        for side, separator in zip(lengths, self.separators, strict=True):
            fits &= lengths_of_parts(side, parts, separator).cumsum(axis=1) <= self.limit
        fits[:, 0] = True
        parts[~fits] = -1
        return parts


class JoinedStore:
    """One side of `JoinedStores`."""

    def __init__(self, stores: JoinedStores, side: int):
        self.stores, self.side = stores, side

    def __len__(self) -> int:
        return len(self.stores.stores[self.side])

    def epoch(self, number: int) -> JoinedSentences:
        """The sentences of an epoch."""
        return self.stores.epoch(number)[self.side]


def lengths_of_parts(lengths: np.ndarray, parts: np.ndarray, separator: Sequence[int]) -> np.ndarray:
    """Number of tokens of each part, with the separator before all but the first; 0 where there is none."""
    sizes = lengths[parts]
    sizes[:, 1:] += len(separator)
    return np.where(parts >= 0, sizes, 0)


def between(tokenizer: Tokenizer) -> list[int]:
    """The token ids of the space between two sentences; none if the tokens of words include it."""
    word, two_words = tokenizer.encode("a"), tokenizer.encode("a a")
    return two_words[len(word) : len(two_words) - len(word)]


def refuse_begins(tokenizer: Tokenizer) -> None:
    """Raise `UsageError` for a tokenizer of sources that begin with a token of a language."""
    if tokenizer.targets:
        raise UsageError(
            "training.joined is for models of one target language: sources of several begin with a token of it, which "
            "cannot stand in the middle. Leave it out."
        )
