"""Log-probabilities of the next token of each row: what a search asks of them, and the answers for an array.

Those of a GPU stay there, see `dragoman.decoding.torch_engine`: only the answers are copied.
"""

import math
from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np

from dragoman.engine.shapes import Bool, Float, Int
from dragoman.native import library

FEW = 64
"""Most probable tokens of a row among which a drawn one is looked for first."""
SHARED = 64
"""Log-probabilities of a row that share a maximum, as in vectors.h."""
Rows = Int[np.ndarray, " some"]
"""Indices of rows, in any order; a row may occur several times."""
Tokens = Int[np.ndarray, " some"]


@runtime_checkable
class LogProbs(Protocol):
    """Log-probabilities (rows, vocab) of the next token, in nats. A banned token has -inf."""

    @property
    def vocab_size(self) -> int: ...

    def __len__(self) -> int:
        """Number of rows."""
        ...

    def ban(self, rows: Rows, tokens: Tokens) -> None:
        """Ban a token in each of these rows."""
        ...

    def allow_only(self, rows: Rows, tokens: Tokens) -> None:
        """Ban all tokens of each of these rows but one."""
        ...

    def put(self, rows: Rows, tokens: Tokens, value: float) -> None:
        """Give this log-probability to a token in each of these rows."""
        ...

    def at(self, rows: Rows, tokens: Tokens) -> Float[np.ndarray, " some"]:
        """The log-probability of a token in each of these rows, as float64."""
        ...

    def likeliest(self, rows: Rows) -> Tokens:
        """The most probable token of each of these rows."""
        ...

    def drawn(
        self, numbers: Float[np.ndarray, " rows"], count: int, temperature: float, top_p: float
    ) -> tuple[Tokens, Float[np.ndarray, " rows"]]:
        """A token of each row, drawn by a number in [0, 1), and its log-probability as float64.

        It is one of the `count` most probable ones, and of the first of these whose probabilities reach `top_p`
        together. A `temperature` below 1 makes probable tokens more probable.
        """
        ...

    def best(
        self, totals: Float[np.ndarray, "live beam"], count: int
    ) -> tuple[Float[np.ndarray, "live count"], Int[np.ndarray, "live count"]]:
        """The best continuations of each sentence, which has `beam` rows, one after another.

        `totals` are the log-probabilities of the prefixes. Returns the totals of the `count` best continuations, the
        best first, and their flat indices into (beam, vocab). Where there are fewer, totals of -inf follow.
        """
        ...

    def lowered(
        self, rows: Int[np.ndarray, " kept"], at_rows: Rows, tokens: Tokens, amounts: Float[np.ndarray, " some"]
    ) -> "LogProbs":
        """A copy of these rows in which some tokens are less probable.

        `at_rows` count from 0 in the copy. What is named several times is lowered several times.
        """
        ...

    def averaged(self, others: Sequence[Any]) -> "LogProbs":
        """The logarithm of the mean of these probabilities and those of `others`, which are of the same kind."""
        ...


class ArrayLogProbs:
    """`LogProbs` over an array, which bans overwrite."""

    def __init__(self, array: Float[np.ndarray, "rows vocab"], maxima: Float[np.ndarray, "rows blocks"] | None = None):
        """An array of float32 that is contiguous is not copied.

        No number of a block of `SHARED` of a row is above its maximum, so that few have to be read again for the best.
        """
        self.array = np.ascontiguousarray(array, np.float32)
        self._maxima = maxima

    @property
    def vocab_size(self) -> int:
        return self.array.shape[1]

    def __len__(self) -> int:
        return len(self.array)

    def ban(self, rows: Rows, tokens: Tokens) -> None:
        self.array[rows, tokens] = -np.inf

    def allow_only(self, rows: Rows, tokens: Tokens) -> None:
        kept = self.array[rows, tokens]
        self.array[rows] = -np.inf
        self.array[rows, tokens] = kept

    def put(self, rows: Rows, tokens: Tokens, value: float) -> None:
        self.array[rows, tokens] = value
        if self._maxima is not None:
            np.maximum.at(self._maxima, (rows, tokens // SHARED), value)

    def at(self, rows: Rows, tokens: Tokens) -> Float[np.ndarray, " some"]:
        return self.array[rows, tokens].astype(np.float64)

    def likeliest(self, rows: Rows) -> Tokens:
        return self.array[rows].argmax(1)

    def drawn(
        self, numbers: Float[np.ndarray, " rows"], count: int, temperature: float, top_p: float
    ) -> tuple[Tokens, Float[np.ndarray, " rows"]]:
        values = self.array.astype(np.float64)
        values[np.isnan(values)] = -np.inf  # weights may be so large that their products are no numbers
        if not FEW < count == self.vocab_size:
            return drawn_tokens(values, numbers, count, temperature, top_p)
        tokens, log_probs, is_decided = _drawn_among_few(values, numbers, temperature, top_p)
        if not is_decided.all():
            rest = np.flatnonzero(~is_decided)
            tokens[rest], log_probs[rest] = drawn_tokens(values[rest], numbers[rest], count, temperature, top_p)
        return tokens, log_probs

    def best(
        self, totals: Float[np.ndarray, "live beam"], count: int
    ) -> tuple[Float[np.ndarray, "live count"], Int[np.ndarray, "live count"]]:
        if not library.compiled():
            return best_continuations(self.array, totals, count)
        totals = np.ascontiguousarray(totals)
        live, beam = totals.shape
        best, indices = np.empty((live, count)), np.empty((live, count), np.int64)
        maxima = None if self._maxima is None else self._maxima.ctypes.data
        library.functions.best_continuations(
            self.array.ctypes.data, maxima, totals.ctypes.data, live, beam, self.vocab_size, count, best.ctypes.data,
            indices.ctypes.data,
        )  # fmt: skip
        return best, indices

    def lowered(
        self, rows: Int[np.ndarray, " kept"], at_rows: Rows, tokens: Tokens, amounts: Float[np.ndarray, " some"]
    ) -> "ArrayLogProbs":
        copy = self.array[rows]
        np.subtract.at(copy, (at_rows, tokens), amounts.astype(np.float32))
        return ArrayLogProbs(copy)

    def averaged(self, others: Sequence["ArrayLogProbs"]) -> "ArrayLogProbs":
        together = np.stack([self.array, *(other.array for other in others)])
        largest = together.max(0)
        with np.errstate(invalid="ignore"):  # where all are -inf
            sums = np.exp(together - largest).sum(0)
        means = largest + np.log(sums) - np.float32(math.log(len(together)))
        return ArrayLogProbs(np.where(np.isneginf(largest), largest, means))


def best_continuations(
    log_probs: Float[np.ndarray, "rows vocab"], totals: Float[np.ndarray, "live beam"], count: int
) -> tuple[Float[np.ndarray, "live count"], Int[np.ndarray, "live count"]]:
    """What `LogProbs.best` returns, sentence by sentence: the formula of the compiled one."""
    live, beam = totals.shape
    best, indices = np.full((live, count), -np.inf), np.zeros((live, count), np.int64)
    for sentence, rows in enumerate(log_probs.reshape(live, beam, log_probs.shape[1])):
        sums = (rows + totals[sentence][:, None]).ravel()
        largest = _largest(sums, count)
        best[sentence, : len(largest)], indices[sentence, : len(largest)] = sums[largest], largest
    return best, indices


def drawn_tokens(
    values: Float[np.ndarray, "rows vocab"],
    numbers: Float[np.ndarray, " rows"],
    count: int,
    temperature: float,
    top_p: float,
) -> tuple[Tokens, Float[np.ndarray, " rows"]]:
    """What `LogProbs.drawn` returns for log-probabilities of float64: its formula, which sorts each row."""
    tokens = np.stack([_largest(row, count) for row in values])
    values = np.take_along_axis(values, tokens, axis=1)
    with np.errstate(invalid="ignore"):  # where all are -inf
        powers = np.exp((values - values[:, :1]) / temperature)
    probabilities = powers / powers.sum(axis=1, keepdims=True)
    sums = probabilities.cumsum(axis=1)
    # The token that reaches `top_p` is kept too.
    kept = ((sums - probabilities) < top_p).sum(axis=1).clip(min=1)
    rows = np.arange(len(tokens))
    chosen = numbers * sums[rows, kept - 1]
    ranks = np.minimum((sums <= chosen[:, None]).sum(axis=1), kept - 1)
    return tokens[rows, ranks], values[rows, ranks]


def _drawn_among_few(
    values: Float[np.ndarray, "rows vocab"], numbers: Float[np.ndarray, " rows"], temperature: float, top_p: float
) -> tuple[Tokens, Float[np.ndarray, " rows"], Bool[np.ndarray, " rows"]]:
    """The same for all tokens, but only the `FEW` most probable ones are sorted: nearly always the drawn one is there.

    The last array says for which rows that is so. The others mean nothing.
    """
    with np.errstate(invalid="ignore"):  # where all are -inf
        powers = np.exp((values - values.max(axis=1, keepdims=True)) / temperature)
    totals = powers.sum(axis=1, keepdims=True)
    tokens = np.sort(np.argpartition(-values, FEW, axis=1)[:, :FEW], axis=1)
    order = np.argsort(-np.take_along_axis(values, tokens, axis=1), axis=1, kind="stable")
    tokens = np.take_along_axis(tokens, order, axis=1)
    values = np.take_along_axis(values, tokens, axis=1)
    probabilities = np.take_along_axis(powers, tokens, axis=1) / totals
    sums = probabilities.cumsum(axis=1)
    rows = np.arange(len(tokens))
    reaches = sums[:, -1] >= top_p
    kept = ((sums - probabilities) < top_p).sum(axis=1).clip(min=1)
    chosen = numbers * np.where(reaches, sums[rows, kept - 1], min(1.0, top_p))
    ranks = np.minimum((sums <= chosen[:, None]).sum(axis=1), np.where(reaches, kept, FEW) - 1)
    # Of tokens that are as probable as the last of these few, others may come first.
    is_decided = values[rows, ranks] > values[:, -1]
    if top_p < 1:
        is_decided &= reaches
    return tokens[rows, ranks], values[rows, ranks], is_decided


def _largest(values: Float[np.ndarray, " width"], count: int) -> Int[np.ndarray, " largest"]:
    """Indices of the `count` largest values, the largest first, of equal ones the first."""
    count = min(count, len(values))
    least = -np.partition(-values, count - 1)[count - 1]
    indices = np.flatnonzero(values >= least)
    return indices[np.argsort(-values[indices], kind="stable")][:count]
