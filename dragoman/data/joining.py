"""Joins training pairs into longer ones, others in each epoch, so that a model learns texts longer than its pairs.

Where most pairs are short, a model that has seen them alone ends longer sentences too early. Token ids of joined
sentences are those of their text with spaces between; sentences with symbols, around which text is another, stay alone.
"""

from collections.abc import Collection, Sequence

import numpy as np

from dragoman.data.batching import Sentences, Store
from dragoman.errors import UsageError
from dragoman.text.tokenizers.tokenizer import Tokenizer

MOST_JOINED = 3
"""Most pairs that are joined to another one."""


class JoinedSentences:
    """Sentences of which some are followed by others, with the token ids `separator` between.

    `rows` are the indices of those that are, in rising order, and each row of `others` has the indices of the sentences
    that follow; -1 stands for none. These are among the `following` ones, by default among the same.
    """

    def __init__(
        self,
        sentences: Sentences,
        rows: np.ndarray,
        others: np.ndarray,
        separator: Sequence[int],
        following: Sentences | None = None,
    ):
        self.sentences, self.rows, self.others = sentences, rows, others
        self.following = sentences if following is None else following
        self.changed = sentences.changed
        """Indices of sentences that have other tokens themselves; what follows them does not count."""
        self.separator = np.array(separator, np.uint32)
        self.lengths = sentences.lengths.copy()
        self.lengths[rows] += added_lengths(self.following.lengths, others, separator).sum(axis=1)

    def __len__(self) -> int:
        return len(self.sentences)

    def __getitem__(self, index: int) -> np.ndarray:
        """The token ids of one sentence and of those that follow it."""
        place = int(np.searchsorted(self.rows, index))
        if place == len(self.rows) or self.rows[place] != index:
            return self.sentences[index]
        others = [self.following[other] for other in self.others[place].tolist() if other >= 0]
        return np.concatenate([self.sentences[index], *(ids for other in others for ids in (self.separator, other))])


class JoinedStores:
    """The sources and the targets of pairs, of which a `share` is followed by up to `MOST_JOINED` others.

    Others are drawn in each epoch, by `seed`. No side gets more than `limit` tokens by joining. `separators` are the
    token ids between sentences on each side. Pairs with one of the `symbols` of a side, such as slots for placeholders,
    which are numbered in each sentence, stay alone. `sides` are two stores whose `epoch` gives the joined sentences.
    """

    def __init__(
        self,
        stores: Sequence[Store],
        separators: Sequence[Sequence[int]],
        *,
        share: float,
        seed: int,
        limit: int,
        symbols: Sequence[Collection[int]] = ((), ()),
    ):
        self.stores, self.separators, self.symbols = stores, separators, symbols
        self.share, self.seed, self.limit = share, seed, limit
        self.sides = [JoinedStore(self, side) for side in range(len(stores))]
        self._opened: tuple[int, list[JoinedSentences]] | None = None

    def epoch(self, number: int) -> list[JoinedSentences]:
        """Both sides of the pairs of an epoch."""
        if self._opened is None or self._opened[0] != number:
            sides = [store.epoch(number) for store in self.stores]
            rows, others = self._drawn(number, sides)
            opened = [
                JoinedSentences(side, rows, others, ids) for side, ids in zip(sides, self.separators, strict=True)
            ]
            self._opened = number, opened
        return self._opened[1]

    def _drawn(self, number: int, sides: Sequence[Sentences]) -> tuple[np.ndarray, np.ndarray]:
        """The pairs that others follow, and these, without those that would make a side too long."""
        rng = np.random.default_rng((self.seed, number, MOST_JOINED))
        is_plain = ~(holds(sides[0], self.symbols[0]) | holds(sides[1], self.symbols[1]))
        rows = np.flatnonzero((rng.random(len(is_plain)) < self.share) & is_plain)
        others = rng.integers(0, len(is_plain), (len(rows), MOST_JOINED))
        how_many = rng.integers(1, MOST_JOINED + 1, len(rows))
        fits = (np.arange(MOST_JOINED) < how_many[:, None]) & is_plain[others]
        for side, separator in zip(sides, self.separators, strict=True):
            lengths = side.lengths
            added = np.where(fits, added_lengths(lengths, others, separator), 0)
            fits &= lengths[rows, None] + added.cumsum(axis=1) <= self.limit
        others[~fits] = -1
        return rows, others


class JoinedStore:
    """One side of `JoinedStores`."""

    def __init__(self, stores: JoinedStores, side: int):
        self.stores, self.side = stores, side

    def __len__(self) -> int:
        return len(self.stores.stores[self.side])

    def epoch(self, number: int) -> JoinedSentences:
        """The sentences of an epoch."""
        return self.stores.epoch(number)[self.side]


def added_lengths(lengths: np.ndarray, others: np.ndarray, separator: Sequence[int]) -> np.ndarray:
    """Number of tokens that each of the others adds, with the separator before it; 0 where there is none."""
    return np.where(others >= 0, lengths[others] + len(separator), 0)


def holds(sentences: Sentences, symbols: Collection[int]) -> np.ndarray:
    """Whether each sentence has one of these token ids."""
    if not symbols:
        return np.zeros(len(sentences), bool)
    counts = np.append(0, np.isin(sentences.ids, list(symbols)).cumsum())[sentences.ends]
    return np.diff(counts, prepend=0) > 0


def between(tokenizer: Tokenizer) -> list[int]:
    """The token ids of the space between two sentences; none if the tokens of words include it."""
    word, two_words = tokenizer.encode("a"), tokenizer.encode("a a")
    return two_words[len(word) : len(two_words) - len(word)]


def refuse_begins(tokenizer: Tokenizer) -> None:
    """Raise `UsageError` for a tokenizer whose texts begin or end with a token of their language."""
    if tokenizer.reads_labels or tokenizer.encode(""):
        raise UsageError(
            "training.joined is for models of one pair of languages that are trained here: texts of others begin or "
            "end with a token of their language, which cannot stand in the middle. Leave it out."
        )
