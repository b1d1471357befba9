"""Training sources with hints behind them, others in each epoch, so that a model learns to use what it is given.

A hint is the translation of a similar sentence (`dragoman.data.neighbours`). Targets stay as they are.
"""

import numpy as np

from dragoman.data.batching import Store
from dragoman.data.joining import JoinedSentences
from dragoman.engine.shapes import Int


class HintedStore:
    """Sources of which a `share` is followed by the target of the pair that is most like them.

    The token `begin` stands between. `neighbours` has the index of that pair for each source, negative where there is
    none. Which sources have hints is drawn in each epoch, by `seed`. None gets `limit` tokens or more.
    """

    def __init__(
        self,
        sources: Store,
        targets: Store,
        neighbours: Int[np.ndarray, " pairs"],
        *,
        begin: int,
        share: float,
        seed: int,
        limit: int,
    ):
        self.sources, self.targets, self.neighbours = sources, targets, neighbours
        self.begin, self.share, self.seed, self.limit = begin, share, seed, limit

    def __len__(self) -> int:
        return len(self.sources)

    def epoch(self, number: int) -> JoinedSentences:
        """The sentences of an epoch."""
        sources, targets = self.sources.epoch(number), self.targets.epoch(number)
        drawn = np.random.default_rng((self.seed, number, self.begin)).random(len(self)) < self.share
        fits = sources.lengths + 1 + targets.lengths[self.neighbours] < self.limit
        rows = np.flatnonzero(drawn & (self.neighbours >= 0) & fits)
        return JoinedSentences(sources, rows, self.neighbours[rows, None], [self.begin], following=targets)
